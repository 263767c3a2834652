"""A connection without processes, and controls whose nonces are known."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from fumehood.content.control import Controls
from fumehood.core import jsonio, limits
from fumehood.core.jsonio import JsonValue
from fumehood.gateway.audit.calls import Caller
from fumehood.gateway.guard.events import Event, Recorded, Said, ToClient, ToServer
from fumehood.gateway.guard.listing import Judge, Judgement, Taken, accept_all
from fumehood.gateway.guard.record import Calls
from fumehood.gateway.guard.traffic import Traffic
from fumehood.wire import frames, inbound
from fumehood.wire.lines import Line

TOOL: dict[str, Any] = {"name": "read", "description": "Reads.", "inputSchema": {"type": "object"}}


@pytest.fixture
def controls() -> Controls:
    """Nonces count from one."""
    counted = iter(range(1, 1_000_000))
    return Controls(key=b"k" * 32, line_characters=limits.FRAME_BYTES, fresh=lambda: f"nonce{next(counted):08d}")


class Wired:
    """A `Traffic` between two lists of what each side was sent."""

    def __init__(self, controls: Controls, judge: Judge) -> None:
        self.traffic = Traffic(controls, judge, Calls(Caller(source="guard", who="uid:1", run="0" * 16), lambda: 1.0))
        self.server: list[Any] = []
        self.client: list[Any] = []
        self.said: list[str] = []
        self.records: list[Any] = []
        self.order: list[str] = []

    def ask(self, ident: JsonValue, method: str, **params: JsonValue) -> None:
        """The client asks."""
        self.client_says({"id": ident, "method": method, "params": params})

    def call(self, ident: JsonValue, name: str = "read", **more: JsonValue) -> None:
        """The client calls a tool."""
        self.ask(ident, "tools/call", name=name, arguments={}, **more)

    def client_says(self, members: dict[str, JsonValue]) -> None:
        """A message of the client."""
        whole: JsonValue = {"jsonrpc": "2.0", **members}
        self._do(self.traffic.from_client(inbound.classify(whole), whole))

    def server_says(self, members: dict[str, Any] | bytes) -> None:
        """A line of the server."""
        data = members if isinstance(members, bytes) else json.dumps({"jsonrpc": "2.0", **members}).encode()
        self._do(self.traffic.from_server(frames.classify(Line(data=data)), data[:256]))

    def lists(self, tools: Sequence[Any] = (TOOL,), **more: Any) -> None:
        """The server answers our own request for its tools."""
        (mine,) = [one["id"] for one in self.server if one.get("method") == "tools/list"][-1:]
        self.server_says({"id": mine, "result": {"tools": list(tools), **more}})

    def ready(self) -> None:
        """The list is read and judged, and nothing is kept of how."""
        self.ask("list", "tools/list")
        self.lists()
        for kept in (self.server, self.client, self.said, self.records, self.order):
            kept.clear()

    def _do(self, events: Iterable[Event]) -> None:
        for event in events:
            self.order.append(type(event).__name__)
            match event:
                case ToServer(line=line):
                    self.server.append(jsonio.parse(line.strip(), size=limits.FRAME_BYTES))
                case ToClient(line=line):
                    self.client.append(jsonio.parse(line.strip(), size=limits.FRAME_BYTES))
                case Said(text=text):
                    self.said.append(text)
                case Recorded(event=record):
                    self.records.append(record)


@pytest.fixture
def connect(controls: Controls) -> Callable[..., Wired]:
    """A connection whose lists are judged so."""

    def make(*judgements: Judgement) -> Wired:
        given = iter(judgements)
        return Wired(controls, (lambda _: next(given, Taken())) if judgements else accept_all)

    return make


@pytest.fixture
def wired(connect: Callable[..., Wired]) -> Wired:
    """A connection that takes every list."""
    return connect()
