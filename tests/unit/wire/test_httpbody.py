import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.wire.httpbody import HEADER_MISMATCH, check_agreement, check_scope, parse
from fumehood.wire.httpchecks import Head, Refusal
from fumehood.wire.modern import VERSION_KEY
from fumehood.wire.published import Caller

MODERN = "2026-07-28"


def agrees(message: dict[str, Any], **headers: str | list[str]) -> bool:
    pairs = tuple(
        (name.replace("_", "-").encode(), value.encode("latin-1"))
        for name, values in headers.items()
        for value in (values if isinstance(values, list) else [values])
    )
    refused = check_agreement(Head(method="POST", path="/mcp", headers=pairs), message)
    assert refused is None or (refused.status, refused.code) == (400, HEADER_MISMATCH)
    return refused is None


def call(name: object = "read_file", *, version: object = None) -> dict[str, Any]:
    meta = {} if version is None else {"_meta": {VERSION_KEY: version}}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": name, **meta}}


@pytest.mark.parametrize(
    ("message", "headers", "agreed"),
    [
        (call(), {}, True),
        (call(), {"mcp_protocol_version": "2025-11-25"}, True),
        (call(), {"mcp_method": "tools/call", "mcp_name": "read_file"}, True),
        (call(), {"mcp_method": "tools/list"}, False),
        (call(), {"mcp_name": "git_log"}, False),
        (call(7), {"mcp_name": "7"}, False),
        (call(), {"mcp_name": ["read_file", "read_file"]}, False),
        (call(), {"mcp_protocol_version": ["2025-11-25", "2025-11-25"]}, False),
        (call(version=MODERN), {}, False),
        (call(version=MODERN), {"mcp_protocol_version": "2025-11-25"}, False),
        (call(version=MODERN), {"mcp_protocol_version": MODERN}, True),
        (call(version=1), {"mcp_protocol_version": "1"}, False),
        (call("ä"), {"mcp_name": f"=?base64?{base64.b64encode('ä'.encode()).decode()}?="}, True),
        (call("a"), {"mcp_name": "=?base64?!!?="}, False),
        (call("a"), {"mcp_name": "=?base64?YR==?="}, False),
        (call("a"), {"mcp_name": "=?base64?/w==?="}, False),
        ({"method": "resources/read", "params": {"uri": "x:y"}}, {"mcp_name": "x:z"}, False),
        ({"method": "ping"}, {"mcp_name": "x"}, False),
        ({"method": "ping", "params": [1]}, {"mcp_method": "ping"}, True),
        ({"method": ["ping"]}, {"mcp_method": "ping"}, False),
        ({"params": {"_meta": 7}}, {}, True),
    ],
)
def test_headers_say_nothing_else_than_the_body(message: dict[str, Any], headers: Any, *, agreed: bool) -> None:
    assert agrees(message, **headers) is agreed


def test_a_disagreement_carries_the_id_of_its_request() -> None:
    head = Head(method="POST", path="/mcp", headers=((b"mcp-method", b"x"),))
    cases: list[tuple[Any, Any]] = [(7, 7), ("a", "a"), (None, None), (True, None), ([1], None)]
    for ident, shown in cases:
        refused = check_agreement(head, {"id": ident, "method": "y"})
        assert refused
        assert refused.ident == shown


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"7", b"null", b'{"a":1,"a":2}', b'{"a":NaN}', b"[" * 100, b"\xff{}", b'{"a":"\xff"}']
)
def test_a_body_is_one_strict_object(body: bytes) -> None:
    found = parse(body, 1000)
    assert isinstance(found, Refusal)
    assert found.status == 400


def test_a_body_over_its_size_is_not_parsed() -> None:
    assert isinstance(parse(b" " * 10 + b"{}", 11), Refusal)
    assert parse(b" " * 9 + b"{}", 11) == {}


@pytest.mark.threat("T9")
def test_a_tool_outside_the_scopes_is_forbidden_and_the_missing_scope_is_named() -> None:
    caller = Caller(principal="x", scopes=frozenset({"tool:read_file"}))
    assert check_scope(call(), caller) is None
    assert check_scope(call("git_log"), Caller()) is None
    assert check_scope({"method": "tools/list"}, caller) is None
    assert check_scope(call(7), caller) is None
    uncovered = check_scope(call("git_log"), caller)
    assert uncovered
    assert (uncovered[0].status, uncovered[1]) == (403, "tool:git_log")
    made_up = check_scope(call('x" evil'), caller)
    assert made_up
    assert made_up[1] == "tools:read"


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["id", "method", "params", "jsonrpc"]), _json), st.binary(max_size=40))
def test_any_message_is_judged(message: dict[str, Any], value: bytes) -> None:
    found = parse(json.dumps(message).encode(), 10_000)
    if isinstance(found, Refusal):  # half of a surrogate pair
        return
    head = Head(method="POST", path="/mcp", headers=((b"mcp-method", value), (b"mcp-name", value)))
    refused = check_agreement(head, found)
    assert refused is None or refused.code == HEADER_MISMATCH
    check_scope(found, Caller(scopes=frozenset()))
