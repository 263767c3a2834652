"""The tools of one workspace for a program: a `fumehood serve` of its own, asked over MCP.

Invariants: the server is another process (`upstreams.served`); its tools are named `workspace.…`.

Not promised: that what a tool answers is true or harmless: it is content of the workspace, redacted and marked by
`serve` as for any client.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Final

from fumehood.code.backend import Answer, Tool
from fumehood.core import limits
from fumehood.core.errors import HarnessError, RefusedError
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.upstreams.model import Connection
from fumehood.gateway.upstreams.served import ServedFolder, served

SERVER: Final = "workspace"  # the first word of each tool's name


class ToolRefusedError(RefusedError):
    """A tool refused; its words, and the next step where it names one."""

    code = "tool_refused"


class Workspace:
    """A `ToolSource` over one server. Made by `workspace`."""

    def __init__(self, server: Connection, definitions: JsonValue) -> None:
        """`HarnessError` when the server's list is none."""
        self._server = server
        self._tools = _tools(definitions)

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools of `serve`, in its order."""
        return self._tools

    async def call(self, name: str, arguments: JsonValue) -> Answer:
        """The answer of one tool. Errors: `ToolRefusedError`, and those of `Connection.ask`."""
        asked: JsonObject = {"name": name.removeprefix(f"{SERVER}."), "arguments": arguments}
        return _answer(await self._server.ask("tools/call", asked, seconds=limits.HTTP_REQUEST_SECONDS))


@contextlib.asynccontextmanager
async def workspace(asked: ServedFolder) -> AsyncIterator[Workspace]:
    """The workspace, served; errors as `serve` itself would end with, whose words stand on standard error."""
    async with served(asked, lambda *_: None) as server:
        yield Workspace(server, await server.ask("tools/list", {}, seconds=limits.START_SECONDS))


def _tools(listed: JsonValue) -> tuple[Tool, ...]:
    found = listed.get("tools") if isinstance(listed, dict) else None
    if not isinstance(found, list):
        raise HarnessError("the server's list of tools is none")
    return tuple(_tool(definition) for definition in found)


def _tool(definition: JsonValue) -> Tool:
    match definition:
        case {"name": str(name), "description": str(words), "inputSchema": dict(schema), **more}:
            output, notes = more.get("outputSchema"), more.get("annotations")
            return Tool(
                name=f"{SERVER}.{name}",
                description=words,
                input_schema=schema,
                output_schema=output if isinstance(output, dict) else None,
                writes=not (isinstance(notes, dict) and notes.get("readOnlyHint") is True),
            )
        case _:
            raise HarnessError("a tool of the server has no name, description or schema")


def _answer(result: JsonValue) -> Answer:
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(result, dict) or not isinstance(content, list):
        raise HarnessError("the server's answer is no result of a tool")
    pieces = [piece.get("text") for piece in content if isinstance(piece, dict) and piece.get("type") == "text"]
    text = "\n".join(piece for piece in pieces if isinstance(piece, str))
    structured = result.get("structuredContent")
    if result.get("isError") is True:
        raise _refusal(text, structured)
    return Answer(text=text, structured=structured)


def _refusal(text: str, structured: JsonValue) -> ToolRefusedError:
    match structured:
        case {"error": str(code), "message": str(message), "remedy": str(remedy)}:
            return ToolRefusedError(f"{code}: {message}", remedy=remedy)
        case _:
            return ToolRefusedError(text)
