import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.wire import inbound
from fumehood.wire.inbound import Answered, Asked, Refused, Told

IDS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(max_size=limits.REQUEST_ID_CHARACTERS))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.text(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=12,
)
PARAMS = st.none() | st.dictionaries(st.text(max_size=8), VALUES, max_size=4)
METHODS = st.text(min_size=1, max_size=limits.METHOD_CHARACTERS)


def message(**members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


@given(st.binary(max_size=300))
def test_any_bytes_are_one_of_four_things(data: bytes) -> None:
    assert isinstance(inbound.read(data), Asked | Told | Refused | Answered)


@given(VALUES)
def test_any_document_is_one_of_four_things(value: Any) -> None:
    assert isinstance(inbound.classify(value), Asked | Told | Refused | Answered)


@given(IDS, METHODS, PARAMS)
def test_a_request_is_read_as_it_was_written(ident: int | str, method: str, params: dict[str, Any] | None) -> None:
    assert inbound.read(message(id=ident, method=method, params=params)) == Asked(
        id=ident, method=method, params=params
    )
    assert inbound.read(message(method=method, params=params)) == Told(method=method, params=params)


@pytest.mark.threat("T8")
@pytest.mark.parametrize(
    ("data", "code", "ident"),
    [
        (b"", -32700, None),
        (b"{", -32700, None),
        (b"\xff", -32700, None),
        (b"{} {}", -32700, None),
        (b'{"a":NaN}', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":' + b"[" * 100 + b"]" * 100 + b"}", -32700, None),
        (b'{"jsonrpc":"2.0","id":' + b"9" * 40 + b',"method":"m"}', -32700, None),
        (b"[]", -32600, None),
        (b"7", -32600, None),
        (b'{"id":1,"method":"m"}', -32600, 1),
        (message(id=1), -32600, 1),
        (message(id=1, method=7), -32600, 1),
        (message(id=1, method=""), -32600, 1),
        (message(id="a", method="m" * (limits.METHOD_CHARACTERS + 1)), -32600, "a"),
        (message(id=None, method="m"), -32600, None),
        (message(id=1.0, method="m"), -32600, None),
        (message(id=True, method="m"), -32600, None),
        (message(id="i" * (limits.REQUEST_ID_CHARACTERS + 1), method="m"), -32600, None),
        (message(id=1, method="m", params=[]), -32602, 1),
    ],
)
def test_what_is_no_message_is_refused_with_its_code(data: bytes, code: int, ident: object) -> None:
    refused = inbound.read(data)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.id) == (code, ident)


def test_a_body_over_its_bound_is_not_parsed() -> None:
    data = message(id=1, method="m", params={"a": "x" * 100})
    assert isinstance(inbound.read(data), Asked)
    assert isinstance(inbound.read(data, size=100), Refused)


@pytest.mark.parametrize(
    ("member", "result"),
    [({"result": {"a": 1}}, {"a": 1}), ({"error": {"code": 1, "message": "m"}, "result": 2}, None)],
)
def test_an_answer_is_told_from_a_request(member: dict[str, Any], result: Any) -> None:
    assert inbound.read(message(id=3, **member)) == Answered(id=3, result=result)


def test_a_refusal_repeats_nothing_long_of_what_was_sent() -> None:
    refused = inbound.read(b'{"' + b"k" * 5000 + b'":1,"' + b"k" * 5000 + b'":2}')
    assert isinstance(refused, Refused)
    assert len(refused.message) < 200
