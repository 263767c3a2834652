"""Saved tools as a client calls them, and whoever looks whether they still are what was accepted.

Invariants: a saved tool is offered only once it was held against its pin, and not while anything of it differs, however
the lock changes; of the others each stays. A program file is read once, at the start, and only its owner writes it.
Its input fits its schema before it runs; while it runs it may call its manifest and nothing else.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from fumehood.core import limits, settings
from fumehood.core.errors import FumehoodError
from fumehood.core.jsonio import JsonObject
from fumehood.core.settings import SettingsError
from fumehood.gateway.codemode import own, replies, saved
from fumehood.gateway.codemode.engine import Engine, Program
from fumehood.gateway.codemode.saved import Loaded, SavedToolError
from fumehood.gateway.gate.model import Guest, Offered, Way
from fumehood.gateway.guard.listing import Judge, Withheld
from fumehood.gateway.lockfile import Lock
from fumehood.gateway.topology.model import SAVED, Topology
from fumehood.gateway.upstreams.accepted import Pins, Who

_NOT_YET: Final = "it was not held against its pin yet"


def load(topology: Topology) -> list[Loaded]:
    """Every saved tool with its program, in order. Paths are absolute. Errors: `SavedToolError`."""
    return [_loaded(name, topology) for name in sorted(topology.tools)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """Where pins are kept: each may wait for the disk, and is called in a thread."""

    lock: Callable[[], Lock]
    judge: Judge  # of the server `code`
    stamp: Callable[[], object]  # differs where the lock is another one


def pinned(pins: Pins) -> Pinned:
    """The pins of a gateway, as saved tools have them: theirs is that of the server `code`."""
    who = Who(name=SAVED, identity=saved.IDENTITY)
    return Pinned(lock=pins.load, judge=partial(pins.judge, who), stamp=pins.stamp)


@dataclass(slots=True, kw_only=True)
class Standing:
    """Which saved tools are withheld at the moment, by the name that a client sees, and why."""

    withheld: Mapping[str, str] = field(default_factory=dict)
    known: bool = False

    def why(self, name: str) -> str:
        """Why one is withheld; nothing where it is not."""
        return self.withheld.get(name, "") if self.known else _NOT_YET


class SavedTool:
    """An `OwnTool`."""

    def __init__(self, one: Loaded, topology: Topology, engine: Engine, standing: Standing) -> None:
        """`standing` is looked at with each call. Errors: `SavedToolError`."""
        self._engine = engine
        self._standing = standing
        self._one = one
        self._offered = saved.offered(topology, one)
        try:
            self._arguments = own.Arguments(self._offered.name, dict(one.saved.input_schema))
        except ValueError as error:
            raise SavedToolError(f"tools.{one.name}.input_schema: {error}", remedy="correct the schema") from None

    @property
    def offered(self) -> Offered:
        """What it is."""
        return self._offered

    def is_for(self, guest: Guest) -> bool:
        """For whoever may use each tool of its manifest, while it is what was accepted."""
        if self._engine.unavailable or self._standing.why(self._offered.name):
            return False
        return len(self._tools(guest)) == len(self._one.saved.tools)

    async def call(self, guest: Guest, arguments: JsonObject, way: Way) -> JsonObject:
        """What came of its program."""
        try:
            if why := self._standing.why(self._offered.name):
                raise SavedToolError(f"{self._offered.name} is withheld: {why}", remedy="the operator's log says more")
            given = self._arguments.read(arguments)
        except FumehoodError as error:
            return replies.refused(error, self._engine.controls)
        program = Program(code=self._one.program, value=given, tools=self._tools(guest))
        return await self._engine.run(guest, program, way)

    def _tools(self, guest: Guest) -> Sequence[Offered]:
        manifest = frozenset(self._one.saved.tools)
        return [one for one in self._engine.calls.offered(guest) if one.name in manifest]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What the look at the pins needs."""

    topology: Topology
    loaded: Sequence[Loaded]
    pinned: Pinned
    standing: Standing
    settled: Callable[[], Awaitable[None]]  # waits, for a bounded time, until the servers were listed
    say: Callable[[str], None]
    changed: Callable[[], None]  # called when others are withheld than before

    async def keep(self) -> None:
        """Hold them against their pins, at the start and whenever the lock is another one."""
        if not self.loaded:
            return
        seen = await asyncio.to_thread(self.pinned.stamp)
        lock = await self._lock()
        if lock is None or any(saved.unpinned(self.topology, one, lock) for one in self.loaded):
            await self.settled()  # a server that nobody has seen yet is pinned with its first list
            seen = await asyncio.to_thread(self.pinned.stamp)
        while True:
            await self.look()
            seen = await self._another(seen)

    async def look(self) -> None:
        """Once."""
        said: tuple[str, ...] = ()
        try:
            found, said = await asyncio.to_thread(self._found)
        except FumehoodError as error:
            found = dict.fromkeys(self._names(), f"it cannot be held against its pin: {error}")
        for line in said:
            self.say(f"fumehood: saved tools: {line}")
        before, self.standing.withheld = self.standing.withheld, found
        if self.standing.known and before == found:
            return
        self.standing.known = True
        for name, why in found.items():
            if before.get(name) != why:
                self.say(f"fumehood: {name} is withheld: {why}")
        self.changed()

    async def _another(self, seen: object) -> object:
        """Wait until the lock is another one."""
        while True:
            await asyncio.sleep(limits.CODEMODE_LOOK_SECONDS)
            now = await asyncio.to_thread(self.pinned.stamp)
            if now != seen:
                return now

    async def _lock(self) -> Lock | None:
        try:
            return await asyncio.to_thread(self.pinned.lock)
        except FumehoodError:
            return None  # `look` says why

    def _found(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """Which are withheld, and why; what is to be said. In a thread."""
        lock = self.pinned.lock()
        waiting = {one.name: saved.unpinned(self.topology, one, lock) for one in self.loaded}
        ready = [one for one in self.loaded if not waiting[one.name]]
        told = {
            saved.shown_name(name): f"nobody has accepted {', '.join(tools)} yet"
            for name, tools in waiting.items()
            if tools
        }
        if not ready:
            return told, ()
        pinnable = saved.definitions(self.topology, ready, lock)
        judgement = self.pinned.judge(pinnable)
        said = (*judgement.said, judgement.reason) if isinstance(judgement, Withheld) else judgement.said
        return told | saved.withheld(pinnable, self.pinned.lock()), said

    def _names(self) -> list[str]:
        return [saved.shown_name(one.name) for one in self.loaded]


def _loaded(name: str, topology: Topology) -> Loaded:
    one = topology.tools[name]
    source = f"tools.{name}.program: {ascii(one.program)[1:-1]}"
    try:
        text = settings.owned_text(Path(one.program), source, size=limits.CODE_BYTES)
    except SettingsError as error:
        raise SavedToolError(error.message, remedy=error.remedy) from None
    if not text.strip():
        raise SavedToolError(f"{source}: is empty", remedy="write at least `return input`")
    return Loaded(name=name, saved=one, program=text)
