from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.wire import revisions
from fumehood.wire.revisions import AnotherVersion, BadShape, InitializeResult, read_initialize_result

GOOD: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {"listChanged": True}, "experimental": {"x": {}}, "vendor": 7},
    "serverInfo": {"name": "n", "version": "1", "title": "t"},
    "instructions": "read me",
    "_meta": {},
}


def test_a_result_that_fits_is_read() -> None:
    assert read_initialize_result(GOOD) == InitializeResult(
        protocol_version="2025-06-18",
        server_name="n",
        server_version="1",
        server_title="t",
        capabilities=GOOD["capabilities"],
        instructions="read me",
    )


def test_the_least_result_fits() -> None:
    least: dict[str, Any] = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "serverInfo": {"name": "", "version": ""},
    }
    reading = read_initialize_result(least)
    assert isinstance(reading, InitializeResult)
    assert (reading.server_title, reading.instructions) == (None, None)


@pytest.mark.parametrize("version", [*revisions.LEGACY, *revisions.MODERN])
def test_every_published_version_fits_when_asked_for_and_is_another_when_not(version: str) -> None:
    assert isinstance(read_initialize_result(GOOD | {"protocolVersion": version}, asked=version), InitializeResult)
    other = read_initialize_result({"protocolVersion": version}, asked="2000-01-01")
    assert other == AnotherVersion(offered=version, known=True)


def test_a_version_that_nobody_published_is_another_and_unknown() -> None:
    assert read_initialize_result({"protocolVersion": "latest"}) == AnotherVersion(offered="latest", known=False)


def test_every_error_of_a_shape_is_listed_at_once() -> None:
    reading = read_initialize_result(
        {
            "capabilities": {"tools": {"listChanged": "yes"}, "prompts": []},
            "serverInfo": {"version": 2},
            "instructions": 1,
        }
    )
    assert isinstance(reading, BadShape)
    assert [(error.path, error.problem) for error in reading.errors] == [
        ("$.protocolVersion", "is missing"),
        ("$.instructions", "is not a string"),
        ("$.serverInfo.name", "is missing"),
        ("$.serverInfo.version", "is not a string"),
        ("$.capabilities.prompts", "is not an object"),
        ("$.capabilities.tools.listChanged", "is not a boolean"),
    ]


@pytest.mark.parametrize("result", [None, [], "x", 1, True])
def test_a_result_that_is_no_object_has_one_error(result: Any) -> None:
    reading = read_initialize_result(result)
    assert isinstance(reading, BadShape)
    assert reading.errors[0].path == "$"


def test_only_the_codes_of_another_era_mean_another_era() -> None:
    meant = {code for code in range(-32800, 0) if revisions.means_another_era(code)}
    assert meant == {-32601, -32021, -32022}


_leaf = st.sampled_from(["2025-06-18", "s", 1, True, None, {}, {"listChanged": True}, {"name": "n", "version": "v"}])


@given(st.dictionaries(st.sampled_from(sorted(GOOD)), _leaf | st.dictionaries(st.sampled_from(["tools"]), _leaf)))
def test_reading_never_raises_and_a_result_that_is_read_has_no_error(result: dict[str, Any]) -> None:
    reading = read_initialize_result(result)
    if isinstance(reading, InitializeResult):
        assert result["protocolVersion"] == "2025-06-18"
        assert isinstance(result["capabilities"], dict)
        assert isinstance(result["serverInfo"]["name"], str)
    if isinstance(reading, BadShape):
        assert reading.errors
