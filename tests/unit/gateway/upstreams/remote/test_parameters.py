"""Arguments that are sent as headers, too."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core.jsonio import JsonValue
from fumehood.gateway.upstreams.remote import parameters
from fumehood.gateway.upstreams.remote.parameters import BadMirrorError, Mirrored

REGION = {"type": "string", "x-mcp-header": "Region"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": REGION,
        "deep": {"type": "object", "properties": {"count": {"type": "integer", "x-mcp-header": "Count"}}},
        "on": {"type": "boolean", "x-mcp-header": "On"},
        "x-mcp-header": {"type": "string"},
        "other": {"type": "string", "default": {"x-mcp-header": 5}},
    },
}


def test_what_a_schema_asks_for_is_sent() -> None:
    asked = parameters.mirrored(SCHEMA)
    sent = parameters.headers(asked, {"region": "us\nwest", "deep": {"count": -7}, "on": False, "other": "x"})
    assert sorted(sent or ()) == [
        (b"Mcp-Param-Count", b"-7"),
        (b"Mcp-Param-On", b"false"),
        (b"Mcp-Param-Region", b"=?base64?dXMKd2VzdA==?="),
    ]


@pytest.mark.parametrize("arguments", [None, [], {}, {"region": None, "deep": 3, "on": {}}])
def test_what_is_not_there_is_not_sent(arguments: JsonValue) -> None:
    assert parameters.headers(parameters.mirrored(SCHEMA), arguments) == ()


def test_a_number_that_others_read_otherwise_is_not_sent() -> None:
    asked = (Mirrored(path=("n",), header=b"Mcp-Param-N"),)
    assert parameters.headers(asked, {"n": 2**53}) == ()
    assert parameters.headers(asked, {"n": 2**53 - 1}) == ((b"Mcp-Param-N", b"9007199254740991"),)
    assert parameters.headers(asked, {"n": 1.5}) == ()


@pytest.mark.threat("G9")
def test_more_than_fits_into_a_head_is_refused() -> None:
    assert parameters.headers(parameters.mirrored(SCHEMA), {"region": "x" * 9000}) is None


@pytest.mark.threat("G9")
@pytest.mark.parametrize(
    "schema",
    [
        {"x-mcp-header": "A", "type": "string"},
        {"properties": {"a": {"type": "string", "x-mcp-header": ""}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "A B"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "A\r\nHost: b"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "Ä"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": 5}}},
        {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}},
        {"properties": {"a": {"type": ["string"], "x-mcp-header": "A"}}},
        {"x-mcp-header": None},
        {"properties": {"a": REGION, "b": {"type": "string", "x-mcp-header": "REGION"}}},
        {"properties": {"a": {"type": "array", "items": REGION}}},
        {"properties": {"a": {"anyOf": [{"properties": {"b": REGION}}]}}},
        {"$defs": {"a": REGION}},
        {"properties": {str(n): {"type": "string", "x-mcp-header": f"A{n}"} for n in range(65)}},
    ],
)
def test_a_schema_that_asks_wrongly_is_refused(schema: JsonValue) -> None:
    with pytest.raises(BadMirrorError):
        parameters.mirrored(schema)


@pytest.mark.threat("G9")
def test_a_tool_that_asks_wrongly_is_not_listed_and_the_others_are() -> None:
    good: JsonValue = {"name": "good", "inputSchema": SCHEMA}
    plain: JsonValue = {"name": "plain", "inputSchema": {"type": "object"}}
    bad: JsonValue = {"name": "bad", "inputSchema": {"$defs": {"a": {"x-mcp-header": "A"}}}}
    kept, asked, left_out = parameters.listed([good, bad, plain, "odd"])
    assert kept == [good, plain, "odd"]
    assert list(asked) == ["good"]
    assert left_out == 1
    assert parameters.listed(None) == ([], {}, 0)


def test_a_schema_without_end_is_refused() -> None:
    with pytest.raises(BadMirrorError):
        parameters.mirrored({"allOf": [{"type": "string"} for _ in range(6000)]})


schemas: st.SearchStrategy[JsonValue] = st.recursive(
    st.sampled_from(["string", "integer", "A", "", None, 5, True]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["properties", "x-mcp-header", "type", "items", "$defs", "a"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(schemas, schemas)
def test_no_schema_and_no_argument_is_a_surprise(schema: JsonValue, arguments: JsonValue) -> None:
    try:
        asked = parameters.mirrored(schema)
    except BadMirrorError:
        return
    for _, value in parameters.headers(asked, arguments) or ():
        assert set(value) <= set(range(0x20, 0x7F))
