"""review.batch.run: one pass, with a crew that starts nothing."""

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fumehood.core import limits
from fumehood.core.clock import SystemClock
from fumehood.review.batch import listing
from fumehood.review.batch.crew import Start
from fumehood.review.batch.listing import Entry
from fumehood.review.batch.place import Place
from fumehood.review.batch.run import BarrenError, Orders, Pass, Running, Tally
from fumehood.review.batch.table import Row
from fumehood.review.batch.task import Outcome, Task

Make = Callable[..., Any]


class Heard:
    """A watch that remembers."""

    def __init__(self) -> None:
        self.ends: list[Row] = []
        self.agains: list[str] = []
        self.ticks = 0

    def ended(self, row: Row, tally: Tally, seconds: float) -> None:
        assert tally.done >= 1
        assert seconds >= 0
        self.ends.append(row)

    def again(self, row: Row, why: str) -> None:
        assert row.attempts >= 1
        self.agains.append(why)

    def tick(self, tally: Tally, running: list[Running]) -> None:
        assert tally.done + len(running) <= tally.total
        self.ticks += 1


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def passing(tmp_path: Path, heard: Heard) -> Callable[[Any, list[Entry]], list[Row]]:
    """Make one pass over entries, in a folder that stays between passes."""

    def run(crew: Any, entries: list[Entry]) -> list[Row]:
        with Place(tmp_path / "out") as place:
            orders = Orders(beside="/lists", harness="0.1.0")
            return Pass(place, crew, orders, watch=heard, clock=SystemClock()).run(entries)

    return run


@pytest.fixture
def entries(lines: Callable[[int], bytes]) -> Callable[[int], list[Entry]]:
    return lambda count: list(listing.parse(lines(count), folder="/lists").entries)


def test_each_request_is_run_once_and_the_rows_keep_the_order(
    passing: Make, entries: Make, crew: Make, leave: Make
) -> None:
    def perform(task: Task, number: int) -> Outcome:
        leave(task, "COMPLETED" if number % 2 else "TIMEOUT")
        return Outcome(token=str(number), status=0)

    wanted = entries(5)
    made = crew(perform)
    rows = passing(made, wanted)
    assert [row.digest for row in rows] == [entry.digest for entry in wanted]
    assert [row.attempts for row in rows] == [1] * 5
    assert {row.state for row in rows} == {"COMPLETED", "TIMEOUT"}
    assert json.loads(made.tasks[0].request)["question"] == "question 0"


def test_a_second_pass_touches_no_result(passing: Make, entries: Make, crew: Make, leave: Make, tmp_path: Path) -> None:
    def perform(task: Task, number: int) -> Outcome:
        leave(task)
        return Outcome(token=str(number), status=0)

    passing(crew(perform), entries(2))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    again = crew(perform)
    rows = passing(again, entries(3))
    assert len(again.tasks) == 1
    assert [row.attempts for row in rows] == [1, 1, 1]
    assert before.items() <= {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}.items()


def test_an_attempt_that_says_nothing_about_the_target_is_followed_by_others_up_to_a_bound(
    passing: Make, entries: Make, crew: Make, leave: Make, heard: Heard
) -> None:
    def perform(task: Task, number: int) -> Outcome:
        leave(task, "HARNESS_ERROR", errors=[{"code": "registry", "message": "down"}])
        return Outcome(token=str(number), status=5, words=b"words\n")

    (row,) = passing(crew(perform), entries(1))
    assert (row.attempts, row.state) == (limits.BATCH_TRIES, "HARNESS_ERROR")
    assert heard.agains == ["registry: down"] * (limits.BATCH_TRIES - 1)
    (row,) = passing(crew(perform), entries(1))  # another pass tries again
    assert row.attempts == 2 * limits.BATCH_TRIES


def test_a_child_that_was_killed_is_followed_by_another_attempt(
    passing: Make, entries: Make, crew: Make, leave: Make, tmp_path: Path
) -> None:
    def perform(task: Task, number: int) -> Outcome:
        if number == 1:
            return Outcome(token="1", status=137, words=b"last words\n")
        leave(task)
        return Outcome(token=str(number), status=0, words=b"  exercise\n")

    (row,) = passing(crew(perform), entries(1))
    assert (row.attempts, row.state) == (2, "COMPLETED")
    first, second = sorted((tmp_path / "out" / row.digest).glob("attempt-*"))
    assert [path.name for path in first.iterdir()] == ["stderr.txt"]
    assert [path.name for path in second.iterdir()] == ["result.json"]


def test_what_a_crew_raises_is_an_attempt_without_a_result(passing: Make, entries: Make, crew: Make) -> None:
    def perform(task: Task, number: int) -> Outcome:
        raise RuntimeError(f"worker of {task.digest[:3]} died {number} times")

    (row,) = passing(crew(perform), entries(1))
    assert (row.attempts, row.state) == (limits.BATCH_TRIES, "NO_RESULT")
    assert "RuntimeError" in row.words


def test_a_request_that_this_host_refuses_is_not_tried_again(passing: Make, entries: Make, crew: Make) -> None:
    made = crew(lambda task, number: Outcome(token=f"{task.digest}{number}", status=2, words=b"fumehood: refused\n"))
    rows = passing(made, entries(limits.BATCH_BARREN + 2))
    assert {row.state for row in rows} == {"NO_RESULT"}
    assert len(made.tasks) == limits.BATCH_BARREN + 2


def test_a_host_on_which_nothing_has_a_result_ends_the_pass(passing: Make, entries: Make, crew: Make) -> None:
    made = crew(lambda task, number: Outcome(token=f"{task.digest}{number}", status=3, words=b"fumehood: no route\n"))
    with pytest.raises(BarrenError, match="no route"):
        passing(made, entries(100))
    assert len(made.tasks) <= limits.BATCH_BARREN + made.free


def test_an_execution_that_a_cluster_began_by_itself_has_a_number_of_its_own(
    passing: Make, entries: Make, crew: Make, result: Make, tmp_path: Path
) -> None:
    made: Any = None

    def perform(task: Task, _: int) -> Outcome:
        made.announced += [Start(task.digest, "first"), Start(task.digest, "second"), Start(task.digest, "first")]
        assert task.out is None
        return Outcome(token="second", status=0, files=(("result.json", zlib.compress(result())),))

    made = crew(perform)
    made.shares_disk = False
    (row,) = passing(made, entries(1))
    assert row.attempts == 2
    assert row.result == f"{row.digest}/attempt-0002/result.json"
    assert list((tmp_path / "out" / row.digest / "attempt-0001").iterdir()) == []


def test_files_that_came_back_broken_are_an_attempt_without_a_result(passing: Make, entries: Make, crew: Make) -> None:
    made = crew(lambda task, number: Outcome(token=f"{task.digest}{number}", status=0, files=(("result.json", b"x"),)))
    made.shares_disk = False
    (row,) = passing(made, entries(1))
    assert (row.state, row.attempts) == ("NO_RESULT", limits.BATCH_TRIES)
