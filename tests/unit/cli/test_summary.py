"""cli.summary: what the dozen lines say where there is little to say."""

from pathlib import Path
from typing import Any

import pytest

from fumehood.cli import summary
from fumehood.observe.model import CollectorState, Fidelity, Kind, Phase
from fumehood.review import request, result, source
from fumehood.review.states import State
from fumehood.sandbox.containment import WallState
from fumehood.sandbox.spec import Route


def made(**changes: object) -> result.ReviewResult:
    fields = {
        "request": request.convert(source.request(source.parse("npm:package@1.2.3"))),
        "environment": result.Environment(
            harness_version="0.1.0", system="Linux", machine="x86_64", kernel="6.18", route=Route.USER
        ),
        "provenance": result.Provenance(
            kind="npm", pinned=True, preparation=result.Preparation(profile="NONE", status="not_requested")
        ),
        "execution": result.Execution(status=State.TARGET_FAILED, started_at="", ended_at=""),
        "collectors": (),
        "observations": result.Observations(),
        "containment": (),
        "limitations": (result.FIRST_LIMITATION,),
        "coverage": result.Coverage(),
        **changes,
    }
    return result.ReviewResult(**fields)  # type: ignore[arg-type]  # a table of keyword arguments


def line(shown: result.ReviewResult, name: str) -> str:
    return next(text.split(maxsplit=1)[1] for text in summary.lines(shown, Path("r")) if text.split()[0] == name)


@pytest.mark.parametrize("name", ["walls", "sensors"])
def test_where_nothing_was_started_no_wall_stood_and_no_sensor_was_active(name: str) -> None:
    assert line(made(), name) == "none: nothing was started"


def test_an_error_names_its_step_once() -> None:
    errors = (
        result.ErrorRecord(code="unknown_package", message="lock: the registry has no such package", step="lock"),
        result.ErrorRecord(code="not_found", message="'a' does not exist"),
        result.ErrorRecord(code="entrypoint", message="the package has no bin", step="install"),
    )
    shown = summary.lines(made(errors=errors), Path("r"))[1:4]
    assert [text.split(maxsplit=1)[1] for text in shown] == [
        "lock: the registry has no such package",
        "start: 'a' does not exist",
        "install: the package has no bin",
    ]


def test_a_wall_or_sensor_that_did_not_stand_is_named() -> None:
    walls = (
        result.WallRecord(name="seccomp", state=WallState.ENFORCED),
        result.WallRecord(name="memory", state=WallState.UNAVAILABLE, why="EACCES"),
    )
    sensor = result.CollectorRecord(name="strace", phase=Phase.INSTALL, state=CollectorState.DEGRADED, lost=3)
    shown = made(
        containment=(result.ContainmentRecord(step="install", route="user", walls=walls),), collectors=(sensor,)
    )
    assert line(shown, "walls") == "1 enforced; unavailable: memory"
    assert line(shown, "sensors") == "INSTALL strace degraded, lost 3"


def test_where_everything_stood_that_is_said() -> None:
    sensor = result.CollectorRecord(name="strace", phase=Phase.INSTALL, state=CollectorState.ACTIVE)
    assert line(made(collectors=(sensor,)), "sensors") == "all active, nothing lost"


def test_lists_and_differences_between_starts_are_told() -> None:
    facts: list[tuple[str, dict[str, Any]]] = [
        ("exercise/initialize", {"fact": "initialized", "server_name": "s", "server_version": "1"}),
        ("exercise/tools/list", {"fact": "listed", "what": "tool", "offered": True, "count": 11, "complete": True}),
        ("exercise/prompts/list", {"fact": "listed", "what": "prompt", "offered": False}),
        (
            "exercise/resources/templates/list",
            {"fact": "listed", "what": "resource_template", "offered": True, "count": 1, "why": "a cursor came twice"},
        ),
        ("exercise-again/tools/list", {"fact": "listed", "what": "tool", "offered": True, "count": 12}),
        (
            "exercise-again",
            {"fact": "repeat_difference", "between": "exercise and exercise-again", "what": "tool", "name": "add"},
        ),
        (
            "exercise-again",
            {"fact": "repeat_difference", "between": "exercise and exercise-again", "what": "handshake"},
        ),
    ]
    rows = tuple(
        result.Row(
            sequence=number,
            phase=Phase.EXERCISE,
            step=step,
            type=Kind.PROTOCOL_FACT,
            collector="protocol",
            fidelity=Fidelity.OBSERVED,
            detail=detail,
        )
        for number, (step, detail) in enumerate(facts, start=1)
    )
    text = summary.lines(made(observations=result.Observations(items=rows, total=len(rows))), Path("out/result.json"))
    assert "  lists     11 tools, 1 resource template (not whole: a cursor came twice)" in text
    assert "  differs   exercise and exercise-again: tool add, handshake" in text


def test_calls_are_counted_by_how_they_ended() -> None:
    rows = tuple(
        result.Row(
            sequence=number,
            phase=Phase.EXERCISE,
            step="exercise/tools/call:a",
            type=Kind.PROTOCOL_FACT,
            collector="protocol",
            fidelity=Fidelity.OBSERVED,
            detail={"fact": "called", "outcome": outcome},
        )
        for number, outcome in enumerate(("timeout", "result", "result"))
    )
    shown = made(observations=result.Observations(items=rows), coverage=result.Coverage(tools_listed=5, tools_called=2))
    assert line(shown, "calls") == "2 of 5 tools called: 2 result, 1 timeout"
