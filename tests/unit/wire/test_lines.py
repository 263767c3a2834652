import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.wire.lines import Exhausted, Line, LineSplitter, Oversized, Piece

MIB = 1024 * 1024


def feed_all(splitter: LineSplitter, chunks: list[bytes]) -> list[Piece]:
    pieces = [piece for chunk in chunks for piece in splitter.feed(chunk)]
    return pieces + splitter.close()


def test_a_line_is_delivered_once_its_end_has_come() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"one") == []
    assert splitter.feed(b"\ntwo\nth") == [Line(data=b"one"), Line(data=b"two")]
    assert splitter.close() == [Line(data=b"th", ended=False)]
    assert splitter.close() == []


def test_blank_lines_are_counted_and_not_delivered() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"\n\na\n\n") == [Line(data=b"a")]
    assert splitter.blank_lines == 3


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=10))
def test_where_a_stream_is_cut_into_chunks_changes_nothing(data: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    chunks = [data[a:b] for a, b in itertools.pairwise(places)]
    pieces = feed_all(LineSplitter(), chunks)
    assert pieces == feed_all(LineSplitter(), [data])
    lines = [piece.data for piece in pieces if isinstance(piece, Line)]
    assert lines == [line for line in data.split(b"\n") if line]


@given(st.lists(st.binary(max_size=60), max_size=20))
def test_every_byte_is_delivered_or_counted_as_dropped(chunks: list[bytes]) -> None:
    splitter = LineSplitter(line_bytes=10, total_bytes=100)
    held = 0
    delivered = 0
    for chunk in chunks:
        delivered += sum(len(piece.data) for piece in splitter.feed(chunk) if isinstance(piece, Line))
        held = max(held, splitter.held_bytes)
    delivered += sum(len(piece.data) for piece in splitter.close() if isinstance(piece, Line))
    assert held <= 10
    assert delivered <= 100
    ends = sum(chunk.count(b"\n") for chunk in chunks)
    assert splitter.received_bytes == sum(map(len, chunks))
    assert splitter.received_bytes - ends <= delivered + splitter.dropped_bytes <= splitter.received_bytes


@pytest.mark.threat("R6")
def test_a_line_over_its_bound_is_told_at_once_and_the_stream_goes_on_after_it() -> None:
    splitter = LineSplitter(line_bytes=8)
    assert splitter.feed(b'{"aaaa') == []
    assert splitter.feed(b"aaaa") == [Oversized(prefix=b'{"aaaaaaaa', limit_bytes=8)]
    assert splitter.feed(b"a" * 100) == []
    assert splitter.feed(b"a\nnext\n") == [Line(data=b"next")]
    assert splitter.dropped_bytes == 111


@pytest.mark.threat("R6")
def test_a_line_of_sixty_megabytes_holds_no_more_memory_than_its_bound() -> None:
    splitter = LineSplitter()
    held, told = 0, 0
    for _ in range(60 * 16):
        told += len(splitter.feed(b"a" * (MIB // 16)))
        held = max(held, splitter.held_bytes)
    assert told == 1
    assert held <= 4 * MIB
    assert splitter.feed(b"\n{}\n") == [Line(data=b"{}")]


@pytest.mark.threat("R6")
def test_a_stream_over_its_bound_is_told_once_and_dropped_from_there() -> None:
    splitter = LineSplitter(total_bytes=10)
    assert splitter.feed(b"12345\n12345\n") == [Line(data=b"12345"), Line(data=b"12345")]
    assert splitter.feed(b"x\n") == [Exhausted(received_bytes=14)]
    assert splitter.feed(b"y\n") == []
    assert splitter.close() == []
    assert splitter.dropped_bytes == 4


def test_more_lines_than_the_bound_exhaust_a_stream() -> None:
    splitter = LineSplitter(lines=2)
    assert splitter.feed(b"1\n2\n3\n4\n") == [Line(data=b"1"), Line(data=b"2"), Exhausted(received_bytes=8)]


def test_an_oversized_line_does_not_use_up_the_stream() -> None:
    splitter = LineSplitter(line_bytes=8, total_bytes=10)
    assert splitter.feed(b"12345678") == []
    pieces = splitter.feed(b"9\nabcdefgh\n")
    assert pieces == [Oversized(prefix=b"123456789", limit_bytes=8), Line(data=b"abcdefgh")]
