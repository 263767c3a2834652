"""The programs of `bench/code.py`, their tools, and each side as something to measure."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import bare
from codepeer import CALLS, HELD, ONE, PARALLEL, SEQUENCE, WAITING, Tools
from codeways import Pooled, Way
from mcpclient import Client
from measure import Candidate, Ran

from fumehood.code.backend import Answer, Tool, ToolBackend
from fumehood.code.bridge import Bridge
from fumehood.code.child import deno
from fumehood.code.events import Finished, Ready
from fumehood.code.gate import Gate
from fumehood.code.gated import Gated
from fumehood.code.job import Job, JobResult
from fumehood.code.pool import Pool
from fumehood.code.run import Ground
from fumehood.core.clock import SystemClock
from fumehood.core.jsonio import JsonValue

NAMES = ("echo", "wait", "measure")
_CALL = "await amcp.run('bench.{}', {{value: 1}});"
_GATHER = "await Promise.all(Array.from({{length: {}}}, (_, value) => amcp.run('bench.{}', {{value}})));"
_MARK = _CALL.format("echo")
PROGRAMS = {
    ONE: "return 1",
    SEQUENCE: f"for (let i = 0; i <= {CALLS}; i++) {_MARK} return 1",
    PARALLEL: f"{_MARK} {_GATHER.format(CALLS, 'echo')} {_MARK} return 1",
    WAITING: f"{_GATHER.format(CALLS, 'wait')} return 1",
    HELD: f"{_CALL.format('measure')} return 1",
}


class Fake:
    """Tools that answer at once, as a backend and as what stands behind a gate."""

    def __init__(self) -> None:
        """Nothing was called."""
        self.measured = Tools()

    @property
    def tools(self) -> Sequence[Tool]:
        """Each takes one integer."""
        schema = {"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]}
        return [Tool(name=f"bench.{name}", description=name, input_schema=schema, writes=False) for name in NAMES]

    async def search(self, query: str, limit: int) -> JsonValue:
        """Nothing: no program here searches."""
        del query, limit
        return []

    async def describe(self, names: Sequence[str]) -> JsonValue:
        """Nothing."""
        return " ".join(names)

    async def run(self, name: str, arguments: JsonValue) -> JsonValue:
        """What the tool gives."""
        value = arguments["value"] if isinstance(arguments, dict) else None
        if not isinstance(value, int):
            raise TypeError(f"{name}: not what the program sends")
        found = await self.measured.call(name.removeprefix("bench."), value)
        return {"value": found["value"]}

    async def call(self, name: str, arguments: JsonValue) -> Answer:
        """The same as an answer."""
        return Answer(text="", structured=await self.run(name, arguments))


@dataclass(frozen=True, slots=True)
class Sides:
    """Everybody who can be measured here."""

    runner: asyncio.Runner
    ground: Ground
    folder: Path
    peer: Client | None

    def ours(self, way: Way, program: str, *, gated: bool = False, span: bool = False) -> Candidate:
        """A whole run, or the time of one of its calls. CPU is that of the next child, too, where one is started."""

        async def run() -> Ran:
            result, said = await once(way, program, gated=gated)
            await way.settle()
            used = result.usage.cpu_milliseconds if result.usage else None
            return Ran(wall=_wall(said, span=span), beyond=(used or 0.0) / 1e3)

        return Candidate(run=lambda: self.runner.run(run()))

    @contextlib.contextmanager
    def pool(self, runs: int, warm: int) -> Iterator[Pooled]:
        """A pool with all its children."""
        pool = Pool(self.ground, runs=runs, warm=warm)
        self.runner.run(pool.__aenter__())
        try:
            way = Pooled(pool, warm)
            self.runner.run(way.settle())
            yield way
        finally:
            self.runner.run(pool.__aexit__(None, None, None))

    def several(self, way: Way, runs: int, at_once: int) -> Candidate:
        """Short runs; the wall time is that of all of them, until the last result is there."""

        async def run() -> Ran:
            gate = asyncio.Semaphore(at_once)

            async def one() -> None:
                async with gate:
                    await once(way, ONE)

            begun = time.perf_counter()
            await asyncio.gather(*(one() for _ in range(runs)))
            wall = time.perf_counter() - begun
            await way.settle()
            return Ran(wall=wall)

        return Candidate(run=lambda: self.runner.run(run()))

    def foreign(self, who: str, program: str, *, span: bool = False) -> Candidate:
        """The same by a peer."""
        peer = self.peer
        if peer is None:
            raise RuntimeError("no peer")

        def run() -> Ran:
            return Ran(wall=_wall(peer.request("run", {"who": who, "program": program}), span=span))

        return Candidate(run=run, used=peer.cpu_seconds)

    def foreign_several(self, who: str, runs: int, at_once: int) -> Candidate:
        """The same as `several` by a peer."""
        peer = self.peer
        if peer is None:
            raise RuntimeError("no peer")
        asked = {"who": who, "program": ONE, "runs": runs, "at_once": at_once}
        return Candidate(run=lambda: Ran(wall=peer.request("many", asked)["wall"]), used=peer.cpu_seconds)

    def foreigners(self, whose: Mapping[str, str], program: str, *, span: bool = False) -> dict[str, Candidate]:
        """Those that could be had."""
        return {name: self.foreign(who, program, span=span) for name, who in whose.items()} if self.peer else {}

    def bare(self) -> Candidate:
        """A Deno that prints, as its documentation starts it."""
        argv, environment = self._bare_command()
        return Candidate(run=_silent(lambda: bare.run(argv, environment)))

    def bare_several(self, runs: int, at_once: int) -> Candidate:
        """Many of them."""
        argv, environment = self._bare_command()

        def run() -> None:
            with ThreadPoolExecutor(at_once) as pool:
                for done in [pool.submit(bare.run, argv, environment) for _ in range(runs)]:
                    done.result()

        return Candidate(run=run)

    def _bare_command(self) -> tuple[list[str], dict[str, str]]:
        """Its command line and environment."""
        (self.folder / "one.js").write_text("console.log(1)")
        return [str(self.ground.parts.deno), "run", "--quiet", str(self.folder / "one.js")], self._environment()

    def unwalled(self) -> Candidate:
        """The child without its walls: same flags, harness, program and lines."""
        harness, import_map = self.folder / "harness.js", self.folder / "import_map.json"
        harness.write_bytes(self.ground.parts.harness)
        moved = self.ground.parts.import_map.replace(b"file:///harness.js", harness.as_uri().encode())
        import_map.write_bytes(moved)
        job = Job(code=PROGRAMS[ONE])
        places = {
            deno.DENO: str(self.ground.parts.deno),
            deno.HARNESS: str(harness),
            f"--import-map={deno.IMPORT_MAP}": f"--import-map={import_map}",
        }
        argv = [places.get(word, word) for word in deno.argv(job.limits, "bench")]
        environment = self._environment()

        async def talk() -> None:
            bridge = Bridge(job, SystemClock())
            async with bare.server(argv, environment, self.folder) as child:
                while bridge.terminal is None:
                    data = await child.read()
                    events = bridge.feed(data) if data else bridge.closed()
                    if any(isinstance(event, Ready) for event in events):
                        await child.write(bridge.opening())
            if not isinstance(bridge.terminal, Finished) or bridge.terminal.value != 1:
                raise RuntimeError(f"the bare child gave something else: {bridge.terminal}")

        return Candidate(run=_silent(lambda: self.runner.run(talk())))

    def _environment(self) -> dict[str, str]:
        return {"DENO_DIR": str(self.folder / "deno"), "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"}


async def once(way: Way, program: str, *, gated: bool = False) -> tuple[JobResult, Mapping[str, float]]:
    """One run that has to succeed, with tools of its own."""
    fake = Fake()
    backend = _backend(fake, gated=gated)
    job = Job(code=PROGRAMS[program], tools=tuple(tool.name for tool in fake.tools))
    fake.measured.begin(program)
    begun = time.perf_counter()
    result = await way.run(job, backend)
    wall = time.perf_counter() - begun
    if result.value != 1:
        raise RuntimeError(f"{program}: {result.state}: {result.error}")
    return result, fake.measured.said(wall)


def _wall(said: Mapping[str, float], *, span: bool) -> float:
    """Seconds of the whole run, or of each of the calls between the first and the last."""
    return said["span"] / (said["calls"] - 1) if span else said["wall"]


def _backend(fake: Fake, *, gated: bool) -> ToolBackend:
    if not gated:
        return fake
    gate = Gate(fake.tools, allowed=[tool.name for tool in fake.tools])
    return Gated(fake, gate, clock=SystemClock(), audit=lambda _: None)


def _silent(job: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        job()

    return run
