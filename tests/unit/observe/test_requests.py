import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.observe.http import HEAD_BYTES
from fumehood.observe.requests import HeardRequest, RequestReader

POST = b"POST /collect?a=1 HTTP/1.1\r\nHost: Mail.Example:80\r\nContent-Length: 5\r\nX-A:  b \r\n\r\nhello"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n"
ORDINARY = [
    b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
    POST,
    CHUNKED + b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-Trailer: 1\r\n\r\n",
    b"HEAD /x HTTP/1.0\r\n\r\n",
]


def keep_all(have: int, more: int) -> int:
    del have
    return more


def read(data: bytes, *, relayed: bool = False) -> list[HeardRequest]:
    reader = RequestReader(keep_all, relayed=relayed)
    return [*reader.feed(data), *reader.finish()]


def malformed(data: bytes) -> str:
    reader = RequestReader(keep_all)
    (request,) = reader.feed(data + ORDINARY[0])
    assert (request.complete, request.closes, reader.is_reading) == (False, True, False)
    assert reader.feed(ORDINARY[0]) == [] == reader.finish()
    return request.note


def test_a_request_with_a_body_is_read_whole() -> None:
    (request,) = read(POST)
    assert (request.method, request.target, request.host) == ("POST", "/collect?a=1", "mail.example")
    assert request.headers == ((b"host", b"Mail.Example:80"), (b"content-length", b"5"), (b"x-a", b"b"))
    assert (request.body, request.body_bytes) == (b"hello", 5)
    assert request.body_sha256 == hashlib.sha256(b"hello").hexdigest()
    assert (request.complete, request.note, request.closes) == (True, "", False)


def test_chunks_are_put_together_and_extensions_and_trailers_are_passed_by() -> None:
    (request,) = read(ORDINARY[2])
    assert (request.body, request.body_bytes, request.complete) == (b"abcde", 5, True)


def test_several_requests_of_one_connection_are_read_one_after_another() -> None:
    found = read(b"\r\n".join(ORDINARY))
    assert [request.method for request in found] == ["GET", "POST", "POST", "HEAD"]
    assert [request.closes for request in found] == [False, False, False, True]


@given(st.lists(st.sampled_from(ORDINARY), max_size=6), st.data())
def test_pieces_of_any_size_give_the_same_requests(requests: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(requests)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    reader, found = RequestReader(keep_all), []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.feed(stream[begin:end])
    assert found == read(stream)
    assert len(found) == len(requests)


@given(st.lists(st.binary(max_size=60) | st.sampled_from([*ORDINARY, CHUNKED, b"\r\n", b"0\r\n\r\n"]), max_size=12))
def test_any_bytes_are_taken_and_no_request_comes_after_a_malformed_one(pieces: list[bytes]) -> None:
    reader, found = RequestReader(keep_all), []
    for piece in pieces:
        found += reader.feed(piece)
        found += [] if reader.is_reading else reader.feed(b"x")
    found += reader.finish()
    assert all(request.complete for request in found[:-1])
    assert sum(request.body_bytes for request in found) <= sum(map(len, pieces))


@pytest.mark.threat("R20")
@pytest.mark.parametrize(
    ("fields", "note"),
    [
        (b"Content-Length: 5\r\nTransfer-Encoding: chunked", "length_and_chunked"),
        (b"Content-Length: 5\r\nContent-Length: 5", "content_length"),
        (b"Content-Length: 5, 5", "content_length"),
        (b"Content-Length: +5", "content_length"),
        (b"Content-Length: 0x5", "content_length"),
        (b"Content-Length: " + b"9" * 16, "content_length"),
        (b"Transfer-Encoding: gzip, chunked", "transfer_encoding"),
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "transfer_encoding"),
        (b"Transfer-Encoding: xchunked", "transfer_encoding"),
        (b"Content-Length : 5", "field_name"),
        (b"A: b\r\n folded", "folded_line"),
        (b"A: b\rContent-Length: 5", "control_character"),
        (b"A: \0", "control_character"),
        (b"no colon", "field_name"),
        (b": empty", "field_name"),
        (b"Host : x", "host_field"),
    ],
)
def test_what_two_readers_could_take_for_different_requests_is_malformed(fields: bytes, note: str) -> None:
    assert malformed(b"POST / HTTP/1.1\r\nHost: a.example\r\n" + fields + b"\r\n\r\n") == note


@pytest.mark.parametrize(
    "line",
    [
        b"GET /",
        b"GET / HTTP/2.0",
        b"GET  / HTTP/1.1",
        b"GET / HTTP/1.1 ",
        b"G(T / HTTP/1.1",
        b"\x16\3\1",
        b" GET / HTTP/1.1",
    ],
)
def test_a_line_that_is_no_request_ends_the_reading(line: bytes) -> None:
    assert malformed(line + b"\r\nHost: a\r\n\r\n") == "request_line"


def test_chunks_in_a_request_of_http_1_0_are_malformed() -> None:
    assert malformed(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n") == "transfer_encoding"


@pytest.mark.parametrize("rest", [b"x\r\n", b"-1\r\n", b"3\r\nabcd\r\n", b"3 x\r\n", b"\r\n", b"1" * 13 + b"\r\n"])
def test_a_chunk_that_is_none_is_malformed(rest: bytes) -> None:
    assert malformed(CHUNKED + rest) == "chunk"


@pytest.mark.threat("R20")
def test_an_endless_head_ends_the_reading() -> None:
    reader = RequestReader(keep_all)
    found = reader.feed(b"GET / HTTP/1.1\r\n")
    for _ in range(HEAD_BYTES):
        found += reader.feed(b"A: b\r\n")
    (request,) = found
    assert request.note == "oversized"
    assert len(request.headers) == limits.HTTP_KEPT_HEADERS
    assert request.headers_lost > 0
    assert malformed(b"GET /" + b"a" * HEAD_BYTES) == "oversized"
    assert malformed(CHUNKED + b"0\r\n" + b"A: b\r\n" * HEAD_BYTES) == "oversized"


@pytest.mark.threat("R20")
def test_of_an_endless_body_only_as_much_is_kept_as_may_be() -> None:
    reader = RequestReader(lambda have, more: min(more, 10 - have))
    reader.feed(b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1000000\r\n\r\n")
    for _ in range(100):
        reader.feed(b"0123456789abcdef")
    (request,) = reader.finish()
    assert (request.body, request.body_bytes, request.complete) == (b"0123456789", 1600, False)
    assert request.body_sha256 == hashlib.sha256(b"0123456789abcdef" * 100).hexdigest()
    assert request.note == "ended"


def test_what_is_kept_of_a_body_is_its_beginning_without_a_gap() -> None:
    reader = RequestReader(lambda have, more: more if have < 2 else 0)
    reader.feed(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
    (request,) = [*reader.feed(b"def"), *reader.feed(b"ghi")]
    assert (request.body, request.complete) == (b"abc", True)


@pytest.mark.parametrize(
    ("head", "host", "note"),
    [
        (b"GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example", None, "several_hosts"),
        (b"GET / HTTP/1.1\r\nA: b", None, "no_host"),
        (b"GET / HTTP/1.1\r\nHost: a b:c:d", None, "host_field"),
        (b"GET http://b.example/ HTTP/1.1\r\nHost: a.example", "a.example", "absolute_target"),
        (b"OPTIONS * HTTP/1.1\r\nHost: a.example.", "a.example", ""),
    ],
)
def test_an_odd_host_is_noted_and_the_request_read(head: bytes, host: str | None, note: str) -> None:
    (request,) = read(head + b"\r\n\r\n")
    assert (request.complete, request.host, request.note) == (True, host, note)


def test_a_client_that_waits_before_its_body_is_told_once_to_go_on() -> None:
    reader = RequestReader(keep_all)
    head = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n"
    assert reader.feed(head) == []
    assert [reader.take_continue(), reader.take_continue()] == [True, False]
    assert len(reader.feed(b"ok")) == 1
    assert len(reader.feed(head + b"ok")) == 1
    assert not reader.take_continue()
    reader.feed(b"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n")
    assert not reader.take_continue()


def test_what_follows_connect_is_not_read_as_http() -> None:
    reader = RequestReader(keep_all)
    (request,) = reader.feed(b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n" + ORDINARY[0])
    assert (request.tunnel, request.complete, request.target, request.note) == (True, True, "a.example:443", "")
    assert not reader.is_reading


def test_after_an_upgrade_reading_goes_on_only_where_we_answer() -> None:
    data = b"GET / HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + ORDINARY[0]
    assert len(read(data)) == 2
    assert len(read(data, relayed=True)) == 1


@pytest.mark.parametrize(
    ("head", "closes"),
    [
        (b"GET / HTTP/1.1\r\nConnection: close", True),
        (b"GET / HTTP/1.1\r\nConnection: keep-alive", False),
        (b"GET / HTTP/1.0\r\nConnection: Keep-Alive", False),
        (b"GET / HTTP/1.0\r\nA: b", True),
    ],
)
def test_a_request_says_whether_the_connection_ends(head: bytes, closes: bool) -> None:
    (request,) = read(head + b"\r\n\r\n")
    assert request.closes is closes


@pytest.mark.parametrize("data", [b"GET / HT", b"GET / HTTP/1.1\r\nHost: a.example\r\n", CHUNKED + b"5\r\nab"])
def test_a_request_whose_end_never_comes_is_given_out_as_incomplete(data: bytes) -> None:
    (request,) = read(data)
    assert (request.complete, request.note) == (False, "ended")


def test_nothing_comes_of_nothing() -> None:
    assert read(b"") == [] == read(b"\r\n\r\n")
