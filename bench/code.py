"""One run of a program with every wall, beside a bare Deno, `pydantic-monty` and FastMCP's CodeMode, interleaved.

There is no pool of children yet: a pre-warmed run, and the memory of an idle child, are not measured because they are
not built. The tools are fake and answer at once; a peer is asked from inside its own process, as fumehood is here.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import bare
import ground
import peers
from codepeer import CALLS, HELD, ONE, PARALLEL, SEQUENCE, WAITING, Tools
from mcpclient import Client
from measure import Candidate, Ran, Samples, beside, interleaved, machine, ratio

from fumehood.code.backend import Answer, Tool, ToolBackend
from fumehood.code.bridge import Bridge
from fumehood.code.child import deno
from fumehood.code.events import Finished, Ready
from fumehood.code.gate import Gate
from fumehood.code.gated import Gated
from fumehood.code.job import Job, JobResult
from fumehood.code.run import Ground, prepare, run_job
from fumehood.core.clock import SystemClock
from fumehood.core.jsonio import JsonValue
from fumehood.sandbox.probe import runtime

OURS, GATED, BARE, UNWALLED = "fumehood", "fumehood, gate", "bare Deno", "same flags, no walls"
FASTMCP, NEW, WARM = "FastMCP execute", "monty, new worker", "monty, warm pool"
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
AT_ONCE, RUNS = 4, 24  # of short runs, for how many there are in a second
AIM_COLD, AIM_CALL, AIM_RUNS = 1.3, 5, 100


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
class Bench:
    """What everything here runs on."""

    runner: asyncio.Runner
    ground: Ground
    folder: Path
    peer: Client | None

    def ours(self, program: str, *, gated: bool = False, span: bool = False) -> Candidate:
        """A whole run, or the time of one of its calls."""

        def run() -> Ran:
            fake = Fake()
            result, said = self.runner.run(self.once(program, fake, _backend(fake, gated=gated)))
            used = result.usage.cpu_milliseconds if result.usage else None
            return Ran(wall=_wall(said, span=span), beyond=(used or 0.0) / 1e3)

        return Candidate(run=run)

    async def once(self, program: str, fake: Fake, backend: ToolBackend) -> tuple[JobResult, Mapping[str, float]]:
        """One run that has to succeed."""
        fake.measured.begin()
        begun = time.perf_counter()
        job = Job(code=PROGRAMS[program], tools=tuple(tool.name for tool in fake.tools))
        result = await run_job(job, backend, self.ground)
        wall = time.perf_counter() - begun
        if result.value != 1:
            raise RuntimeError(f"{program}: {result.state}: {result.error}")
        return result, fake.measured.said(wall)

    def foreign(self, who: str, program: str, *, span: bool = False) -> Candidate:
        """The same by a peer."""
        peer = self.peer
        if peer is None:
            raise RuntimeError("no peer")

        def run() -> Ran:
            return Ran(wall=_wall(peer.request("run", {"who": who, "program": program}), span=span))

        return Candidate(run=run, used=peer.cpu_seconds)

    def foreigners(self, whose: Mapping[str, str], program: str, *, span: bool = False) -> dict[str, Candidate]:
        """Those that could be had."""
        return {name: self.foreign(who, program, span=span) for name, who in whose.items()} if self.peer else {}

    def bare(self) -> Candidate:
        """A Deno that prints, as its documentation starts it."""
        (self.folder / "one.js").write_text("console.log(1)")
        argv = [str(self.ground.parts.deno), "run", "--quiet", str(self.folder / "one.js")]
        environment = self._environment()
        return Candidate(run=_silent(lambda: bare.run(argv, environment)))

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


def main() -> int:
    """Measure; 1 when nothing can be run here."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rounds", type=int, default=15)
    rounds = asked.parse_args().rounds
    print(f"fumehood code beside its peers: {machine()}, Python {sys.version.split()[0]}")
    host, mine = ground.host_and_settings()
    found = runtime.find(mine.sandbox.tools)
    if found.runtime is None or not host.routes:
        print(f"nothing can be run here: {found.problem or 'no route to a sandbox'}")
        return 1
    with asyncio.Runner() as runner, _peer() as peer, tempfile.TemporaryDirectory(prefix="fumehood-bench-") as folder:
        bench = Bench(runner, prepare(host, found.runtime), Path(folder), peer)
        lines = [*_cold(bench, rounds), *_calls(bench, rounds), *_memory(bench), _many(bench)]
    print("\nBeside the aims: medians, and the least of each")
    for line in [*lines, "a pre-warmed run, and the memory of an idle child: not built (there is no pool yet)"]:
        print(f"  {line}")
    print(f"load at the end: {os.getloadavg()[0]:.1f}")
    return 0


@contextlib.contextmanager
def _peer() -> Iterator[Client | None]:
    """A process with FastMCP and `pydantic-monty`; None, with one line, where they cannot be had."""
    with contextlib.ExitStack() as stack:
        client = None
        try:
            client = _started(peers.fetched_code(), stack)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            print(f"FastMCP and pydantic-monty are left out: {error}")
        yield client


def _started(library: Path, stack: contextlib.ExitStack) -> Client:
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(library),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MONTY_BIN": str(library / "bin" / "monty"),
    }
    script = str(Path(__file__).with_name("codepeer.py"))
    client = Client(peers.as_ordinary_user([sys.executable, script]), environment=environment)
    stack.callback(client.close)
    client.request("run", {"who": "fastmcp", "program": ONE})
    return client


def _cold(bench: Bench, rounds: int) -> list[str]:
    """From nothing to the value of `return 1`, and the end of what was started."""
    candidates = {
        OURS: bench.ours(ONE),
        BARE: bench.bare(),
        UNWALLED: bench.unwalled(),
        **bench.foreigners({FASTMCP: "fastmcp", NEW: "new", WARM: "warm"}, ONE),
    }
    samples = interleaved(candidates, rounds)
    beside("return 1, from the start to the end", samples, OURS)
    return [
        f"cold: {_times(samples, BARE)} (aim: at most {AIM_COLD})",
        *(f"cold: {_times(samples, name)}" for name in list(candidates)[2:]),
    ]


def _calls(bench: Bench, rounds: int) -> list[str]:
    """One call of a tool that answers at once, and whole runs with tools that take a while."""
    said, foreign = [], {FASTMCP: "fastmcp", WARM: "warm"}
    for title, program in (("in sequence", SEQUENCE), (f"{CALLS} in parallel", PARALLEL)):
        candidates = {
            OURS: bench.ours(program, span=True),
            GATED: bench.ours(program, gated=True, span=True),
            **bench.foreigners(foreign, program, span=True),
        }
        samples = interleaved(candidates, rounds)
        beside(f"one call, {title} (the CPU is that of the whole run)", samples, OURS)
        if bench.peer:
            said += [_slower(title, samples, OURS), _slower(title, samples, GATED)]
    samples = interleaved({OURS: bench.ours(WAITING), **bench.foreigners(foreign, WAITING)}, rounds)
    beside(f"a whole run: {CALLS} calls at once of a tool that takes 10 ms", samples, OURS)
    return [*said, *(f"fan-out: {_times(samples, name)}" for name in list(samples)[1:])]


def _memory(bench: Bench) -> list[str]:
    """Of what was started for one run, while it waits for a tool."""
    fake = Fake()
    result, said = bench.runner.run(bench.once(HELD, fake, fake))
    peak = (result.usage.peak_memory_bytes if result.usage else None) or 0
    lines = [f"memory of a run: {said['resident_kib'] / 1024:.0f} MiB resident with all around it"]
    lines += [f"memory of a run: {peak / 2**20:.0f} MiB at the peak, as its cgroup counts it (0: none does)"]
    if bench.peer:
        for name, who in ((FASTMCP, "fastmcp"), (NEW, "new")):
            found = bench.peer.request("run", {"who": who, "program": HELD})
            lines.append(f"memory of a run, {name}: {found['resident_kib'] / 1024:.0f} MiB resident")
        lines.append(f"memory of the process with both peers: {bench.peer.resident_kib() / 1024:.0f} MiB resident")
    return lines


def _many(bench: Bench) -> str:
    """Short runs, a few at once."""

    async def run() -> float:
        gate = asyncio.Semaphore(AT_ONCE)

        async def one() -> None:
            async with gate:
                fake = Fake()
                await bench.once(ONE, fake, fake)

        begun = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(RUNS)))
        return RUNS / (time.perf_counter() - begun)

    return f"runs a second, {AT_ONCE} at once, no pool: {bench.runner.run(run()):.0f} (aim with a pool: {AIM_RUNS})"


def _slower(title: str, samples: Samples, ours: str) -> str:
    median, least = ratio(samples, FASTMCP, ours, "wall")
    mine, theirs = (statistics.median(one.wall for one in samples[name]) * 1e6 for name in (ours, FASTMCP))
    took = f"{mine:.0f} us, FastMCP {theirs:.0f}"
    return f"call {title}, {ours}: {took}: {median:.1f} (least {least:.1f}) x less (aim: at least {AIM_CALL})"


def _times(samples: Samples, peer: str) -> str:
    median, least = ratio(samples, OURS, peer, "wall")
    return f"{median:.2f} (least {least:.2f}) x {peer}"


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


if __name__ == "__main__":
    sys.exit(main())
