"""Server-sent events, by the rules of WHATWG and within bounds."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.gateway.upstreams.remote.events import Event, EventReader, EventStreamError

stream_bytes = st.lists(
    st.sampled_from(
        [
            b"data",
            b":",
            b" ",
            b"\r",
            b"\n",
            b"\r\n",
            b"x",
            b"event",
            b"id",
            b"retry",
            b"7",
            b"\xef\xbb\xbf",
            b"\x00",
            b"\xff",
        ]
    ),
    max_size=40,
).map(b"".join)


def whole(data: bytes, cuts: tuple[int, ...] = ()) -> tuple[list[Event], EventReader]:
    reader = EventReader()
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [event for a, b in itertools.pairwise(places) for event in reader.feed(data[a:b])], reader


def by_the_standard(data: bytes) -> list[Event]:
    """The same in the words of the standard, for what fits into memory."""
    found, held, kind = [], b"", b""
    lines = re.split(rb"\r\n|\n|\r", data.removeprefix(b"\xef\xbb\xbf"))
    for line in lines[:-1]:
        if not line:
            if held:
                found.append(Event(data=held[:-1], kind=kind or b"message"))
            held, kind = b"", b""
        elif not line.startswith(b":"):
            name, _, value = line.partition(b":")
            value = value[1:] if value[:1] == b" " else value
            held += value + b"\n" if name == b"data" else b""
            kind = value if name == b"event" else kind
    return found


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\r\rdata:  b\r\n\r\n", [b"a", b" b"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [b"YHOO\n+2\n10"]),
        (b": stream\n\ndata: first\nid: 1\n\ndata:second\nid\n\n", [b"first", b"second"]),
        (b"data\n\ndata\ndata\n\ndata:", [b"", b"\n"]),
        (b"data: unfinished\n", []),
        (b"data: unfinished", []),
        (b"DATA: x\n\n data: x\n\n", []),
    ],
)
def test_the_examples_of_the_standard_are_read_so(stream: bytes, expected: list[bytes]) -> None:
    assert [event.data for event in whole(stream)[0]] == expected


def test_kind_id_and_retry_are_read_and_odd_ones_ignored() -> None:
    events, reader = whole(b"event: other\nid: 5\nretry: 250\ndata: x\n\nid: a\x00b\nretry: 5s\nretry:-1\ndata: y\n\n")
    assert events == [Event(data=b"x", kind=b"other"), Event(data=b"y")]
    assert (reader.last_id, reader.retry_milliseconds) == (b"5", 250)


def test_a_kind_without_data_does_not_reach_the_next_event() -> None:
    assert whole(b"event: other\n\ndata: x\n\n")[0] == [Event(data=b"x")]


@given(stream_bytes, st.lists(st.integers(0, 200), max_size=6))
def test_how_a_stream_is_cut_changes_nothing(data: bytes, cuts: list[int]) -> None:
    assert whole(data, tuple(cuts))[0] == whole(data)[0] == by_the_standard(data)


@given(stream_bytes)
def test_byte_by_byte_gives_the_same(data: bytes) -> None:
    reader = EventReader()
    assert [event for one in data for event in reader.feed(bytes([one]))] == by_the_standard(data)


@pytest.mark.threat("G9")
def test_a_line_without_end_ends_the_stream() -> None:
    reader = EventReader(line_bytes=100)
    reader.feed(b"data: " + b"x" * 94)
    with pytest.raises(EventStreamError, match="line"):
        reader.feed(b"x")


@pytest.mark.threat("G9")
def test_an_event_without_end_ends_the_stream() -> None:
    reader = EventReader(event_bytes=20)
    assert reader.feed(b"data: 123456789\ndata: 123456789\n\n") == [Event(data=b"123456789\n123456789")]
    reader.feed(b"data: 123456789\ndata: 123456789\n")
    with pytest.raises(EventStreamError, match="event that is larger"):
        reader.feed(b"data\n")


@pytest.mark.threat("G9")
def test_one_event_too_many_ends_the_stream() -> None:
    reader = EventReader(events=3)
    assert len(reader.feed(b"data: x\n\n" * 3 + b": ping\n\n" * 9)) == 3
    with pytest.raises(EventStreamError, match="more events"):
        reader.feed(b"data: x\n\n")


def test_nothing_but_one_line_and_one_event_is_held() -> None:
    reader = EventReader()
    for _ in range(1000):
        reader.feed(b": " + b"c" * 1000 + b"\nid: 1\n\n")
    assert len(reader._line) + len(reader._data) == 0
    assert reader._events_left == limits.REMOTE_EVENTS
