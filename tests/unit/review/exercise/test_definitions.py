"""review.exercise.definitions: facts about what a server lists, whatever it lists."""

import json
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
