"""Run one program in a child of its own, and say what came of it.

Invariants:
- No program without its walls: where one of them cannot stand the job is not sent, and the state is
  `runner_unavailable`, with the reason.
- Whatever happens (a result, an error, a bound, a cancelled task) the whole tree of the child is killed before this
  returns, and its folder and cgroup are gone.
- What the child says goes through the bridge, and nothing else of it is believed. A tool is run only if the job names
  it; the backend decides beyond that.
- A child serves one run.

Not promised: that a tool which was called has ended: one that is under way at the end of a run is cancelled, and what
it did stays done.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Final, assert_never

from fumehood.code.backend import ToolBackend
from fumehood.code.bridge import Bridge
from fumehood.code.child import deno
from fumehood.code.events import Call, Event, Ready, Send
from fumehood.code.job import Job, JobResult
from fumehood.code.outcome import Ending, Stop, conclude
from fumehood.code.requests import Describe, Request, RunTool, Search
from fumehood.core import limits
from fumehood.core.clock import SystemClock
from fumehood.core.errors import FumehoodError, HarnessError, UnknownToolError, UnsupportedError
from fumehood.core.jsonio import JsonValue
from fumehood.sandbox.containment import Containment, WallState
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.probe.libraries import libraries_of
from fumehood.sandbox.probe.runtime import Runtime
from fumehood.sandbox.runs import open_run
from fumehood.sandbox.spec import Bounds, End, Route
from fumehood.sandbox.supervise import Running, Wiring, sandbox

_LOG: Final = logging.getLogger(__name__)
_CHILD: Final = "fumehood.code.child"


class NoWallError(UnsupportedError):
    """A wall that every child has cannot stand here."""

    code = "no_wall"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where children run: the host, and what a child is made of. Made by `prepare`, used for any number of runs."""

    host: HostFacts
    parts: deno.Parts
    wiring: Wiring = field(default_factory=Wiring)  # may take walls away, for tests only


def prepare(host: HostFacts, runtime: Runtime) -> Ground:
    """What every run on this host needs. Raises `LibraryError` where a program of the route cannot be shown inside."""
    libraries, programs = dict(runtime.libraries), {}
    if host.routes[:1] == (Route.ROOT,) and "setpriv" in host.tools:
        setpriv = host.tools["setpriv"].path
        programs[str(setpriv)] = setpriv.resolve()
        libraries |= libraries_of(setpriv)
    folder = resources.files(_CHILD)
    return Ground(
        host=host,
        parts=deno.Parts(
            deno=runtime.tool.path,
            libraries=libraries,
            harness=(folder / "harness.js").read_bytes(),
            import_map=(folder / "import_map.json").read_bytes(),
            programs=programs,
        ),
    )


async def run_job(job: Job, backend: ToolBackend, ground: Ground, cancel: asyncio.Event | None = None) -> JobResult:
    """Run one program. `cancel` ends it, with the state `cancelled`; a cancelled task ends it and raises."""
    began = time.monotonic()
    bridge = Bridge(job, SystemClock())
    ending = Ending()
    try:
        with open_run(ground.host, once=True) as run:
            spec = deno.spec(ground.parts, job.limits, run.uid, secrets.token_hex(16))
            async with sandbox(spec, ground.host, run, _bounds(job), ground.wiring) as running:
                ending = await _Conversation(job, backend, bridge, running).hold(cancel)
    except FumehoodError as error:
        _LOG.warning("a child could not be run", extra={"error": error.code})
        ending = Ending(trouble=str(error))
    return conclude(job, bridge.account(), replace(ending, wall_seconds=time.monotonic() - began))


def missing(containment: Containment) -> Sequence[str]:
    """The walls that could not stand, each with its reason. Pure."""
    return [f"{wall.name} ({wall.why})" for wall in containment.walls if wall.state is WallState.UNAVAILABLE]


def _bounds(job: Job) -> Bounds:
    return Bounds(
        wall_seconds=job.limits.wall_seconds,
        cpu_seconds=job.limits.cpu_seconds,
        stdout_bytes=None,
        stderr_bytes=limits.CODE_STDERR_BYTES,
        stderr_ends=True,
        start_seconds=limits.CODE_START_SECONDS,
        stop_seconds=limits.CODE_STOP_SECONDS,
    )


class _Conversation:
    """The lines between one child and the tools, from its start to its end."""

    def __init__(self, job: Job, backend: ToolBackend, bridge: Bridge, running: Running) -> None:
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
