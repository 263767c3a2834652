import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.wire import frames, jsonrpc
from fumehood.wire.frames import (
    ErrorResponse,
    Frame,
    Malformed,
    Noise,
    Notification,
    Request,
    Response,
    classify,
)
from fumehood.wire.lines import Line, Oversized


def of(text: str | bytes) -> Frame:
    return classify(Line(data=text.encode() if isinstance(text, str) else text))


def of_message(**members: object) -> Frame:
    return of(json.dumps({"jsonrpc": "2.0"} | members))


def test_the_four_messages_of_json_rpc_are_told_apart() -> None:
    assert of_message(id=1, method="roots/list") == Request(id=1, method="roots/list")
    assert of_message(method="m", params={"a": 1}) == Notification(method="m", params={"a": 1})
    assert of_message(id="x", result={}) == Response(id="x", result={})
    assert of_message(id=None, error={"code": -32700, "message": "no"}) == ErrorResponse(
        id=None, code=-32700, message="no"
    )


def test_our_own_builders_make_what_the_classifier_reads() -> None:
    assert of(jsonrpc.request(1, "a", {"k": [1]})[:-1]) == Request(id=1, method="a", params={"k": [1]})
    assert of(jsonrpc.notification("b")[:-1]) == Notification(method="b")
    assert of(jsonrpc.response("i", {"r": "\u2028"})[:-1]) == Response(id="i", result={"r": "\u2028"})
    assert of(jsonrpc.error_response(None, -1, "m")[:-1]) == ErrorResponse(id=None, code=-1, message="m")


@given(st.text())
def test_a_built_message_is_one_line_of_ascii(text: str) -> None:
    line = jsonrpc.request(text, text) if text.isprintable() else jsonrpc.notification(text)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert line.isascii()


@pytest.mark.parametrize(
    "line",
    [
        b"Server started",
        b"[info] listening",
        b"[1,2]",
        b'[{"jsonrpc":"2.0","id":0,"result":{}}]',
        b"\xff\xfe",
        b'"text"',
        b'\xef\xbb\xbf{"jsonrpc":"2.0"}',
        b'{"level":30,"method":"GET","msg":"x"}',
        b'{"id":3,"level":30}',
        b"   ",
    ],
)
def test_what_is_not_meant_as_a_frame_is_noise(line: bytes) -> None:
    assert of(line) == Noise(size=len(line))


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"{'a': 1}",
        b"{ foo: 'bar' }",
        b'{"a":1}x',
        b'{"a":NaN}',
        b'{"a":1,"a":2}',
        b'{"jsonrpc":"2.0","id":0,"result":"\xff"}',
        b'{"jsonrpc":"1.0","id":0,"result":{}}',
        b'{"id":0,"result":{}}',
        b'{"jsonrpc":"2.0"}',
        b'{"jsonrpc":"2.0","id":0,"result":{},"error":{"code":1,"message":""}}',
        b'{"jsonrpc":"2.0","id":0,"method":"m","result":{}}',
        b'{"jsonrpc":"2.0","id":true,"result":{}}',
        b'{"jsonrpc":"2.0","id":1.0,"result":{}}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"2.0","id":null,"method":"m"}',
        b'{"jsonrpc":"2.0","method":1}',
        b'{"jsonrpc":"2.0","id":0,"error":"no"}',
        b'{"jsonrpc":"2.0","id":0,"error":{"code":true,"message":""}}',
        b'{"jsonrpc":"2.0","id":0,"error":{"code":1}}',
        b'{"jsonrpc":"2.0","id":[],"error":{"code":1,"message":""}}',
    ],
)
def test_what_is_meant_as_a_frame_and_is_none_is_malformed(line: bytes) -> None:
    frame = of(line)
    assert isinstance(frame, Malformed)
    assert frame.size == len(line)
    assert frame.problem.isprintable()


@pytest.mark.threat("R6")
def test_a_frame_nested_a_hundred_thousand_deep_is_malformed_and_says_so() -> None:
    deep = b'{"jsonrpc":"2.0","id":0,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    frame = of(deep)
    assert isinstance(frame, Malformed)
    assert str(limits.JSON_DEPTH) in frame.problem


def test_spaces_and_a_carriage_return_around_a_frame_are_ordinary() -> None:
    assert of(b' \t{"jsonrpc":"2.0","method":"m"} \r') == Notification(method="m")


def test_an_unfinished_line_is_never_a_frame() -> None:
    assert classify(Line(data=b'{"jsonrpc":"2.0","method":"m"}', ended=False)) == Noise(size=30)


def test_an_oversized_line_is_a_frame_only_where_it_begins_like_one() -> None:
    frame = Oversized(prefix=b' {"jso', limit_bytes=9)
    assert classify(frame) == frame
    assert classify(Oversized(prefix=b"banner", limit_bytes=9)) == Noise(size=9)


@given(st.binary(max_size=300))
def test_every_line_is_some_frame(data: bytes) -> None:
    for line in (data, b"{" + data, b'{"jsonrpc":"2.0",' + data):
        assert isinstance(of(line), frames.Frame)


@given(
    st.dictionaries(
        st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"]),
        st.sampled_from(["2.0", "m", 0, True, None, 1.5, {}, {"code": 1, "message": "e"}, []]),
    )
)
def test_an_object_is_a_frame_exactly_when_it_fits_json_rpc(message: dict[str, object]) -> None:
    frame = of(json.dumps(message))
    kinds = [key for key in ("method", "result", "error") if key in message]
    if isinstance(frame, Request | Notification | Response | ErrorResponse):
        assert message["jsonrpc"] == "2.0"
        assert len(kinds) == 1
    elif message.get("jsonrpc") == "2.0":
        assert isinstance(frame, Malformed)


def test_ids_of_different_types_are_different() -> None:
    assert jsonrpc.same_id(1, 1)
    assert not any(jsonrpc.same_id(1, other) for other in ("1", 1.0, True, None))
