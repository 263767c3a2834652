"""review.inputs.generate, flat, scalars, words: arguments from a schema."""

import json
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fumehood.core import jsonio, limits
from fumehood.review.inputs import flat, scalars, words
from fumehood.review.inputs.generate import ALL, REQUIRED, Inputs, generate
from fumehood.wire import foreign

NAMES = st.sampled_from(["path", "url", "query", "max_results", "id", "when", "näme", "a b", ""])


def objects(parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Schemas of objects, with some members required, open or closed."""

    def closed(members: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
        return st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.just(members)},
            optional={
                "required": st.lists(st.sampled_from(sorted(members) or ["other"]), unique=True),
                "additionalProperties": st.sampled_from([True, False] if members else [True]),
                "minProperties": st.integers(0, len(members)),
            },
        )

    return st.dictionaries(NAMES, parts, max_size=4).flatmap(closed)


def lists(parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    array: dict[str, Any] = {"type": "array"}
    return st.builds(lambda part, least, more: array | {"items": part, "minItems": least, "maxItems": least + more},
        parts, st.integers(0, 4), st.integers(0, 3),
    )  # fmt: skip


def numbers(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda low, more, step: {"type": kind, "minimum": low, "maximum": low + more + step, "multipleOf": step},
        st.integers(-1000, 1000),
        st.integers(0, 100),
        st.integers(1, 20),
    )


def texts() -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda least, more: {"type": "string", "minLength": least, "maxLength": least + more},
        st.integers(0, 60),
        st.integers(0, 60),
    )


SCALARS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    texts(),
    numbers("integer"),
    numbers("number"),
    st.builds(
        lambda form: {"type": "string", "format": form}, st.sampled_from([*words._FORMATS, "uuid", "unknown"])
    ),  # every format of the table
    st.builds(lambda values: {"enum": values}, st.lists(st.one_of(st.text(), st.integers(), st.none()), min_size=1)),
    st.just({"type": ["null", "integer"]}),
    st.just({"type": "boolean"}),
    st.just({"const": {"a": [1]}}),
    st.just({"type": "string", "pattern": r"^[a-z]{3}-\d+(?:x|y)?$"}),
    st.just({"allOf": [{"type": "number"}, {"type": "integer", "minimum": 3}], "maximum": 4}),
)
SCHEMAS = objects(
    st.recursive(
        SCALARS,
        lambda inner: st.one_of(
            objects(inner),
            lists(inner),
            st.builds(lambda some: {"anyOf": some}, st.lists(inner, min_size=1, max_size=3)),
            st.builds(lambda one: {"$defs": {}, "allOf": [one, {"description": "x"}]}, inner),
        ),
        max_leaves=8,
    )
)


@given(SCHEMAS, st.integers(0, 2**64), st.sampled_from([ALL, REQUIRED]))
@settings(max_examples=300, deadline=None)
def test_what_is_made_of_a_schema_fits_it(schema: dict[str, Any], seed: int, extent: str) -> None:
    made = generate(schema, seed, extent=extent)

    assert foreign.check(schema, made.arguments) == foreign.Checked(problems=(), skipped_patterns=())
    assert generate(schema, seed, extent=extent) == made


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(
                st.text(),
                st.sampled_from(
                    [
                        "type",
                        "properties",
                        "required",
                        "enum",
                        "const",
                        "items",
                        "prefixItems",
                        "minItems",
                        "allOf",
                        "anyOf",
                        "oneOf",
                        "$ref",
                        "$defs",
                        "pattern",
                        "minLength",
                        "maximum",
                        "multipleOf",
                        "contains",
                        "minProperties",
                        "dependentRequired",
                        "default",
                    ]
                ),
            ),
            inner,
            max_size=6,
        ),
    ),
    max_leaves=30,
)


@given(JSON, st.sampled_from([ALL, REQUIRED]), st.integers(0, 3))
@settings(max_examples=300, deadline=None)
def test_any_value_in_the_place_of_a_schema_gives_an_object_that_json_can_carry(
    schema: Any,  # any JSON value
    extent: str,
    attempt: int,
) -> None:
    made = generate(schema, 1, extent=extent, attempt=attempt)

    assert len(json.dumps(made.arguments, allow_nan=False)) < limits.INPUT_BYTES
    assert isinstance(made.arguments, dict)


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def doubled(levels: int) -> dict[str, Any]:
    parts = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": parts}


@pytest.mark.threat("R33")
@pytest.mark.parametrize(
    ("schema", "note"),
    [
        (nested(100_000), "nested_too_deep"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "nested_too_deep"),
        (doubled(30), "nested_too_deep"),
        ({"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]}, "too_many_members"),
        ({"properties": {"a": {"type": "string", "minLength": 10**9}}}, "too_many_characters"),
        ({"properties": {"a": {"type": "array", "minItems": 10**9}}}, "too_many_members"),
        ({"properties": {"a": {"type": "object", "minProperties": 10**9}}}, "too_many_members"),
        ({"properties": {f"p{n}": {} for n in range(20_000)}}, "too_many_members"),
        ({"required": [f"p{n}" for n in range(20_000)]}, "too_many_members"),
        ({"required": ["x" * 1_000_000]}, "name_too_long"),
        ({"properties": {"a": {"const": "x" * 1_000_000}}}, "too_many_characters"),
        ({"properties": {"a": {"enum": ["x" * 1_000_000]}}}, "too_many_characters"),
        ({"properties": {"a": {"type": "string", "pattern": "(?=a)b"}}}, "pattern_not_followed"),
        ({"properties": {"a": {"type": "string", "pattern": "(" * 400}}}, "pattern_not_followed"),
        ({"properties": {"a": {"$ref": "http://elsewhere.example/schema"}}}, "reference_not_followed"),
        ({"properties": {"a": {"$ref": "#/$defs/none/0"}}}, "reference_not_followed"),
        ({"properties": {"a": False}, "required": ["a"]}, "nothing_fits"),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, "not_followed: if"),
        ({"type": "string"}, "not_an_object"),
        ({"allOf": [{"properties": {f"{n}": {"allOf": [{}] * 300}}} for n in range(100)]}, "schema_too_large"),
    ],
)
def test_a_hostile_schema_gives_bounded_arguments_and_a_note(schema: dict[str, Any], note: str) -> None:
    made = generate(schema, 1)

    assert note in made.notes
    assert len(json.dumps(made.arguments)) < limits.INPUT_BYTES


def test_a_property_more_leaves_the_values_of_the_others_as_they_were() -> None:
    some: Any = {"properties": {name: {"type": "integer"} for name in ("a", "b", "c")}}
    more: Any = {"properties": {"first": {"type": "string"}, **some["properties"]}}

    before, after = generate(some, 7).arguments, generate(more, 7).arguments

    assert {name: after[name] for name in before} == before
    assert generate(some, 8).arguments != before


def test_only_required_members_are_given_when_that_is_asked() -> None:
    schema: Any = {"properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}, "required": ["path"]}

    assert generate(schema, 1, extent=REQUIRED).arguments == {"path": "{workspace}/package.json"}
    assert generate(schema, 1).arguments == {"path": "{workspace}/package.json", "limit": 10}


@pytest.mark.parametrize(
    ("tool", "path"),
    [
        ("read_file", "{workspace}/package.json"),
        ("write_file", "{workspace}/notes.txt"),
        ("list_directory", "{workspace}"),
        ("directoryTree", "{workspace}"),
        ("search_files", "{workspace}"),
        ("create_directory", "{workspace}/notes"),
        ("x" * 1_000_000, "{workspace}/package.json"),
    ],
)
def test_a_path_leads_to_what_the_tool_is_about(tool: str, path: str) -> None:
    schema: Any = {"properties": {"path": {"type": "string"}, "query": {"type": "string"}}}

    assert generate(schema, 1, about=tool).arguments == {"path": path, "query": "weather in London"}


@pytest.mark.parametrize(
    ("name", "schema", "value"),
    [
        ("directory", {"type": "string"}, "{workspace}"),
        ("outputPath", {"type": "string"}, "{workspace}/notes.txt"),
        ("website-url", {"type": "string"}, "http://www.files.example/notes.txt"),
        ("searchQuery", {"type": "string"}, "weather in London"),
        ("unheard", {"type": "string"}, "notes"),
        ("to", {"type": "string", "format": "email"}, "ada@mail.example"),
        ("port", {"type": "integer"}, 8080),
        ("a", {"type": "string", "default": "given"}, "given"),
        ("a", {"type": "string", "examples": [1, "shown"]}, "shown"),
        ("a", {"type": "integer", "default": None}, None),
        ("a", {"anyOf": [{"type": "null"}, {"const": 5}]}, 5),
        ("a", {"items": {"type": "boolean"}, "minItems": 2}, None),
        ("a", {"type": "array", "items": [{"const": 1}], "additionalItems": False}, [1]),
        ("a", {"type": "array", "contains": {"const": 4}}, [4]),
        ("a", {"type": "array", "items": {"type": "integer"}, "minItems": 3, "uniqueItems": True}, None),
        ("a", {"dependentRequired": {"b": ["c"]}, "required": ["b"]}, None),
        ("a", {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5}, 0.25),
        ("a", {"minimum": 1e300, "type": "number"}, 1e300),
        ("a", {"maximum": -1e307, "type": "number"}, -1e307),
        ("a", {"oneOf": [{"type": "object", "properties": {"k": {"const": 1}}}], "type": "object"}, {"k": 1}),
    ],
)
def test_a_value_is_plausible_for_its_name_and_form(name: str, schema: dict[str, Any], value: object) -> None:
    made = generate({"properties": {name: schema}}, 12).arguments[name]

    assert value is None or made == value
    found = foreign.check({"properties": {name: schema}}, {name: made})
    assert isinstance(found, foreign.Uncheckable) or not found.problems


def test_no_word_of_ours_names_a_host_or_an_address_that_somebody_has() -> None:
    table = json.dumps([words._FORMATS, words._NAMES])  # the tables are what is looked at

    assert "example" in table
    for public in (".com", ".org", ".net", ".io", "localhost", "127.0.0.1", "169.254"):
        assert public not in table


def test_further_attempts_choose_otherwise() -> None:
    schema: Any = {"properties": {"a": {"enum": list(range(1000))}, "b": {"default": "x", "type": "string"}}}

    tries = [generate(schema, 3, attempt=attempt).arguments for attempt in range(4)]

    assert len({json.dumps(one) for one in tries}) > 1
    assert tries[0]["b"] == "x"
    assert tries[1]["b"] != "x"


def test_two_schemas_are_merged_where_both_must_hold() -> None:
    one: Any = {"type": ["integer", "string"], "minimum": 1, "enum": [1, 2, 3], "items": {}, "title": "a"}
    other: Any = {"type": "number", "minimum": 2, "enum": [2, 3, 4], "items": False, "title": "b", "maxItems": 3}

    assert flat.merge(one, other) == {
        "type": ["integer"], "minimum": 2, "enum": [2, 3], "items": False, "title": "a", "maxItems": 3
    }  # fmt: skip
    assert flat.is_nothing(flat.merge({"type": "string"}, {"type": "object"}))


def test_a_number_beyond_every_float_becomes_the_largest_one() -> None:
    assert scalars.near(1, {"maximum": -(10**400)}, whole=False) == -sys.float_info.max


def test_equal_neighbours_are_told_apart_where_that_is_easy() -> None:
    assert scalars.another(1, 3, 0) == 4
    assert scalars.another(value=True, number=1, again=0) is False
    assert scalars.another("a", 2, 1) == "a2"
    assert scalars.another(None, 1, 1) is None


def test_the_number_of_notes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INPUT_NOTES", 1)
    schema: Any = {"properties": {"a": {"$ref": "x"}, "b": {"pattern": "\\b", "type": "string"}}}

    assert generate(schema, 1) == Inputs(arguments={"a": "notes", "b": "notes"}, notes=("reference_not_followed",))
    assert jsonio.dump(generate(schema, 1).arguments) == b'{"a":"notes","b":"notes"}\n'
