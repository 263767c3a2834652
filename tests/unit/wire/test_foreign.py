"""wire.foreign: schemas that a peer wrote."""

import functools
import json
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.wire import foreign, schema
from fumehood.wire.foreign import Checked, ForeignChecker, Uncheckable, check

TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name"],
    "additionalProperties": False,
}

DEEP: list[Any] = functools.reduce(lambda inner, _: [inner], range(20), [])


def doubling(levels: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": definitions | {f"d{levels}": {"type": "string"}}}


def unevaluated(levels: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}], "unevaluatedProperties": False}
        for level in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": definitions | {f"d{levels}": {"properties": {"a": {}}}}}


def nested(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"items": found}
    return found


def test_an_ordinary_schema_lists_its_problems() -> None:
    found = check(TREE, {"name": "a", "children": [{"name": 1}, {"other": 2}]})
    assert isinstance(found, Checked)
    assert {problem.path for problem in found.problems} == {("children", 0, "name"), ("children", 1)}
    assert check(TREE, {"name": "a", "children": [{"name": "b"}]}) == Checked(problems=(), skipped_patterns=())


def test_a_boolean_is_a_schema() -> None:
    everything, nothing = True, False
    assert check(everything, 1) == Checked(problems=(), skipped_patterns=())
    refused = check(nothing, 1)
    assert isinstance(refused, Checked)
    assert len(refused.problems) == 1


@pytest.mark.threat("R6")
@pytest.mark.parametrize(
    ("hostile", "value", "reason"),
    [
        (doubling(30), 1, "steps"),
        ({"$ref": "#"}, 1, "steps"),
        ({"allOf": [{"$ref": "#"}]}, 1, "steps"),
        ({"items": {"enum": list(range(5000))}}, list(range(5000)), "steps"),
        (
            {"items": {"$ref": "#"}, "allOf": [{"items": {"$ref": "#"}}]},
            DEEP,
            "steps",
        ),
        (unevaluated(60), {"a": 1}, "steps"),
        (nested(100), [], "deeper"),
        ({"allOf": [{}] * 6000}, 1, "subschemas"),
        ({"allOf": [{"$ref": "#/$defs/a"}] * 1001, "$defs": {"a": {}}}, 1, "references"),
        ({"allOf": [{"pattern": f"a{n}"} for n in range(300)]}, 1, "patterns"),
        ({"$ref": "http://127.0.0.1:9/x.json"}, 1, "within the document"),
        ({"$ref": "file:///etc/hostname"}, 1, "within the document"),
        ({"$ref": "other.json#/$defs/a"}, 1, "within the document"),
        ({"$ref": "#name", "$defs": {"a": {"$anchor": "name"}}}, 1, "within the document"),
        ({"$ref": 7}, 1, "within the document"),
        ({"$ref": "#/x/y", "x": {"y": {"allOf": [{"$ref": "#"}]}}}, 1, "no definition"),
        ({"$ref": "#/$defs"}, 1, "no definition"),
        ({"$ref": "#/allOf/00", "allOf": [{}]}, 1, "no definition"),
        ({"$ref": "#" + "/items" * 500}, 1, "characters"),
        ({"patternProperties": {f"a{n}": {} for n in range(150)}}, dict.fromkeys(map(str, range(50_000))), "steps"),
        ({"$ref": "#/allOf/9", "allOf": [{}]}, 1, "no definition"),
        ({"$defs": {"a": {"$id": "http://other.example/"}}}, 1, "base"),
        ({"$dynamicRef": "#a"}, 1, "dynamic"),
        ({"not": {"pattern": "(?=a)b"}}, "b", "no linear form"),
        ({"patternProperties": {"(?=a)b": False}}, {"b": 1}, "no linear form"),
        ({"type": "nonsense"}, 1, "not a JSON Schema"),
        ({"properties": []}, 1, "not a JSON Schema"),
    ],
)
def test_a_schema_over_a_bound_is_not_checked_and_says_why(hostile: Any, value: object, reason: str) -> None:
    found = check(hostile, value)
    assert isinstance(found, Uncheckable)
    assert reason in found.reason


@pytest.mark.parametrize(
    "reference", ["#/$defs/a", "#/properties/x", "#/allOf/0", "#/items", "#/$defs/b~1c/items", "#/$defs/d%25e~0"]
)
def test_a_pointer_to_any_place_for_a_subschema_is_followed(reference: str) -> None:
    rule = {"type": "integer"}
    root = {
        "$defs": {"a": rule, "b/c": {"items": rule}, "d%e~": rule},
        "properties": {"x": rule},
        "allOf": [rule],
        "items": rule,
    }
    found = check({**root, "allOf": [rule], "properties": {"x": rule, "y": {"$ref": reference}}}, {"y": "no"})
    assert isinstance(found, Checked)
    assert ("y",) in {problem.path for problem in found.problems}


def test_a_pattern_without_a_linear_form_is_left_out_and_told() -> None:
    rules = {"properties": {"a": {"pattern": "(?=x)y", "maxLength": 1}, "b": {"pattern": "^z$"}}}
    found = check(rules, {"a": "no", "b": "no"})
    assert isinstance(found, Checked)
    assert found.skipped_patterns == ("(?=x)y",)
    assert {(problem.path, problem.keyword) for problem in found.problems} == {
        (("a",), "maxLength"),
        (("b",), "pattern"),
    }


@pytest.mark.threat("R6")
def test_a_pattern_that_is_enormous_once_compiled_is_left_out() -> None:
    found = check({"pattern": "(a{1000}){1000}"}, "a")
    assert isinstance(found, Checked)
    assert len(found.skipped_patterns) == 1
    assert not schema.is_linear("(a{1000}){1000}")


def test_a_few_levels_of_unevaluated_properties_are_checked() -> None:
    found = check(unevaluated(3), {"a": 1, "b": 2})
    assert isinstance(found, Checked)
    assert found.problems


def test_problems_are_bounded() -> None:
    found = check({"items": {"type": "string"}}, list(range(1000)))
    assert isinstance(found, Checked)
    assert len(found.problems) == limits.SCHEMA_PROBLEMS


_leaf = st.sampled_from([True, {}, {"type": "string"}, {"maximum": 3}, {"enum": [1, "a"]}, {"pattern": "^a"}])
_schemas = st.recursive(
    _leaf | st.sampled_from([{"$ref": "#"}, {"$ref": "#/$defs/a"}]),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "allOf": st.lists(inner, min_size=1, max_size=3),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "additionalProperties": inner,
            "propertyNames": inner,
        },
    ),
    max_leaves=12,
)
_values = st.recursive(
    st.sampled_from([None, 1, "a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)


@given(_schemas, _leaf, _values)
def test_within_the_bounds_the_answer_is_that_of_the_engine(part: Any, definition: Any, value: Any) -> None:
    root = {"allOf": [part], "$defs": {"a": definition}}
    with mock.patch.object(limits, "SCHEMA_STEPS", 2000):  # a smaller budget, so that a hundred examples stay quick
        found = foreign.check(root, value)
    if isinstance(found, Checked):
        assert list(found.problems) == schema.problems(root, value)[: limits.SCHEMA_PROBLEMS]
    else:
        assert "steps" in found.reason


def test_a_checker_gives_the_same_answer_for_each_value() -> None:
    checker = ForeignChecker({"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=x)y"}}})
    assert checker.skipped_patterns == ("(?=x)y",)
    for _ in range(2):
        assert checker.check({"a": "z"}) == Checked(problems=(), skipped_patterns=("(?=x)y",))
        found = checker.check({"a": ["planted"]})
        assert isinstance(found, Checked)
        assert [problem.path for problem in found.problems] == [("a",)]
        assert "planted" not in found.problems[0].message


_parts = st.recursive(
    st.sampled_from([True, False, {}, {"type": "string"}, {"enum": ["a", "b", "c"]}]),
    lambda inner: st.one_of(
        st.builds(
            lambda word, part: {word: part}, st.sampled_from(["items", "not", "contains", "propertyNames"]), inner
        ),
        st.builds(
            lambda word, parts: {word: parts}, st.sampled_from(["allOf", "prefixItems"]), st.lists(inner, min_size=1)
        ),
        st.builds(lambda a, b: {"properties": {"a": a, "b": b}, "additionalProperties": b}, inner, inner),
        st.builds(lambda a, b: {"patternProperties": {"a": a, ".": b}, "dependentSchemas": {"a": a}}, inner, inner),
    ),
    max_leaves=5,
)
_values = st.recursive(
    st.none() | st.integers(0, 9) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["", "a", "b"]), inner, max_size=3),
    max_leaves=8,
)


@given(_parts, _values, st.integers(1, 400))
def test_a_value_that_is_cheap_by_its_size_costs_no_more_steps_than_there_are(
    root: Any, value: Any, steps: int
) -> None:
    checker = ForeignChecker(root)
    size = len(json.dumps(value, separators=(",", ":")))
    with mock.patch.object(limits, "SCHEMA_STEPS", steps):
        cheap = checker.is_cheap(size)
        assert not cheap or isinstance(checker.check(value), Checked)
    assert checker.check(value, size) == checker.check(value)


@pytest.mark.parametrize(
    "root", [TREE, doubling(2), {"unevaluatedProperties": False}, {"items": {"unevaluatedItems": False}}], ids=repr
)
def test_a_schema_that_sees_a_value_again_and_again_is_never_cheap(root: Any) -> None:
    checker = ForeignChecker(root)
    assert not checker.is_cheap(1)
    assert isinstance(ForeignChecker(doubling(18)).check("a", 3), Uncheckable)


def test_a_value_of_which_the_size_is_not_known_is_not_cheap() -> None:
    assert not ForeignChecker({"type": "object"}).is_cheap(None)
    assert ForeignChecker({"type": "object"}).is_cheap(2)


@pytest.mark.parametrize(
    ("hostile", "reason"),
    [
        ({"$ref": "https://example.com/"}, "no pointer"),
        ({"type": "nonsense"}, "not a JSON Schema"),
        ({"not": {"pattern": "(?=x)"}}, "no linear form"),
    ],
)
def test_no_checker_is_made_of_a_schema_that_cannot_be_held(hostile: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ForeignChecker(hostile)


def test_a_checker_says_when_a_value_would_take_too_many_steps() -> None:
    assert isinstance(ForeignChecker({"$ref": "#"}).check(1), Uncheckable)
    assert ForeignChecker(schema=False).check(1) != ForeignChecker(schema=True).check(1)
