"""Declarations of tools are TypeScript, whatever their schemas hold."""

from typing import Any

import pytest
import tree_sitter
import tree_sitter_typescript
from hypothesis import given
from hypothesis import strategies as st

from faketools import ECHO, tool
from fumehood.code.backend import Tool
from fumehood.code.declare import declare
from fumehood.core import limits

PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_typescript.language_typescript()))


def parses(text: str) -> bool:
    return not PARSER.parse(text.encode()).root_node.has_error


def described(schema: Any, output: Any = None) -> str:
    return declare([Tool(name="s.t", description="", input_schema=schema, output_schema=output)])


def argument(part: Any, **more: Any) -> str:
    """The type of one required member `x`, on one line."""
    schema = {"type": "object", "properties": {"x": part}, "required": ["x"], **more}
    return " ".join(described(schema).split()).partition("x: ")[2].partition("; }): Promise")[0]


def test_a_tool_is_a_function_of_its_server_with_its_words_its_arguments_and_its_answer() -> None:
    assert declare([ECHO]) == (
        "declare const tools: {\n"
        "  fake: {\n"
        "    /** Give back the words that it is given. */\n"
        "    echo(args: {\n"
        "      /** what to say */\n"
        "      words: string;\n"
        "    }): Promise<{ text: string; structured: {\n"
        "      length: number;\n"
        "    } }>;\n"
        "  };\n"
        "};"
    )


def test_arguments_may_be_left_out_where_none_is_required() -> None:
    text = declare([tool("s.t", properties={"a": {"type": "string"}})])
    assert "t(args?: {" in text
    assert "a?: string;" in text


def test_tools_of_one_server_stand_together_and_a_name_without_a_server_stands_alone() -> None:
    text = declare([tool("one.a"), tool("two.b"), tool("one.c"), tool("alone")])
    assert text.count("one: {") == 1
    assert "\n  alone(args?: Record<string, never>)" in text
    assert parses(text)


@pytest.mark.parametrize(
    ("part", "written"),
    [
        ({"type": "string"}, "string"),
        ({"type": "integer"}, "number"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"type": "array", "items": {"type": "boolean"}}, "Array<boolean>"),
        ({"items": {"type": "null"}}, "Array<null>"),
        ({"prefixItems": [{"type": "string"}], "items": False}, "[(string)?, ...Array<never>]"),
        ({"enum": ["a", 1, None, True, 1.5]}, '"a" | 1 | null | true | 1.5'),
        ({"const": "a"}, '"a"'),
        ({"const": 2**60}, "number"),
        ({"const": "x" * 300}, "string"),
        ({"const": [1]}, "Array<unknown>"),
        ({"const": {}}, "Record<string, unknown>"),
        ({"enum": list(range(60))}, "unknown"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "string | number"),
        ({"type": "string", "anyOf": [{"minLength": 1}, {"maxLength": 3}]}, "string"),
        ({"oneOf": [{"type": "string"}, True]}, "unknown"),
        ({"allOf": [{"properties": {"a": True}}, {"properties": {"b": True}}]}, "{ a?: unknown; } & { b?: unknown; }"),
        ({"allOf": [{"enum": [1, 2]}, {"enum": [2, 3]}]}, "(1 | 2) & (2 | 3)"),
        ({"anyOf": [{"allOf": [{"const": 1}, {"const": 2}]}, {"const": 3}]}, "(1 & 2) | 3"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "Record<string, string>"),
        ({"properties": {"a": True}, "additionalProperties": True}, "{ a?: unknown; [name: string]: unknown; }"),
        ({"type": "nothing known"}, "unknown"),
        ({"type": 7}, "unknown"),
        (False, "never"),
        (True, "unknown"),
    ],
)
def test_each_form_of_schema_has_its_type(part: Any, written: str) -> None:
    assert argument(part) == written
    assert parses(described({"type": "object", "properties": {"x": part}}))


def test_a_reference_within_the_document_is_followed() -> None:
    assert argument({"$ref": "#/$defs/a~1b"}, **{"$defs": {"a/b": {"type": "string"}}}) == "string"
    assert argument({"$ref": "#/anyOf/1"}, anyOf=[True, {"type": "null"}]) == "null"


@pytest.mark.parametrize(
    "reference",
    ["https://example.com/x", "#/$defs/none", "#/anyOf/9", "#/anyOf/x", "#/$defs/s/deep/er", "#" + "/a" * 600],
)
def test_a_reference_that_leads_out_or_nowhere_is_unknown(reference: str) -> None:
    assert argument({"$ref": reference}, **{"$defs": {"s": 1}, "anyOf": [True]}) == "unknown"


def test_a_reference_to_itself_ends() -> None:
    node = {"properties": {"next": {"$ref": "#/$defs/node"}}}
    assert argument({"$ref": "#/$defs/node"}, **{"$defs": {"node": node}}) == "{ next?: unknown; }"


@pytest.mark.threat("C1")
def test_a_description_cannot_end_its_comment() -> None:
    words = "x */ }; declare const evil: string; /** \n */ \u2028 **// y"
    text = declare([tool("s.t", words, properties={"a": {"description": words}})])
    assert text.count("*/") == 2
    assert parses(text)
    assert "evil" not in text.replace("/** x * / }; declare const evil: string; /** * / ** // y */", "")
    assert parses(text.replace("* /", "*/")) is False  # the control: the same words as they came


def test_a_description_is_cut() -> None:
    text = declare([tool("s.t", "long " * 1000)])
    assert len(text) < limits.CODE_DECLARED_WORDS + 200
    assert "… */" in text


@pytest.mark.threat("C1")
@pytest.mark.parametrize("name", ["a-b", "1a", 'a"; evil(): void; "', "", "ünïcode", "a\nb", "\ud800", "__proto__"])
def test_a_name_that_is_no_identifier_is_quoted(name: str) -> None:
    text = declare([tool(f"s-1.{name}", properties={name: {"type": "string"}})])
    assert parses(text)
    assert '"s-1": {' in text


def test_depth_is_bounded() -> None:
    deep: Any = {"type": "string"}
    for _ in range(200):
        deep = {"type": "array", "items": deep}
    assert argument(deep) == "Array<" * limits.CODE_DECLARED_DEPTH + "unknown" + ">" * limits.CODE_DECLARED_DEPTH


def test_size_is_bounded_and_what_is_left_out_is_said() -> None:
    wide = {"type": "object", "properties": {f"name{i}": {"type": "string"} for i in range(100_000)}}
    text = described(wide)
    assert f"/** {100_000 - limits.CODE_DECLARED_MEMBERS} more members */" in text
    assert "[name: string]: unknown;" in text
    assert parses(text)


def test_values_of_enumerations_count_towards_the_budget() -> None:
    long = {f"m{n}": {"enum": [f"{n}-{m}" + "x" * 190 for m in range(50)]} for n in range(100)}
    text = described({"type": "object", "properties": long})
    assert len(text) < 3 * limits.CODE_DECLARED_CHARACTERS
    assert parses(text)


def test_references_that_double_stay_within_the_budget() -> None:
    defs = {
        f"d{i}": {"properties": {"a": {"$ref": f"#/$defs/d{i + 1}"}, "b": {"$ref": f"#/$defs/d{i + 1}"}}}
        for i in range(40)
    }
    text = described({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs})
    assert len(text) < 20 * limits.CODE_DECLARED_CHARACTERS
    assert parses(text)


def test_choices_that_multiply_come_to_an_end() -> None:
    part: Any = {"type": "string"}
    for _ in range(9):
        part = {"anyOf": [part] * limits.CODE_DECLARED_CHOICES}
    assert argument(part) == "unknown"  # 50 to the ninth of them, if nothing ended it


def test_a_name_longer_than_any_name_is_left_out() -> None:
    assert "/** 1 more member */" in described({"type": "object", "properties": {"n" * 1000: True}})


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
WORDS = ["type", "$ref", "const", "enum", "anyOf", "oneOf", "allOf", "items", "prefixItems", "properties"]
WORDS += ["additionalProperties", "required", "description", "$defs", "x"]
VALUES = JSON | st.sampled_from(["object", "array", "string", "null", "#", "#/properties/x", "#/$defs/x", "*/", "/*"])
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(WORDS), SCHEMAS, max_size=6), SCHEMAS, st.text(max_size=30), st.text(max_size=9))
def test_whatever_the_schema_the_declaration_is_typescript(schema: Any, output: Any, words: str, name: str) -> None:
    given_output = output if isinstance(output, dict) else None
    text = declare([Tool(name=name, description=words, input_schema=schema, output_schema=given_output)])
    assert text.isprintable() or set(filter(lambda one: not one.isprintable(), text)) == {"\n"}
    assert parses(text)
    assert text == declare([Tool(name=name, description=words, input_schema=schema, output_schema=given_output)])
