"""cli.batching and cli.batchprogress: what a batch says, prints and ends with, with a crew that starts nothing."""

import io
import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from fumehood.cli import batching, batchprogress, main
from fumehood.cli.batchprogress import Progress, lines
from fumehood.core.errors import FumehoodError, UnsupportedError
from fumehood.review.batch import listing
from fumehood.review.batch.facts import Facts, Named
from fumehood.review.batch.run import Running, Tally
from fumehood.review.batch.table import Row, summary
from fumehood.review.batch.task import Outcome, Task

FIELDS = {
    "schema_version": 2,
    "target": {"kind": "npm", "name": "@s/p", "version": "1.2.3"},
    "adapter": "node_stdio",
    "action_profile": "mcp_initialize",
    "network_mode": "NONE",
    "credentials": "NONE",
    "question": "q",
    "evidence": ["process"],
    "timeout_seconds": 60,
}


class Crew:
    """Leaves a result in a state at once; None leaves none."""

    shares_disk = True
    state: str | None = "COMPLETED"
    closed = 0

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def slots(self) -> int:
        return self.workers

    def submit(self, task: Task) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        if Crew.state == "interrupt":
            raise KeyboardInterrupt
        if Crew.state is not None:
            value = {
                "request": {},
                "environment": {},
                "execution": {"status": Crew.state},
                "observations": {},
                "coverage": {"tools_listed": 2},
            }
            Path(str(task.out), "result.json").write_text(json.dumps(value))
        future.set_result(Outcome(token=task.digest, status=0, words=b"last \x1b[31m words"))
        return future

    def starts(self) -> list[Any]:
        return []

    def close(self) -> None:
        Crew.closed += 1


@pytest.fixture
def batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run `review batch` over lines; exceptions of ours are raised as `cli.main` sees them."""
    monkeypatch.setattr(batching, "LocalCrew", Crew)
    monkeypatch.setattr(Crew, "closed", 0)

    def run(lines: list[str], *words: str, state: str | None = "COMPLETED") -> Result:
        monkeypatch.setattr(Crew, "state", state)
        (tmp_path / "r.jsonl").write_text("".join(line + "\n" for line in lines))
        argv = ["review", "batch", str(tmp_path / "r.jsonl"), "--out", str(tmp_path / "out"), *words]
        return CliRunner().invoke(main.root, argv, standalone_mode=False)

    return run


def line(**changes: Any) -> str:
    return json.dumps({**FIELDS, **changes})


def test_a_batch_prints_its_table_and_ends_well_when_each_has_a_result(
    batch: Callable[..., Result], tmp_path: Path
) -> None:
    ran = batch([line(), line(question="other"), line()], "--workers", "2", state="TARGET_FAILED")
    assert ran.return_value == 0, ran.exception
    assert "TARGET_FAILED  npm:@s/p@1.2.3" in ran.stdout
    assert "2 requests: TARGET_FAILED 2" in ran.stdout
    assert "line 3: asks for the same as line 1" in ran.stderr
    assert json.loads((tmp_path / "out/summary.json").read_text())["repeated_lines"] == 1
    assert (tmp_path / "out/summary.md").read_text().startswith("2 requests: TARGET_FAILED 2.")
    assert Crew.closed == 1


def test_the_summary_is_one_document_when_asked_for(batch: Callable[..., Result]) -> None:
    ran = batch([line()], "--json")
    assert json.loads(ran.stdout)["states"] == {"COMPLETED": 1}


@pytest.mark.parametrize("state", [None, "HARNESS_ERROR"])
def test_a_request_that_has_no_answer_ends_it_with_our_own_status(
    batch: Callable[..., Result], state: str | None
) -> None:
    ran = batch([line()], state=state)
    assert ran.return_value == 5
    assert "again: npm:@s/p@1.2.3" in ran.stderr
    assert "\x1b" not in ran.output


def test_refused_lines_start_nothing_unless_they_are_to_be_left_out(
    batch: Callable[..., Result], tmp_path: Path
) -> None:
    ran = batch(["{", line()])
    assert isinstance(ran.exception, FumehoodError)
    assert "1 line is refused; nothing was started" in str(ran.exception)
    assert "line 1: not JSON" in ran.stderr
    assert not (tmp_path / "out").exists()
    ran = batch(["{", line()], "--skip-refused")
    assert ran.return_value == 0
    assert json.loads((tmp_path / "out/summary.json").read_text())["refused_lines"] == 1
    assert "no line is left" in str(batch(["{"], "--skip-refused").exception)


def test_one_that_is_interrupted_ends_its_children_and_says_how_to_go_on(batch: Callable[..., Result]) -> None:
    ran = batch([line()], state="interrupt")
    assert isinstance(ran.exception, click.Abort | KeyboardInterrupt)
    assert "0 of 1 requests are done; the same command goes on from there" in ran.stderr
    assert Crew.closed == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workers", "0"), "--workers 0"),
        (("--workers", "1000"), "--workers 1000"),
        (("--workers", "1", "--scheduler", "tcp://127.0.0.1:1"), "give one of them"),
        (("--scheduler", "tcp://far.example:1"), "runs code"),
    ],
)
def test_what_does_not_fit_together_is_refused(batch: Callable[..., Result], words: tuple[str, ...], said: str) -> None:
    assert said in str(batch([line()], *words).exception)


def test_a_missing_extra_is_named(batch: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    error = batch([line()], "--scheduler", "tcp://127.0.0.1:1").exception
    assert isinstance(error, UnsupportedError)
    assert "fumehood[cluster]" in str(error)


def test_a_cluster_is_asked_by_its_address(batch: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fumehood.review.batch.cluster.ClusterCrew", lambda _: Crew(1))
    ran = batch([line()], "--scheduler", "tcp://far.example:1", "--unsafe-plain-scheduler", "--json")
    assert json.loads(ran.stdout)["weakened"] == ["unsafe_plain_scheduler"]
    assert "runs code on every worker" in ran.stderr


def running(count: int) -> list[Running]:
    entry = listing.parse(line().encode(), folder="/").entries[0]
    return [Running(entry=entry, attempt=Path("/x"), since=10.0 - n) for n in range(count)]


def test_the_live_line_names_counts_what_runs_and_no_time_left_without_ground() -> None:
    tally = Tally(total=100, states=Counter({"COMPLETED": 3}), finished=3, seconds=30.0)
    made = batchprogress.live_line(tally, running(5), now=20.0, workers=2, width=300)
    assert made.startswith("3/100  COMPLETED 3  running: npm:@s/p@1.2.3 14 s")
    assert made.endswith("and 2 more")
    assert len(batchprogress.live_line(tally, running(5), now=20.0, workers=2, width=40)) == 40


@pytest.mark.parametrize(
    ("seconds", "said"), [(1.0, "about 10 s left"), (60.0, "about 10 min left"), (900.0, "2.5 h left")]
)
def test_the_time_left_is_the_mean_of_this_pass(seconds: float, said: str) -> None:
    tally = Tally(total=30, states=Counter({"COMPLETED": 10}), finished=10, seconds=10 * seconds)
    assert said in batchprogress.left(tally, 2)


def test_a_terminal_has_one_line_and_everything_else_a_line_for_each_end() -> None:
    stream = io.StringIO()
    live = Progress(stream, live=True, workers=1)
    tally = Tally(total=1, states=Counter({"TIMEOUT": 1}))
    live.tick(tally, running(1))
    live.tick(tally, running(1))  # too soon to be drawn again
    row = Row(target="npm:a@1.0.0", digest="0" * 64, attempts=1, facts=Facts(state="TIMEOUT", error="job:\x1b[2J late"))
    live.ended(row, tally, 1.25)
    live.close()
    assert stream.getvalue().count("running: ") == 1
    assert "[1/1] TIMEOUT  npm:a@1.0.0  1.2 s  job:\\x1b[2J late\n" in stream.getvalue()
    plain = Progress(io.StringIO(), live=False, workers=1)
    plain.tick(tally, running(1))
    plain.close()
    assert plain._stream.getvalue() == ""  # type: ignore[attr-defined]  # it is the StringIO of this test


def test_the_table_counts_planted_credentials_that_were_read_and_found() -> None:
    facts = Facts(
        state="COMPLETED", canaries_read=Named(names=("a", "b"), more=1), canaries_sent=Named(names=("a in body",))
    )
    rows = (
        Row(target="npm:a@1.0.0", digest="0" * 64, attempts=1, facts=facts),
        Row(target="npm:b@1.0.0", digest="1" * 64, attempts=3, words="killed"),
    )
    head, first, second, _ = lines(summary(rows))
    place = head.index("CANARIES")
    assert first[place:].startswith("3 read, 1 found  ")
    assert second.split() == ["NO_RESULT", "npm:b@1.0.0", "3", "killed"]
