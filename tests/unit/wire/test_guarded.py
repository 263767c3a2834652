import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core.budget import Budget
from fumehood.core.errors import FumehoodError, UnknownToolError
from fumehood.wire.guarded import BadDefinitionError, BadResultError, Guarded
from fumehood.wire.published import LOCAL, Caller

CLOSED = {
    "type": "object",
    "properties": {"path": {"type": "string", "maxLength": 4}, "lines": {"type": "integer", "minimum": 0}},
    "required": ["path"],
    "additionalProperties": False,
}


class Fake:
    name, version, title, instructions = "fake", "1", "Fake", ""

    def __init__(self, *definitions: dict[str, Any], result: dict[str, Any] | None = None) -> None:
        self.called: list[dict[str, Any]] = []
        self._definitions = definitions
        self._result = result or {"content": []}

    def definitions(self) -> Sequence[dict[str, Any]]:
        return self._definitions

    def call(self, name: str, arguments: dict[str, Any], budget: Budget, caller: Caller) -> dict[str, Any]:
        assert (name, budget.cancelled, caller) == ("read", False, LOCAL)
        self.called.append(arguments)
        return self._result

    def refused(self, error: FumehoodError) -> dict[str, Any]:
        return {"isError": True, "structuredContent": {"error": error.code, "message": error.message}}

    def discover(self) -> dict[str, Any]:
        return {}


def tool(schema: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": "read", "inputSchema": CLOSED if schema is None else schema, **more}


def call(fake: Fake, arguments: dict[str, Any], name: str = "read") -> dict[str, Any]:
    return Guarded(fake).call(name, arguments, Budget(), LOCAL)


def test_a_value_that_is_none_of_several_is_told_all_of_them() -> None:
    schema = {"type": "object", "properties": {"kind": {"enum": ["class", "enum", "macro", "type"]}}}
    message = call(Fake(tool(schema)), {"kind": "hunter2"})["structuredContent"]["message"]
    assert message.endswith('$.kind: the value is not one of "class", "enum", "macro", "type"')


def test_arguments_that_fit_reach_the_tool() -> None:
    fake = Fake(tool())
    assert call(fake, {"path": "a", "lines": 0}) == {"content": []}
    assert fake.called == [{"path": "a", "lines": 0}]


@pytest.mark.threat("T1")
def test_arguments_that_do_not_fit_never_reach_the_tool_and_are_not_repeated() -> None:
    fake = Fake(tool())
    result = call(fake, {"path": "/home/somebody/secret", "lines": True})
    assert fake.called == []
    assert result["structuredContent"] == {
        "error": "invalid_arguments",
        "message": "the arguments do not fit: "
        '$.path: the value is longer than 4 characters; $.lines: the value is not of type "integer"',
    }


def test_a_key_that_nobody_knows_is_named_inert_and_short() -> None:
    message = call(Fake(tool()), {"path": "a", "\x1b[2J\n" + "k" * 5000: 1})["structuredContent"]["message"]
    assert message.isascii()
    assert message.isprintable()
    assert len(message) < 400


def test_at_most_eight_problems_are_told() -> None:
    schema = {"type": "object", "properties": {str(n): {"type": "string"} for n in range(30)}}
    message = call(Fake(tool(schema)), {str(n): 1 for n in range(30)})["structuredContent"]["message"]
    assert message.count("; ") == 7


def test_an_unknown_tool_is_none_of_the_published() -> None:
    with pytest.raises(UnknownToolError):
        call(Fake(tool()), {}, name="write")


@pytest.mark.parametrize(
    ("result", "sound"),
    [
        ({"structuredContent": {"path": "a"}}, True),
        ({"structuredContent": {"path": 7}}, False),
        ({"structuredContent": None}, False),
        ({}, False),
        ({"isError": True, "structuredContent": {"error": "x"}}, True),
        ({"isError": False, "structuredContent": {"error": "x"}}, False),
    ],
)
def test_a_result_that_does_not_fit_its_own_schema_never_leaves(result: dict[str, Any], *, sound: bool) -> None:
    fake = Fake(tool(outputSchema=CLOSED), result=result)
    if sound:
        assert call(fake, {"path": "a"}) == result
    else:
        with pytest.raises(BadResultError):
            call(fake, {"path": "a"})


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.threat("T12")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "https://example.test/schema.json"}}},
        {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"type": "object", "properties": {"a": {"$ref": "other.json#/a"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}},
        {"type": "object", "properties": {"a": {"$dynamicRef": "#a"}}},
        {"type": "object", "properties": {"a": {"$id": "https://example.test/", "type": "string"}}},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": r"(?=x)y"}}},
        {"type": "object", "properties": {"a": {"type": "nothing"}}},
        nested(100),
        {"type": "array"},
        {},
        None,
        [],
    ],
)
@pytest.mark.parametrize("member", ["inputSchema", "outputSchema"])
def test_a_schema_that_leads_out_or_too_deep_is_refused_before_it_is_published(schema: Any, member: str) -> None:
    definition = tool() | {member: schema}
    if schema is None and member == "outputSchema":
        definition[member] = True
    with pytest.raises(BadDefinitionError):
        Guarded(Fake(definition))


@pytest.mark.threat("T12")
def test_a_local_reference_is_followed() -> None:
    schema = {"type": "object", "$defs": {"a": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/a"}}}
    assert call(Fake(tool(schema)), {"a": "x"}) == {"content": []}
    assert call(Fake(tool(schema)), {"a": 1})["isError"] is True


@pytest.mark.parametrize("name", ["", "a b", "a/b", "é", "x" * 129, 7, None])
def test_a_name_that_is_none_is_refused(name: object) -> None:
    with pytest.raises(BadDefinitionError):
        Guarded(Fake(tool() | {"name": name}))


def test_two_tools_with_one_name_are_refused() -> None:
    with pytest.raises(BadDefinitionError):
        Guarded(Fake(tool(), tool()))


@given(
    st.dictionaries(
        st.sampled_from(["path", "lines", "other"]),
        st.one_of(st.none(), st.integers(), st.text(max_size=6), st.lists(st.integers(), max_size=2)),
    )
)
def test_the_tool_sees_arguments_exactly_when_they_fit(arguments: dict[str, Any]) -> None:
    fake = Fake(tool())
    call(fake, arguments)
    path, lines = arguments.get("path"), arguments.get("lines", 0)
    fits = (
        isinstance(path, str) and len(path) <= 4 and isinstance(lines, int) and lines >= 0 and "other" not in arguments
    )
    assert bool(fake.called) is fits


def test_every_definition_is_kept_in_its_order() -> None:
    names = ["".join(pair) for pair in itertools.product("ba", repeat=2)]
    guarded = Guarded(Fake(*(tool() | {"name": name} for name in names)))
    assert [one["name"] for one in guarded.definitions] == names
    assert list(guarded.input_schemas) == names
