"""A server that only the SDK makes: `echo`, and as many further tools as it is told to list.

python toolsdk.py COUNT: what lies behind the gateway and its peers when the server should cost as little as it can.
"""

import sys

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

ECHO = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
_OBJECTS = ("issue", "branch", "release", "comment", "label", "milestone", "review", "workflow", "package", "member")
_VERBS = ("create", "update", "delete", "list", "search", "archive", "assign", "export", "import", "compare")


def tools(count: int) -> list[types.Tool]:
    """Tools with the words and arguments that tools of real servers have, some 600 bytes each."""
    found = [types.Tool(name="echo", description="Give back what it is given.", input_schema=ECHO)]
    for number in range(1, count):
        verb, thing = _VERBS[number % len(_VERBS)], _OBJECTS[number // len(_VERBS) % len(_OBJECTS)]
        words = f"{verb.capitalize()} one {thing} of a repository, or several that fit a filter, and say what was done."
        properties = {
            "owner": {"type": "string", "description": "The account that owns the repository."},
            "repository": {"type": "string", "description": "The name of the repository, without its owner."},
            f"{thing}_id": {"type": "integer", "description": f"The number of the {thing}, as a list gives it."},
            "page": {"type": "integer", "minimum": 1, "description": "Which page of the answer, from 1."},
        }
        schema = {"type": "object", "properties": properties, "required": ["owner", "repository"]}
        found.append(types.Tool(name=f"{verb}_{thing}_{number}", description=words, input_schema=schema))
    return found


async def main(count: int) -> None:
    """Serve on stdio."""
    listed = tools(count)

    async def list_tools(_context: object, _params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(_context: object, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = f"Echo: {(params.arguments or {}).get('message')}"
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    server = Server("tools", version="0", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]))
