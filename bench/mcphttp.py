"""The small client of the benchmarks over Streamable HTTP: one connection, one session, calls one after the other.

`Client` waits for each answer; `Flock` is many of them at once in one event loop, each with a connection of its own.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Self

REVISION = "2025-06-18"
_LINE_BYTES = 1 << 20
_SECONDS = 60.0


class Session:
    """One conversation. Answers come as one JSON document or as events: both are read."""

    def __init__(self, port: int) -> None:
        """Nothing is open yet."""
        self._port = port
        self._session = ""
        self._last = 0

    async def open(self) -> Self:
        """Connect and shake hands."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=_LINE_BYTES)
        client = {"name": "bench", "version": "1"}
        await self.request("initialize", {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client})
        await self._exchange({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    async def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of one request; RuntimeError when it is an error."""
        self._last += 1
        body = await self._exchange({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params or {}})
        for message in _messages(body):
            if message.get("id") == self._last and "method" not in message:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                found: dict[str, Any] = message["result"]
                return found
        raise RuntimeError(f"{method}: no answer in {body[:200]!r}")

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """The result of one tool; RuntimeError when it refused."""
        result = await self.request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise RuntimeError(f"{tool}: {str(result.get('content'))[:300]}")
        return result

    async def close(self) -> None:
        """Let go of the connection."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _exchange(self, message: dict[str, Any]) -> bytes:
        body = json.dumps(message).encode()
        lines = ["POST /mcp HTTP/1.1", f"Host: 127.0.0.1:{self._port}", "Content-Type: application/json"]
        lines += ["Accept: application/json, text/event-stream", f"Content-Length: {len(body)}"]
        lines += [f"MCP-Protocol-Version: {REVISION}", f"Mcp-Session-Id: {self._session}"] if self._session else []
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        async with asyncio.timeout(_SECONDS):
            status, headers = await self._head()
            answer = await self._body(headers)
        if status not in {200, 202}:
            raise RuntimeError(f"status {status}: {answer[:300]!r}")
        self._session = headers.get("mcp-session-id", self._session)
        return answer

    async def _head(self) -> tuple[int, dict[str, str]]:
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines[1:] if line)
        return int(lines[0].split()[1]), {name.lower(): value.strip() for name, _, value in pairs}

    async def _body(self, headers: dict[str, str]) -> bytes:
        if "chunked" not in headers.get("transfer-encoding", ""):
            return await self._reader.readexactly(int(headers.get("content-length", 0)))
        parts = bytearray()
        while size := int((await self._reader.readline()).split(b";")[0], 16):
            parts += await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)
        return bytes(parts)


class Client:
    """One session for who does not live in an event loop."""

    def __init__(self, port: int, runner: asyncio.Runner) -> None:
        """Connect and shake hands."""
        self._runner = runner
        self._session = Session(port)
        runner.run(self._session.open())

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """As `Session` has it."""
        return self._runner.run(self._session.call(tool, **arguments))

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """As `Session` has it."""
        return self._runner.run(self._session.request(method, params))

    def close(self) -> None:
        """Let go."""
        self._runner.run(self._session.close())


@dataclass(frozen=True, slots=True, kw_only=True)
class Herd:
    """What many clients at once came to."""

    seconds: float
    calls: list[float] = field(default_factory=list)  # of each that was answered
    errors: list[str] = field(default_factory=list)


async def many(port: int, clients: int, calls: int, tool: str, **arguments: object) -> Herd:
    """So many clients, each with a session, each calling so many times; sessions are opened before the clock runs."""
    times: list[float] = []
    errors: list[str] = []

    async def one(session: Session) -> None:
        for _ in range(calls):
            begun = time.perf_counter()
            try:
                await session.call(tool, **arguments)
            except (RuntimeError, OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                errors.append(f"{type(error).__name__}: {error}"[:200])
            else:
                times.append(time.perf_counter() - begun)

    async with _opened(port, clients, errors) as sessions:
        begun = time.perf_counter()
        await asyncio.gather(*(one(session) for session in sessions))
        seconds = time.perf_counter() - begun
    return Herd(seconds=seconds, calls=times, errors=errors)


@contextlib.asynccontextmanager
async def _opened(port: int, clients: int, errors: list[str]) -> AsyncIterator[list[Session]]:
    sessions: list[Session] = []
    for _ in range(clients):
        try:
            sessions.append(await Session(port).open())
        except (RuntimeError, OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            errors.append(f"{type(error).__name__}: {error}"[:200])
    try:
        yield sessions
    finally:
        for session in sessions:
            await session.close()


def _messages(body: bytes) -> list[dict[str, Any]]:
    if body.lstrip().startswith(b"{"):
        return [json.loads(body)]
    lines = body.decode().splitlines()
    return [json.loads(line.removeprefix("data:")) for line in lines if line.startswith("data:") and line[5:].strip()]
