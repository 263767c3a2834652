"""code.messages: what is read and written is what the published schema says."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.code import messages
from fumehood.code.messages import AnswerError, CallResultMessage, ChildLimits, JobMessage, MessageError, ToChild
from fumehood.core import jsonio, limits

pytestmark = pytest.mark.threat("C3")

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs/reference/code-messages.schema.json").read_text(encoding="utf-8")
)
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)
BOUNDS = ChildLimits(calls=1, calls_in_flight=1, output_bytes=1024)

# No floats: to a schema 1.0 is an integer, and to what reads messages it is none.
_leaves = st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["a", "log", "run", "load", "ready"])
_values = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
_error = st.fixed_dictionaries(
    {},
    optional={"name": st.just("E") | _values, "message": st.just("m") | _values, "stack": _leaves, "phase": _leaves},
)
_near = st.fixed_dictionaries(
    {"type": st.sampled_from(["ready", "call", "log", "result", "other"])},
    optional={
        "id": _leaves,
        "method": _leaves,
        "args": st.lists(_leaves, max_size=2) | _leaves,
        "level": _leaves,
        "message": _leaves,
        "ok": st.booleans() | _leaves,
        "value": _values,
        "error": _error | _values,
        "x": _leaves,
    },
)
_right = st.one_of(
    st.builds(lambda number: {"type": "call", "id": number, "method": "run", "args": []}, st.integers(0, 3)),
    st.builds(lambda error: {"type": "result", "ok": False, "error": error}, _error),
    st.builds(lambda value: {"type": "result", "ok": True, "value": value}, _values),
)


@given(_near | _right | _values)
def test_a_message_is_read_exactly_when_it_fits_the_published_schema(value: Any) -> None:
    try:
        messages.read(json.dumps(value).encode())
    except MessageError:
        fits = False
    else:
        fits = True
    assert fits == VALIDATOR.is_valid(value)


@given(_values, st.integers(1, 9))
def test_what_is_written_fits_the_published_schema(value: Any, number: int) -> None:
    told: list[ToChild] = [
        JobMessage(code="x", input=value, tools=("a.b",), limits=BOUNDS),
        CallResultMessage(id=number, ok=True, value=value),
        CallResultMessage(id=number, ok=False, error=AnswerError(code="refused", message="no")),
    ]
    for message in told:
        line = messages.write(message)
        assert line.count(b"\n") == 1
        VALIDATOR.validate(jsonio.parse(line))


def test_the_schema_refuses_a_result_of_either_kind_with_both_or_neither() -> None:
    error = {"code": "refused", "message": "no"}
    base = {"type": "callResult", "id": 1}
    assert VALIDATOR.is_valid(base | {"ok": True, "value": None})
    assert VALIDATOR.is_valid(base | {"ok": False, "error": error})
    for wrong in ({"ok": True}, {"ok": False, "value": 1}, {"ok": True, "value": 1, "error": error}, {"ok": False}):
        assert not VALIDATOR.is_valid(base | wrong)


def test_a_line_over_its_bound_is_no_message() -> None:
    frame = len(b'{"type":"log","level":"log","message":""}')
    words = "x" * (limits.CODE_MESSAGE_BYTES - frame)
    assert messages.read(json.dumps({"type": "log", "level": "log", "message": words}, separators=(",", ":")).encode())
    with pytest.raises(MessageError, match="bytes, where at most"):
        messages.read(json.dumps({"type": "log", "level": "log", "message": f"{words}x"}).encode())


# --- the quicker reader

_numbers = st.sampled_from(["1", "-0", "-0.0", "1.0", "1e5", "0.1", "1e999", "18446744073709551615"]) | st.sampled_from(
    ["18446744073709551616", "-9223372036854775809", "1" * 40, "01", "NaN", "5e-324", "0.1234567890123456789", "1e300"]
)
_texts = st.sampled_from(
    ['"a"', '"é"', r'"\u00e9"', r'"\ud800"', r'"\ud83d\ude00"', r'"\/"', r'"\\ud"', '"\x7f"', '"/"']
)
_documents = st.recursive(
    _numbers | _texts | st.sampled_from(["null", "true", "nul", "", "[]", "{}"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: f"[{','.join(parts)}]")
        | st.lists(st.tuples(st.sampled_from(['"a"', '"b"', r'"\u0061"']), inner), max_size=3).map(
            lambda pairs: "{" + ",".join(f"{key}:{value}" for key, value in pairs) + "}"
        )
    ),
    max_leaves=6,
)
_frames = st.sampled_from(
    [
        '{{"type":"result","ok":true,"value":{0}}}',
        '{{"type":"result","ok":false,"error":{{"name":"E","message":{0},"stack":"","phase":"run"}}}}',
        '{{"type":"call","id":1,"method":"run","args":["a.b",{0}]}}',
        '{{"type":"call","id":{0},"method":"run","args":[]}}',
        '{{"id":1,"type":"call","method":"run","args":[{0}]}}',
        '{{"type":"call","id":1,"id":1,"method":"run","args":[{0}]}}',
        '{{"type":"log","level":"log","message":{0}}}',
        '{{"type":"log","level":"log","message":{0},"x":1}}',
        '{{"type": "log","level":"log","message":{0}}}',
        '{{"type":"ready"}}{0}',
        "{0}",
    ]
)
_lines = st.builds(lambda frame, document: frame.format(document).encode(), _frames, _documents)
_changed = st.builds(
    lambda line, at, byte: line[: at % (len(line) + 1)] + byte + line[at % (len(line) + 1) + 1 :],
    _lines,
    st.integers(0, 200),
    st.binary(max_size=2) | st.sampled_from([b" ", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xff", b'"', b"}"]),
)


def _read(line: bytes) -> object:
    """The message as text, in which 1, 1.0 and true are not the same; None for what is none."""
    try:
        return repr(messages.strict(line))
    except MessageError:
        return None


@given(_lines | _changed | st.binary(max_size=50))
def test_what_the_quicker_reader_takes_is_what_the_strict_one_reads(line: bytes) -> None:
    quick = messages.canonical(line)
    assert quick is None or repr(quick) == _read(line)
    try:
        told = repr(messages.read(line))
    except MessageError:
        told = None
    assert told == _read(line)


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"ready"}',
        b'{"type":"call","id":12,"method":"run","args":["a.b",{"value":1.5,"more":["\\n\\u0001",null,true]}]}',
        '{"type":"log","level":"warn","message":"é\u2028\U0001f600\\\\ud800"}'.encode(),
        b'{"type":"result","ok":true,"value":null}',
        b'{"type":"result","ok":false,"error":{"name":"E","message":"m","stack":"s","phase":"load"}}',
    ],
)
def test_the_quicker_reader_takes_lines_as_the_harness_writes_them(line: bytes) -> None:
    assert repr(messages.canonical(line)) == _read(line)


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"result","ok":true,"value":{"a":1,"a":1}}',
        b'{"type":"result","ok":true,"ok":true,"value":1}',
        b'{"type":"result","ok":true,"value":18446744073709551616}',
        b'{"type":"result","ok":true,"value":' + b"[" * 64 + b"]" * 64 + b"}",
        b'{"type":"log","level":"log","message":"' + b"x" * limits.CODE_MESSAGE_BYTES + b'"}',
    ],
    ids=["a key twice", "a field twice", "a large integer", "too deep", "too long"],
)
def test_the_quicker_reader_leaves_to_the_strict_one_what_it_would_not_notice(line: bytes) -> None:
    assert json.loads(line)  # a lenient reader takes it
    assert messages.canonical(line) is None
    assert _read(line) is None


def test_no_line_within_its_bound_has_more_values_than_a_document_may() -> None:
    assert limits.CODE_MESSAGE_BYTES < limits.JSON_VALUES
