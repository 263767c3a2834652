"""A saved tool runs with its manifest, for whoever may use all of it, while it is what was accepted."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fumehood.content.control import Controls
from fumehood.core import limits
from fumehood.core.clock import SystemClock
from fumehood.core.errors import HarnessError
from fumehood.core.jsonio import JsonValue
from fumehood.gateway import lockfile, pins
from fumehood.gateway.codemode import mode, savedtools
from fumehood.gateway.codemode import place as places
from fumehood.gateway.codemode.engine import Engine, Program
from fumehood.gateway.codemode.saved import SavedToolError
from fumehood.gateway.codemode.savedtools import Pinned, SavedTool, Standing, Watch
from fumehood.gateway.gate.model import Guest, Way
from fumehood.gateway.guard.listing import Judgement, Taken, Withheld
from fumehood.gateway.lockfile import Lock
from fumehood.gateway.topology.model import Gateway, Server, Topology
from fumehood.gateway.upstreams.accepted import Pins, Who

Calls = Any
Place = Any
NOBODY: Any = None
READ: JsonValue = {"name": "read", "inputSchema": {"type": "object"}}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


class FakePins:
    """A lock in memory. As the real one: the first set is pinned, any other withheld."""

    def __init__(self) -> None:
        self.held = Lock(servers={})
        self.judged: list[Sequence[JsonValue]] = []
        self.broken = False

    def accept(self, server: str, *definitions: JsonValue) -> None:
        time = "2026-01-01T00:00:00.000Z"
        self.held = lockfile.accepted(self.held, server, pins.pin(definitions), time=time, command="test")

    def lock(self) -> Lock:
        if self.broken:
            raise HarnessError("the lock is gone")
        return self.held

    def judge(self, found: Sequence[JsonValue]) -> Judgement:
        self.judged.append(found)
        if "code" not in self.held.servers:
            self.accept("code", *found)
            return Taken(said=("pinned",))
        same = pins.compare(self.held.servers["code"].tools, pins.pin(found)) == pins.Same()
        return Taken() if same else Withheld(reason="changed", said=("what differs",))

    def stamp(self) -> object:
        return self.held.servers.get("code"), self.held.servers.get("files")


@pytest.fixture
def kept() -> FakePins:
    return FakePins()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "report.ts"
    file.write_text("return input")
    return file


@pytest.fixture
def topology(program: Path) -> Topology:
    return topology_of(program)


def topology_of(program: Path, **more: Any) -> Topology:
    fields = {"program": str(program), "description": "Report.", "tools": ["files__read"], "input_schema": SCHEMA}
    tree = {"servers": {"files": {"workspace": "/w"}}, "tools": {"report": fields | more}}
    return msgspec.convert(tree, Topology)


@pytest.fixture
def standing() -> Standing:
    return Standing(known=True)


@pytest.fixture
def tool(topology: Topology, engine: Engine, standing: Standing, calls: Calls) -> SavedTool:
    calls.put("files__read")
    calls.put("files__erase")
    return SavedTool(savedtools.load(topology)[0], topology, engine, standing)


def run(tool: SavedTool, guest: Guest, **arguments: Any) -> Any:
    return asyncio.run(tool.call(guest, arguments, Way()))


@pytest.mark.threat("G20")
def test_it_runs_its_program_with_its_input_and_its_manifest_only(tool: SavedTool, guest: Guest, place: Place) -> None:
    assert run(tool, guest, path="a")["isError"] is False
    [job] = place.jobs
    assert (job.code, job.input, job.tools) == ("return input", {"path": "a"}, ("files__read",))


@pytest.mark.threat("G20")
def test_whoever_may_not_use_a_tool_of_its_manifest_may_not_use_it(tool: SavedTool, guest: Guest, calls: Calls) -> None:
    assert tool.is_for(guest)
    calls.forbidden = frozenset({"files__read"})
    assert not tool.is_for(guest)


def test_input_that_does_not_fit_its_schema_never_runs(tool: SavedTool, guest: Guest, place: Place) -> None:
    made = run(tool, guest, path=5)
    assert made["structuredContent"]["error"] == "invalid_arguments"
    assert place.jobs == []


@pytest.mark.threat("G4")
def test_a_withheld_one_is_neither_offered_nor_run(
    tool: SavedTool, guest: Guest, place: Place, standing: Standing
) -> None:
    standing.withheld = {"code__report": "it is not what was accepted: program"}
    assert not tool.is_for(guest)
    made = run(tool, guest, path="a")
    assert "is not what was accepted: program" in made["structuredContent"]["message"]
    assert place.jobs == []


@pytest.mark.threat("G4")
def test_it_is_not_offered_before_it_was_held_against_its_pin(
    tool: SavedTool, guest: Guest, standing: Standing, place: Place
) -> None:
    standing.known = False
    assert not tool.is_for(guest)
    standing.known = True
    place.unavailable = "no Deno"
    assert not tool.is_for(guest)


def test_a_schema_that_cannot_be_held_stops_the_start(program: Path, engine: Engine, standing: Standing) -> None:
    wrong = topology_of(program, input_schema={"type": "object", "$ref": "http://x.invalid/"})
    with pytest.raises(SavedToolError, match=r"tools\.report\.input_schema: a reference"):
        SavedTool(savedtools.load(wrong)[0], wrong, engine, standing)


@pytest.mark.threat("G20")
def test_a_program_file_that_others_write_or_that_is_none_stops_the_start(topology: Topology, program: Path) -> None:
    program.chmod(0o666)
    with pytest.raises(SavedToolError, match=r"tools\.report\.program: .*: others may write it"):
        savedtools.load(topology)
    program.chmod(0o644)
    program.write_text("x" * (limits.CODE_BYTES + 1))
    with pytest.raises(SavedToolError, match="larger than"):
        savedtools.load(topology)
    program.write_text(" \n")
    with pytest.raises(SavedToolError, match="is empty"):
        savedtools.load(topology)
    program.unlink()
    os.mkfifo(program)
    with pytest.raises(SavedToolError, match="no regular file"):
        savedtools.load(topology)


# --- the look at the pins


class Looker:
    """A `Watch` whose words and changes are kept."""

    def __init__(self, topology: Topology, kept: FakePins) -> None:
        self.said: list[str] = []
        self.changes: list[dict[str, str]] = []
        self.standing = Standing()
        self.settled = 0
        self.news = asyncio.Event()
        self.pin_when_settled: Callable[[], None] = lambda: None
        self.watch = Watch(
            topology=topology,
            loaded=savedtools.load(topology),
            pinned=Pinned(lock=kept.lock, judge=kept.judge, stamp=kept.stamp),
            standing=self.standing,
            settled=self.settle,
            say=self.said.append,
            changed=self.changed,
        )

    def changed(self) -> None:
        self.changes.append(dict(self.standing.withheld))
        self.news.set()

    async def settle(self) -> None:
        self.settled += 1
        self.pin_when_settled()

    async def until(self, times: int) -> None:
        async with asyncio.timeout(20):
            while len(self.changes) < times:
                await self.news.wait()
                self.news.clear()


@pytest.fixture
def looker(topology: Topology, kept: FakePins, monkeypatch: pytest.MonkeyPatch) -> Looker:
    monkeypatch.setattr(limits, "CODEMODE_LOOK_SECONDS", 0.001)
    return Looker(topology, kept)


def watched(looker: Looker, act: Callable[[], Any]) -> None:
    async def one() -> None:
        task = asyncio.create_task(looker.watch.keep())
        try:
            await act()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(one())


def test_at_the_first_start_it_is_pinned_once_its_servers_were_listed(looker: Looker, kept: FakePins) -> None:
    looker.pin_when_settled = lambda: kept.accept("files", READ)
    watched(looker, lambda: looker.until(1))
    assert looker.settled == 1
    assert looker.changes == [{}]
    assert looker.said == ["fumehood: saved tools: pinned"]


def test_at_later_starts_nobody_is_waited_for(looker: Looker, kept: FakePins) -> None:
    kept.accept("files", READ)
    watched(looker, lambda: looker.until(1))
    assert looker.settled == 0
    assert looker.standing.why("code__report") == ""


def test_where_a_server_never_was_there_it_waits_and_is_new_later(looker: Looker, kept: FakePins) -> None:
    async def act() -> None:
        await looker.until(1)
        assert looker.changes[-1] == {"code__report": "nobody has accepted files__read yet"}
        assert kept.judged == []
        kept.accept("files", READ)
        await looker.until(2)

    watched(looker, act)
    assert looker.changes[-1] == {}


@pytest.mark.threat("G4")
def test_a_definition_that_is_accepted_anew_withholds_it_until_it_is_accepted_too(
    looker: Looker, kept: FakePins
) -> None:
    async def act() -> None:
        await looker.until(1)
        kept.accept("files", {"name": "read", "description": "New.", "inputSchema": {"type": "object"}})
        await looker.until(2)
        assert looker.changes[-1] == {"code__report": "it is not what was accepted: definitions"}
        kept.accept("code", *kept.judged[-1])
        await looker.until(3)
        assert looker.changes[-1] == {}

    kept.accept("files", READ)
    watched(looker, act)
    assert "fumehood: code__report is withheld: it is not what was accepted: definitions" in looker.said
    assert "fumehood: saved tools: what differs" in looker.said


@pytest.mark.threat("G4")
def test_a_lock_that_cannot_be_read_withholds_every_one(looker: Looker, kept: FakePins) -> None:
    kept.broken = True
    watched(looker, lambda: looker.until(1))
    assert looker.changes == [{"code__report": "it cannot be held against its pin: the lock is gone"}]


# --- together


Together = Callable[[Topology], mode.Parts]


@pytest.fixture
def together(calls: Calls, controls: Controls, kept: FakePins) -> Together:
    """What code mode stands on, for a topology."""

    async def settled() -> None:
        kept.accept("files", READ)

    def of(topology: Topology) -> mode.Parts:
        return mode.Parts(
            topology=topology,
            calls=calls,
            controls=controls,
            pinned=Pinned(lock=kept.lock, judge=kept.judge, stamp=kept.stamp),
            settled=settled,
            fresh=lambda: "0" * 16,
            say=lambda _: None,
            changed=lambda: None,
        )

    return of


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch, place: Place) -> Any:
    """Programs run at the test's own place, which is given back."""

    @contextlib.asynccontextmanager
    async def opened(wanted: object) -> AsyncIterator[Place]:
        del wanted
        yield place

    monkeypatch.setattr(places, "opened", opened)
    return place


@pytest.mark.parametrize(
    ("show", "tools", "words"),
    [
        ("both", ["search_tools", "describe_tools", "run_code", "code__report"], "Each tool can be called by itself"),
        ("code", ["search_tools", "describe_tools", "run_code", "code__report"], "run_code runs a program"),
        ("direct", ["code__report"], ""),
    ],
)
@pytest.mark.usefixtures("placed")
def test_what_is_shown_is_what_is_made(
    topology: Topology, together: Together, show: Any, tools: list[str], words: str
) -> None:
    shown = msgspec.structs.replace(topology, gateway=Gateway(show=show))

    async def act() -> tuple[list[str], str]:
        async with mode.opened(together(shown), NOBODY) as made:
            return [one.offered.name for one in made.tools], made.instructions

    names, said = asyncio.run(act())
    assert names == tools
    assert words in said
    assert bool(said) is bool(words)


def test_where_nothing_needs_a_place_none_is_looked_for(together: Together, guest: Guest) -> None:
    plain = Topology(gateway=Gateway(show="direct"), servers={"files": Server(workspace="/w")})

    async def act() -> tuple[int, Any]:
        async with mode.opened(together(plain), NOBODY) as made:
            return len(made.tools), await made.engine.run(guest, Program(code="return 1", tools=()), Way())

    count, made = asyncio.run(act())
    assert (count, made["structuredContent"]["message"]) == (0, "programs are not offered here")


def test_a_client_is_told_why_no_program_runs(topology: Topology, together: Together, placed: Place) -> None:
    placed.unavailable = "the self test failed"

    async def act() -> str:
        async with mode.opened(together(topology), NOBODY) as made:
            return made.instructions

    assert "run_code is not offered here: the self test failed." in asyncio.run(act())


@pytest.mark.threat("G4")
def test_a_program_that_was_changed_between_two_starts_is_withheld_until_it_is_accepted(
    program: Path, tmp_path: Path, looker: Looker
) -> None:
    lock = tmp_path / "fumehood.lock"
    real = Pins(lock, SystemClock())
    real.judge(Who(name="files", identity="0" * 64), [READ])

    def start() -> dict[str, str]:
        again = replace(
            looker.watch,
            loaded=savedtools.load(looker.watch.topology),
            pinned=savedtools.pinned(real),
            standing=Standing(),
        )
        asyncio.run(again.look())
        return dict(again.standing.withheld)

    assert start() == {}
    program.write_text("return 'something else'")
    assert start() == {"code__report": "it is not what was accepted: program"}
    assert start() == {"code__report": "it is not what was accepted: program"}
    assert "fumehood: saved tools: changed  code__report: program" in looker.said
    assert any("fumehood gateway accept" in line and "code" in line for line in looker.said)
    real.accept(real.proposal("code"))
    assert start() == {}
