"""Servers without processes, a person who answers as told, and a log in memory."""

import asyncio
import inspect
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from fumehood.content.control import Controls
from fumehood.core import limits
from fumehood.core.clock import SystemClock
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.audit.faults import AuditError
from fumehood.gateway.audit.record import Call, Event, is_durable
from fumehood.gateway.gate.gate import Gate
from fumehood.gateway.gate.model import EVERYTHING, Guest, OwnTool, Rights, Way
from fumehood.gateway.gate.passing import Parts, Passing
from fumehood.gateway.guard.policy import GuardPolicy
from fumehood.gateway.topology.model import Gateway, Role, Server, Topology
from fumehood.gateway.upstreams.model import Down, Introduction, Listed, Standing, Up, UpstreamError
from fumehood.wire.hosting import Question, Reply, ReportProgress, Verdict


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def tool(name: str, **more: Any) -> JsonObject:
    """A definition."""
    return {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}, **more}


def text(words: str, **more: JsonValue) -> JsonObject:
    """A result of one text."""
    return {"content": [{"type": "text", "text": words}], **more}


@dataclass
class Starts:
    """A server that is being started, and somebody who waits for it."""

    wanted: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)


class FakeUpstreams:
    """Implements `Upstreams`: each server has tools, and answers as it is told."""

    def __init__(self) -> None:
        self.tools: dict[str, Listed] = {}
        self.standings: dict[str, Standing] = {}
        self.answers: dict[tuple[str, str], Any] = {}
        self.asked: list[tuple[str, str, JsonObject]] = []
        self.cancelled: list[str] = []
        self.watchers: list[Callable[[str, str], None]] = []
        self.starts: Starts | None = None

    def starting(self) -> Starts:
        """One more is being started, and lists may wait for it."""
        self.starts = Starts()
        return self.starts

    def add(self, name: str, *tools: JsonObject, capabilities: Iterable[str] = ("tools",)) -> None:
        """A server that is up."""
        shown = tuple(sorted(tools, key=lambda one: str(one["name"])))
        self.tools[name] = Listed(tools=tools, shown=shown)
        introduction = Introduction(era="legacy", revision="2025-11-25", capabilities={one: {} for one in capabilities})
        self.standings[name] = Up(introduction=introduction)

    def down(self, name: str, reason: str = "it ended with 1") -> None:
        """It is not there any more."""
        self.tools[name], self.standings[name] = Listed(), Down(reason=reason)

    def answer(self, server: str, method: str, with_: Any) -> None:
        """What a server answers: a result, an error, or what makes one of the parameters."""
        self.answers[server, method] = with_

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(sorted(self.standings))

    def standing(self, server: str) -> Standing:
        return self.standings[server]

    def listed(self, server: str) -> Listed:
        return self.tools[server]

    async def settled(self, seconds: float) -> None:
        assert seconds > 0
        if self.starts is not None:
            self.starts.wanted.set()
            await self.starts.done.wait()

    async def ask(
        self, server: str, method: str, params: JsonObject, *, seconds: float, progress: ReportProgress | None = None
    ) -> JsonObject:
        assert seconds > 0
        if not isinstance(self.standings[server], Up):
            raise UpstreamError(f"{server}: is down: it ended with 1")
        self.asked.append((server, method, params))
        found = self.answers.get((server, method), text("fine"))
        if isinstance(found, Exception):
            raise found
        if not callable(found):
            return dict(found)
        try:
            made = found(params, progress) if found.__code__.co_argcount == 2 else found(params)
            return dict(await made if asyncio.iscoroutine(made) else made)
        except asyncio.CancelledError:
            self.cancelled.append(server)
            raise

    def watch(self, changed: Callable[[str, str], None]) -> Callable[[], None]:
        self.watchers.append(changed)
        return lambda: self.watchers.remove(changed)


@dataclass
class Log:
    """Implements `Audit`."""

    events: list[Call] = field(default_factory=list)
    fails: bool = False
    waits: asyncio.Event | None = None  # what a durable record waits for

    async def record(self, event: Event) -> None:
        assert isinstance(event, Call)
        if self.fails:
            raise AuditError("the audit log failed: no space is left")
        self.events.append(event)
        if self.waits is not None and is_durable(event):
            await self.waits.wait()

    @property
    def told(self) -> list[tuple[str, str, str]]:
        """Name, decision and outcome of each record."""
        return [(one.tool, one.decision, one.outcome) for one in self.events]


@dataclass
class Person:
    """Answers each question with the next word; the last one again and again."""

    words: list[str]
    questions: list[Question] = field(default_factory=list)
    hold: asyncio.Event | None = None

    async def ask(self, question: Question) -> Reply:
        self.questions.append(question)
        if self.hold is not None:
            await self.hold.wait()
        word = self.words.pop(0) if len(self.words) > 1 else self.words[0]
        if word in {"decline", "cancel"}:
            return Reply(verdict=Verdict(word))
        return Reply(verdict=Verdict.ACCEPT, content={"answer": word})


class Bench:
    """A gate over fakes: `web` is not trusted and reads; `fs` is trusted, reads and writes."""

    def __init__(
        self, controls: Controls, *, roles: bool = True, egress: tuple[str, ...] | None = ("fetch",), **gateway: Any
    ) -> None:
        self.controls = controls
        found = {"reader": Role(access="read"), "writer": Role(access="write")}
        self.topology = Topology(
            gateway=Gateway(**gateway),
            servers={
                "fs": Server(command=("fs",), trust="trusted", reads=("read",), egress=()),
                "web": Server(
                    command=("web",),
                    policy=GuardPolicy(allow_net=("example.com:443",)),
                    reads=("fetch", "look"),
                    egress=egress,
                ),
            },
            roles=found if roles else {},
        )
        self.upstreams = FakeUpstreams()
        self.upstreams.add("fs", tool("read"), tool("write"))
        self.upstreams.add("web", tool("fetch"), tool("look"))
        self.log = Log()
        self.fresh = itertools.count(1)
        self.parts = Parts(
            topology=self.topology,
            upstreams=self.upstreams,
            controls=controls,
            clock=SystemClock(),
            audit=self.log,
        )
        self.passing = Passing(self.parts)
        self.gate = Gate(self.parts, self.passing)

    def furnish(self, *own: OwnTool) -> None:
        """Tools of ours."""
        self.gate.furnish(own)

    def guest(self, rights: Rights = EVERYTHING, **more: Any) -> Guest:
        """Somebody new."""
        return Guest(who="uid:1000", rights=rights, run=f"{next(self.fresh):016x}", **more)

    def reader(self) -> Guest:
        """Somebody who may only read."""
        return self.guest(Rights(roles=(self.topology.roles["reader"],)))

    async def call(self, guest: Guest, name: str, person: Person | None = None, **arguments: JsonValue) -> JsonObject:
        """One call of a client."""
        return await self.gate.call(guest, name, arguments, Way(ask=None if person is None else person.ask))

    def names(self, guest: Guest) -> list[str]:
        """What it is shown, all pages."""
        found: list[str] = []
        cursor: JsonValue = None
        while True:
            page = self.gate.page(guest, cursor)
            tools = page["tools"]
            assert isinstance(tools, list)
            found += [str(one["name"]) for one in tools if isinstance(one, dict)]
            if (cursor := page.get("nextCursor")) is None:
                return found


@pytest.fixture
def controls() -> Controls:
    """Nonces count from one."""
    counted = iter(range(1, 1_000_000))
    return Controls(key=b"k" * 32, line_characters=limits.FRAME_BYTES, fresh=lambda: f"nonce{next(counted):08d}")


@pytest.fixture
def bench(controls: Controls) -> Bench:
    """A gate over fakes."""
    return Bench(controls)


@pytest.fixture
def make_bench(controls: Controls) -> Callable[..., Bench]:
    """A gate over fakes, with members of `Gateway`."""
    return lambda **gateway: Bench(controls, **gateway)


@pytest.fixture(name="tool")
def tool_() -> Callable[..., JsonObject]:
    """Makes a definition."""
    return tool


@pytest.fixture(name="text")
def text_() -> Callable[..., JsonObject]:
    """Makes a result."""
    return text


@pytest.fixture
def person() -> type[Person]:
    """Makes a person."""
    return Person
