"""A host behind a real HTTP listener, in the loop of whoever asks; and clients of it that say whatever they like."""

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fumehood.core.sections import HttpSettings
from fumehood.wire.admission import Bounds
from fumehood.wire.descriptors import Wire
from fumehood.wire.opening import open_listener
from fumehood.wire.sdk import serving
from fumehood.wire.sdk.hosted import Hosted
from fumehood.wire.server_stdio import Ended
from loopback.hosts import FakeHost

LEGACY, MODERN = "2025-11-25", "2026-07-28"
SECONDS = 60.0
META = "io.modelcontextprotocol/"


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Hosting:
    """A listener that is up."""

    host: FakeHost
    hosted: Hosted
    port: int
    task: "asyncio.Task[int]"
    serving: serving.Serving

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @asynccontextmanager
    async def request(
        self, method: str, body: bytes = b"", *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator["Incoming"]:
        """One request, whose answer is read as it comes; leaving goes away."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        usual = {
            "host": f"127.0.0.1:{self.port}",
            "accept": "application/json, text/event-stream",
            "content-length": str(len(body)),
            **({"content-type": "application/json"} if method == "POST" else {}),
        }
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in (usual | dict(headers or {})).items()]
        writer.write("\r\n".join([f"{method} /mcp HTTP/1.1", *lines, "", ""]).encode() + body)
        try:
            yield Incoming(reader, writer)
        finally:
            writer.transport.abort()

    async def ask(self, method: str, body: bytes = b"", *, headers: Mapping[str, str] | None = None) -> Reply:
        """One request and its whole answer."""
        async with self.request(method, body, headers=headers) as incoming:
            return await incoming.whole()


@dataclass
class Incoming:
    """An answer on its way."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    _rest: bytes = b""

    async def head(self) -> tuple[int, dict[str, str]]:
        data = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), SECONDS)
        first, *lines = data.decode("latin-1").strip().split("\r\n")
        pairs = (line.partition(": ") for line in lines)
        return int(first.split()[1]), {name.lower(): value for name, _, value in pairs}

    async def chunk(self) -> bytes:
        size = int((await asyncio.wait_for(self.reader.readline(), SECONDS)).strip() or b"0", 16)
        data = await asyncio.wait_for(self.reader.readexactly(size + 2), SECONDS)
        return data[:-2]

    async def event(self) -> Any:
        """The next message of a stream; signs of life are passed over."""
        while True:
            while b"\n\n" not in (kept := self._rest.replace(b"\r\n", b"\n")):
                data = await self.chunk()
                if not data:
                    return None
                self._rest += data
            event, _, self._rest = kept.partition(b"\n\n")
            for line in event.split(b"\n"):
                if line.startswith(b"data: "):
                    return json.loads(line.removeprefix(b"data: "))

    async def whole(self) -> Reply:
        status, headers = await self.head()
        if "content-length" in headers:
            body = await asyncio.wait_for(self.reader.readexactly(int(headers["content-length"])), SECONDS)
        else:
            body = b""
            while headers.get("transfer-encoding") == "chunked" and (data := await self.chunk()):
                body += data
        return Reply(status, headers, body)


@dataclass
class Caller:
    """A client of one era that writes every byte itself. `token` is whose it is."""

    hosting: Hosting
    era: str
    token: str | None = None
    capabilities: dict[str, Any] = field(default_factory=dict)
    session: str | None = None
    _last: int = 0

    def headers(self, method: str = "", name: str | None = None) -> dict[str, str]:
        given = {"mcp_protocol_version": self.era}
        if self.token:
            given["authorization"] = f"Bearer {self.token}"
        if self.era == MODERN:
            given |= {"mcp_method": method, **({"mcp_name": name} if name else {})}
        elif self.session:
            given["mcp_session_id"] = self.session
        return given

    def message(self, method: str, *, ident: Any = None, **params: Any) -> bytes:
        self._last += 1
        if self.era == MODERN:
            meta = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": self.capabilities}
            params["_meta"] = meta | params.get("_meta", {})
        made = {"jsonrpc": "2.0", "id": self._last if ident is None else ident, "method": method, "params": params}
        return json.dumps(made).encode()

    async def open(self) -> Reply:
        """`initialize`, or nothing where the era has none."""
        info = {"name": "caller", "version": "1"}
        given = {"protocolVersion": self.era, "capabilities": self.capabilities, "clientInfo": info}
        reply = await self.hosting.ask("POST", self.message("initialize", **given), headers=self.headers())
        self.session = reply.headers.get("mcp-session-id")
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return reply

    async def post(self, message: dict[str, Any]) -> Reply:
        """Anything at all."""
        return await self.hosting.ask("POST", json.dumps(message).encode(), headers=self.headers())

    async def ask(self, method: str, *, ident: Any = None, **params: Any) -> Reply:
        """A request and its answer."""
        name = params.get("name") or params.get("uri")
        message = self.message(method, ident=ident, **params)
        return await self.hosting.ask("POST", message, headers=self.headers(method, name))

    async def call(self, tool: str, *, ident: Any = None, **arguments: Any) -> Reply:
        return await self.ask("tools/call", ident=ident, name=tool, arguments=arguments)


@asynccontextmanager
async def hosting(
    host: FakeHost | None = None, *, bounds: Bounds | None = None, **settings: Any
) -> AsyncIterator[Hosting]:
    """A host on a free port; drained at the end."""
    opened = open_listener(msgspec.convert({"port": 0, **settings}, HttpSettings), production=False)
    up = asyncio.Event()
    told = serving.Serving(announce=lambda _: up.set())
    fake = host or FakeHost()
    hosted = Hosted(fake, bounds)
    port = opened.sockets[0].getsockname()[1]
    task = asyncio.create_task(serving.http(hosted, opened, told))
    await asyncio.wait_for(up.wait(), SECONDS)
    try:
        yield Hosting(fake, hosted, port, task, told)
    finally:
        told.stop.set()
        await asyncio.wait_for(task, SECONDS)
        assert fake.watchers == []


async def until(true: Any) -> None:
    """Wait for something that another task brings about."""
    async with asyncio.timeout(SECONDS):
        while not true():  # noqa: ASYNC110 - what another task brings about is no event
            await asyncio.sleep(0.005)


@dataclass
class Piped:
    """A host over a pipe, and the other end of it."""

    host: FakeHost
    era: str
    task: "asyncio.Task[Ended]"
    reader: asyncio.StreamReader
    writer: int
    capabilities: dict[str, Any] = field(default_factory=dict)
    _last: int = 0

    def raw(self, data: bytes) -> None:
        os.write(self.writer, data)

    def say(self, message: dict[str, Any]) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def ask(self, method: str, *, ident: Any = None, **params: Any) -> Any:
        """Send a request; its id."""
        self._last += 1
        if self.era == MODERN:
            meta = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": self.capabilities}
            params["_meta"] = meta | params.get("_meta", {})
        ident = self._last if ident is None else ident
        self.say({"id": ident, "method": method, "params": params})
        return ident

    def call(self, tool: str, *, ident: Any = None, **arguments: Any) -> Any:
        return self.ask("tools/call", ident=ident, name=tool, arguments=arguments)

    async def hear(self) -> Any:
        """The next line; None at the end."""
        line = await asyncio.wait_for(self.reader.readline(), SECONDS)
        return json.loads(line) if line else None

    async def open(self) -> Any:
        """The opening of the era."""
        if self.era == MODERN:
            self.ask("server/discover")
            return await self.hear()
        info = {"name": "piped", "version": "1"}
        self.ask("initialize", protocolVersion=self.era, capabilities=self.capabilities, clientInfo=info)
        found = await self.hear()
        self.say({"method": "notifications/initialized"})
        return found

    def hang_up(self) -> None:
        """No more input."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    async def ended(self) -> Ended:
        return await asyncio.wait_for(asyncio.shield(self.task), SECONDS)


@asynccontextmanager
async def piped(era: str, *, bounds: Bounds | None = None, **capabilities: Any) -> AsyncIterator[Piped]:
    """A host over a pipe that is open; ended afterwards, with whatever it still does."""
    reading, to_server = os.pipe()
    from_server, writing = os.pipe()
    host = FakeHost()
    reader = asyncio.StreamReader(limit=1 << 24)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_server, "rb", buffering=0)
    )
    task = asyncio.create_task(serving.stdio(Hosted(host, bounds), Wire(reading=reading, writing=writing)))
    made = Piped(host, era, task, reader, to_server, capabilities)
    try:
        await made.open()
        yield made
    finally:
        made.hang_up()
        transport.close()
        await asyncio.wait_for(task, SECONDS)
        wires = {"wire-in", "wire-out"}  # threads that hold the numbers of descriptors, which others get afterwards
        await until(lambda: not any(thread.name in wires for thread in threading.enumerate()))
        os.close(reading)
        os.close(writing)
        assert host.watchers == []
        assert len(host.left_connections) == 1
