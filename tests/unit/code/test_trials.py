"""A trial has held only when a program fails with the walls and succeeds without them."""

from importlib import resources
from typing import Any

import pytest

from fumehood.code.job import JobResult, ProgramError, State
from fumehood.code.trials import Kind, Trial, judge, read
from fumehood.core.errors import HarnessError

MARK = "mark0123"
ERROR = ProgramError(name="NotCapable", message="no")
NOTHING = JobResult(state=State.USER_ERROR, ok=False, error=ERROR)
GIVEN = JobResult(state=State.OK, ok=True, value={"found": [f"x{MARK}y"]})
THROWN = JobResult(state=State.USER_ERROR, ok=False, error=ProgramError(name="E", message=MARK))
FINE = JobResult(state=State.OK, ok=True, value={"sum": 6})
SLOW = JobResult(state=State.TIMEOUT_CPU, ok=False, error=ERROR)
NONE = JobResult(state=State.RUNNER_UNAVAILABLE, ok=False, error=ERROR)

LEAK = Trial(name="leak", kind=Kind.LEAK, program="")
BOUND = Trial(name="bound", kind=Kind.BOUND, program="", expected="timeout_cpu")
WORKS = Trial(name="works", kind=Kind.WORKS, program="", expected='{"sum":6}')


@pytest.mark.parametrize(
    ("trial", "confined", "free", "outcome"),
    [
        (LEAK, NOTHING, GIVEN, "held"),
        (LEAK, NOTHING, NOTHING, "not_proven"),
        (LEAK, NOTHING, None, "not_proven"),
        (LEAK, GIVEN, GIVEN, "not_held"),
        (LEAK, THROWN, GIVEN, "not_held"),
        (LEAK, NONE, GIVEN, "not_proven"),
        (BOUND, SLOW, FINE, "held"),
        (BOUND, SLOW, SLOW, "not_proven"),
        (BOUND, FINE, FINE, "not_held"),
        (BOUND, NOTHING, FINE, "not_held"),
        (BOUND, NONE, FINE, "not_proven"),
        (WORKS, FINE, None, "held"),
        (WORKS, GIVEN, None, "not_held"),
        (WORKS, NOTHING, None, "not_held"),
        (WORKS, NONE, None, "not_proven"),
    ],
)
def test_both_sides_decide(trial: Trial, confined: JobResult, free: JobResult | None, outcome: str) -> None:
    assert judge(trial, confined, free, MARK).outcome == outcome


def test_the_words_name_each_side_and_never_the_mark() -> None:
    tried = judge(LEAK, NOTHING, GIVEN, MARK)
    assert (tried.with_walls, tried.without_walls) == ("user_error: NotCapable", "gave the mark away")
    assert judge(WORKS, FINE, None, MARK).with_walls == "ok"
    assert MARK not in repr(judge(LEAK, THROWN, THROWN, MARK))


def test_the_programs_that_come_with_fumehood_are_read() -> None:
    found = read((resources.files("fumehood.data") / "selftest.js").read_text(encoding="utf-8"))
    kinds = [one.kind for one in found]
    assert len({one.name for one in found}) == len(found) == 28
    assert (kinds.count(Kind.LEAK), kinds.count(Kind.BOUND), kinds.count(Kind.WORKS)) == (21, 4, 3)
    assert all(one.program for one in found)
    assert {one.expected for one in found if one.kind is Kind.BOUND} <= set(State)
    assert not any("//==" in one.program for one in found)


@pytest.mark.parametrize("text", ["", "return 1", "//== a: nonsense\nreturn 1\n"])
def test_a_file_without_trials_is_a_fault(text: str) -> None:
    with pytest.raises(HarnessError):
        read(text)


def test_a_program_ends_where_the_next_begins() -> None:
    text: Any = "// words\n//== a: leak\none\n\ntwo\n//== b: works -> 1\nthree\n"
    first, second = read(text)
    assert (first.program, first.expected) == ("one\n\ntwo", "")
    assert (second.name, second.kind, second.program, second.expected) == ("b", Kind.WORKS, "three", "1")
