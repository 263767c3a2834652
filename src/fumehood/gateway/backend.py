"""The tools of one workspace for a program: a `fumehood serve` of its own, asked over MCP.

Invariants: the server is another process, behind the walls that it puts up around itself; it is given the operator's
settings and a home to look for them in, and nothing else of the environment; its tools are named `workspace.…`; it ends
with the context, by the end of its input or else by a kill.

Not promised: that what a tool answers is true or harmless: it is content of the workspace, redacted and marked by
`serve` as for any client.
"""

import asyncio
import contextlib
import importlib.metadata
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from fumehood.code.backend import Answer, Tool
from fumehood.core import limits, settings
from fumehood.core.errors import (
    FailedError,
    FumehoodError,
    HarnessError,
    LimitError,
    RefusedError,
    TimedOutError,
    UnsupportedError,
)
from fumehood.core.jsonio import JsonValue
from fumehood.gateway import upstream
from fumehood.gateway.upstream import NotInitializedError, Upstream
from fumehood.sandbox import launch
from fumehood.sandbox.launch import PIPE, Process, Streams
from fumehood.sandbox.streams import read_chunk, unblocked, write_all

SERVER: Final = "workspace"  # the first word of each tool's name
_STDERR: Final = 2
_HOMES: Final = ("HOME", "XDG_CONFIG_HOME")  # where `serve` looks for the user's settings
_BY_STATUS: Final[Mapping[int, type[FumehoodError]]] = {
    error.exit_status: error for error in (FailedError, RefusedError, UnsupportedError, LimitError)
}


class ToolRefusedError(RefusedError):
    """A tool refused; its words, and the next step where it names one."""

    code = "tool_refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which folder, by which settings."""

    folder: Path
    settings_file: Path | None = None
    environ: Mapping[str, str]  # of which only settings and homes are passed on


class Workspace:
    """A `ToolSource` over one server. Made by `workspace`."""

    def __init__(self, server: Upstream, definitions: JsonValue) -> None:
        """`HarnessError` when the server's list is none."""
        self._server = server
        self._tools = _tools(definitions)

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools of `serve`, in its order."""
        return self._tools

    async def call(self, name: str, arguments: JsonValue) -> Answer:
        """The answer of one tool. Errors: `ToolRefusedError`, and those of `Upstream.ask`."""
        asked: dict[str, JsonValue] = {"name": name.removeprefix(f"{SERVER}."), "arguments": arguments}
        return _answer(await self._server.ask("tools/call", asked, seconds=limits.HTTP_REQUEST_SECONDS))


@contextlib.asynccontextmanager
async def workspace(asked: Asked) -> AsyncIterator[Workspace]:
    """The workspace, served; errors as `serve` itself would end with, whose words stand on standard error."""
    process = launch.spawn(
        argv(asked),
        streams=Streams(stdin=PIPE, stdout=PIPE, stderr=_STDERR),
        environment=environment(asked.environ),
    )
    try:
        reading, writing = unblocked(process.stdout), unblocked(process.stdin)
        us = upstream.client("fumehood", importlib.metadata.version("fumehood"))
        served = upstream.connected(
            partial(read_chunk, reading), partial(write_all, writing), us, calls=limits.CODE_CALLS
        )
        async with contextlib.AsyncExitStack() as stack:
            async with _starting(process):
                server = await stack.enter_async_context(served)
                listed = await server.ask("tools/list", {}, seconds=limits.START_SECONDS)
            yield Workspace(server, listed)
        await _leave(process)
    finally:
        process.close()


def argv(asked: Asked) -> list[str]:
    """The command of the server; -P, so that no module of the current folder is taken for one of ours."""
    named = [] if asked.settings_file is None else ["--settings", os.path.abspath(asked.settings_file)]  # noqa: PTH100 - a link in it is the operator's
    folder = os.path.abspath(asked.folder)  # noqa: PTH100 - `serve` resolves links itself, and says so
    return [sys.executable, "-P", "-m", "fumehood", *named, "serve", "--workspace", folder]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Settings and homes, nothing else."""
    return {name: value for name, value in environ.items() if name.startswith(settings.PREFIX) or name in _HOMES}


@contextlib.asynccontextmanager
async def _starting(process: Process) -> AsyncIterator[None]:
    """A bounded start; a server that went instead is told by its status."""
    try:
        async with asyncio.timeout(limits.START_SECONDS):
            yield
    except TimeoutError:
        raise TimedOutError("the workspace was not served in time", remedy="look at the load of this host") from None
    except NotInitializedError as error:
        await _leave(process)
        _ended(process.returncode, error)


def _ended(status: int | None, error: NotInitializedError) -> NoReturn:
    kind = HarnessError if status is None else _BY_STATUS.get(status, HarnessError)
    how = "did not come up" if status is None else f"ended with {status}"
    raise kind(f"the workspace cannot be served: the server {how}", remedy="its own words stand above") from error


async def _leave(process: Process) -> None:
    """Close its input and let it end by itself, for a bounded time."""
    if process.stdin is not None:
        process.stdin.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limits.UPSTREAM_END_SECONDS):
            await process.wait()


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
