"""A real HTTP listener in this process: its loop in a thread, its sockets on loopback or a Unix path."""

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from fumehood.core.budget import Budget
from fumehood.core.errors import FumehoodError
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.core.sections import HttpSettings
from fumehood.wire import listener
from fumehood.wire.admission import Admission, Bounds
from fumehood.wire.asgi import Application
from fumehood.wire.guarded import Guarded
from fumehood.wire.listener import Served
from fumehood.wire.opening import Opened, open_listener
from fumehood.wire.published import Caller
from fumehood.wire.sdk import streams, tools

LEGACY, MODERN = "2025-11-25", "2026-07-28"
WAIT_SECONDS = 20.0


def definition(name: str) -> dict[str, JsonValue]:
    return {
        "name": name,
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False},
    }


@dataclass
class Echo:
    """A published server: `echo` gives back what it got and to whom; `hang` waits for the end of its budget."""

    name: str = "echo"
    version: str = "1"
    title: str = "Echo"
    instructions: str = ""
    hanging: threading.Event = field(default_factory=threading.Event)
    cancelled: threading.Event = field(default_factory=threading.Event)

    def definitions(self) -> Sequence[Mapping[str, JsonValue]]:
        return [definition("echo"), definition("hang")]

    def call(self, name: str, arguments: JsonObject, budget: Budget, caller: Caller) -> JsonObject:
        if name == "hang":
            self.hanging.set()
            while not budget.cancelled and budget.remaining_seconds():
                threading.Event().wait(0.01)
            if budget.cancelled:
                self.cancelled.set()
        shown = f"{caller.principal}|{arguments.get('text', '')}"
        return {"content": [{"type": "text", "text": shown}], "isError": False}

    def refused(self, error: FumehoodError) -> JsonObject:
        return {"content": [{"type": "text", "text": error.code}], "isError": True}

    def discover(self) -> JsonObject:
        return {}


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Listening:
    """A listener that is up, and clients of it."""

    opened: Opened
    published: Echo

    @property
    def address(self) -> Any:
        return self.opened.sockets[0].getsockname()

    @property
    def port(self) -> int:
        return int(self.address[1])

    def connect(self, *, trust: Path | None = None) -> socket.socket:
        """A connection, with TLS where `trust` is the certificate."""
        family = self.opened.sockets[0].family
        plain = socket.socket(family, socket.SOCK_STREAM)
        plain.settimeout(WAIT_SECONDS)
        plain.connect(self.address if family == socket.AF_UNIX else self.address[:2])
        if trust is None:
            return plain
        return ssl.create_default_context(cafile=str(trust)).wrap_socket(plain, server_hostname="localhost")

    def exchange(self, data: bytes, *, trust: Path | None = None) -> Answer:
        """Send bytes as they are and read one answer."""
        with self.connect(trust=trust) as connection:
            connection.sendall(data)
            return read_answer(connection)

    def ask(self, body: bytes = b"", method: str = "POST", path: str = "/mcp", **headers: Any) -> Answer:
        """One request; a header that is None is left out, `_` in names is `-`."""
        return self.exchange(self.request(body, method, path, **headers))

    def request(self, body: bytes = b"", method: str = "POST", path: str = "/mcp", **headers: Any) -> bytes:
        host = "localhost" if self.opened.peers is not None else f"localhost:{self.port}"
        usual: dict[str, str | None] = {
            "host": host,
            "connection": "close",
            "accept": "application/json, text/event-stream",
            "content_type": "application/json" if method == "POST" else None,
            "content_length": str(len(body)) if body or method == "POST" else None,
        }
        lines = [f"{k.replace('_', '-')}: {v}" for k, v in (usual | headers).items() if v is not None]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1") + body

    def call(self, tool: str = "echo", text: str = "", *, era: str = MODERN, **headers: Any) -> Answer:
        """One tool call in one of the two eras."""
        body = message("tools/call", era, name=tool, arguments={"text": text})
        return self.ask(body, **(routed(era, tool) | headers))


def message(method: str, era: str = MODERN, ident: int = 1, **params: Any) -> bytes:
    """A JSON-RPC request of an era."""
    if era == MODERN:
        meta = "io.modelcontextprotocol/"
        params["_meta"] = {f"{meta}protocolVersion": MODERN, f"{meta}clientCapabilities": {}}
    return json.dumps({"jsonrpc": "2.0", "id": ident, "method": method, "params": params}).encode()


def routed(era: str, tool: str | None = None, method: str = "tools/call") -> dict[str, Any]:
    """The headers that an era has for a request."""
    if era != MODERN:
        return {"mcp_protocol_version": era}
    return {"mcp_protocol_version": era, "mcp_method": method, "mcp_name": tool}


def bearer(token: str) -> dict[str, Any]:
    return {"authorization": f"Bearer {token}"}


def read_answer(connection: socket.socket) -> Answer:
    """The answer that comes on a connection; status 0 where it is closed without one."""
    response = http.client.HTTPResponse(connection)
    try:
        response.begin()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, response.read())
    except (http.client.BadStatusLine, ConnectionError):
        return Answer(0, {}, b"")
    finally:
        response.close()


@contextmanager
def listening(
    *, production: bool = False, bounds: Bounds | None = None, app: Application | None = None, **http_settings: Any
) -> Iterator[Listening]:
    """A listener with these settings, on a free port; drained and closed at the end."""
    settings = msgspec.convert({"port": 0, **http_settings}, HttpSettings)
    opened = open_listener(settings, production=production)
    published = Echo()
    handlers = tools.Handlers(guarded=Guarded(published), bounds=bounds or Bounds(), call_seconds=WAIT_SECONDS)
    up, stop = threading.Event(), threading.Event()
    served = Served(
        app=app or streams.http_app(tools.build(handlers)),
        rates=Admission(bounds or Bounds()),
        announce=lambda _: up.set(),
        stop=stop,
    )
    thread = threading.Thread(target=lambda: listener.run(opened, served))
    thread.start()
    try:
        assert up.wait(WAIT_SECONDS)
        yield Listening(opened, published)
    finally:
        stop.set()
        thread.join(WAIT_SECONDS)
        handlers.close()
        opened.close()
        assert not thread.is_alive()
