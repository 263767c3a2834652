"""The lines between one child and the tools of its run.

Invariants: what the child says goes through the bridge, and nothing else of it is believed; a tool is run only if the
job names it; at the end of `hold` the child is gone and its tools are cancelled.

Not promised: that a tool ends when it is cancelled; one that does not within the bound is left and logged.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final

from fumehood.code.asking import ask, end
from fumehood.code.backend import RefusalKeeper, ToolBackend
from fumehood.code.bridge import Bridge
from fumehood.code.events import Call, Ended, Event, Ready, Send
from fumehood.code.job import Job
from fumehood.code.outcome import Ending, Stop
from fumehood.code.requests import Request, RunTool
from fumehood.core import limits
from fumehood.core.errors import FumehoodError, HarnessError, UnknownToolError, UnsupportedError
from fumehood.core.jsonio import JsonValue
from fumehood.sandbox.containment import Containment, WallState
from fumehood.sandbox.spec import End
from fumehood.sandbox.supervise import Running

_LOG: Final = logging.getLogger(__name__)


class NoWallError(UnsupportedError):
    """A wall that every child has cannot stand here."""

    code = "no_wall"


class Conversation:
    """The lines between one child and the tools, from its start to its end."""

    def __init__(self, job: Job, backend: ToolBackend, bridge: Bridge, running: Running, before: bytes = b"") -> None:
        """Take over a child that runs, and what was read of it before; `hold` serves it."""
        self._job = job
        self._backend = backend
        self._bridge = bridge
        self._running = running
        self._before = before
        self._tools: dict[int, asyncio.Task[None]] = {}
        self._held: deque[Call] = deque()  # bounded by the bridge: the calls of one run
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()

    async def hold(self, cancel: asyncio.Event | None) -> Ending:
        """Serve the child until it gave a result, broke a bound, or `cancel` is set; then end it."""
        containment = self._running.containment
        demand_walls(containment)
        ending = asyncio.ensure_future(self._ending())
        cancelled = asyncio.ensure_future(_set(cancel))
        try:
            with self._running.talk(self) as self._talk:
                if self._before:
                    self.heard(self._before)
                await asyncio.wait([ending, cancelled], return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                await ending
            stop = None if ending.done() else Stop.CANCELLED
            left = await self._running.end(End.CANCELLED if stop else End.STOPPED)
        finally:
            await end([ending, cancelled, *self._tools.values()])
        return Ending(exit=left, stop=stop, stderr=self._running.stderr.data, containment=containment)

    async def _ending(self) -> None:
        """Until the first terminal event, or the end of what the child says: then it goes, by itself or by a bound."""
        await self._over
        if isinstance(self._bridge.terminal, Ended):
            with contextlib.suppress(TimeoutError):  # it closed its stdout and stays: nobody waits for it
                async with asyncio.timeout(limits.CODE_EXIT_SECONDS):
                    await self._running.wait()

    # --- what the child says

    def heard(self, data: bytes) -> None:
        """Let the bridge read it."""
        try:
            self._take(self._bridge.feed(data) if data else self._bridge.closed())
        except Exception as error:  # noqa: BLE001 - a rim: the loop would only log it, and nobody would end the child
            if not self._over.done():
                self._over.set_exception(error)

    def drained(self) -> None:
        """Begin the calls that waited until the child has read the answers before."""
        while self._held and not self._talk.is_full:
            self._begin(self._held.popleft())

    def _take(self, events: Sequence[Event]) -> None:
        if self._over.done():
            return
        for event in events:
            match event:
                case Send(data=data):
                    self._talk.say(data, at_once=not self._tools)  # else others may answer in the same turn
                case Call() as call:
                    self._begin(call)
                case Ready():
                    self._talk.say(self._bridge.opening(), at_once=True)
                case _:  # a line that is kept, or the end: the bridge has the account of both
                    pass
        if self._bridge.terminal is not None:
            self._over.set_result(None)

    def _begin(self, call: Call) -> None:
        if self._talk.is_full:
            self._held.append(call)
            return
        self._tools[call.id] = self._loop.create_task(self._answer(call))

    async def _answer(self, call: Call) -> None:
        """Run one tool and tell the bridge; a fault of the backend is the tool's failure, and ends nothing else."""
        try:
            value = await self._perform(call.request)
        except FumehoodError as error:
            events = self._bridge.refuse(call.id, error)
        except Exception:  # noqa: BLE001 - a rim: a backend of somebody else may raise anything
            _LOG.exception("a tool failed in a way that it does not name")
            events = self._bridge.refuse(call.id, HarnessError("the tool failed"))
        else:
            events = self._bridge.answer(call.id, value)
        finally:
            del self._tools[call.id]
        self._take(events)

    async def _perform(self, request: Request) -> JsonValue:
        if isinstance(request, RunTool) and request.name not in self._job.tools:
            if isinstance(self._backend, RefusalKeeper):
                await self._backend.refused(request.name, request.arguments)
            raise UnknownToolError(f"{request.name}: not among the tools of this run", remedy="amcp.search finds them")
        return await ask(self._backend, request)


def demand_walls(containment: Containment) -> None:
    """Nothing where every wall stands. Raises `NoWallError`."""
    if lacking := missing(containment):
        raise NoWallError(f"not run: {', '.join(lacking)}", remedy="fumehood doctor says what each wall needs")


def missing(containment: Containment) -> Sequence[str]:
    """The walls that could not stand, each with its reason. Pure."""
    return [f"{wall.name} ({wall.why})" for wall in containment.walls if wall.state is WallState.UNAVAILABLE]


async def _set(event: asyncio.Event | None) -> None:
    """Wait for an event; for ever where there is none."""
    await (event or asyncio.Event()).wait()
