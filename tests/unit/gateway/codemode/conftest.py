"""A gate without servers: it implements `Calls`, judges by names and rights, and remembers what it was asked."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from fumehood.code.backend import ToolBackend
from fumehood.code.job import Job, JobResult, State
from fumehood.content.control import Controls
from fumehood.core import limits
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.codemode.engine import Engine
from fumehood.gateway.gate.model import EVERYTHING, Guest, Offered, Way

Behaviour = Callable[[JsonObject], JsonObject]


def offer(name: str, description: str = "", **more: Any) -> Offered:
    """One tool of a server, which reads and is trusted where nothing else is said."""
    server, _, tool = name.partition("__")
    definition = {"name": name, "description": description, "inputSchema": more.pop("schema", {"type": "object"})}
    plain: dict[str, Any] = {"writes": False, "egress": False, "trusted": True}
    return Offered(name=name, server=server, tool=tool, definition=definition, **(plain | more))


def result(text: str = "", structured: JsonValue = None) -> JsonObject:
    made: JsonObject = {"content": [{"type": "text", "text": text}]}
    return made if structured is None else {**made, "structuredContent": structured}


def refusal(code: str, message: str) -> JsonObject:
    facts: JsonObject = {"error": code, "message": message, "remedy": "ask for something else"}
    return {**result(json.dumps(facts), facts), "isError": True}


@dataclass(slots=True)
class FakeCalls:
    """Implements `Calls`: a guest may use what `only` names, and gets the taint of what is not trusted."""

    tools: dict[str, tuple[Offered, Behaviour]] = field(default_factory=dict)
    heard: list[tuple[str, JsonObject, Guest]] = field(default_factory=list)
    denied: list[str] = field(default_factory=list)
    forbidden: frozenset[str] = frozenset()
    waiting: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, offered: Offered, act: Behaviour | None = None) -> None:
        self.tools[offered.name] = (offered, act or (lambda _: result("done")))

    def put(self, name: str, description: str = "", **more: Any) -> None:
        self.add(offer(name, description, **more))

    def offered(self, guest: Guest) -> list[Offered]:
        return [one for one, _ in self.tools.values() if self._may(guest, one.name)]

    async def call(self, guest: Guest, name: str, arguments: JsonObject, way: Way) -> JsonObject:
        del way
        self.heard.append((name, arguments, guest))
        if name not in self.tools or not self._may(guest, name):
            self.denied.append(name)
            return refusal("unknown_tool", "no such tool")
        offered, act = self.tools[name]
        if name == "fake__never":
            self.waiting.set()
            await asyncio.Event().wait()
        if not offered.trusted:
            guest.tainted_by.add(offered.server)
        return act(arguments)

    def _may(self, guest: Guest, name: str) -> bool:
        return name not in self.forbidden and (guest.rights.only is None or name in guest.rights.only)


Script = Callable[[Job, ToolBackend], Awaitable[JobResult]]


class FakePlace:
    """Implements `Place`: a program is a coroutine of the test's own."""

    def __init__(self) -> None:
        self.unavailable = ""
        self.jobs: list[Job] = []
        self.script: Script = returning(None)

    async def run(self, job: Job, backend: ToolBackend) -> JobResult:
        self.jobs.append(job)
        return await self.script(job, backend)


def returning(value: JsonValue, **more: Any) -> Script:
    async def script(job: Job, backend: ToolBackend) -> JobResult:
        del job, backend
        return JobResult(state=State.OK, ok=True, value=value, **more)

    return script


@pytest.fixture
def controls() -> Controls:
    """Nonces count from one."""
    counted = iter(range(1, 1_000_000))
    return Controls(key=b"k" * 32, line_characters=limits.FRAME_BYTES, fresh=lambda: f"nonce{next(counted):08d}")


@pytest.fixture
def calls() -> FakeCalls:
    return FakeCalls()


@pytest.fixture
def place() -> FakePlace:
    return FakePlace()


@pytest.fixture
def engine(calls: FakeCalls, place: FakePlace, controls: Controls) -> Engine:
    counted = iter(range(1, 1_000_000))
    return Engine(calls, place, controls, lambda: f"{next(counted):016x}")


@pytest.fixture
def guest() -> Guest:
    return Guest(who="uid:1", rights=EVERYTHING, run="0" * 16)


@pytest.fixture
def make_offer() -> Callable[..., Offered]:
    return offer


@pytest.fixture
def make_result() -> Callable[..., JsonObject]:
    return result


@pytest.fixture
def program_returns() -> Callable[..., Script]:
    return returning
