"""review.result and review.evidence.ledger: bounded facts that fit their schema."""

import dataclasses
import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import jsonio, limits
from fumehood.observe.model import Collector, CollectorState, Fidelity, Kind, Observation, Phase
from fumehood.review import request, result, source
from fumehood.review.evidence import ledger
from fumehood.review.states import State
from fumehood.sandbox.containment import Containment, Wall, WallState
from fumehood.sandbox.spec import End, Route
from fumehood.wire import schema as wire_schema

SCHEMA = result.schema()
FORBIDDEN = ("verdict", "score", "severity", "risk", "safe", "unsafe", "malicious", "benign")


def observation(detail: dict[str, Any], *, kind: Kind = Kind.FILE_CREATED, phase: Phase = Phase.INSTALL) -> Observation:
    return Observation(
        phase=phase, step="install", kind=kind, collector="layer", fidelity=Fidelity.SNAPSHOTTED, detail=detail
    )


class Lines:
    """A sink that takes so many lines."""

    def __init__(self, room: int = 10**9) -> None:
        self.lines: list[bytes] = []
        self._room = room

    def __call__(self, line: bytes) -> bool:
        if len(self.lines) >= self._room:
            return False
        self.lines.append(line)
        return True


def made(kept: ledger.Ledger) -> result.ReviewResult:
    kept.collector(
        Collector(name="layer", phase=Phase.INSTALL, state=CollectorState.DEGRADED, lost=1, why="a \x1b why")
    )
    kept.walls(
        "install",
        Containment(
            route="user",
            walls=(
                Wall(name="seccomp", state=WallState.ENFORCED, how="BPF"),
                Wall(name="memory", state=WallState.UNAVAILABLE, why="EACCES", remedy="use cgroup v2"),
            ),
        ),
    )
    return result.ReviewResult(
        request=request.convert(source.request(source.parse("npm:package@1.2.3"))),
        environment=result.Environment(
            harness_version="0.1.0", system="Linux", machine="x86_64", kernel="6.18", route=Route.USER
        ),
        provenance=result.Provenance(
            kind="npm",
            pinned=True,
            preparation=result.Preparation(profile="NONE", status="not_requested"),
            lockfile=result.Lockfile(path="package-lock.json", sha256="0" * 64, version=3, packages=2),
        ),
        execution=result.Execution(
            status=State.COMPLETED,
            started_at="2026-11-29T12:00:00.000Z",
            ended_at="2026-11-29T12:00:09.000Z",
            steps=(result.StepRecord(name="install", phase=Phase.INSTALL, end=End.EXITED, status=0, wall_seconds=1.5),),
        ),
        collectors=kept.collectors,
        observations=kept.observations,
        errors=kept.errors,
        containment=kept.containment,
        limitations=kept.limitations,
        coverage=kept.covered(result.Coverage(hooks_declared=1)),
    )


def problems(encoded: bytes) -> list[str]:
    value = jsonio.parse(encoded, size=limits.JSON_RESULT_BYTES)
    return [f"{problem.path} {problem.keyword}" for problem in wire_schema.problems(SCHEMA, value)]


def test_a_result_fits_its_published_schema_and_reads_back_as_the_same_value() -> None:
    kept = ledger.Ledger(Lines())
    kept.observe(observation({"path": "/home/ann/app/x", "size": 3, "mode": "0644", "nested": [{"a": None}]}))
    kept.error("hook_failed", "a hook failed", step="install")
    whole = made(kept)
    encoded = result.encode(whole)
    assert problems(encoded) == []
    assert msgspec.convert(jsonio.parse(encoded, size=limits.JSON_RESULT_BYTES), result.ReviewResult) == whole


def test_the_top_level_is_that_of_the_requirements_and_what_the_design_adds() -> None:
    assert list(json.loads(result.encode(made(ledger.Ledger(Lines()))))) == [
        "schema_version",
        "request",
        "environment",
        "provenance",
        "execution",
        "collectors",
        "observations",
        "stop_condition_triggered",
        "errors",
        "containment",
        "limitations",
        "coverage",
        "behaviour",
    ]


@pytest.mark.parametrize("place", ["", "execution", "observations"])
def test_a_result_with_an_unknown_field_does_not_fit(place: str) -> None:
    value = json.loads(result.encode(made(ledger.Ledger(Lines()))))
    (value[place] if place else value)["verdict"] = "fine"
    assert len(problems(json.dumps(value).encode())) == 1


@pytest.mark.threat("R12")
def test_the_schema_of_a_result_has_no_word_that_judges() -> None:
    text = json.dumps(result.schema())
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower())
    assert [word for word in words if word in FORBIDDEN] == []
    assert "collectors" in words  # the words are really those of the schema


@pytest.mark.threat("R12")
def test_the_first_limitation_is_always_the_same_and_cannot_be_pushed_away() -> None:
    kept = ledger.Ledger(Lines())
    for number in range(limits.ERRORS * 2):
        kept.limitation(f"another {number}")
    kept.limitation("another 1")
    assert kept.limitations[0] == result.FIRST_LIMITATION
    assert "only that no concerning behavior was observed" in kept.limitations[0]
    assert "not tamper-resistant forensic monitoring" in kept.limitations[0]
    assert len(kept.limitations) == limits.ERRORS


def test_a_flood_of_one_type_hides_no_other_and_is_counted() -> None:
    kept = ledger.Ledger(lines := Lines())
    for number in range(limits.LIST_ITEMS + 7):
        kept.observe(observation({"path": f"/x/{number}"}))
    kept.observe(observation({"path": "/late"}, phase=Phase.EXERCISE))
    kept.observe(observation({"path": "/gone"}, kind=Kind.FILE_DELETED))
    made_of = kept.observations
    assert made_of.total == limits.LIST_ITEMS + 9
    assert made_of.lost == (result.Lost(phase=Phase.INSTALL, type=Kind.FILE_CREATED, count=7),)
    assert [row.detail["path"] for row in made_of.items[-2:]] == ["/late", "/gone"]
    assert len(lines.lines) == made_of.total
    assert kept.count(Kind.FILE_CREATED, Phase.INSTALL) == limits.LIST_ITEMS + 7


def test_large_observations_of_one_type_are_bounded_in_bytes() -> None:
    kept = ledger.Ledger(Lines())
    for _ in range(100):
        kept.observe(observation({"argv": ["a" * 1000] * 30}))
    size = sum(len(jsonio.dump(msgspec.to_builtins(row))) for row in kept.observations.items)
    assert limits.LIST_BYTES // 2 < size <= limits.LIST_BYTES
    assert sum(lost.count for lost in kept.observations.lost) == 100 - len(kept.observations.items)


def test_the_sequence_runs_through_types_and_phases_and_is_the_same_in_the_events() -> None:
    kept = ledger.Ledger(lines := Lines())
    for phase in (Phase.FETCH, Phase.INSTALL, Phase.EXERCISE):
        kept.observe(observation({"path": phase.value}, phase=phase))
    assert [row.sequence for row in kept.observations.items] == [1, 2, 3]
    assert [json.loads(line) for line in lines.lines] == [msgspec.to_builtins(row) for row in kept.observations.items]


def test_events_that_were_not_written_are_counted_in_the_coverage() -> None:
    kept = ledger.Ledger(Lines(room=2))
    for _ in range(5):
        kept.observe(observation({}))
    coverage = kept.covered(result.Coverage(hooks_run=1))
    assert (coverage.events_written, coverage.events_lost, coverage.hooks_run) == (2, 3, 1)


def test_captured_text_is_kept_whole_up_to_the_capture() -> None:
    kept = ledger.Ledger(Lines())
    text = "é\n" * (limits.CAPTURE_BYTES // 2)
    for _ in range(2):
        kept.observe(observation({"text": text}, kind=Kind.OUTPUT_TEXT))
    assert [row.detail["text"] for row in kept.observations.items] == [text, text]
    assert not any(row.cut for row in kept.observations.items)


HOSTILE = "\x1b]0;t\x07 \x9b31m \u202e\u2066 \ud800 \x00 \r \x7f \u2028"


def test_hostile_text_is_inert_wherever_it_stands() -> None:
    kept = ledger.Ledger(lines := Lines())
    kept.observe(observation({HOSTILE: [HOSTILE, {"x": HOSTILE}]}))
    kept.error("x", HOSTILE)
    kept.limitation(HOSTILE)
    encoded = result.encode(made(kept))
    assert problems(encoded) == []
    values = json.loads(encoded)
    values["lines"] = [json.loads(line) for line in lines.lines]
    active = [text for text in _texts(values) if any(not (c.isprintable() or c in "\n\t") for c in text)]
    assert active == []
    assert r"\x1b" in values["errors"][0]["message"]


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in _texts(part)]
    return [text for entry in value for text in _texts(entry)] if isinstance(value, list) else []


details = st.dictionaries(
    st.text(max_size=8),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
        max_leaves=12,
    ),
    max_size=6,
)


@given(st.lists(st.tuples(details, st.sampled_from(Kind), st.sampled_from(Phase)), max_size=5))
def test_whatever_a_sensor_says_the_result_fits_its_schema(said: list[tuple[dict[str, Any], Kind, Phase]]) -> None:
    kept = ledger.Ledger(lines := Lines())
    for detail, kind, phase in said:
        kept.observe(observation(detail, kind=kind, phase=phase))
    encoded = result.encode(made(kept))
    assert problems(encoded) == []
    assert encoded.isascii()
    assert len(lines.lines) == len(said)


def test_a_deep_wide_or_long_detail_is_cut_and_says_so() -> None:
    deep: Any = "bottom"
    for _ in range(50):
        deep = [deep]
    for detail in ({"x": deep}, {"x": list(range(1000))}, {"x": "y" * 5000}, {str(n): n for n in range(1000)}):
        kept = ledger.Ledger(lines := Lines())
        kept.observe(observation(detail))
        assert kept.observations.items[0].cut
        assert len(lines.lines[0]) <= limits.ROW_BYTES


def test_a_row_that_stays_too_large_loses_its_detail_and_says_so() -> None:
    kept = ledger.Ledger(lines := Lines())
    kept.observe(observation({str(n): ["é" * 250] * 250 for n in range(250)}))
    assert kept.observations.items[0].cut
    assert kept.observations.items[0].detail == {}
    assert len(lines.lines[0]) <= limits.ROW_BYTES


def test_a_detail_of_any_size_costs_no_more_than_a_row() -> None:
    cutter = ledger._Cutter(limits.TEXT_BYTES)
    shown = cutter.value({str(n): ["y" * 4000] * 256 for n in range(256)}, 0)
    assert cutter.cut
    assert len(jsonio.dump(shown)) < 4 * limits.ROW_BYTES


def test_an_ordinary_detail_is_not_cut() -> None:
    kept = ledger.Ledger(Lines())
    kept.observe(observation({"argv": ["node", "x" * 1000], "pid": 4, "text": "two\nlines\tand é 日本"}))
    row = kept.observations.items[0]
    assert not row.cut
    assert row.detail == {"argv": ["node", "x" * 1000], "pid": 4, "text": "two\nlines\tand é 日本"}


def test_a_flood_in_the_first_start_leaves_the_lists_of_later_ones_alone() -> None:
    kept = ledger.Ledger(Lines())
    first = observation({"path": "/x"}, phase=Phase.EXERCISE)
    for step in ["exercise/initialize"] * (limits.LIST_ITEMS + 2) + ["exercise-again/initialize"]:
        kept.observe(dataclasses.replace(first, step=step))
    assert kept.observations.items[-1].step == "exercise-again/initialize"
    assert [lost.count for lost in kept.observations.lost] == [2]
    assert kept.count(Kind.FILE_CREATED, Phase.EXERCISE) == limits.LIST_ITEMS + 3


def test_more_errors_than_the_bound_are_said_to_be_more() -> None:
    kept = ledger.Ledger(Lines())
    for number in range(limits.ERRORS + 3):
        kept.error("x", f"{number}")
    assert len(kept.errors) == limits.ERRORS
    assert "the others are not listed" in kept.limitations[-1]


def test_a_result_of_full_lists_stays_below_what_validate_reads() -> None:
    kinds, phases = len(Kind), len(Phase) + 1  # the later starts of EXERCISE have lists of their own
    assert (kinds - 1) * phases * limits.LIST_BYTES + phases * limits.OUTPUT_LIST_BYTES < limits.JSON_RESULT_BYTES
