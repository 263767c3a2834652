"""Run one confined child and end it: output bounded, deadline kept, the whole tree killed in every case.

`async with sandbox(…) as running:` gives a child that is already running behind every wall. Leaving the block ends it,
also on an error, on cancellation and on Ctrl-C; a harness that is killed takes it along (parent-death signal).

The end: SIGKILL to pid 1 of the namespace, which takes everything below with it, whatever it detached; then the
tracer flushes and exits, then the pipes are read to their end. Only when that takes too long is the outermost process
killed as well.
"""

import asyncio
import contextlib
import errno
import os
import select
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from fumehood.core import limits
from fumehood.core.errors import HarnessError, LimitError
from fumehood.sandbox import launch, lineage, lingering, start
from fumehood.sandbox.chain import Chain, ChainEndedError
from fumehood.sandbox.containment import Containment
from fumehood.sandbox.egress import EgressReport, Inspect
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.network import Network
from fumehood.sandbox.readers import Readers
from fumehood.sandbox.relay.outside import World
from fumehood.sandbox.runs import Run
from fumehood.sandbox.spec import Bounds, End, Exit, Route, SandboxSpec
from fumehood.sandbox.streams import CHUNK_BYTES, Capture, Sink, writable
from fumehood.sandbox.talk import Hearer, Talk
from fumehood.sandbox.verdict import Verdict
from fumehood.sandbox.watch import Watch, Watched


class StartTimeoutError(LimitError):
    """A sandbox did not come to the point where its command could be released."""

    code = "start_timeout"


class NotEndedError(HarnessError):
    """A sandbox was killed and did not go away in time."""

    code = "not_ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """What a caller connects to a sandbox."""

    trace: Callable[[bytes], None] | None = None  # gets what strace wrote, as it comes
    stderr: Callable[[bytes], None] | None = None  # gets what the child says there, as it comes, besides the capture
    inspect: Inspect | None = None  # the relay's parsers; without them there is no relay, in mode NONE only
    world: World = World()  # resolver, connect and clock of the relay
    unsafe_reshape: start.Reshape = start.AsItIs()  # may take walls away, for tests and `doctor --prove` only


class Running:
    """A confined child that runs. Made by `sandbox` only."""

    def __init__(self, plan: start.Plan, bounds: Bounds, wiring: Wiring) -> None:
        """Prepare; `begin` starts it."""
        self._plan = plan
        self._bounds = bounds
        self._wiring = wiring
        self._chain = Chain(plan, wiring.unsafe_reshape)
        self._pipes = self._chain.pipes
        self._stdout = Sink(bounds.stdout_bytes or 0)
        self._stderr = Sink(bounds.stderr_bytes)
        self._readers = Readers(lambda: self._verdict.decide(End.STOPPED))
        self._verdict = Verdict(self._chain.kill)
        self._ending: asyncio.Task[Exit] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self.first_status: int | None = None
        self.exit: Exit | None = None
        self.egress = EgressReport()
        self.containment = Containment(route=plan.route.value, walls=())

    # --- what a caller does with it

    @property
    def stdout(self) -> Capture:
        """The first bytes of stdout, unless the caller reads it itself."""
        return self._stdout.capture

    @property
    def stderr(self) -> Capture:
        """The first bytes of stderr."""
        return self._stderr.capture

    async def read(self) -> bytes:
        """The next bytes of stdout, at the child's pace and ours; empty at its end."""
        if self._bounds.stdout_bytes is not None:
            raise ValueError("stdout is captured: Bounds.stdout_bytes is not None")
        while self._pipes.stdout.ours >= 0:  # the end may close it while we wait
            try:
                return os.read(self._pipes.stdout.ours, CHUNK_BYTES)
            except BlockingIOError:
                await launch.readable(self._pipes.stdout.ours)
        return b""

    async def write(self, data: bytes) -> None:
        """Write to stdin; `BrokenPipeError` once nobody reads it, at the latest at the deadline."""
        view = memoryview(data)
        while view:
            if self._pipes.stdin.ours < 0:  # the end may close it while we wait
                raise BrokenPipeError(errno.EPIPE, "stdin is closed")
            try:
                view = view[os.write(self._pipes.stdin.ours, view) :]
            except BlockingIOError:
                await writable(self._pipes.stdin.ours)

    def talk(self, hearer: Hearer) -> Talk:
        """Both directions at once, for a protocol of lines; instead of `read` and `write`."""
        if self._bounds.stdout_bytes is not None:
            raise ValueError("stdout is captured: Bounds.stdout_bytes is not None")
        ours = self._pipes.stdout.ours, self._pipes.stdin.ours
        return Talk(*ours, hearer, unread_bytes=limits.CODE_UNREAD_BYTES)

    def close_stdin(self) -> None:
        """End of input for the child."""
        self._pipes.stdin.close()

    async def wait(self) -> None:
        """Wait until it is over: the first process has ended and the linger has passed, or a bound has ended it."""
        await self._verdict.over.wait()

    def signal(self, number: int) -> bool:
        """Send a signal to the command's own process; whether it was there."""
        return lineage.signal_first_child(self._chain.init, number)

    def is_quiet(self) -> bool:
        """Whether it runs, as far as the kernel knows at this moment, and has said nothing that was not read."""
        if self._verdict.reason is not None:
            return False
        looked = select.poll()
        for descriptor in (self._pipes.stdout.ours, self._chain.process.pidfd, self._chain.init_fd):
            looked.register(descriptor, select.POLLIN)
        return not looked.poll(0)

    def arm(self, *, wall_seconds: float, cpu_seconds: float) -> None:
        """Begin to count: from now on it has so much time, and what it has used before is nobody's.

        It is for a child that was started early and waited (`Bounds.wall_seconds` was None). What the kernel bounds of
        each process (`SandboxSpec.limits`), memory and stderr count from the start as before.
        """
        if self._verdict.reason is None:
            self._watch.arm(cpu_seconds)
            self._verdict.count(wall_seconds)

    async def end(self, reason: End = End.STOPPED) -> Exit:
        """End the whole tree and say how it ended; a second call gives the same answer.

        Raises `SandboxStartError` when it ended before its command ever ran, and `NotEndedError`.
        """
        self._verdict.decide(reason)
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end())
        return await asyncio.shield(self._ending)

    # --- the start

    async def begin(self) -> None:
        """Start everything up to the release, then release."""
        chain, spec = self._chain, self._plan.spec
        self._network = self._take_network()
        chain.spawn()
        pace = 0.0 if self._wiring.stderr is None else limits.STDERR_PACE_SECONDS  # each word costs its listener
        self._readers.read(self._pipes.stderr.ours, self._feed_stderr, pause_seconds=pace, full_seconds=pace)
        if chain.fifo is not None:
            self._readers.read(
                chain.fifo.reading, self._wiring.trace or _drop, pause_seconds=limits.TRACE_PAUSE_SECONDS
            )
        await self._blocked()
        try:
            self.containment = await chain.enclose(self._network)
        except ChainEndedError:
            raise await self._not_started() from None
        watched = Watched(
            init=chain.init,
            cgroup=chain.cgroup,
            memory_bytes=None if chain.memory_by_cgroup else spec.limits.memory_bytes,
            layer=spec.overlay.upper if spec.overlay else None,
            beside=tuple(bind.source for bind in spec.binds if bind.bounded),
            layer_bytes=self._bounds.layer_bytes,
            cpu_seconds=self._bounds.cpu_seconds,
            waits=self._bounds.wall_seconds is None,
        )
        self._watch = Watch(watched)
        if self._bounds.stdout_bytes is not None:
            self._readers.read(self._pipes.stdout.ours, self._stdout.feed)
        self._release()

    def _take_network(self) -> Network:
        plan, wiring = self._plan, self._wiring
        nft = plan.host.tools.get("nft")
        path = nft.path if nft else None
        helper, spec = plan.run.take_helper(), plan.spec
        network = Network(spec.network, path, wiring.inspect, wiring.world, helper, silent=spec.silent)
        self._chain.held.callback(network.close)
        return network

    async def _blocked(self) -> None:
        """Wait for bubblewrap's blocked child."""
        try:
            await self._chain.blocked(self._bounds.start_seconds)
        except TimeoutError:
            await self._not_started()
            words = f"the sandbox did not start within {self._bounds.start_seconds:g} s"
            raise StartTimeoutError(words, remedy="look at the load of this host") from None
        except ChainEndedError:
            raise await self._not_started() from None

    async def _not_started(self) -> BaseException:
        """Why there is no child: a sensor that failed, or else what bubblewrap says."""
        self._chain.process.kill()
        await self._drain()
        return self._readers.fault() or start.failed(self._stderr)

    def _release(self) -> None:
        if self._chain.fifo is not None:
            self._chain.fifo.attached()
        if self._bounds.linger_seconds > 0:
            self._chain.pause_monitor()
        self._verdict.count(self._bounds.wall_seconds)
        self._chain.release()
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    def _feed_stderr(self, chunk: bytes) -> None:
        self._stderr.feed(chunk)
        if self._wiring.stderr is not None:
            self._wiring.stderr(chunk)
        if self._bounds.stderr_ends and self._stderr.total_bytes > self._bounds.stderr_bytes:
            self._verdict.decide(End.OUTPUT)

    # --- while it runs

    async def _keep(self) -> None:
        """Wait for whatever ends it first."""
        waits = [asyncio.ensure_future(one) for one in (self._first_end(), self._watch.broken())]
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            self._verdict.decide(next(task.result() for task in waits if task in done))
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _first_end(self) -> End:
        """Wait until the first process has ended, and the linger of those it left behind."""
        chain = self._chain
        if self._bounds.linger_seconds > 0:
            await lingering.outlast(chain.init, chain.init_fd, self._bounds.linger_seconds)
            chain.resume_monitor()
        await chain.process.wait()
        return End.EXITED

    # --- the end

    async def _end(self) -> Exit:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        self._chain.kill()
        self.close_stdin()
        await self._gone()
        await self._drain()
        self.egress = await self._network.stop()
        self._plan.run.prepare_helper()
        self._chain.status.finish()
        self.first_status = self._chain.status.exit_code
        if self._verdict.reason is End.EXITED and self._chain.tracer_was_killed():
            self._verdict.blame_sensor()
        self.exit = self._verdict.exit(self.first_status, self._chain.cgroup.usage(), self._watch)
        self._chain.close()
        self._raise_faults()
        return self.exit

    async def _gone(self) -> None:
        """Wait for the outermost process; it flushes a trace when what it follows is gone."""
        for _ in range(2):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._bounds.stop_seconds / 2):
                    await self._chain.gone()
                    return
            self._chain.process.kill()
        raise NotEndedError("the sandbox was killed and is still there", remedy="look for processes in state D")

    async def _drain(self) -> None:
        """Read every pipe to its end. Nobody is left to write, so that comes at once."""
        if self._chain.fifo is not None:
            self._chain.fifo.attached()
        await self._readers.drain()

    def _raise_faults(self) -> None:
        fault = self._readers.fault()
        if fault is not None:
            raise fault
        if self._verdict.reason is End.EXITED and self._chain.status.exit_code is None:
            raise start.failed(self._stderr)

    def abandon(self) -> None:
        """End what there is without waiting for anything: for a start that failed, and as the last resort."""
        self._verdict.stop_counting()
        self._chain.kill()
        self._readers.cancel()
        if self._keeper is not None:
            self._keeper.cancel()
        self._chain.close()


def _drop(_: bytes) -> None:
    """Read and forget: a tracer whose pipe is full stops what it traces."""


@contextlib.asynccontextmanager
async def sandbox(  # noqa: PLR0913  # each is a value of its own; a route is named by tests and doctor only
    spec: SandboxSpec, host: HostFacts, run: Run, bounds: Bounds, wiring: Wiring, *, route: Route | None = None
) -> AsyncIterator[Running]:
    """A confined child that runs until the block is left.

    Raises `RouteError` (this host cannot), `SandboxStartError` (it could not be set up), `StartTimeoutError`,
    `NotEndedError`.
    """
    running = Running(start.decide(spec, host, run, route), bounds, wiring)
    try:
        await running.begin()
        try:
            yield running
        except BaseException as error:
            cancelled = isinstance(error, asyncio.CancelledError | KeyboardInterrupt)
            with contextlib.suppress(HarnessError):  # the error under way says more
                await running.end(End.CANCELLED if cancelled else End.STOPPED)
            raise
        await running.end()
    finally:
        running.abandon()
