"""serve.texts: which text is kept, how much of them, and where lines begin."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.content import credentialfiles, encoding
from fumehood.core import errors
from fumehood.core.sections import WorkspaceSettings
from fumehood.serve.access import Access
from fumehood.serve.texts import Lines, Text, Texts

LATER = 10**10  # nanoseconds


def text(data: bytes) -> Text:
    decoded = encoding.decode(data)
    assert decoded is not None
    return Text(path=b"a", size=len(data), decoded=decoded, lines=Lines(data))


@given(st.lists(st.integers(0, 9000), max_size=9), st.booleans())
def test_a_line_begins_behind_as_many_line_feeds(sizes: list[int], ended: bool) -> None:
    data = b"\n".join(b"x" * size for size in sizes) + (b"\n" if ended else b"")
    lines = Lines(data)
    assert lines.total == len(data.splitlines())
    for number in range(lines.total + 2):
        assert data[: lines.after(number)] == b"".join(data.splitlines(keepends=True)[:number])


@given(st.text("ab\n\ré", max_size=300), st.integers(-1, 40))
def test_an_offset_is_that_of_its_line(some: str, number: int) -> None:
    data, expected = some.encode(), 0
    for _ in range(number):
        found = data.find(b"\n", expected)
        expected = len(data) if found < 0 else found + 1
    assert Lines(data).after(number) == expected


@given(st.integers(0, 4000))
def test_an_offset_in_a_long_text_is_that_of_its_line(number: int) -> None:
    data = b"".join(b"x" * (n % 97) + b"\n" for n in range(3000))
    assert Lines(data).after(number) == sum(n % 97 + 1 for n in range(min(number, 3000)))


def test_what_was_not_asked_for_longest_goes_first() -> None:
    kept = Texts(most_bytes=10)
    kept.keep("one", text(b"1234"))
    kept.keep("two", text(b"1234"))
    assert kept.get("one") is not None
    kept.keep("three", text(b"1234"))
    assert [kept.get(name) is not None for name in ("one", "two", "three")] == [True, False, True]


def test_what_is_kept_twice_counts_once() -> None:
    kept = Texts(most_bytes=10)
    for _ in range(5):
        kept.keep("one", text(b"1234"))
    kept.keep("two", text(b"123456"))
    assert kept.get("one") is not None


def test_a_text_over_the_bound_is_not_kept() -> None:
    kept = Texts(most_bytes=10)
    kept.keep("one", text(b"12345678901"))
    assert kept.get("one") is None


@contextmanager
def opened(root: Path) -> Iterator[Access]:
    with Access.opened(root, WorkspaceSettings(), credentialfiles.denies) as access:
        yield access


def read(access: Access, path: str = "a.txt", limit: int = 1000) -> bytes:
    return access.text(path, limit).decoded.text


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was decoded; files count as old enough to be told apart by their times."""
    seen: list[bytes] = []
    real, now = encoding.decode, time.time_ns

    def counted(data: bytes) -> encoding.Decoded | None:
        seen.append(data)
        return real(data)

    monkeypatch.setattr(encoding, "decode", counted)
    monkeypatch.setattr(time, "time_ns", lambda: now() + LATER)
    return seen


def test_a_file_that_is_the_same_is_decoded_once(tmp_path: Path, decoded: list[bytes]) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with opened(tmp_path) as access:
        assert [read(access) for _ in range(3)] == [b"one\n"] * 3
    assert decoded == [b"one\n"]


def test_a_change_of_the_same_size_is_seen(tmp_path: Path, decoded: list[bytes]) -> None:
    place = tmp_path / "a.txt"
    place.write_text("one\n")
    os.utime(place, ns=(1, 1))
    with opened(tmp_path) as access:
        assert read(access) == b"one\n"
        place.write_text("two\n")
        assert read(access) == b"two\n"
        (tmp_path / "b.txt").write_text("six\n")
        (tmp_path / "b.txt").rename(place)
        assert read(access) == b"six\n"
    assert len(decoded) == 3


def test_a_file_that_has_just_changed_is_not_kept(
    tmp_path: Path, decoded: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "a.txt"
    place.write_text("one\n")
    monkeypatch.setattr(time, "time_ns", lambda: place.stat().st_ctime_ns + 1)
    with opened(tmp_path) as access:
        read(access)
        read(access)
    assert len(decoded) == 2


@pytest.mark.threat("T3")
def test_a_text_that_is_kept_is_refused_where_the_file_is(tmp_path: Path, decoded: list[bytes]) -> None:
    place = tmp_path / "a.txt"
    place.write_text("one\n")
    with opened(tmp_path) as access:
        read(access)
        with pytest.raises(errors.TooLargeError):
            read(access, limit=3)
        os.link(place, tmp_path / "second name")
        with pytest.raises(errors.HardLinkError):
            read(access)
        (tmp_path / "second name").unlink()
        place.rename(tmp_path / ".env")
        with pytest.raises(errors.DeniedPathError):
            read(access, ".env")
        (tmp_path / "a.txt").symlink_to(".env")
        with pytest.raises(errors.OutsideWorkspaceError):
            read(access)
    assert len(decoded) == 1
