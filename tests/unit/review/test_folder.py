"""review.folder: a result is written whole or not at all."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from fumehood.core import limits
from fumehood.review import folder
from fumehood.review.folder import OutputFolder, OutputFolderError


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


@pytest.mark.parametrize("exists", [True, False])
def test_a_finished_folder_holds_the_files_and_nothing_else(tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "a" / "out"
    if exists:
        path.mkdir(parents=True)
    with OutputFolder(path) as out:
        assert out.events.write(b'{"a":1}\n')
        out.write("report.html", b"<p>")
        out.finish(b"{}\n")
    assert names(path) == ["events.ndjson", "report.html", "result.json"]
    assert (path / "events.ndjson").read_bytes() == b'{"a":1}\n'
    assert (path / "result.json").read_bytes() == b"{}\n"


def begin(path: Path) -> OutputFolder:
    out = OutputFolder(path)
    out.events.write(b"{}\n")
    out.write("report.html", b"x")
    return out


@pytest.mark.parametrize("kind", [KeyboardInterrupt, RuntimeError])
def test_what_is_interrupted_leaves_nothing(tmp_path: Path, kind: type[BaseException]) -> None:
    with pytest.raises(kind), begin(tmp_path / "out"):
        raise kind
    assert names(tmp_path) == []


def test_what_is_left_without_a_result_leaves_nothing(tmp_path: Path) -> None:
    with begin(tmp_path / "out") as out:
        assert names(tmp_path / "out") == [".fumehood-events.ndjson.partial", "report.html"]
        assert out.events.write(b"{}\n")
    assert names(tmp_path) == []


def test_an_empty_folder_that_was_there_stays_and_is_empty_again(tmp_path: Path) -> None:
    with OutputFolder(tmp_path) as out:
        out.write("report.html", b"x")
    assert names(tmp_path) == []


def test_a_folder_that_is_not_empty_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_bytes(b"an older one")
    with pytest.raises(OutputFolderError, match="not empty") as refused:
        OutputFolder(tmp_path)
    assert refused.value.exit_status == 2
    assert (tmp_path / "result.json").read_bytes() == b"an older one"
    assert names(tmp_path) == ["result.json"]


def test_what_a_killed_review_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    for name in (".fumehood-events.ndjson.partial", ".fumehood-result.json.partial"):
        (tmp_path / name).write_bytes(b"half")
    with OutputFolder(tmp_path) as out:
        out.finish(b"{}\n")
    assert names(tmp_path) == ["events.ndjson", "result.json"]


def test_a_leftover_beside_anything_else_is_refused_and_stays(tmp_path: Path) -> None:
    (tmp_path / ".fumehood-events.ndjson.partial").write_bytes(b"half")
    (tmp_path / "mine").write_bytes(b"")
    with pytest.raises(OutputFolderError, match="not empty"):
        OutputFolder(tmp_path)
    assert names(tmp_path) == [".fumehood-events.ndjson.partial", "mine"]


def test_without_locks_a_leftover_may_be_another_reviews_and_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(descriptor: int, operation: int) -> None:
        del descriptor, operation
        raise OSError(errno.EOPNOTSUPP, "no locks")

    monkeypatch.setattr(fcntl, "flock", none)
    with OutputFolder(tmp_path) as out:
        with pytest.raises(OutputFolderError, match="not empty"):
            OutputFolder(tmp_path)
        out.finish(b"{}\n")
    assert names(tmp_path) == ["events.ndjson", "result.json"]


def test_a_folder_that_another_review_writes_is_refused_and_not_disturbed(tmp_path: Path) -> None:
    with OutputFolder(tmp_path) as out:
        with pytest.raises(OutputFolderError, match="another review"):
            OutputFolder(tmp_path)
        out.events.write(b"{}\n")
        out.finish(b"{}\n")
    assert names(tmp_path) == ["events.ndjson", "result.json"]


@pytest.mark.parametrize("name", ["file", "file/below", "nul\0"])
def test_what_is_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputFolderError):
        OutputFolder(tmp_path / name)
    assert names(tmp_path) == ["file"]


def test_a_planted_link_under_a_name_of_ours_is_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    out_path = tmp_path / "out"
    with OutputFolder(out_path) as out:
        (out_path / "result.json").symlink_to(outside)
        (out_path / ".fumehood-report.html.partial").symlink_to(outside)
        with pytest.raises(folder.DiskError):
            out.write("report.html", b"x")
        out.finish(b"{}\n")
    assert outside.read_bytes() == b"mine"
    assert not (out_path / "result.json").is_symlink()


def test_a_planted_hard_link_under_a_name_of_ours_is_never_written(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    with OutputFolder(tmp_path / "out") as out:
        (tmp_path / "out/.fumehood-report.html.partial").hardlink_to(outside)
        with pytest.raises(folder.DiskError):
            out.write("report.html", b"x")
    assert outside.read_bytes() == b"mine"


def test_a_full_disk_leaves_no_result_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        del descriptor
        raise OSError(errno.ENOSPC, "full")

    with begin(tmp_path / "out") as out:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(folder.DiskError, match="make room") as ended:
            out.finish(b"{}\n")
    assert ended.value.exit_status == 5
    assert names(tmp_path) == []


def test_events_stop_at_their_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EVENTS", 2)
    with OutputFolder(tmp_path / "lines") as out:
        assert [out.events.write(b"{}\n") for _ in range(3)] == [True, True, False]
    monkeypatch.setattr(limits, "EVENTS", 100)
    monkeypatch.setattr(limits, "EVENTS_BYTES", 10)
    with OutputFolder(tmp_path / "bytes") as out:
        assert [out.events.write(b"{}{}{}\n") for _ in range(2)] == [True, False]


def test_the_result_gets_its_name_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[object] = []
    rename = os.rename

    def noting(old: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        order.append(new)
        rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "rename", noting)
    with OutputFolder(tmp_path / "out") as out:
        out.write("report.html", b"x")
        out.finish(b"{}\n")
    assert order == ["report.html", "events.ndjson", "result.json"]


def test_the_events_can_be_read_back_before_they_have_their_name(tmp_path: Path) -> None:
    with OutputFolder(tmp_path) as out:
        assert out.events.write(b'{"a":1}\n')
        assert out.events.write(b'{"b":2}\n')
        assert list(out.lines()) == [b'{"a":1}\n', b'{"b":2}\n']
        assert names(tmp_path) == [".fumehood-events.ndjson.partial"]
        out.finish(b"{}\n")
    assert (tmp_path / "events.ndjson").read_bytes() == b'{"a":1}\n{"b":2}\n'
