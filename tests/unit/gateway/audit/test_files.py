"""The files of a log are ours alone, reached through no link, and written by one process."""

import os
import stat
from pathlib import Path

import pytest

from fumehood.core import limits
from fumehood.gateway.audit import files
from fumehood.gateway.audit.faults import AuditPlaceError


@pytest.fixture
def log(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path / "audit.jsonl"


def refusal(path: Path) -> str:
    with pytest.raises(AuditPlaceError) as caught, files.locked(path) as folder:
        os.close(folder.current())
    return str(caught.value)


def test_a_log_is_made_with_a_lock_beside_it_for_its_owner_alone(log: Path) -> None:
    old = os.umask(0)
    try:
        with files.locked(log) as folder:
            os.close(folder.current())
    finally:
        os.umask(old)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in log.parent.iterdir()}
    assert modes == {"audit.jsonl": 0o600, "audit.jsonl.lock": 0o600}


@pytest.mark.threat("G1")
def test_a_second_writer_is_refused_until_the_first_has_left(log: Path) -> None:
    with files.locked(log):
        assert "another process writes it" in refusal(log)
    with files.locked(log):
        pass


@pytest.mark.threat("G1")
def test_links_are_refused_in_the_name_and_on_the_way(log: Path) -> None:
    real = log.parent / "real"
    real.mkdir(mode=0o700)
    (real / "file").touch(mode=0o600)
    log.symlink_to(real / "file")
    assert "a link is in its path" in refusal(log)
    (log.parent / "way").symlink_to(real)
    assert "cannot be opened" in refusal(log.parent / "way" / "audit.jsonl")


@pytest.mark.threat("G1")
def test_a_second_name_of_the_file_is_refused(log: Path) -> None:
    log.touch(mode=0o600)
    os.link(log, log.parent / "other")
    assert "it has a second name" in refusal(log)


@pytest.mark.threat("G1")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610])
def test_a_file_that_others_may_use_is_refused(log: Path, mode: int) -> None:
    log.touch()
    log.chmod(mode)
    assert "others may read or write it" in refusal(log)


@pytest.mark.threat("G1")
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_may_write_is_refused(log: Path, mode: int) -> None:
    log.parent.chmod(mode)
    assert "others may write its folder" in refusal(log)


@pytest.mark.root
@pytest.mark.threat("G1")
def test_a_file_of_somebody_else_is_refused(log: Path) -> None:
    log.touch(mode=0o600)
    os.chown(log, 12345, 12345)
    assert "somebody else's" in refusal(log)


def test_what_is_no_file_is_refused(log: Path) -> None:
    os.mkfifo(log, 0o600)
    assert "no regular file" in refusal(log)
    log.unlink()
    log.mkdir()
    assert "cannot be opened: Is a directory" in refusal(log)
    assert "No such file" in refusal(log.parent / "missing" / "audit.jsonl")
    assert "no absolute path" in refusal(Path("audit.jsonl"))


def test_full_files_sort_as_their_lines_do(log: Path) -> None:
    names = [files.aside(log.name, number) for number in (9, 10, 2**53 - 1)]
    assert names == sorted(names)
    assert names[0] == "audit-0000000000000009.jsonl"
    for name in (*names, "audit-9.jsonl", "other-0000000000000009.jsonl"):
        (log.parent / name).write_bytes(b"x\n")
    log.write_bytes(b"y\nz\n")
    assert [(name, list(lines)) for name, lines in files.lines(log)] == [
        *((name, [b"x\n"]) for name in names),
        ("audit.jsonl", [b"y\n", b"z\n"]),
    ]


def test_the_current_file_may_be_missing_only_after_a_full_one(log: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(files.lines(log))
    (log.parent / files.aside(log.name, 1)).write_bytes(b"x\n")
    assert [name for name, _ in files.lines(log)] == ["audit-0000000000000001.jsonl"]


def test_a_long_line_is_read_in_part_and_a_fifo_not_at_all(log: Path) -> None:
    log.write_bytes(b"x" * 10_000)
    ((_, lines),) = ((name, list(found)) for name, found in files.lines(log))
    assert len(lines[0]) == limits.AUDIT_LINE_BYTES + 1
    log.unlink()
    os.mkfifo(log)
    with pytest.raises(OSError, match="no regular file"):
        list(files.lines(log))


def test_a_full_file_replaces_no_other(log: Path) -> None:
    with files.locked(log) as folder:
        os.close(folder.current())
        (log.parent / files.aside(log.name, 1)).touch()
        with pytest.raises(FileExistsError):
            folder.put_aside(1)
    assert log.exists()


def test_a_folder_of_too_many_files_is_not_read(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "AUDIT_NAMES", 2)
    for number in range(3):
        (log.parent / str(number)).touch()
    with pytest.raises(OSError, match="too many files"):
        list(files.lines(log))
