"""review.batch.place: attempts are numbered once, results are never touched, and what is half does not count."""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fumehood.core import limits
from fumehood.review.batch import place as places
from fumehood.review.batch.facts import UnreadableResultError
from fumehood.review.batch.place import AttemptsError, Place
from fumehood.review.folder import DiskError, OutputFolderError

Make = Callable[..., Any]
DIGEST = "ab" * 32
REQUEST = b"{}\n"


def test_an_attempt_has_a_number_of_its_own_and_its_request_beside_it(tmp_path: Path) -> None:
    with Place(tmp_path / "deep" / "out") as place:
        first, second = place.begin(DIGEST, REQUEST), place.begin(DIGEST, REQUEST)
        assert (first.name, second.name) == ("attempt-0001", "attempt-0002")
        assert (first.parent / "request.json").read_bytes() == REQUEST
        assert place.digests() == [DIGEST]
        assert place.standing(DIGEST).attempts == 2


def test_a_number_that_was_given_is_not_given_again(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        place.begin(DIGEST, REQUEST)
        place.begin(DIGEST, REQUEST)
        (tmp_path / DIGEST / "attempt-0001").rmdir()
        assert place.begin(DIGEST, REQUEST).name == "attempt-0003"


def test_the_last_attempt_with_a_result_counts(tmp_path: Path, result: Make) -> None:
    with Place(tmp_path) as place:
        assert place.standing(DIGEST) == places.Standing()
        (place.begin(DIGEST, REQUEST) / "result.json").write_bytes(result("TIMEOUT"))
        half = place.begin(DIGEST, REQUEST)
        (half / "events.ndjson").write_bytes(b"")
        (half / "stderr.txt").write_bytes(b"one\nfumehood: killed \x1b[31m\xff\n")
        standing = place.standing(DIGEST)
        assert (standing.attempts, standing.last) == (2, "attempt-0001")
        assert standing.facts is not None
        assert standing.facts.state == "TIMEOUT"
        assert standing.words == "fumehood: killed ?[31m\\xff"


@pytest.mark.parametrize("data", [b"", b"{", b"{}"])
def test_a_result_that_does_not_read_is_half_an_attempt(tmp_path: Path, data: bytes) -> None:
    with Place(tmp_path) as place:
        (place.begin(DIGEST, REQUEST) / "result.json").write_bytes(data)
        assert place.standing(DIGEST).facts is None


def test_a_second_batch_is_refused_while_the_first_has_the_folder(tmp_path: Path) -> None:
    with Place(tmp_path), pytest.raises(OutputFolderError, match="another batch"):
        Place(tmp_path)
    with Place(tmp_path):
        pass  # and taken when it has ended


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(OutputFolderError, match="no batch's"):
        Place(tmp_path)
    with pytest.raises(OutputFolderError):
        Place(tmp_path / "thesis.txt")


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", none)
    with pytest.raises(OutputFolderError, match="without locks"):
        Place(tmp_path)


def test_attempts_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BATCH_ATTEMPTS", 1)
    with Place(tmp_path) as place:
        place.begin(DIGEST, REQUEST)
        with pytest.raises(AttemptsError):
            place.begin(DIGEST, REQUEST)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    places.write(tmp_path, "x", (b"one", b"two"))
    assert (tmp_path / "x").read_bytes() == b"onetwo"

    def broken() -> Any:
        yield b"three"
        raise OSError(28, "No space left on device")

    with pytest.raises(DiskError, match="make room"):
        places.write(tmp_path, "x", broken())
    assert (tmp_path / "x").read_bytes() == b"onetwo"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_what_came_back_is_unpacked_with_the_result_last(tmp_path: Path, result: Make) -> None:
    files = (("result.json", zlib.compress(result())), ("events.ndjson", zlib.compress(b"event\n" * 500_000)))
    places.keep(tmp_path, files)
    assert (tmp_path / "result.json").read_bytes() == result()
    assert (tmp_path / "events.ndjson").stat().st_size == 3_000_000
    assert (tmp_path / "result.json").stat().st_mtime_ns >= (tmp_path / "events.ndjson").stat().st_mtime_ns


@pytest.mark.parametrize("packed", [b"no such stream", zlib.compress(b"0" * 100_000)])
def test_what_came_back_broken_or_too_large_is_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bytes
) -> None:
    monkeypatch.setattr(limits, "JSON_RESULT_BYTES", 50_000)
    with pytest.raises(UnreadableResultError):
        places.keep(tmp_path, (("result.json", packed),))
    assert list(tmp_path.iterdir()) == []


def test_an_empty_stderr_has_no_last_line() -> None:
    assert places.last_line(b" \n") == ""
