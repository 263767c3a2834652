"""Servers on loopback to be reached: the SDK's own, and ones that say what a test wants, byte by byte."""

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import uvicorn
from mcp.server.lowlevel import Server as SdkServer
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

from fumehood.core.jsonio import JsonObject
from fumehood.gateway.topology.model import Server
from fumehood.gateway.upstreams.remote.dialing import Reach, remote
from fumehood.sandbox.relay.outside import World

Handler = Callable[["Asked"], Awaitable[None]]


class Asked:
    """One request as a hostile server sees it, and the way to answer it."""

    def __init__(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        self.line, *lines = head.decode("latin-1").split("\r\n")
        self.headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines if one)}
        self.message: dict[str, Any] = json.loads(body) if body else {}
        self.writer = writer

    @property
    def method(self) -> str:
        """Of JSON-RPC, or of HTTP where there is no body."""
        return str(self.message.get("method", self.line.partition(" ")[0] if not self.message else "answer"))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, status: str = "200 OK", body: bytes = b"", *headers: str) -> None:
        kind = (
            ()
            if any(one.lower().startswith("content-type") for one in headers)
            else ("Content-Type: application/json",)
        )
        head = "\r\n".join([f"HTTP/1.1 {status}", *kind, *headers, f"Content-Length: {len(body)}", "", ""])
        await self.send(head.encode("latin-1") + body)

    async def result(self, result: JsonObject, *headers: str) -> None:
        await self.answer("200 OK", rpc({"id": self.message["id"], "result": result}), *headers)

    async def refuse(self, status: str, number: int) -> None:
        error: JsonObject = {"code": number, "message": "no"}
        await self.answer(status, rpc({"id": self.message.get("id"), "error": error}))

    async def events(self) -> None:
        """The head of a stream that goes on."""
        await self.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")

    async def event(self, message: JsonObject) -> None:
        await self.send(b"event: message\ndata: " + rpc(message) + b"\n\n")


def rpc(message: JsonObject) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


async def modern(asked: Asked) -> bool:
    """Answer what opens a conversation of the modern era; whether that was it."""
    if asked.method == "server/discover":
        await asked.result(
            {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        )
        return True
    return False


async def legacy(asked: Asked, session: str = "", capabilities: JsonObject | None = None) -> bool:
    """Answer what opens a conversation of the legacy era; whether that was it."""
    match asked.method:
        case "server/discover":
            await asked.refuse("400 Bad Request", -32600)
        case "initialize":
            result: JsonObject = {
                "protocolVersion": "2025-11-25",
                "capabilities": capabilities or {},
                "serverInfo": {"name": "hand-made", "version": "1"},
            }
            await asked.result(result, *([f"Mcp-Session-Id: {session}"] if session else []))
        case "notifications/initialized":
            await asked.answer("202 Accepted")
        case _:
            return False
    return True


class Hostile:
    """Runs a handler for each request on loopback, and remembers what it was asked."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.asked: list[Asked] = []
        self.connections = 0
        self.port = 0
        self.came = asyncio.Event()

    async def until(self, enough: Callable[[list[Asked]], bool]) -> None:
        """Wait until enough was asked."""
        while not enough(self.asked):
            self.came.clear()
            await self.came.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = next((int(h[15:]) for h in head.lower().split(b"\r\n") if h.startswith(b"content-length:")), 0)
                asked = Asked(head, await reader.readexactly(size), writer)
                self.asked.append(asked)
                self.came.set()
                await self.handler(asked)
        except (asyncio.IncompleteReadError, ConnectionError, EOFError):
            pass
        finally:
            writer.transport.abort()


@asynccontextmanager
async def hostile(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[Hostile]:
    served = Hostile(handler)
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await served.serve(reader, writer)
        finally:
            tasks.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def no_pause(_seconds: float) -> None:
    """Wait for nothing, but let others run."""
    await asyncio.sleep(0)


class Reached:
    """Reaches a port of loopback; keeps what was told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told: list[tuple[str, JsonObject]] = []
        self.heard = asyncio.Event()
        self.environment: dict[str, str] = {}
        self.world = World()
        self.ca_file: Path | None = None

    def __call__(
        self, port: int, path: str = "/mcp", scheme: str = "http", host: str = "127.0.0.1", **more: Any
    ) -> Any:
        server = Server(url=f"{scheme}://{host}:{port}{path}", **{"allow_private": True, **more})
        around = Reach(
            folder=self.folder,
            environment=self.environment,
            version="0",
            ca_file=self.ca_file,
            world=self.world,
            pause=no_pause,
        )
        return remote(server, around)(self.notified)

    def notified(self, method: str, params: JsonObject) -> None:
        self.told.append((method, params))
        self.heard.set()


class Sdk:
    """The SDK's server with a few tools, in a thread of its own."""

    def __init__(self, *, json_response: bool, stateless: bool, legacy_only: bool = False) -> None:
        self.kind = ""
        self.bus = InMemorySubscriptionBus()
        self.held = threading.Event()
        self.cancelled = threading.Event()
        self.headers: list[dict[str, str]] = []
        server: SdkServer[Any] = SdkServer(
            "sdk",
            version="1",
            instructions="Be nice.",
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscriptions_listen=ListenHandler(self.bus),
        )
        app: Any = server.streamable_http_app(json_response=json_response, stateless_http=stateless)
        if legacy_only:
            app = _without_modern(app)
        config = uvicorn.Config(app, log_level="critical", lifespan="on", timeout_graceful_shutdown=1, ws="none")
        self._server = uvicorn.Server(config)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})

    async def _list(self, _ctx: Any, _params: Any) -> ListToolsResult:
        region = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
        schemas: dict[str, dict[str, Any]] = {
            "echo": {"type": "object"},
            "count": {"type": "object"},
            "hold": {"type": "object"},
            "region": region,
        }
        return ListToolsResult(tools=[Tool(name=name, input_schema=schema) for name, schema in schemas.items()])

    async def _call(self, ctx: Any, params: Any) -> CallToolResult:
        self.headers.append(dict(ctx.request.headers))
        match params.name:
            case "count":
                for n in range(3):
                    await ctx.session.report_progress(n, 3, f"step {n}")
            case "hold":
                self.held.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    self.cancelled.set()
            case "grow":
                await self.bus.publish(ToolsListChanged())
        return CallToolResult(content=[TextContent(type="text", text=json.dumps(params.arguments or {}))])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        self._socket.close()


def _without_modern(app: Any) -> Any:
    """The same as a server that knows nothing of the modern era."""

    async def legacy_app(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if headers.get(b"mcp-protocol-version") != b"2026-07-28":
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 400, "headers": []})
        await send({"type": "http.response.body", "body": b"Bad Request: no session"})

    return legacy_app
