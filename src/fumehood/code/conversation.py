"""The lines between one child and the tools of its run.

Invariants: what the child says goes through the bridge, and nothing else of it is believed; a tool is run only if the
job names it; at the end of `hold` the child is gone and its tools are cancelled.

Not promised: that a tool ends when it is cancelled; one that does not within the bound is left and logged.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Final, assert_never

from fumehood.code.backend import ToolBackend
from fumehood.code.bridge import Bridge
from fumehood.code.events import Call, Event, Ready, Send
from fumehood.code.job import Job
from fumehood.code.outcome import Ending, Stop
from fumehood.code.requests import Describe, Request, RunTool, Search
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

    def __init__(self, job: Job, backend: ToolBackend, bridge: Bridge, running: Running) -> None:
        """Take over a child that runs; `hold` serves it."""
        self._job = job
        self._backend = backend
        self._bridge = bridge
        self._running = running
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()  # bounded by the bridge: one answer for each call
        self._tools: set[asyncio.Task[None]] = set()

    async def hold(self, cancel: asyncio.Event | None) -> Ending:
        """Serve the child until it gave a result, broke a bound, or `cancel` is set; then end it."""
        containment = self._running.containment
        if lacking := missing(containment):
            raise NoWallError(f"not run: {', '.join(lacking)}", remedy="fumehood doctor says what each wall needs")
        reading = asyncio.ensure_future(self._read())
        writing = asyncio.ensure_future(self._write())
        cancelled = asyncio.ensure_future(_set(cancel))
        try:
            await asyncio.wait([reading, cancelled], return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                await reading
            stop = None if reading.done() else Stop.CANCELLED
            left = await self._running.end(End.CANCELLED if stop else End.STOPPED)
        finally:
            await _ended([reading, writing, cancelled, *self._tools])
        return Ending(exit=left, stop=stop, stderr=self._running.stderr.data, containment=containment)

    async def _read(self) -> None:
        """Until the first terminal event, or the end of what the child says: then it goes, by itself or by a bound."""
        while self._bridge.terminal is None:
            data = await self._running.read()
            self._take(self._bridge.feed(data) if data else self._bridge.closed())
            if not data:
                with contextlib.suppress(TimeoutError):  # it closed its stdout and stays: nobody waits for it
                    async with asyncio.timeout(limits.CODE_EXIT_SECONDS):
                        await self._running.wait()

    async def _write(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # it is gone: `_read` finds out
            while True:
                await self._running.write(await self._waiting.get())

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            match event:
                case Ready():
                    self._waiting.put_nowait(self._bridge.opening())
                case Send(data=data):
                    self._waiting.put_nowait(data)
                case Call() as call:
                    task = asyncio.ensure_future(self._answer(call))
                    self._tools.add(task)
                    task.add_done_callback(self._tools.discard)
                case _:  # a line that is kept, or the end: the bridge has the account of both
                    pass

    async def _answer(self, call: Call) -> None:
        """Run one tool and tell the bridge; a fault of the backend is the tool's failure, and ends nothing else."""
        try:
            value = await self._perform(call.request)
        except FumehoodError as error:
            self._take(self._bridge.refuse(call.id, error))
        except Exception:  # noqa: BLE001 - a rim: a backend of somebody else may raise anything
            _LOG.exception("a tool failed in a way that it does not name")
            self._take(self._bridge.refuse(call.id, HarnessError("the tool failed")))
        else:
            self._take(self._bridge.answer(call.id, value))

    async def _perform(self, request: Request) -> JsonValue:
        match request:
            case Search(query=query, limit=limit):
                return await self._backend.search(query, limit)
            case Describe(names=names):
                return await self._backend.describe(names)
            case RunTool(name=name, arguments=arguments):
                if name not in self._job.tools:
                    raise UnknownToolError(f"{name}: not among the tools of this run", remedy="amcp.search finds them")
                return await self._backend.run(name, arguments)
            case _:
                assert_never(request)


def missing(containment: Containment) -> Sequence[str]:
    """The walls that could not stand, each with its reason. Pure."""
    return [f"{wall.name} ({wall.why})" for wall in containment.walls if wall.state is WallState.UNAVAILABLE]


async def _set(event: asyncio.Event | None) -> None:
    """Wait for an event; for ever where there is none."""
    await (event or asyncio.Event()).wait()


async def _ended(tasks: Sequence[asyncio.Future[None]]) -> None:
    """Cancel what still runs, and wait a bounded time for it."""
    for task in tasks:
        task.cancel()
    _, late = await asyncio.wait(tasks, timeout=limits.CODE_CANCEL_SECONDS)
    if late:
        _LOG.warning("a tool did not end when it was cancelled", extra={"tools": len(late)})
