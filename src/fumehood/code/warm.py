"""One child that is started before its program is known, and serves one run at most.

Invariants: it is offered only once it has said that it is ready, and nothing else; it is taken only while it runs and
has said nothing more; what it may use of wall and CPU time counts from then. While it waits it has every wall and every
limit of the kernel, and a small bound of CPU time; nothing but the harness has run in it.

Not promised: that a child that is taken still lives at the next moment. One that is ended from outside in that time is
told as any other: `child_exit`.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Final

from fumehood.code.backend import ToolBackend
from fumehood.code.bridge import Bridge
from fumehood.code.child import deno
from fumehood.code.conversation import Conversation, demand_walls
from fumehood.code.job import Job, JobLimits
from fumehood.code.outcome import Ending, how
from fumehood.code.run import Ground, bounds
from fumehood.core import limits
from fumehood.core.errors import HarnessError
from fumehood.sandbox.runs import Run
from fumehood.sandbox.spec import End
from fumehood.sandbox.supervise import Running, sandbox

READY: Final = b'{"type":"ready"}\n'  # as the harness writes it
# The kernel's limit of CPU time cannot be changed later: it is that of the job that may ask for most.
LIMITS: Final = JobLimits(cpu_seconds=limits.CODE_CPU_SECONDS_MAX)


class NotReadyError(HarnessError):
    """A child did not come to the point where it could be given a program."""

    code = "not_ready"


class Child:
    """A child that is ready. Made by `started` only, which ends it."""

    def __init__(self, running: Running) -> None:
        """Take over a child that has said that it is ready, and listen to it."""
        self._running = running
        self._listening = asyncio.ensure_future(running.read())
        self.over: Final = asyncio.Event()  # its run is over, or nobody will ever take it

    async def disturbed(self) -> None:
        """Wait until it is disturbed: it ended, or said something. Never returns for one that is taken."""
        await asyncio.wait([self._listening])
        if self._listening.cancelled():
            await asyncio.Event().wait()

    def take(self) -> bool:
        """Take it for a run; False when it is of no use any more."""
        if self._listening.done() or not self._running.is_quiet():
            return False
        self._listening.cancel()
        return True

    async def serve(self, job: Job, backend: ToolBackend, bridge: Bridge, cancel: asyncio.Event) -> Ending:
        """Give it its program and serve it to its end. Whatever happens, the child has ended when this returns."""
        bounded = job.limits
        self._running.arm(wall_seconds=bounded.wall_seconds, cpu_seconds=bounded.cpu_seconds)
        try:
            return await Conversation(job, backend, bridge, self._running, READY).hold(cancel)
        except BaseException as error:
            with contextlib.suppress(HarnessError):  # the error under way says more
                await self._running.end(End.CANCELLED if isinstance(error, asyncio.CancelledError) else End.STOPPED)
            raise
        finally:
            self.over.set()

    def forget(self) -> None:
        """Listen no more."""
        self._listening.cancel()


@contextlib.asynccontextmanager
async def started(ground: Ground, run: Run) -> AsyncIterator[Child]:
    """A child that is ready and waits, until the block is left. Raises `NotReadyError` and what `sandbox` does."""
    spec = deno.spec(ground.parts, LIMITS, run.uid, secrets.token_hex(16))
    bounded = bounds(None, limits.CODE_IDLE_CPU_SECONDS)
    async with sandbox(spec, ground.host, run, bounded, ground.wiring) as running:
        demand_walls(running.containment)
        await _ready(running)
        child = Child(running)
        try:
            yield child
        finally:
            child.forget()


async def _ready(running: Running) -> None:
    """Wait until it says that it is ready; anything else that it says is too much."""
    heard = b""
    try:
        async with asyncio.timeout(limits.CODE_READY_SECONDS):
            while READY.startswith(heard) and heard != READY:
                data = await running.read()
                if not data:
                    left = await running.end(End.STOPPED)
                    raise NotReadyError(f"the child ended before it was ready: {how(left)}")
                heard += data
    except TimeoutError:
        words = f"the child was not ready within {limits.CODE_READY_SECONDS:g} s"
        raise NotReadyError(words, remedy="look at the load of this host") from None
    if heard != READY:
        raise NotReadyError("the child said something else than that it is ready")
