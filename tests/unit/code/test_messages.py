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
