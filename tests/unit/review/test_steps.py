"""review.steps: a step's bounds are the operator's where those are lower, and its evidence outlives its cancelling."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from fumehood.core import limits
from fumehood.core.sections import Settings
from fumehood.observe.model import Kind
from fumehood.review import plan, steps
from fumehood.review.node import plan as nodeplan
from fumehood.review.work import Work
from fumehood.sandbox.containment import Containment, Wall, WallState
from fumehood.sandbox.egress import EgressReport, Policy
from fumehood.sandbox.runs import Run
from fumehood.sandbox.spec import Bounds, End, Exit
from fumehood.sandbox.streams import Capture

WALLS = Containment(route="user", walls=(Wall(name="seccomp", state=WallState.ENFORCED),))


class Child:
    """A confined child that says something, and never ends by itself."""

    def __init__(self) -> None:
        self.bounds: list[Bounds] = []
        self.waiting = asyncio.Event()
        self.reasons: list[End] = []
        self.exit: Exit | None = None  # once it has ended
        self.containment = WALLS
        self.egress = EgressReport()
        self.stdout = Capture(data=b"said", total_bytes=4)
        self.stderr = Capture()

    async def wait(self) -> None:
        self.waiting.set()
        await asyncio.Event().wait()

    async def end(self, reason: End = End.STOPPED) -> Exit:
        self.reasons.append(reason)
        self.exit = Exit(
            end=self.reasons[0],
            status=None,
            signal=None,
            wall_seconds=1.0,
            cpu_seconds=None,
            peak_memory_bytes=None,
            stop_seconds=0.0,
        )
        return self.exit

    @contextlib.asynccontextmanager
    async def sandbox(
        self, spec: object, host: object, run: object, bounds: Bounds, wiring: object
    ) -> AsyncIterator[Any]:
        del spec, host, run, wiring
        self.bounds.append(bounds)
        yield self


@pytest.fixture(autouse=True)
def _nobody_owns_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.chown", lambda *_, **__: None)


def install(work: Work) -> plan.Step:
    return nodeplan.install(work.bench, Policy(), 0.0)


async def cancelled(work: Work, step: plan.Step, monkeypatch: pytest.MonkeyPatch) -> Child:
    """The child of a step that was cancelled while it ran."""
    child = Child()
    monkeypatch.setattr(steps, "sandbox", child.sandbox)
    task = asyncio.create_task(steps.perform(work, step))
    await child.waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return child


def test_a_step_that_is_cancelled_leaves_what_its_sensors_saw(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    child = asyncio.run(cancelled(work, install(work), monkeypatch))
    assert child.reasons[0] is End.CANCELLED
    assert [(s.name, s.end) for s in work.steps] == [("install", End.CANCELLED)]
    assert [row.detail["text"] for row in work.ledger.observations.items if row.type is Kind.OUTPUT_TEXT] == ["said"]
    assert {c.name for c in work.ledger.collectors} == {"layer", "strace", "egress", "output"}
    assert [(c.step, [w.name for w in c.walls]) for c in work.ledger.containment] == [("install", ["seccomp"])]


def test_the_walls_of_a_step_are_recorded_also_when_its_end_fails(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(reason: End = End.STOPPED) -> Exit:
        raise ArithmeticError(reason)

    async def go() -> None:
        child = Child()
        child.end = broken  # type: ignore[method-assign]  # the end is what fails here
        monkeypatch.setattr(steps, "sandbox", child.sandbox)
        task = asyncio.create_task(steps.perform(work, install(work)))
        await child.waiting.wait()
        task.cancel()
        await task

    with pytest.raises(ArithmeticError):
        asyncio.run(go())
    assert [c.step for c in work.ledger.containment] == ["install"]


STEPS: dict[str, Callable[[plan.Bench], plan.Step]] = {
    "acquire_seconds": nodeplan.fetch,
    "install_seconds": lambda bench: nodeplan.install(bench, Policy(), 0.0),
    "prepare_seconds": lambda bench: nodeplan.build(bench, Policy(), 0.0),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_lower_limit_of_the_operator_bounds_its_step(name: str, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    step = STEPS[name](work.bench)
    (bounds,) = asyncio.run(cancelled(work, step, monkeypatch)).bounds
    assert bounds.wall_seconds == getattr(Settings().review, name) == step.seconds
    changes = {name: 7.0, "start_seconds": 3.0, "stop_seconds": 2.0}
    work.settings = msgspec.structs.replace(
        work.settings, review=msgspec.structs.replace(work.settings.review, **changes)
    )
    work.run = Run(work.run.path / "again", uid=1000)
    work.run.path.mkdir()
    (bounds,) = asyncio.run(cancelled(work, step, monkeypatch)).bounds
    assert (bounds.wall_seconds, bounds.start_seconds, bounds.stop_seconds) == (7.0, 3.0, 2.0)


def test_without_a_setting_start_and_stop_have_the_limits_of_the_requirements(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bounds,) = asyncio.run(cancelled(work, install(work), monkeypatch)).bounds
    assert (bounds.start_seconds, bounds.stop_seconds) == (limits.START_SECONDS, limits.STOP_SECONDS) == (60, 30)
