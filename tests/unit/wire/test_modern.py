"""wire.modern: envelopes, and what an answer to server/discover is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.wire import modern, revisions

GOOD: dict[str, Any] = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


def test_who_answers_is_read_from_the_place_of_the_revision_or_of_its_drafts() -> None:
    said: Any = {"name": "s", "version": "2", "title": "S"}
    places: tuple[dict[str, Any], ...] = ({"_meta": {modern.SERVER_KEY: said}}, {"serverInfo": said})
    for more in places:
        reading = modern.read_discover_result({**GOOD, **more, "instructions": "do"})
        assert isinstance(reading, revisions.InitializeResult)
        assert (reading.server_name, reading.server_version, reading.server_title) == ("s", "2", "S")
        assert (reading.instructions, reading.capabilities) == ("do", {"tools": {}})


def test_who_does_not_say_who_it_is_has_no_name() -> None:
    reading = modern.read_discover_result(GOOD)
    assert isinstance(reading, revisions.InitializeResult)
    assert (reading.server_name, reading.server_version, reading.server_title) == ("", "", None)


@pytest.mark.parametrize(("versions", "known"), [(["2025-06-18", 7], True), (["3000-01-01"], False), ([], False)])
def test_another_version_comes_first(versions: list[Any], known: bool) -> None:
    reading = modern.read_discover_result({"supportedVersions": versions})
    assert isinstance(reading, revisions.AnotherVersion)
    assert reading.known is known


@pytest.mark.parametrize(
    ("result", "paths"),
    [
        (None, ["$"]),
        ([], ["$"]),
        ({}, ["$.supportedVersions", "$.capabilities"]),
        ({**GOOD, "capabilities": 1, "instructions": 2, "_meta": 3}, ["$.capabilities", "$.instructions", "$._meta"]),
    ],
)
def test_every_error_of_the_shape_is_named(result: Any, paths: list[str]) -> None:
    reading = modern.read_discover_result(result)
    assert isinstance(reading, revisions.BadShape)
    assert [error.path for error in reading.errors] == paths


@given(JSON)
def test_no_value_raises(value: Any) -> None:
    assert isinstance(
        modern.read_discover_result(value), revisions.InitializeResult | revisions.AnotherVersion | revisions.BadShape
    )
    assert len(list(modern.input_requests(value, 3))) <= 3
    assert modern.kind_of(value) is None or isinstance(modern.kind_of(value), str)


def test_what_a_caller_puts_into_meta_stays_and_cannot_replace_what_is_ours() -> None:
    asker = modern.Asker(name="c", version="1")
    wrapped = modern.wrap({"a": 1, "_meta": {"progressToken": 5, modern.VERSION_KEY: "other"}}, asker)
    meta = wrapped["_meta"]
    assert isinstance(meta, dict)
    assert (meta["progressToken"], meta[modern.VERSION_KEY], wrapped["a"]) == (5, "2026-07-28", 1)
