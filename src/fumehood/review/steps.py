"""Run one step of a review: a layer, a sandbox, its sensors, and its end, whatever happens.

Invariants: each step writes to a layer of its own; the tree is dead before anything of it is read; what the sensors
saw is in the ledger also when the step failed.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from fumehood.core import limits
from fumehood.observe.model import Phase
from fumehood.review import disk, plan, result
from fumehood.review.evidence import traffic
from fumehood.review.evidence.acts import Acts
from fumehood.review.evidence.sensors import INSPECT, TRACER_LOST, Sensors
from fumehood.review.evidence.timeline import Timeline
from fumehood.review.plan import Step
from fumehood.review.stack import Laid, Layered
from fumehood.review.states import ReviewEndedError, State
from fumehood.review.work import Work
from fumehood.sandbox.spec import Bounds, End, Exit, ProcessLimits
from fumehood.sandbox.start import SandboxStartError
from fumehood.sandbox.streams import Capture
from fumehood.sandbox.supervise import Running, Wiring, sandbox

Body = Callable[[Running], Awaitable[None]]

HOME_CLOSED = "home_closed"
_LOOK_SECONDS = 0.05  # how often a capture that stops the run is looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One step that has ended: nothing of it runs any more."""

    step: Step
    exit: Exit
    stdout: Capture
    stderr: Capture
    refused_names: tuple[str, ...]
    layer: Layered
    acts: Acts  # complete once the sensors have reported


async def perform(
    work: Work,
    step: Step,
    *,
    body: Body | None = None,
    scratch: Path | None = None,
    timeline: Timeline | None = None,
) -> Ran:
    """Run a step to its end. `body` talks to it; without one its output is captured until it ends by itself.

    `timeline` is what `body` writes its activities into; without one the step is all that is under way.
    """
    work.progress(step.name)
    work.under_way = step.name
    laid = work.stack.lay(work.run.layer(step.name))
    if laid.left_out:
        work.ledger.limitation(f"{step.name}: of the tree before, the copy has not {', '.join(laid.left_out)}")
    spec = plan.spec(work.bench, step, laid.mount, scratch)
    spec = dataclasses.replace(spec, limits=_limits(work))
    sensors = Sensors(work, step, timeline)
    if sensors.trace is None:
        step, spec = dataclasses.replace(step, trace=None), dataclasses.replace(spec, trace=None)
    bounds = Bounds(
        wall_seconds=_seconds(work, step),
        layer_bytes=laid.held_bytes + work.settings.sandbox.layer_bytes,
        stdout_bytes=None if body else limits.CAPTURE_BYTES,
        linger_seconds=step.linger_seconds,
        start_seconds=work.settings.review.start_seconds,
        stop_seconds=work.settings.review.stop_seconds,
    )
    wiring = Wiring(trace=sensors.trace, inspect=INSPECT, world=work.world)
    try:
        ran = await _run(work, sensors, laid, sandbox(spec, work.host, work.run, bounds, wiring), (step, body))
    except SandboxStartError as error:
        raise _unusable(work, step) or error from error
    if ran.exit.end is End.SENSOR:
        raise ReviewEndedError(State.HARNESS_ERROR, "sensor_lost", f"{step.name}: {TRACER_LOST}")
    return ran


async def _run(
    work: Work,
    sensors: Sensors,
    laid: Laid,
    started: contextlib.AbstractAsyncContextManager[Running],
    what: tuple[Step, Body | None],
) -> Ran:
    step, body = what
    async with started as running:
        work.ledger.walls(step.name, running.containment)
        try:
            await _until_done(work, running, body)
        except asyncio.CancelledError:  # the limit of the job, or Ctrl-C
            await running.end(End.CANCELLED)
            raise
        finally:
            try:
                ended = await running.end()
            finally:
                if running.exit is not None:  # also of a command that never ran
                    work.steps.append(_record(step, running.exit))
            ran = _ran(step, running, ended, work.stack.read_step(laid), sensors.acts)
            sensors.report(ran, running.egress)
            if ran.exit.status not in (0, None) and (said := traffic.starved(running.egress, step.name)):
                work.ledger.limitation(said)
            if not disk.has_room(work.run.path):
                work.ledger.limitation(f"{step.name} ran into a full disk: what it would have written is not known")
    return ran


def _unusable(work: Work, step: Step) -> ReviewEndedError | None:
    """How the review ends where no sandbox starts because of what an earlier step left; None where it does not."""
    if step.phase not in plan.TARGETS or not (folder := work.stack.closed(work.bench.layer_workspace)):
        return None
    which = "the home" if folder == work.bench.layer_home else "the workspace, or a folder above it,"
    message = f"{step.name} could not start: {which} was left so that its own user cannot enter it"
    return ReviewEndedError(State.TARGET_FAILED, HOME_CLOSED, message)


def _ran(step: Step, running: Running, ended: Exit, layer: Layered, acts: Acts) -> Ran:
    return Ran(
        step=step,
        exit=ended,
        stdout=running.stdout,
        stderr=running.stderr,
        refused_names=traffic.refused_names(running.egress),
        layer=layer,
        acts=acts,
    )


def ended_badly(work: Work, ran: Ran) -> ReviewEndedError | None:
    """How the review ends when a step did not end by itself; None when it did, with whatever status."""
    name = ran.step.name
    if work.output_limit_reached:
        return ReviewEndedError(State.STOPPED, "output_capture_limit", f"{name}: more output than is captured")
    match ran.exit.end:
        case End.DEADLINE:
            seconds = _seconds(work, ran.step)
            return ReviewEndedError(State.TIMEOUT, "deadline", f"{name} did not end within {seconds:g} s")
        case End.MEMORY:
            return ReviewEndedError(State.TARGET_FAILED, "memory", f"{name} needed more memory than its limit")
        case End.LAYER:
            return ReviewEndedError(State.TARGET_FAILED, "layer_size", f"{name} wrote more than its layer may hold")
        case _ if ran.exit.status != 0 and not disk.has_room(work.run.path):
            return ReviewEndedError(State.HARNESS_ERROR, "disk_full", f"{name}: {disk.FULL}")
        case _:
            return None


async def _until_done(work: Work, running: Running, body: Body | None) -> None:
    """Wait for the body or the end, and no longer than the captures last when the request stops there."""
    task = asyncio.ensure_future(body(running) if body else running.wait())
    try:
        while work.stop_on_output and not task.done():
            await asyncio.wait([task], timeout=_LOOK_SECONDS)
            if running.stdout.dropped_bytes or running.stderr.dropped_bytes:
                work.output_limit_reached = True
                return
        await task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _seconds(work: Work, step: Step) -> float:
    """The limit of a step: the plan's, or the operator's lower one."""
    return min(
        step.seconds,
        work.settings.review.step_seconds(step.name) + limits.STOP_SECONDS * (step.phase is Phase.EXERCISE),
    )


def _limits(work: Work) -> ProcessLimits:
    """The limits of processes: the operator's, which are never above ours."""
    mine = work.settings.sandbox
    return ProcessLimits(
        memory_bytes=mine.memory_bytes,
        processes=mine.processes,
        open_files=mine.open_files,
        file_bytes=mine.file_bytes,
        cpu_seconds=mine.cpu_seconds,
    )


def _record(step: Step, ended: Exit) -> result.StepRecord:
    return result.StepRecord(
        name=step.name,
        phase=step.phase,
        end=ended.end,
        status=ended.status,
        signal=ended.signal,
        wall_seconds=round(ended.wall_seconds, 3),
        cpu_seconds=None if ended.cpu_seconds is None else round(ended.cpu_seconds, 3),
        peak_memory_bytes=ended.peak_memory_bytes,
        stop_seconds=round(ended.stop_seconds, 3),
        network_mode=step.network.mode.value,
        trace=None if step.trace is None else step.trace.value,
    )
