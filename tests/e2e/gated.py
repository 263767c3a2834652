"""A gateway of a test's own: its file, its command, and the SDK's own client of it, over a pipe and over HTTP."""

import asyncio
import contextlib
import signal
import sys
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from e2e.guarded import Hall

SECONDS = 300.0  # a server of npm is acquired at its first start


@dataclass(kw_only=True)
class Gated:
    """`fumehood gateway` with a file of the test's own. `said` is what its stderr held, once it has ended."""

    hall: Hall
    config: Path
    variables: dict[str, str] = field(default_factory=dict)
    said: str = ""

    @property
    def argv(self) -> list[str]:
        return [sys.executable, "-m", "fumehood", "gateway"]

    @property
    def environment(self) -> dict[str, str]:
        return {**self.hall.environment, **self.variables}

    def write(self, text: str) -> None:
        """Replace the file."""
        tomllib.loads(text)
        self.config.write_text(text, encoding="utf-8")

    @property
    def _stderr(self) -> Path:
        return self.config.with_name("gateway.stderr")

    @asynccontextmanager
    async def over_stdio(self, mode: Any, **client: Any) -> AsyncIterator[Client]:
        """A client whose server is the gateway, until it leaves."""
        argv = [*self.argv, "--config", str(self.config)]
        with self._stderr.open("w", encoding="utf-8") as errors:
            given = StdioServerParameters(command=argv[0], args=argv[1:], env=self.environment, cwd="/")
            server: Any = stdio_client(given, errlog=errors)
            async with Client(server, mode=mode, read_timeout_seconds=SECONDS, cache=None, **client) as made:
                yield made
        self.said = self._stderr.read_text(encoding="utf-8")

    @asynccontextmanager
    async def over_http(self) -> AsyncIterator["Listening"]:
        """The gateway behind a free port, until SIGTERM."""
        argv = [*self.argv, "--config", str(self.config), "--transport", "http", "--port", "0"]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*argv, env=self.environment, stderr=pipe, cwd="/")
        assert process.stderr
        lines: list[str] = []
        try:
            while not lines or "serving at " not in lines[-1]:
                line = await asyncio.wait_for(process.stderr.readline(), SECONDS)
                assert line, lines
                lines.append(line.decode())
            url = lines[-1].partition("serving at ")[2].strip()
            reading = asyncio.create_task(_rest(process.stderr, lines))
            yield Listening(url=url, process=process, lines=lines)
            process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(process.wait(), SECONDS)
            await reading
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            self.said = "".join(lines)


@dataclass(frozen=True, kw_only=True)
class Listening:
    """A gateway that listens."""

    url: str
    process: asyncio.subprocess.Process
    lines: list[str]

    @asynccontextmanager
    async def client(self, mode: Any, token: str | None = None, **client: Any) -> AsyncIterator[Client]:
        """A client of it, whose requests carry a token."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with contextlib.AsyncExitStack() as stack:
            http = await stack.enter_async_context(create_mcp_http_client(headers=headers))
            server: Any = streamable_http_client(self.url, http_client=http)
            made: Any = Client(server, mode=mode, read_timeout_seconds=SECONDS, cache=None, **client)
            yield await stack.enter_async_context(made)


async def _rest(stream: asyncio.StreamReader, lines: list[str]) -> None:
    while line := await stream.readline():
        lines.append(line.decode())


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(work(), SECONDS)

    asyncio.run(bounded())


async def names(client: Client) -> list[str]:
    """Every tool of every page."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        found += [tool.name for tool in page.tools]
        if (cursor := page.next_cursor) is None:
            return found


async def listed(client: Client, *wanted: str) -> list[str]:
    """Every tool, once these are there: a server that has to be acquired is there later than the first list."""
    while True:
        found = await names(client)
        if set(wanted) <= set(found):
            return found
        await asyncio.sleep(0.2)


def text(result: Any) -> str:
    """The first text of a result."""
    return str(result.content[0].text)


def open_for_all(folder: Path) -> Path:
    """A folder that a server of another uid may write."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    return folder
