"""Servers without processes behind the real gate: each tool is a coroutine of the test's own."""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fumehood.content.control import Controls
from fumehood.core.clock import SystemClock
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.audit.record import Call, Event
from fumehood.gateway.codemode.engine import Engine, Place
from fumehood.gateway.codemode.reading import DescribeTools, SearchTools
from fumehood.gateway.codemode.running import RunCode
from fumehood.gateway.gate.gate import Gate
from fumehood.gateway.gate.model import EVERYTHING, Guest, OwnTool, Rights, Way
from fumehood.gateway.gate.passing import Parts, Passing
from fumehood.gateway.topology.model import Role, Server, Topology
from fumehood.gateway.upstreams.model import Introduction, Listed, Standing, Up
from fumehood.wire.hosting import Question, Reply, ReportProgress, Verdict

Act = Callable[[JsonObject], Awaitable[JsonObject]]
BATCH = "this call and identical ones of this program"


def definition(name: str, **properties: Any) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": properties}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema}


def said(text: str, **more: Any) -> JsonObject:
    return {"content": [{"type": "text", "text": text}], **more}


class FakeServers:
    """Implements `Upstreams`."""

    def __init__(self, tools: dict[str, dict[str, Act]]) -> None:
        self.tools = tools
        self.heard: list[tuple[str, str, JsonObject]] = []

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(sorted(self.tools))

    def standing(self, server: str) -> Standing:
        assert server in self.tools
        return Up(introduction=Introduction(era="legacy", revision="2025-11-25", capabilities={"tools": {}}))

    def listed(self, server: str) -> Listed:
        found = tuple(definition(name) for name in sorted(self.tools[server]))
        return Listed(tools=found, shown=found)

    async def settled(self, seconds: float) -> None:
        assert seconds > 0

    async def ask(
        self, server: str, method: str, params: JsonObject, *, seconds: float, progress: ReportProgress | None = None
    ) -> JsonObject:
        assert method == "tools/call"
        assert seconds > 0
        assert progress is None
        name, arguments = str(params["name"]), params["arguments"]
        assert isinstance(arguments, dict)
        self.heard.append((server, name, arguments))
        return await self.tools[server][name](arguments)

    def watch(self, changed: Callable[[str, str], None]) -> Callable[[], None]:
        del changed
        return lambda: None


class Kept:
    """Implements `Audit`, in memory."""

    def __init__(self) -> None:
        self.events: list[Call] = []

    async def record(self, event: Event) -> None:
        assert isinstance(event, Call)
        self.events.append(event)


class Kitchen:
    """`fs` is trusted, and its tool `write` writes; `web` is not trusted and reads. The gate is the real one."""

    def __init__(self, tools: dict[str, dict[str, Act]], place: Place) -> None:
        self.controls = Controls(key=b"k" * 32)
        self.topology = Topology(
            servers={
                "fs": Server(command=("fs",), trust="trusted", reads=("read*",), egress=()),
                "web": Server(command=("web",), reads=("*",), egress=()),
            },
            roles={"reader": Role(access="read"), "writer": Role(access="write")},
        )
        self.servers = FakeServers(tools)
        self.log = Kept()
        self.questions: list[Question] = []
        self._runs = itertools.count(1)
        parts = Parts(
            topology=self.topology,
            upstreams=self.servers,
            controls=self.controls,
            clock=SystemClock(),
            audit=self.log,
        )
        self.gate = Gate(parts, Passing(parts))
        self.engine = Engine(self.gate, place, self.controls, self.fresh)
        self.furnish()

    def fresh(self) -> str:
        return f"{next(self._runs):016x}"

    def furnish(self, *more: OwnTool) -> None:
        three = (SearchTools(self.gate, self.controls), DescribeTools(self.gate, self.controls), RunCode(self.engine))
        self.gate.furnish([*three, *more])

    def guest(self, role: str | None = None) -> Guest:
        rights = EVERYTHING if role is None else Rights(roles=(self.topology.roles[role],))
        return Guest(who="uid:1000", rights=rights, run=self.fresh())

    async def run(self, guest: Guest, code: str, answers: Sequence[str] | None = None, **more: Any) -> Any:
        """One call of `run_code`; with `answers` a person says these words, the last one again and again."""
        words = [*(answers or ())]
        progress = more.pop("progress", None)

        async def ask(question: Question) -> Reply:
            self.questions.append(question)
            return Reply(verdict=Verdict.ACCEPT, content={"answer": words.pop(0) if len(words) > 1 else words[0]})

        way = Way(ask=None if answers is None else ask, progress=progress)
        return await self.gate.call(guest, "run_code", {"code": code, **more}, way)
