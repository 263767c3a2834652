"""What is told of foreign definitions is inert and bounded, and says what nobody would see."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.gateway.definitions import capped, difference, notices
from fumehood.gateway.pins import Changed, Drift, Renamed, compare, pin

READ: dict[str, Any] = {"name": "read", "description": "Reads.", "inputSchema": {"type": "object"}}
TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "hidden words")


def drift(old: list[Any], new: list[Any]) -> Drift:
    found = compare(pin(old), pin(new))
    assert isinstance(found, Drift)
    return found


@pytest.mark.threat("G4")
def test_a_difference_names_each_tool_what_changed_and_what_it_says_now() -> None:
    old = [READ, READ | {"name": "gone", "description": "x"}, READ | {"name": "old", "description": "y"}]
    new = [
        READ | {"description": "Sends."},
        READ | {"name": "new", "description": "y"},
        READ | {"name": "more", "title": "z"},
    ]
    assert difference(drift(old, new), new) == [
        "removed  gone",
        "renamed  old is called new",
        "changed  read: description",
        "         description is now: Sends.",
        "added    more: Reads.",
    ]


@pytest.mark.threat("G4")
@given(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=50), st.text(st.characters(codec="utf-8"), max_size=3000)
)
def test_no_foreign_word_acts_on_who_reads_the_difference(name: str, words: str) -> None:
    new: list[Any] = [{"name": name, "description": words, "icons": words}, {"name": f"{name}!", "title": words}]
    for old in ([], [{"name": name}]):
        lines = difference(drift(old, new), new)
        assert all(line.isprintable() for line in lines)
        assert all(len(line) < 16 * limits.PIN_SHOWN_CHARACTERS for line in lines)


def test_many_differences_are_counted() -> None:
    new: list[Any] = [READ | {"name": f"t{number}", "title": str(number)} for number in range(60)]
    assert difference(drift([], new), new)[-1] == "and 10 more"
    assert difference(drift(new, []), [])[-1] == "and 10 more"


@pytest.mark.threat("G4")
def test_characters_that_nobody_sees_are_told_with_their_place_and_what_they_spell() -> None:
    hidden = READ | {
        "description": f"Reads.{TAGS}",
        "inputSchema": {"type": "object", "properties": {"path": {"description": "a\u202eb"}}},
        "icons": [{"src": "x" + "\u200b" * 8}],
    }
    assert notices(hidden) == [
        "$.description: tag-characters, which spell hidden words",
        "$.inputSchema.properties.path.description: bidirectional-control",
        "$.icons[0].src: invisible-characters",
    ]
    assert notices(READ) == []


@pytest.mark.threat("G4")
def test_schemas_that_cannot_be_held_are_told() -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(limits.SCHEMA_DEPTH + 1):
        deep = {"type": "object", "properties": {"x": deep}}
    assert notices(READ | {"inputSchema": deep}) == ["inputSchema: cannot be held: nested deeper than 64"]
    assert notices(READ | {"outputSchema": True}) == ["outputSchema: no schema of an object"]
    behind = {"type": "object", "properties": {"x": {"type": "string", "pattern": "(?=a)b"}}}
    assert notices(READ | {"inputSchema": behind}) == [
        "inputSchema: 1 patterns have no linear form and are not checked"
    ]


def test_notices_are_bounded() -> None:
    found = notices(READ | {"icons": ["x" + "\u200b" * 8] * 60})
    assert (len(found), found[-1]) == (51, "and 10 more")


@pytest.mark.threat("G4")
def test_a_long_description_is_cut_and_told() -> None:
    long = READ | {"description": "x" * 5000}
    description = capped(long)["description"]
    assert isinstance(description, str)
    assert (len(description), description[-6:]) == (4000, " [cut]")
    assert notices(long) == ["description: 5000 characters, of which 4000 are passed on"]
    assert capped(READ) == READ
    assert capped(READ | {"description": 1})["description"] == 1


def test_a_tool_that_is_not_in_the_list_is_named_all_the_same() -> None:
    found = Drift(changed=(Changed(name="x", fields=("title",)),), renamed=(Renamed(old="a", new="b"),), added=("y",))
    assert difference(found, []) == ["renamed  a is called b", "changed  x: title", "added    y: "]
