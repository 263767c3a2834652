"""review.exercise.definitions: facts about what a server lists, whatever it lists."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.review.exercise import definitions
from fumehood.review.exercise.definitions import What

WHATS: tuple[What, ...] = ("tool", "prompt", "resource", "resource_template")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["name", "uri", "description", "annotations", "inputSchema", "$ref", "\u200b"]), inner
        )
    ),
    max_leaves=20,
)
TOOL: dict[str, Any] = {"name": "add", "description": "adds", "inputSchema": {"type": "object"}}


def facts(value: Any, what: What = "tool") -> dict[str, Any]:
    return definitions.read(what, value).detail


def test_an_ordinary_tool_has_nothing_to_mention() -> None:
    told = {key: value for key, value in facts(TOOL).items() if value is not None}
    assert set(told) == {"what", "name", "sha256", "bytes", "description", "members"}
    assert (told["name"], told["description"]) == ("add", "adds")


def test_the_digest_is_of_the_value_and_not_of_the_order_of_its_members() -> None:
    again = dict(reversed(TOOL.items()))
    assert facts(again)["sha256"] == facts(TOOL)["sha256"]
    assert facts({**TOOL, "description": "adds "})["sha256"] != facts(TOOL)["sha256"]


def test_what_nobody_sees_is_told_with_its_place_and_what_it_spells() -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    schema = {"properties": {"a": {"description": f"a number{hidden}"}, f"k{hidden}": {}}}
    found = facts({**TOOL, "inputSchema": schema})["invisible_characters"]
    assert {(run["at"], run["signal"], run["spelled"]) for run in found} == {
        ("/inputSchema/properties/a/description", "tag-characters", "obey"),
        ("/inputSchema/properties", "tag-characters", "obey"),
    }


@pytest.mark.parametrize("text", ["żółw", "👩‍👩‍👧 family", "日本語", "é", "🏴\U000e0067\U000e0062\U000e007f"])
def test_ordinary_text_of_any_script_hides_nothing(text: str) -> None:
    assert facts({**TOOL, "description": text})["invisible_characters"] is None


@pytest.mark.parametrize(
    ("ref", "told"),
    [
        ("https://schemas.example/a.json", True),
        ("http://127.0.0.1/a", True),
        ("file:///etc/passwd", True),
        ("other.json#/a", True),
        ("//schemas.example/a", True),
        ("#/$defs/a", False),
        ("#", False),
    ],
)
def test_a_reference_that_leads_out_of_its_schema_is_told(ref: str, told: bool) -> None:
    found = facts({**TOOL, "inputSchema": {"$schema": "https://json-schema.example/", "items": [{"$ref": ref}]}})
    expected = [{"at": "/inputSchema/items/0/$ref", "ref": ref}] if told else None
    assert found["network_refs"] == expected


def test_a_property_that_is_called_ref_is_none() -> None:
    schema = {"properties": {"$ref": {"type": "string"}}}
    assert facts({**TOOL, "inputSchema": schema})["network_refs"] is None


def test_hints_are_told_as_they_are_said_and_never_deeper() -> None:
    hints = {"readOnlyHint": True, "title": "x\x1b", "n": 1, "deep": {"a": [1]}}
    told = facts({**TOOL, "annotations": hints})["annotations"]
    assert (told["readOnlyHint"], told["n"], told["deep"]) == (True, 1, "…")
    assert "\x1b" not in told["title"]


@pytest.mark.parametrize(
    ("what", "value", "problems"),
    [
        ("tool", None, ["is not an object"]),
        ("tool", {}, ["name is missing", "inputSchema is missing"]),
        ("tool", {"name": 1, "inputSchema": []}, ["name is not a string", "inputSchema is not an object"]),
        ("prompt", {"name": "p", "description": 1}, ["description is not a string"]),
        ("resource", {"name": "r"}, ["uri is missing"]),
        ("resource_template", {"uriTemplate": "a:{x}", "name": "t"}, None),
    ],
)
def test_what_is_no_such_definition_says_why(what: What, value: Any, problems: list[str] | None) -> None:
    assert facts(value, what)["problems"] == problems


def test_many_hidden_runs_and_references_are_bounded() -> None:
    value = {"inputSchema": [{"$ref": f"https://h.example/{n}", "x": "a\u200bb"} for n in range(100)]}
    told = facts(value)
    assert (len(told["network_refs"]), len(told["invisible_characters"])) == (16, 16)


@given(JSON, st.sampled_from(WHATS))
def test_no_value_raises_and_every_fact_is_json(value: Any, what: What) -> None:
    told = facts(value, what)
    assert len(json.dumps(told)) < 200_000
    assert told["sha256"] == facts(json.loads(json.dumps(value)), what)["sha256"]


@given(st.permutations(["a", "b", "c", "d"]))
def test_a_set_has_one_digest_in_any_order(digests: list[str]) -> None:
    assert definitions.digest_of(digests) == definitions.digest_of(sorted(digests))
    assert definitions.digest_of(digests) != definitions.digest_of(digests[1:])


def peak(value: Any, what: What = "tool") -> int:
    """Bytes of memory that it takes to read and to describe a value that is there already."""
    tracemalloc.start()
    try:
        kept = definitions.read(what, value)
        assert kept.detail["sha256"] == kept.digest
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.threat("R6")
@pytest.mark.parametrize(
    "value",
    [
        {"k" * 200: {"k" * 200: {"k" * 200: {"k" * 200: {"k" * 200: [1] * 100_000}}}}},
        {f"k{number}": 1 for number in range(20_000)},
        {"x": [[] for _ in range(70_000)]},
        {"annotations": {f"k{number}": "v" for number in range(15_000)}},
    ],
    ids=["long paths", "many members", "many lists", "many hints"],
)
def test_what_looks_at_a_definition_takes_little_more_memory_than_the_definition(value: Any) -> None:
    assert peak(value) < 10 * 1024 * 1024  # half a megabyte of JSON, some hundred megabytes of paths or of digests


@pytest.mark.threat("R6")
def test_what_is_kept_of_a_definition_is_as_large_as_its_line() -> None:
    value: Any = {"name": "n" * 500_000, "x": [[] for _ in range(70_000)]}
    tracemalloc.start()
    try:
        kept = definitions.read("tool", value)
        assert tracemalloc.get_traced_memory()[0] < 2 * kept.size
    finally:
        tracemalloc.stop()
    assert len(kept.name) < 2000
    assert kept.value == value


def test_a_definition_of_more_values_than_are_looked_at_says_so() -> None:
    assert facts({**TOOL, "x": [0] * 99_990})["problems"] is None
    told = facts({**TOOL, "x": [0] * 100_000, "y": "a\u200bb"})
    assert told["problems"] == ["more than 100000 values: the others were not looked at"]
    assert told["invisible_characters"] is None


def test_long_names_that_begin_alike_are_told_apart() -> None:
    one, other = (definitions.read("tool", {"name": "n" * 5000 + end}) for end in "ab")
    assert one.name != other.name


@given(st.dictionaries(st.sampled_from("abc"), JSON), st.dictionaries(st.sampled_from("abc"), JSON))
def test_members_that_are_unlike_are_those_whose_json_is(one: dict[str, Any], other: dict[str, Any]) -> None:
    told = definitions.read("tool", one).members_unlike(definitions.read("tool", other))
    text = [{key: json.dumps(value, sort_keys=True) for key, value in side.items()} for side in (one, other)]
    assert set(told) == {key for key in "abc" if text[0].get(key) != text[1].get(key)}


@given(JSON)
def test_a_definition_is_what_the_server_said(value: Any) -> None:
    kept = definitions.read("tool", value)
    assert json.dumps(kept.value, sort_keys=True) == json.dumps(value, sort_keys=True)
