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
import logging
import os
import secrets
import time
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Final

from fumehood.code.backend import ToolBackend
from fumehood.code.bridge import Bridge
from fumehood.code.child import deno
from fumehood.code.conversation import Conversation
from fumehood.code.job import Job, JobResult
from fumehood.code.outcome import Ending, conclude
from fumehood.core import limits
from fumehood.core.clock import SystemClock
from fumehood.core.errors import FumehoodError, HarnessError
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.probe.libraries import libraries_of
from fumehood.sandbox.probe.runtime import Runtime
from fumehood.sandbox.runs import Run, open_run
from fumehood.sandbox.spec import Bounds, Route
from fumehood.sandbox.supervise import Wiring, sandbox

_LOG: Final = logging.getLogger(__name__)
_CHILD: Final = "fumehood.code.child"


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
            ending = await converse(job, backend, bridge, ground, run, cancel=cancel)
    except (FumehoodError, OSError) as error:
        ending = troubled(error)
    return conclude(job, bridge.account(), replace(ending, wall_seconds=time.monotonic() - began))


def troubled(error: FumehoodError | OSError) -> Ending:
    """The end of a run whose child could not be started, held or ended as it should; the system's reasons included."""
    named = error if isinstance(error, FumehoodError) else refused(error)
    _LOG.warning("a child could not be run: %s", named.message, extra={"error": named.code})
    return Ending(trouble=str(named))


def refused(error: OSError) -> HarnessError:
    """What the system refused us, by its reason: most likely descriptors, memory or a disk ran out."""
    why = os.strerror(error.errno or 0)
    return HarnessError(f"this host refused: {why}", remedy="see its open files (ulimit -n), memory and disk")


async def converse(  # noqa: PLR0913  # each is a value of its own
    job: Job, backend: ToolBackend, bridge: Bridge, ground: Ground, run: Run, *, cancel: asyncio.Event | None
) -> Ending:
    """Start a child for one job, serve it, end it. Raises what `sandbox` and `Conversation.hold` do."""
    spec = deno.spec(ground.parts, job.limits, run.uid, secrets.token_hex(16))
    bounded = bounds(job.limits.wall_seconds, job.limits.cpu_seconds)
    async with sandbox(spec, ground.host, run, bounded, ground.wiring) as running:
        return await Conversation(job, backend, bridge, running).hold(cancel)


def bounds(wall_seconds: float | None, cpu_seconds: float) -> Bounds:
    """What is enforced from outside; without wall seconds the child waits to be armed."""
    return Bounds(
        wall_seconds=wall_seconds,
        cpu_seconds=cpu_seconds,
        stdout_bytes=None,
        stderr_bytes=limits.CODE_STDERR_BYTES,
        stderr_ends=True,
        start_seconds=limits.CODE_START_SECONDS,
        stop_seconds=limits.CODE_STOP_SECONDS,
    )
