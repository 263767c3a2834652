"""(d) `initialize`: up to the first answer, bare and observed.

The bare server is this project's own; one from a registry never runs outside a sandbox, so its peer is the sandbox
without a trace.
"""

import asyncio
import dataclasses
import time

import bare
import ground
from measure import Candidate, Ran, Samples, interleaved, ratio, table

from fumehood.review import acquire, plan, steps
from fumehood.review.acquire import PinnedSource
from fumehood.review.exercise import child
from fumehood.review.exercise.entrypoint import entrypoint
from fumehood.review.work import Work
from fumehood.sandbox.egress import Policy
from fumehood.sandbox.spec import TraceMode
from fumehood.sandbox.supervise import Running
from fumehood.wire import outcomes, stdio

BARE, UNTRACED, OBSERVED = "bare node", "sandbox, no trace", "+ trace, plain: EXERCISE"


class Talks:
    """The same server, watched by more each time."""

    def __init__(self, work: Work, runner: asyncio.Runner, entry: str) -> None:
        """Everything is installed; `entry` is relative to the workspace."""
        self._work = work
        self._runner = runner
        self._entry = entry

    def bare(self) -> Candidate:
        """Node and the demo server in a plain folder."""
        work, folder = self._work, self._work.run.path / "bare"
        argv = bare.dropped(work.host, work.run.uid, [str(work.bench.node), self._entry])
        environment = {**bare.ENVIRONMENT, "HOME": str(folder)}

        async def talk() -> Ran:
            begun = time.perf_counter()
            async with bare.server(argv, environment, folder) as server:
                return Ran(wall=await _answered(server.read, server.write) - begun)

        return Candidate(
            before=lambda: ground.copied(work, ground.demo_files(), folder),
            run=lambda: self._runner.run(talk()),
            after=lambda: ground.purge(folder),
        )

    def observed(self, trace: TraceMode | None) -> Candidate:
        """EXERCISE as a review performs it, its layer read and its observations made."""
        work = self._work
        step = dataclasses.replace(plan.exercise(work.bench, self._entry, (), Policy(), 60.0), trace=trace)

        async def talk() -> Ran:
            begun, answered = time.perf_counter(), [0.0]

            async def body(running: Running) -> None:
                answered[0] = await _answered(running.read, running.write)

            ran = await steps.perform(work, step, body=body)
            return Ran(wall=answered[0] - begun, beyond=ran.exit.cpu_seconds or 0.0)

        return Candidate(run=lambda: self._runner.run(talk()), after=lambda: ground.purge(work.run.path / step.name))


def bench_demo(rounds: int) -> list[str]:
    """The server of this project, bare and observed."""
    host, mine = ground.host_and_settings()
    with ground.opened(host, mine, registry=False) as work, asyncio.Runner() as runner:
        bottom = acquire.lay_ground(work).sources / work.bench.layer_workspace
        bottom.rmdir()
        ground.copied(work, ground.demo_files(), bottom)
        work.stack.push(work.stack.read(work.run.path / "sources" / "upper"))
        talks = Talks(work, runner, "server.js")
        samples = interleaved(
            {
                BARE: talks.bare(),
                UNTRACED: talks.observed(None),
                "+ trace, fast": talks.observed(TraceMode.FAST),
                OBSERVED: talks.observed(TraceMode.PLAIN),
            },
            rounds,
        )
    table("initialize, the demo server", samples, BARE, wall="answer")
    return _said("the demo server", samples, BARE)


def bench_installed(rounds: int, work: Work, runner: asyncio.Runner, source: PinnedSource) -> list[str]:
    """The server that was installed, in the sandbox with a trace and without."""
    talks = Talks(work, runner, entrypoint(work, source, None))
    samples = interleaved(
        {
            UNTRACED: talks.observed(None),
            "+ trace, fast": talks.observed(TraceMode.FAST),
            OBSERVED: talks.observed(TraceMode.PLAIN),
        },
        rounds,
    )
    table(f"initialize, {ground.TARGET.name}", samples, UNTRACED, wall="answer")
    return _said(ground.TARGET.name, samples, UNTRACED)


async def _answered(read: stdio.Read, write: stdio.Write) -> float:
    """When the server had answered `initialize`."""
    async with stdio.session(read, write) as opened, asyncio.timeout(60.0):
        outcome = await stdio.initialize(opened, child.CLIENT)
        answered = time.perf_counter()
    if not isinstance(outcome, outcomes.Initialized):
        raise RuntimeError(f"no handshake: {outcome}")  # noqa: TRY004  # no wrong type: a server that failed
    return answered


def _said(server: str, samples: Samples, peer: str) -> list[str]:
    wall, cpu = (ratio(samples, OBSERVED, peer, which) for which in ("wall", "cpu"))
    answer, spent = (f"{median:.2f} times (least {least:.2f})" for median, least in (wall, cpu))
    return [f"initialize, {server}: {answer} the time to the answer and {spent} the CPU of: {peer}"]
