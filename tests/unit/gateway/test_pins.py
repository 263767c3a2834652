"""A set of tools is the same only when each definition says the same, in whatever order."""

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.gateway import pins
from fumehood.gateway.pins import Changed, Drift, PinError, Renamed, Same, compare, digest, pin

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
JSON: Any = st.recursive(
    SCALARS | TEXT, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=8
)
FIELDS = ("title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta", "new")
TOOL: Any = st.fixed_dictionaries(
    {"name": st.text("abcdef", min_size=1, max_size=4)}, optional=dict.fromkeys(FIELDS, JSON)
)
SETS: Any = st.lists(TOOL, max_size=5, unique_by=lambda one: one["name"])
READ: dict[str, Any] = {"name": "read", "description": "Reads.", "inputSchema": {"type": "object"}}
WRITE: dict[str, Any] = {"name": "write", "description": "Writes.", "inputSchema": {"type": "object"}}


def text(value: Any) -> str:
    """JSON in which 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True)


def turned(value: Any) -> Any:
    """The same with the keys of each object in the opposite order."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(list(value))}
    return [turned(one) for one in value] if isinstance(value, list) else value


@pytest.mark.threat("G4")
@given(SETS, st.randoms(use_true_random=False))
def test_the_order_of_tools_and_of_keys_means_nothing(tools: list[Any], chance: Any) -> None:
    other = [turned(one) for one in tools]
    chance.shuffle(other)
    assert digest(pin(tools)) == digest(pin(other))
    assert compare(pin(tools), pin(other)) == Same()
    assert list(pin(other)) == sorted(one["name"] for one in tools)


@pytest.mark.threat("G4")
@given(SETS, SETS)
def test_two_sets_have_one_digest_exactly_when_they_say_the_same(one: list[Any], other: list[Any]) -> None:
    by_name = [sorted(tools, key=lambda tool: str(tool["name"])) for tools in (one, other)]
    same = text(by_name[0]) == text(by_name[1])
    assert (digest(pin(one)) == digest(pin(other))) is same
    assert isinstance(compare(pin(one), pin(other)), Same) is same


@pytest.mark.threat("G4")
@given(SETS.filter(bool), st.data())
def test_a_change_of_any_member_is_a_drift_that_names_it(tools: list[Any], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(tools) - 1))
    field = data.draw(st.sampled_from(FIELDS))
    new = {**tools[place], field: data.draw(JSON)}
    assume(text(new) != text(tools[place]))
    found = compare(pin(tools), pin([*tools[:place], new, *tools[place + 1 :]]))
    assert found == Drift(changed=(Changed(name=new["name"], fields=(field,)),))


@pytest.mark.threat("G4")
def test_a_tool_under_another_name_is_told_as_renamed_and_is_a_drift() -> None:
    found = compare(pin([READ, WRITE]), pin([READ, WRITE | {"name": "wipe"}]))
    assert found == Drift(renamed=(Renamed(old="write", new="wipe"),))


@pytest.mark.threat("G4")
def test_a_name_and_a_word_that_change_together_are_one_that_went_and_one_that_came() -> None:
    found = compare(pin([READ]), pin([READ | {"name": "other", "description": "Reads"}]))
    assert found == Drift(added=("other",), removed=("read",))


def test_of_several_equal_definitions_each_is_in_one_pair() -> None:
    old: list[Any] = [READ | {"name": name} for name in ("a", "b", "c")]
    new: list[Any] = [READ | {"name": name} for name in ("x", "y")]
    found = compare(pin(old), pin(new))
    assert found == Drift(removed=("c",), renamed=(Renamed(old="a", new="x"), Renamed(old="b", new="y")))


def test_two_tools_that_change_names_are_both_changed() -> None:
    found = compare(pin([READ, WRITE]), pin([READ | {"name": "write"}, WRITE | {"name": "read"}]))
    assert isinstance(found, Drift)
    assert [one.name for one in found.changed] == ["read", "write"]


def test_a_server_whose_tools_came_or_went_drifts() -> None:
    assert compare({}, pin([READ])) == Drift(added=("read",))
    assert compare(pin([READ]), {}) == Drift(removed=("read",))
    assert compare({}, {}) == Same()


@pytest.mark.threat("G4")
@pytest.mark.parametrize(
    ("definitions", "reason"),
    [
        ([1], "has no name"),
        ([{"description": "x"}], "has no name"),
        ([{"name": 1}], "has no name"),
        ([{"name": ""}], "a name of 0 characters"),
        ([{"name": "x" * 201}], "a name of 201 characters"),
        ([READ, READ], "two tools with the name 'read'"),
        ([{"name": "x\x1b[2J"}] * 2, r"two tools with the name 'x\\x1b\[2J'"),
        ([{"name": "x", **{str(number): 1 for number in range(64)}}], "more than 64 members"),
        ([{"name": "x", "y" * 201: 1}], "a member with a name of 201 characters"),
        ([{"name": "x", "title": float("nan")}], "is no JSON"),
        ([{"name": "x", "title": "\ud800"}], "is no JSON"),
    ],
)
def test_a_list_that_cannot_be_pinned_is_refused_for_its_reason(definitions: Any, reason: str) -> None:
    with pytest.raises(PinError, match=reason):
        pin(definitions)


def test_a_flood_of_tools_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PIN_TOOLS", 1)
    with pytest.raises(PinError, match="2 tools, where 1 are taken"):
        pin([READ, WRITE])
    assert pins.pin([READ]).keys() == {"read"}
