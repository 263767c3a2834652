"""A workspace as a server: a `fumehood serve` of its own, started and asked over pipes.

Invariants: the server is another process, behind the walls that it puts up around itself; it is given the operator's
settings and a home to look for them in, and nothing else of the environment; it ends with the context, by the end of
its input or else by a kill. Its own words stand on standard error.
"""

import asyncio
import contextlib
import importlib.metadata
import os
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

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
from fumehood.gateway.upstreams import envelope
from fumehood.gateway.upstreams.model import Notified, UpstreamError
from fumehood.gateway.upstreams.session import Conversation, Pipes, conversation
from fumehood.sandbox import launch
from fumehood.sandbox.launch import PIPE, Process, Streams
from fumehood.sandbox.streams import read_chunk, unblocked, write_all

_STDERR: Final = 2
_HOMES: Final = ("HOME", "XDG_CONFIG_HOME")  # where `serve` looks for the user's settings
_BY_STATUS: Final[Mapping[int, type[FumehoodError]]] = {
    error.exit_status: error for error in (FailedError, RefusedError, UnsupportedError, LimitError)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFolder:
    """Which folder, by which settings."""

    folder: Path
    settings_file: Path | None = None
    environ: Mapping[str, str]  # of which only settings and homes are passed on


@contextlib.asynccontextmanager
async def served(asked: ServedFolder, notified: Notified) -> AsyncIterator[Conversation]:
    """The workspace, served; errors as `serve` itself would end with."""
    process = launch.spawn(
        argv(asked),
        streams=Streams(stdin=PIPE, stdout=PIPE, stderr=_STDERR),
        environment=environment(asked.environ),
    )
    try:
        reading, writing = unblocked(process.stdout), unblocked(process.stdin)
        pipes = Pipes(
            read=partial(read_chunk, reading), write=partial(write_all, writing), cause=partial(_cause, process)
        )
        us = envelope.legacy("fumehood", importlib.metadata.version("fumehood"))
        async with contextlib.AsyncExitStack() as stack:
            async with _starting(process):
                made = await stack.enter_async_context(conversation(pipes, us, notified))
            yield made
        await _leave(process)
    finally:
        process.close()


def argv(asked: ServedFolder) -> list[str]:
    """The command of the server; -P, so that no module of the current folder is taken for one of ours."""
    named = [] if asked.settings_file is None else ["--settings", os.path.abspath(asked.settings_file)]  # noqa: PTH100 - a link in it is the operator's
    folder = os.path.abspath(asked.folder)  # noqa: PTH100 - `serve` resolves links itself, and says so
    return [sys.executable, "-P", "-m", "fumehood", *named, "serve", "--audited-by-caller", "--workspace", folder]


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
    except UpstreamError as error:
        await _leave(process)
        _ended(process.returncode, error)


def _ended(status: int | None, error: UpstreamError) -> NoReturn:
    kind = HarnessError if status is None else _BY_STATUS.get(status, HarnessError)
    how = "did not come up" if status is None else f"ended with {status}"
    raise kind(f"the workspace cannot be served: the server {how}", remedy="its own words stand above") from error


async def _cause(process: Process) -> str:
    """Why its output ended."""
    try:
        async with asyncio.timeout(limits.UPSTREAM_CAUSE_SECONDS):
            return f"the server of the workspace ended with {await process.wait()}"
    except TimeoutError:
        return "the server of the workspace closed its output"


async def _leave(process: Process) -> None:
    """Close its input and let it end by itself, for a bounded time."""
    if process.stdin is not None:
        process.stdin.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limits.UPSTREAM_END_SECONDS):
            await process.wait()
