"""Run programs in children that are started before they are wanted: one run for each, and then it is ended.

Invariants:
- Never more than `runs` programs at once; the next is refused with `BusyError` before anything happens for it.
- A child serves one run. Nothing of one run is anybody's after it: its uid, folder, cgroup, location and folder in
  memory are its own, and the uid is given again only once nothing of the run is left (`sandbox.station`).
- What `run_job` promises holds here: no program without its walls; when a run returns, its child and cgroup are gone.
  Its folder, of which the program sees nothing, goes right after, before its seat is anybody's.
- A child that waits has not heard of any job. It is replaced when it ends, says anything, or has waited for
  CODE_WARM_SECONDS.
- Leaving the block ends everything.

A job that asks for another bound of memory than the default has a child started for itself: the bound is the child's
from its start. All other limits are counted on this side, or from the moment at which the job is given.

Sources: `docs/reference/code.md`; docs/adr/0043-a-child-waits-for-one-run.md.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Self

from fumehood.code.backend import ToolBackend
from fumehood.code.bridge import Bridge
from fumehood.code.job import Job, JobResult
from fumehood.code.outcome import Ending, Stop, conclude
from fumehood.code.run import Ground, converse, refused, troubled
from fumehood.code.stock import Fate, Stock
from fumehood.code.warm import LIMITS, Child, started
from fumehood.core import limits
from fumehood.core.clock import SystemClock
from fumehood.core.errors import FumehoodError, HarnessError
from fumehood.sandbox.station import Station, open_station

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """What a pool has at one moment. `trouble` is why the last start failed, until one succeeds."""

    running: int
    warm: int
    starting: int
    trouble: str


class Pool:
    """Children for programs. `async with Pool(ground, runs=N, warm=M) as pool:`, then `pool.run` any number of times.

    Entering raises `NoSlotError` and `RunFolderError`.
    """

    def __init__(
        self, ground: Ground, *, runs: int = limits.CODE_RUNS_DEFAULT, warm: int = limits.CODE_WARM_DEFAULT
    ) -> None:
        """So many programs at once, and so many children that wait for one."""
        self._ground = ground
        self._seats = runs + warm + limits.CODE_STARTS  # those that are being ended have theirs still
        self._stock = Stock(runs, warm)
        self._stack = contextlib.ExitStack()
        self._idle: deque[Child] = deque()  # the oldest first, and that is taken first
        self._waiting: deque[asyncio.Future[Child]] = deque()
        self._owners: set[asyncio.Task[None]] = set()
        self._stops: set[asyncio.Event] = set()  # of the runs under way
        self._left = asyncio.Event()  # no run is under way
        self._timer: asyncio.TimerHandle | None = None
        self._trouble = ""
        self._open = False

    async def __aenter__(self) -> Self:
        """Take the seats and begin to start children."""
        self._station: Station = self._stack.enter_context(open_station(self._ground.host, self._seats))
        self._open = True
        self._left.set()
        self._fill()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """End every run, as cancelled, and every child."""
        self._open = False
        if self._timer is not None:
            self._timer.cancel()
        try:
            for stop in self._stops:
                stop.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limits.CODE_CANCEL_SECONDS + limits.CODE_STOP_SECONDS):
                    await self._left.wait()
        finally:
            for owner in self._owners:
                owner.cancel()
            await asyncio.gather(*self._owners, return_exceptions=True)
            self._stack.close()

    @property
    def state(self) -> PoolState:
        """What it has now."""
        stock = self._stock
        return PoolState(running=stock.running, warm=stock.idle, starting=stock.starting, trouble=self._trouble)

    async def run(self, job: Job, backend: ToolBackend, cancel: asyncio.Event | None = None) -> JobResult:
        """Run one program, as `run_job` does. Raises `BusyError` where as many run as may."""
        if not self._open:
            raise HarnessError("the pool is closed")
        began = time.monotonic()
        self._stock.admit()
        self._left.clear()
        bridge = Bridge(job, SystemClock())
        ending = Ending()
        try:
            async with self._stoppable(cancel) as stop:
                ending = await self._serve(job, backend, bridge, stop)
        except (FumehoodError, OSError) as error:
            ending = troubled(error)
        finally:
            self._stock.leave()
            if not self._stock.running:
                self._left.set()
            self._fill_soon()
        return conclude(job, bridge.account(), replace(ending, wall_seconds=time.monotonic() - began))

    # --- one run

    @contextlib.asynccontextmanager
    async def _stoppable(self, cancel: asyncio.Event | None) -> AsyncIterator[asyncio.Event]:
        """What is set when its caller cancels a run, and when the pool closes."""
        stop = asyncio.Event()
        self._stops.add(stop)
        forwarding = None if cancel is None else asyncio.ensure_future(_forward(cancel, stop))
        try:
            yield stop
        finally:
            self._stops.discard(stop)
            if forwarding is not None:
                forwarding.cancel()

    async def _serve(self, job: Job, backend: ToolBackend, bridge: Bridge, stop: asyncio.Event) -> Ending:
        if job.limits.memory_bytes != LIMITS.memory_bytes:
            with self._station.run() as run:
                return await converse(job, backend, bridge, self._ground, run, cancel=stop)
        child = await self._child(stop)
        if child is None:
            return Ending(stop=Stop.CANCELLED)
        return await child.serve(job, backend, bridge, stop)

    async def _child(self, stop: asyncio.Event) -> Child | None:
        """A child for one run: one that waits, or else the next that is ready; None when the run is stopped first."""
        while not stop.is_set():
            child = self._idle.popleft() if self._stock.want() else await self._next(stop)
            if child is None:
                return None
            if child.take():
                self._stock.served()
                self._fill_soon()
                return child
            self._stock.back_off(time.monotonic())
            child.over.set()
        return None

    async def _next(self, stop: asyncio.Event) -> Child | None:
        """Wait for a child. Raises why its start failed."""
        coming: asyncio.Future[Child] = asyncio.get_running_loop().create_future()
        self._waiting.append(coming)
        self._fill()
        stopped = asyncio.ensure_future(stop.wait())
        either: list[asyncio.Future[Any]] = [coming, stopped]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            if coming.done() and coming.exception() is None:
                coming.result().over.set()
            raise
        finally:
            stopped.cancel()
            if not coming.done():
                self._waiting.remove(coming)
                self._stock.give_up()
        return coming.result() if coming.done() else None

    # --- the children

    def _fill_soon(self) -> None:
        """Start what is due: at once where a run waits or none is under way, else when short ones are over."""
        if self._stock.waiting or not self._stock.running:
            self._fill()
        elif self._open and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(limits.CODE_REFILL_AFTER_SECONDS, self._fill)

    def _fill(self) -> None:
        """Start what is due, now and when a pause is over."""
        if not self._open:
            return
        now = time.monotonic()
        for _ in range(self._stock.due(now)):
            self._stock.begin()
            owner = asyncio.get_running_loop().create_task(self._own())
            self._owners.add(owner)
            owner.add_done_callback(self._owned)
        pause = self._stock.pause(now)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if pause is None else asyncio.get_running_loop().call_later(pause, self._fill)

    def _owned(self, owner: asyncio.Task[None]) -> None:
        self._owners.discard(owner)
        if not owner.cancelled() and (error := owner.exception()) is not None:
            _LOG.error("a child was not kept as it should be", exc_info=error)
        self._fill_soon()

    async def _own(self) -> None:
        """One child from its start to its end."""
        child: Child | None = None
        try:
            with self._station.run() as run:
                async with started(self._ground, run) as child:
                    self._trouble = ""
                    await self._offer(child)
        except (FumehoodError, OSError) as error:
            named = error if isinstance(error, FumehoodError) else refused(error)
            _LOG.warning("a child could not be kept: %s", named.message, extra={"error": named.code})
            if child is None:
                self._failed(named)
        except BaseException as error:
            if child is None and isinstance(error, asyncio.CancelledError):
                self._stock.abort()
            elif child is None:
                self._failed(error)
            raise

    def _failed(self, error: BaseException) -> None:
        """Keep why, and tell it the run that waited for it."""
        known = isinstance(error, FumehoodError)
        told = error if known else HarnessError("a child could not be started", remedy="the log says why")
        self._trouble = str(told)
        if self._stock.fail(time.monotonic()):
            self._waiting.popleft().set_exception(told)

    async def _offer(self, child: Child) -> None:
        """Keep a child until its run is over, or it is of no use."""
        match self._stock.ready():
            case Fate.HANDED:
                self._waiting.popleft().set_result(child)
                self._fill()
            case Fate.KEPT:
                self._idle.append(child)
                self._fill()
                await self._wait(child)
            case Fate.SURPLUS:
                return
        await child.over.wait()

    async def _wait(self, child: Child) -> None:
        """Until it is taken, and its run is over; or until it is disturbed, or too old."""
        over, disturbed = asyncio.ensure_future(child.over.wait()), asyncio.ensure_future(child.disturbed())
        try:
            while True:
                done, _ = await asyncio.wait(
                    [over, disturbed], timeout=limits.CODE_WARM_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                if child not in self._idle:
                    return
                if done:
                    _LOG.warning("a child that waited is gone")
                    self._trouble = "a child ended, or spoke, while it waited for a program"
                    self._stock.lose(time.monotonic())
                elif self._stock.may_retire():
                    self._stock.retire()
                else:
                    continue
                self._idle.remove(child)
                child.over.set()
                return
        finally:
            over.cancel()
            disturbed.cancel()


async def _forward(one: asyncio.Event, other: asyncio.Event) -> None:
    await one.wait()
    other.set()
