"""(b) What each wall adds to the time until /bin/true has run, and to the CPU of its whole life."""

import asyncio
import dataclasses
import os
import time

import bare
import ground
from measure import Candidate, Ran, beyond, interleaved, table

from fumehood.review.evidence import sensors
from fumehood.review.work import Work
from fumehood.sandbox import bubblewrap, launch, seccomp
from fumehood.sandbox.egress import Mode, Policy
from fumehood.sandbox.hostfacts import CgroupFacts, HostFacts
from fumehood.sandbox.spec import Bounds, Overlay, SandboxSpec, TraceMode
from fumehood.sandbox.supervise import Wiring, sandbox

PEER = "bare /bin/true"
FULL = "+ overlay: every wall"
_UNTAKEN = ("--json-status-fd", "--block-fd")


class Ladder:
    """/bin/true with one wall more each."""

    def __init__(self, work: Work, runner: asyncio.Runner) -> None:
        """Share one run folder and one loop."""
        self._work = work
        self._runner = runner
        self.spec = SandboxSpec(argv=("/usr/bin/true",), environment=(), workdir="/", identity=work.bench.identity)
        tools = {name: tool for name, tool in work.host.tools.items() if name != "nft"}
        none = CgroupFacts(version=None, roots={})
        self.plain_host = dataclasses.replace(work.host, tools=tools, cgroups=none)
        self.nft_host = dataclasses.replace(work.host, cgroups=none)

    def namespaces(self, *, filtered: bool) -> Candidate:
        """Bubblewrap alone: drop, namespaces, mounts; with the filter or without."""
        return Candidate(before=_settle, run=lambda: self._bubblewrap(filtered=filtered))

    def supervised(self, host: HostFacts, *, relay: bool) -> Candidate:
        """The whole of `sandbox`, as far as this host goes; with a relay that answers names, or without."""
        spec = dataclasses.replace(self.spec, network=Policy(mode=Mode.ALLOWLIST)) if relay else self.spec
        wiring = Wiring(inspect=sensors.INSPECT if relay else None)

        def run() -> Ran:
            return self._runner.run(self._live(spec, host, wiring))

        return Candidate(before=_settle, run=run)

    def observed(self, spec: SandboxSpec) -> Candidate:
        """Every wall but a layer, around a spec of the caller's, with a relay whatever its network is."""
        wiring = Wiring(inspect=sensors.INSPECT)
        return Candidate(before=_settle, run=lambda: self._runner.run(self._live(spec, self._work.host, wiring)))

    def layered(self, *, trace: TraceMode | None) -> Candidate:
        """Every wall, with a layer, a relay, and perhaps a tracer."""
        layer_name = "bench-layer"

        def run() -> Ran:
            layer = self._work.run.layer(layer_name)
            bottom = self._work.run.path / "bench-bottom" / "upper"
            overlay = Overlay(lowers=(bottom,), upper=layer.upper, work=layer.work)
            spec = dataclasses.replace(self.spec, overlay=overlay, network=Policy(mode=Mode.ALLOWLIST), trace=trace)
            return self._runner.run(self._live(spec, self._work.host, Wiring(inspect=sensors.INSPECT)))

        return Candidate(before=_settle, run=run, after=lambda: ground.purge(self._work.run.path / layer_name))

    async def _live(self, spec: SandboxSpec, host: HostFacts, wiring: Wiring) -> Ran:
        begun = time.perf_counter()
        async with sandbox(spec, host, self._work.run, Bounds(wall_seconds=60.0), wiring) as running:
            await running.wait()
            wall = time.perf_counter() - begun
            ended = await running.end()
        if ended.status != 0:
            raise RuntimeError(f"/bin/true ended with {ended}: {running.stderr.data!r}")
        return Ran(beyond=ended.cpu_seconds or 0.0, wall=wall)

    def _bubblewrap(self, *, filtered: bool) -> None:
        work, spec = self._work, self.spec
        route, tools = work.host.routes[0], {name: tool.path for name, tool in work.host.tools.items()}
        held = [_memory(file.content) for file in bubblewrap.data_files(spec)]
        program = _memory(seccomp.program(spec.profile, work.host.machine))
        numbers = bubblewrap.Descriptors(files=tuple(held), seccomp=program, info=-1, block=-1)
        words = bubblewrap.options(spec, route, numbers)
        for option in (*_UNTAKEN, *(() if filtered else ("--seccomp",))):
            at = words.index(option)
            del words[at : at + 2]
        given = _memory(bubblewrap.packed(words))
        inner = [str(tools["bwrap"]), "--args", str(given), "--", *bubblewrap.command(spec, route, tools["setpriv"])]
        with launch.closing(*held, program, given):
            process = launch.spawn(
                bubblewrap.chain(route, spec.identity.uid, tools, inner), pass_fds=[*held, program, given]
            )
        status = self._runner.run(process.wait())
        process.close()
        if status != 0:
            raise RuntimeError(f"bubblewrap ended with {status}")


def bench(rounds: int) -> list[str]:
    """Print the table; what the aims say of it."""
    host, mine = ground.host_and_settings()
    with ground.opened(host, mine, registry=False) as work, asyncio.Runner() as runner:
        ladder = Ladder(work, runner)
        bottom = work.run.layer("bench-bottom").upper
        for name in ("tmp", "home"):
            (bottom / name).mkdir()
        samples = interleaved(
            {
                PEER: Candidate(before=_settle, run=lambda: bare.run(["/usr/bin/true"])),
                "drop, namespaces, mounts": ladder.namespaces(filtered=False),
                "+ seccomp filter": ladder.namespaces(filtered=True),
                "+ supervisor, limits, listeners": ladder.supervised(ladder.plain_host, relay=False),
                "+ relay, names answered": ladder.supervised(ladder.plain_host, relay=True),
                "+ packet rules (nft)": ladder.supervised(ladder.nft_host, relay=True),
                "+ cgroup": ladder.supervised(work.host, relay=True),
                FULL: ladder.layered(trace=None),
                "+ trace, fast": ladder.layered(trace=TraceMode.FAST),
                "+ trace, plain": ladder.layered(trace=TraceMode.PLAIN),
            },
            rounds,
        )
    table(f"Launch, one wall more each (route {host.routes[0].value})", samples, PEER, wall="has run")
    median, least = beyond(samples, FULL, PEER)
    return [f"launch: {median * 1e3:.1f} ms (least {least * 1e3:.1f}) over a bare spawn, until it has run; aim: 20"]


def _settle() -> None:
    """Let the kernel take apart the namespaces of the last one: it does that later, and new ones wait for it."""
    time.sleep(0.05)


def _memory(data: bytes) -> int:
    descriptor = os.memfd_create("bench", os.MFD_CLOEXEC)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
