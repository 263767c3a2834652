"""review.batch.task and review.batch.crew: a child is watched to its end, and ends with whoever watches it."""

import os
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fumehood.core import limits
from fumehood.review.batch import crew, task
from fumehood.review.batch.task import Task

Make = Callable[..., Any]
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
FOLLOWS = "import sys, os; os.write(2, b'ready\\n'); sys.stdin.read(); os.write(2, b'told\\n'); sys.exit(7)"
DEAF = "import signal, time, sys, os; os.write(2, b'deaf\\n'); signal.pause()"


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_the_status_and_the_last_words_of_a_child_are_known() -> None:
    text = "import sys; sys.stderr.write('x' * 100_000 + 'end'); sys.exit(4)"
    status, words = task.child(python(text), stop=lambda: False, environment=ENVIRONMENT)
    assert status == 4
    assert words.endswith(b"end")
    assert len(words) == limits.BATCH_STDERR_BYTES


def test_a_child_that_was_killed_has_its_signals_status() -> None:
    status, _ = task.child(python("import os; os.kill(os.getpid(), 9)"), stop=lambda: False, environment=ENVIRONMENT)
    assert status == 137


def test_a_child_that_closes_its_stderr_is_waited_for() -> None:
    text = "import os, sys; os.close(2); sys.stdin.read(); os._exit(3)"
    looks = iter([False, False, True])
    status, _ = task.child(python(text), stop=lambda: next(looks, True), environment=ENVIRONMENT)
    assert status == 3


def test_a_child_that_nobody_wants_is_let_go_and_ends_by_itself() -> None:
    status, words = task.child(python(FOLLOWS), stop=lambda: True, environment=ENVIRONMENT)
    assert status == 7
    assert words.endswith(b"told\n")


def test_a_child_past_its_time_is_let_go() -> None:
    status, _ = task.child(python(FOLLOWS), stop=lambda: False, environment=ENVIRONMENT, seconds=0.0)
    assert status == 7


def test_a_child_that_does_not_listen_is_killed() -> None:
    status, _ = task.child(python(DEAF), stop=lambda: True, environment=ENVIRONMENT, end_seconds=0.0)
    assert status == 137


def attempt(folder: Path, result: bytes, events: bytes = b"event\n") -> Path:
    folder.mkdir()
    (folder / "result.json").write_bytes(result)
    (folder / "events.ndjson").write_bytes(events)
    return folder


def test_files_come_back_compressed(tmp_path: Path, result: Make) -> None:
    packed, dropped = task.pack(attempt(tmp_path / "a", result()))
    assert {name: zlib.decompress(data) for name, data in packed} == {
        "result.json": result(),
        "events.ndjson": b"event\n",
    }
    assert dropped == ()


def test_without_a_result_nothing_comes_back(tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_bytes(b"half")
    assert task.pack(tmp_path) == ((), ())


def test_a_file_that_is_too_large_to_come_back_is_named(
    tmp_path: Path, result: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = attempt(tmp_path / "a", result(), os.urandom(5000))
    monkeypatch.setattr(limits, "BATCH_RETURNED_BYTES", 4000)
    packed, dropped = task.pack(folder)
    assert [name for name, _ in packed] == ["result.json"]
    assert dropped == ("events.ndjson",)
    monkeypatch.setitem(task._SIZES, "events.ndjson", 10)
    assert task.pack(folder)[1] == ("events.ndjson",)


def test_a_scratch_folder_goes_with_its_block_and_so_does_what_a_killed_worker_left(tmp_path: Path) -> None:
    left, fresh = tmp_path / "fumehood-batch-left", tmp_path / "fumehood-batch-fresh"
    for folder in (left, fresh):
        folder.mkdir()
    os.utime(left, (0, 0))
    (tmp_path / "fumehood-batch-link").symlink_to(fresh)
    with task.scratch(tmp_path) as held:
        os.utime(held, (0, 0))
        with task.scratch(tmp_path) as second:
            assert held.exists()  # it is held, however old it is
            assert second != held
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fumehood-batch-fresh", "fumehood-batch-link"]


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child is a program that writes what it was asked into the attempt's folder."""
    text = (
        "import sys, pathlib\n"
        "request, out = sys.argv[1], pathlib.Path(sys.argv[2])\n"
        "out.mkdir(exist_ok=True)\n"
        "(out / 'result.json').write_bytes(pathlib.Path(request).read_bytes())\n"
    )
    monkeypatch.setattr(task, "_argv", lambda _, request, out: [*python(text), str(request), str(out)])


@pytest.mark.usefixtures("echo")
def test_a_task_with_a_folder_leaves_its_files_there(tmp_path: Path) -> None:
    (tmp_path / "request.json").write_bytes(b"asked")
    (tmp_path / "attempt-0001").mkdir()
    one = Task(digest="d", request=b"asked", beside="/", harness="0", out=str(tmp_path / "attempt-0001"))
    done = task.perform(one, stop=lambda: False)
    assert (done.status, done.files) == (0, ())
    assert (tmp_path / "attempt-0001/result.json").read_bytes() == b"asked"


@pytest.mark.usefixtures("echo")
def test_a_task_without_a_folder_brings_its_files_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    one = Task(digest="d", request=b"asked", beside="/", harness="0")
    done = task.perform(one, stop=lambda: False, token="t")
    assert done.token == "t"
    assert [(name, zlib.decompress(data)) for name, data in done.files] == [("result.json", b"asked")]
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_of_a_child_names_no_word_of_the_request(tmp_path: Path) -> None:
    one = Task(digest="d", request=b'{"question": "--help"}', beside="/lists", harness="0", settings="/etc/s.toml")
    argv = task._argv(one, tmp_path / "request.json", tmp_path / "out")
    assert argv[:5] == [sys.executable, "-P", "-m", "fumehood", "--settings"]
    assert not any("help" in word for word in argv)


@pytest.mark.usefixtures("echo")
def test_a_local_crew_tells_of_each_start_and_ends_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = crew.LocalCrew(2)
    assert made.slots() == 2
    done = made.submit(Task(digest="d", request=b"asked", beside="/", harness="0")).result(30)
    assert made.starts() == [crew.Start("d", done.token)]
    ready = threading.Event()
    real = task.child

    def child(argv: list[str], **given: Any) -> tuple[int, bytes]:
        del argv
        ready.set()
        return real(python(FOLLOWS), **given)

    monkeypatch.setattr(task, "child", child)
    running = made.submit(Task(digest="e", request=b"asked", beside="/", harness="0"))
    assert ready.wait(30)
    made.close()
    assert running.result(0).status == 7
