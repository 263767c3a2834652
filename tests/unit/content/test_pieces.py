"""Pieces of text side by side."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.content.pieces import Pieces
from fumehood.content.secrets import Span

WORD = re.compile(rb"S[0-9a-z\n]{1,40}E")


def find(data: bytes) -> Sequence[Span]:
    return [Span(start=match.start(), end=match.end(), rule="word") for match in WORD.finditer(data)]


def named(rule: str, value: bytes) -> bytes:
    return f"[{rule}:{len(value)}]".encode()


@pytest.mark.threat("T4")
def test_what_straddles_two_sources_is_two_things() -> None:
    pieces = Pieces()
    pieces.add(b"a S12")
    pieces.add(b"34E b")
    left, counted = pieces.redacted(find, named)
    assert [left.data(0), left.data(1)] == [b"a S12", b"34E b"]
    assert not counted


@pytest.mark.threat("T4")
@given(st.integers(0, 8), st.integers(0, 8))
def test_what_straddles_a_piece_and_its_surroundings_is_replaced_in_the_piece(one: int, other: int) -> None:
    text = b"--S123456E--"
    first, last = sorted((one, 4 + other))
    pieces = Pieces()
    pieces.add(text[first:last], before=text[:first], after=text[last:])
    left, counted = pieces.redacted(find, named)
    shown = left.data(0)
    assert shown.replace(b"[word:8]", b"").strip(b"-") == b""
    assert bool(counted) == (b"[word:8]" in shown)


@pytest.mark.threat("T4")
def test_a_find_that_reaches_out_of_its_source_is_looked_for_in_each_alone() -> None:
    def greedy(data: bytes) -> Sequence[Span]:
        start = data.find(b"KEY")
        return [Span(start=start, end=len(data), rule="key")] if start >= 0 else []

    pieces = Pieces()
    for data in (b"x", b"a KEY b", b"plain", b"c KEY"):
        pieces.add(data)
    left, counted = pieces.redacted(greedy, named)
    assert [left.data(number) for number in range(4)] == [b"x", b"a [key:5]", b"plain", b"c [key:3]"]
    assert counted == {"key": 2}


@pytest.mark.threat("T4")
def test_a_telling_value_is_replaced_wherever_it_stands() -> None:
    def assigned(data: bytes) -> Sequence[Span]:
        return [Span(start=m.start(1), end=m.end(1), rule="p") for m in re.finditer(rb"p=(\w+)", data)]

    pieces = Pieces()
    pieces.add(b"p=abc12345def")
    pieces.add(b"see xabc12345defy")
    pieces.add(b"p=postgresql and postgresql")
    left, counted = pieces.redacted(assigned, named)
    assert left.data(1) == b"see x[p:11]y"
    assert left.data(2) == b"p=[p:10] and postgresql"  # a word stands elsewhere by right
    assert counted == {"p": 3}


@pytest.mark.threat("T4")
@given(st.lists(st.sampled_from([b"S1\n2E", b"\n", b"x", b"S\n\n9E"]), max_size=8))
def test_no_line_is_lost(parts: list[bytes]) -> None:
    pieces = Pieces()
    pieces.add(b"".join(parts))
    left, _ = pieces.redacted(find, named)
    assert left.data(0).count(b"\n") == b"".join(parts).count(b"\n")
    assert not WORD.search(left.data(0))


def test_what_is_not_touched_stays_as_it_is() -> None:
    pieces = Pieces()
    pieces.add(b"a")
    pieces.add_pairs([(b"k", b"S1E"), (b"l", b"v")])
    left, _ = pieces.redacted(find, named)
    assert len(pieces) == 5
    assert [left.data(number) for number in range(5)] == [b"a", b"k", b"[word:3]", b"l", b"v"]
    assert [bool(left.edits(number)) for number in range(5)] == [False, False, True, False, False]
    assert (left.is_changed(1), left.is_changed(3), left.is_changed(5)) == (True, False, False)
    assert not pieces.unchanged().is_changed(0)
