"""Limits that the operator lowered, and limits of a target, end a review in the right state with its evidence."""

from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.bench import Bench
from fumehood.fence.stage import StageLimits, stage
from fumehood.review import acquire

pytestmark = pytest.mark.sandbox


def test_the_operators_limit_of_the_exercise_is_kept_where_the_request_asks_for_more(
    bench: Bench, server_folder: Callable[[str], Path]
) -> None:
    bench.set("review", exercise_seconds=1.0)
    ended = bench.folder(server_folder("slow"), argv=["100"], timeout_seconds=120)
    assert ended.ended == ("TIMEOUT", "no_answer")
    assert ended.steps == ["fetch", "install", "exercise"]


@pytest.mark.long  # the hook has to be reached on a busy machine as well
def test_the_limit_of_the_job_leaves_what_was_seen_until_then(bench: Bench, target: Callable[..., Path]) -> None:
    bench.set("review", job_seconds=45.0)
    place = target({"hook.js": "console.log('started'); setInterval(() => 0, 1000)"})
    ended = bench.folder(place)
    assert ended.ended == ("TIMEOUT", "job")
    step = ended.result["execution"]["steps"][-1]
    assert (step["name"], step["end"]) == ("install", "cancelled")
    assert ended.collector("strace", "INSTALL")["state"] == "active"
    assert [d["program"] for d in ended.details("process.exec", "INSTALL")][:1] == ["/opt/node/bin/node"]
    assert ended.result["containment"][-1]["step"] == "install"


def test_a_folder_over_its_bounds_is_the_targets_failure_and_no_matter_of_time(
    bench: Bench, server_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acquire, "stage", lambda *a, **k: stage(*a, **k, bounds=StageLimits(entries=1)))
    ended = bench.folder(server_folder("safe"))
    assert ended.ended == ("TARGET_FAILED", "too_large")
    assert ended.steps == []


def test_a_folder_that_is_not_there_is_the_targets_failure(bench: Bench, tmp_path: Path) -> None:
    assert bench.folder(tmp_path / "nothing").ended == ("TARGET_FAILED", "not_found")
