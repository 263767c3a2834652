"""cli.summary: what the lines for a person say, also where there is little to say."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.cli import summary
from fumehood.observe.model import CollectorState, Fidelity, Kind, Phase
from fumehood.review import request, result, source
from fumehood.review.states import State
from fumehood.sandbox.containment import WallState
from fumehood.sandbox.spec import End, Route


def step(name: str) -> result.StepRecord:
    return result.StepRecord(
        name=name, phase=Phase.EXERCISE, end=End.EXITED, wall_seconds=1.0, network_mode="SINKHOLE", trace=None
    )


RAN = result.Execution(status=State.COMPLETED, started_at="", ended_at="", steps=(step("exercise"),))


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
        result.ErrorRecord(code="uv_failed", message="lock ended with status 2", step="lock"),
    )
    shown = summary.lines(made(errors=errors), Path("r"))[2:6]
    assert [text.split(maxsplit=1)[1] for text in shown] == [
        "lock: the registry has no such package",
        "start: 'a' does not exist",
        "install: the package has no bin",
        "lock: ended with status 2",
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
    text = summary.lines(observed(*rows), Path("out/result.json"))
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
    shown = made(
        execution=RAN,
        observations=result.Observations(items=rows),
        coverage=result.Coverage(tools_listed=5, tools_called=2),
    )
    assert line(shown, "calls") == "2 of 5 tools called: 2 result, 1 timeout"


def row(kind: Kind, step: str = "exercise", **detail: object) -> result.Row:
    return result.Row(
        sequence=1,
        phase=Phase.EXERCISE,
        step=step,
        type=kind,
        collector="canary",
        fidelity=Fidelity.OBSERVED,
        detail=detail,
    )


def observed(*rows: result.Row, **changes: object) -> result.ReviewResult:
    return made(execution=RAN, observations=result.Observations(items=rows), **changes)


CANARY = result.CollectorRecord(name="canary", phase=Phase.EXERCISE, state=CollectorState.ACTIVE)


def test_planted_credentials_are_told_by_who_read_them_and_where_they_turned_up() -> None:
    shown = observed(
        row(Kind.CANARY_READ, canary="npm_token", program="/usr/bin/cat", path="/home/a/.npmrc"),
        row(Kind.CANARY_SENT, canary="npm_token", where="body", name="post.example", encoding="base64+gzip"),
        row(Kind.CANARY_SENT, "exercise/tools/call:env", canary="env_key", where="result", encoding="plain"),
        row(Kind.CANARY_SENT, "exercise-again/tools/call:env", canary="env_key", where="result", encoding="plain"),
        row(Kind.CANARY_SENT, canary="npm_token", where="argv", encoding="plain"),
        collectors=(CANARY,),
    )
    text = summary.lines(shown, Path("r"))
    assert [entry.split(maxsplit=1)[1] for entry in text if entry.startswith("  canaries")] == [
        "read by cat: npm_token",
        "in body of post.example, as base64+gzip: npm_token",
        "in result of tools/call:env: env_key",
        "in argv: npm_token",
    ]


def test_more_places_of_planted_credentials_than_are_shown_are_counted() -> None:
    rows = [row(Kind.CANARY_SENT, canary="a", where="dns", name=f"{n}.example", encoding="hex") for n in range(9)]
    text = summary.lines(observed(*rows, collectors=(CANARY,)), Path("r"))
    assert "  canaries  and 3 more places" in text


def test_without_a_row_only_an_active_collector_says_that_none_was_read() -> None:
    assert line(observed(collectors=(CANARY,)), "canaries") == "none read, none found again"
    assert not any("canaries" in text.split() for text in summary.lines(observed(), Path("r")))


def test_where_nothing_of_the_target_ran_nothing_is_said_of_its_doing() -> None:
    names = [text.split()[0] for text in summary.lines(made(), Path("r"))[1:]]
    assert names == ["asked", "target", "walls", "sensors", "result", "report"]
    assert line(made(), "target") == "nothing of it was run"


def test_the_conditions_stand_before_the_facts() -> None:
    assert line(made(), "asked") == "mcp_list, network SINKHOLE, planted credentials"
    deep = request.convert(
        source.request(source.parse("npm:package@1.2.3"), source.Wishes(era="both", repeat=2, network="NONE"))
    )
    assert line(made(request=deep), "asked") == "mcp_list, network NONE, planted credentials, era both, repeat 2"


def test_several_starts_say_how_each_era_ended_and_that_nothing_differs() -> None:
    steps = tuple(step(name) for name in ("exercise", "exercise-modern"))
    eras = (
        row(Kind.PROTOCOL_FACT, fact="era", era="legacy", completed=True),
        row(Kind.PROTOCOL_FACT, fact="era", era="modern", completed=False, code="other_era"),
    )
    twice = result.Execution(status=State.COMPLETED, started_at="", ended_at="", steps=steps)
    shown = made(execution=twice, observations=result.Observations(items=eras))
    assert line(shown, "starts") == (
        "2: exercise, exercise-modern; legacy completed, modern other_era; no difference recorded"
    )


def test_requests_name_their_host_and_a_long_target_is_cut() -> None:
    shown = observed(
        row(Kind.NETWORK_HTTP, method="POST", name="post.example", target="/" + "a" * 200),
        row(Kind.NETWORK_HTTP, name="odd.example"),
    )
    text = " ".join(entry.strip() for entry in summary.lines(shown, Path("r")))
    assert "POST post.example/" + "a" * 67 + "…, ? odd.example" in text


@given(st.lists(st.text("ab ,-é", max_size=200), max_size=5), st.integers(0, 200))
def test_no_line_is_wider_than_the_terminal_but_for_one_long_word(names: list[str], width: int) -> None:
    rows = [row(Kind.PROCESS_EXEC, program=name, outcome="started") for name in names]
    for text in summary.lines(observed(*rows), Path("r"), width=width)[1:]:
        assert len(text) <= max(width, 40) or len(text[12:].split()) == 1


def test_of_a_step_that_went_wrong_the_last_line_of_its_standard_error_is_shown() -> None:
    shown = observed(
        row(Kind.OUTPUT_TEXT, stream="stderr", text="Traceback:\nImportError: no name\n\n"),
        row(Kind.OUTPUT_TEXT, "install", stream="stderr", text="npm notice"),
        row(Kind.OUTPUT_TEXT, stream="stdout", text="hello"),
        errors=(result.ErrorRecord(code="exited", message="it ended", step="exercise"),),
    )
    assert "  last said ImportError: no name" in summary.lines(shown, Path("r"))
    assert not any("last said" in text for text in summary.lines(observed(), Path("r")))
