"""A server that only the SDK makes: one tool, no control, no wall. What every server of this SDK costs at least."""

import sys
from pathlib import Path

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def list_tools(_context: object, _params: object) -> types.ListToolsResult:
    """One tool."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    return types.ListToolsResult(tools=[types.Tool(name="read_file", description="Read a file.", input_schema=schema)])


async def call_tool(_context: object, params: types.CallToolRequestParams) -> types.CallToolResult:
    """The whole file as one text."""
    text = (Path(sys.argv[1]) / str((params.arguments or {})["path"])).read_text(encoding="utf-8")
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


async def main() -> None:
    """Serve on stdio."""
    server = Server("bare", version="0", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
