"""review.serverjson: what a registry's file becomes, and what of it never does."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core.jsonio import JsonError
from fumehood.review import serverjson
from fumehood.review.serverjson import Offer, ServerJsonError

STDIO = {"type": "stdio"}


def package(**changes: Any) -> dict[str, Any]:
    return {"registryType": "npm", "identifier": "@unit/server", "version": "1.0.0", "transport": STDIO, **changes}


def offer(**changes: Any) -> Offer:
    return serverjson.offers({"name": "io.example/unit", "packages": [package(**changes)]})[0]


def argument(**fields: Any) -> Offer:
    return offer(packageArguments=[{"type": "positional", **fields}])


def test_a_package_becomes_its_target() -> None:
    assert offer().target == {"kind": "npm", "name": "@unit/server", "version": "1.0.0"}
    assert offer(registryType="pypi").target["kind"] == "pypi"
    assert offer().left_out == ()


def test_the_answer_of_a_registry_is_read_as_the_file_inside() -> None:
    wrapped = {"server": {"name": "io.example/unit", "packages": [package()]}, "_meta": {}}
    assert serverjson.parse(json.dumps(wrapped).encode())[0].refused == ""
    assert serverjson.is_one(wrapped)  # type: ignore[arg-type]  # a table of JSON
    assert not serverjson.is_one({"schema_version": 2, "packages": []})
    assert not serverjson.is_one([])


@pytest.mark.threat("R1")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"registryType": "oci"}, "'oci' is not reviewed"),
        ({"registryType": "mcpb"}, "'mcpb' is not reviewed"),
        ({"registryType": None}, "is not reviewed"),
        ({"transport": {"type": "streamable-http", "url": "http://x.example"}}, "'streamable-http' is not reviewed"),
        ({"transport": None}, "transport"),
        ({"version": "latest"}, "no exact version"),
        ({"version": None}, "no exact version"),
        ({"identifier": 1}, "no identifier"),
        ({"registryType": "\x1b[31m"}, "x1b"),
    ],
)
def test_what_is_not_reviewed_is_refused_by_name(changes: dict[str, Any], words: str) -> None:
    refused = offer(**changes)
    assert words in refused.refused
    assert "\x1b" not in refused.refused
    assert refused.target == {}


def test_the_older_form_of_the_file_is_refused_by_name() -> None:
    old = {"name": "x/y", "packages": [{"registry_type": "npm", "identifier": "x", "version": "1.0.0"}]}
    assert "before September 2025" in serverjson.offers(old)[0].refused  # type: ignore[arg-type]  # a table of JSON


@pytest.mark.parametrize(
    ("fields", "argv"),
    [
        ({"value": "mcp"}, ("mcp",)),
        ({"default": "x", "valueHint": "y"}, ("x",)),
        ({"value": "a", "default": "b"}, ("a",)),
        ({"type": "named", "name": "--port", "value": "1"}, ("--port=1",)),
        ({"type": "named", "name": "--verbose", "isRequired": True}, ("--verbose",)),
        ({"value": "{a}/{b}", "variables": {"a": {"default": "x"}, "b": {"value": "y"}}}, ("x/y",)),
        ({"value": "{not_described}"}, ("{not_described}",)),
    ],
)
def test_fixed_and_default_values_become_arguments(fields: dict[str, Any], argv: tuple[str, ...]) -> None:
    made = argument(**fields)
    assert (made.argv, made.left_out) == (argv, ())


@pytest.mark.threat("R1")
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"value": "canary", "isSecret": True}, "a secret"),
        ({"value": "{k}", "variables": {"k": {"value": "canary", "isSecret": True}}}, "a secret"),
        ({"valueHint": "dir", "isRequired": True}, "and is required"),
        ({"type": "named", "value": "x"}, "has no name"),
        ({"value": "{k}", "variables": {"k": {}}}, "has no value"),
        ({"value": 1}, "has no value"),
    ],
)
def test_a_secret_and_what_has_no_value_are_not_passed_on_and_said(fields: dict[str, Any], words: str) -> None:
    made = argument(**fields)
    assert made.argv == ()
    assert words in made.left_out[0]
    assert "canary" not in str(made)


@pytest.mark.threat("R1")
def test_no_variable_no_runner_and_no_address_of_a_file_is_passed_on() -> None:
    made = offer(
        environmentVariables=[
            {"name": "KEY", "isSecret": True, "isRequired": True, "value": "canary"},
            {"name": "\n"},
            1,
        ],
        runtimeArguments=[{"type": "positional", "value": "--unsafe-perm"}],
        runtimeHint="npx",
        registryBaseUrl="https://evil.example",
        fileSha256="a" * 64,
    )
    said = " ".join(made.left_out)
    assert "'KEY' (required)" in said
    assert all(word in said for word in ("runtimeArguments", "registryBaseUrl", "fileSha256"))
    assert not [word for word in ("canary", "unsafe-perm", "evil") if word in str(made)]


def test_more_arguments_than_a_request_may_have_are_counted() -> None:
    made = offer(packageArguments=[{"type": "positional", "value": "x"}] * 40)
    assert len(made.argv) == 32
    assert "8 beyond" in made.left_out[0]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"name": "x/y", "remotes": [{"type": "sse"}]}, "remote servers alone"),
        ({"name": "x/y", "packages": []}, "no server.json"),
        ({"packages": [{}]}, "no server.json"),
        ([], "no server.json"),
        ({"name": "x/y", "packages": [{}] * 33}, "more than 32"),
    ],
)
def test_what_is_no_such_file_is_refused_with_the_next_step(value: Any, words: str) -> None:
    with pytest.raises(ServerJsonError, match=words) as refused:
        serverjson.offers(value)
    assert refused.value.remedy


def test_one_package_is_chosen_by_its_number_and_one_that_is_refused_says_why() -> None:
    found = serverjson.offers({"name": "x/y", "packages": [package(), package(registryType="oci"), 1]})
    assert [one.place for one in serverjson.chosen(found, None)] == ["packages[0]"]
    for number, words in ((1, "oci"), (2, "no object"), (3, "no package 3"), (-1, "no package -1")):
        with pytest.raises(ServerJsonError, match=words):
            serverjson.chosen(found, number)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(sorted(package(packageArguments=0, variables=0, value=0, type=0))), inner)
    ),
    max_leaves=20,
)


@given(_JSON)
def test_any_package_is_offered_or_refused_and_what_is_said_is_inert(value: Any) -> None:
    made = serverjson.offers({"name": "x/y", "packages": [value]})[0]
    assert all(text.isascii() for text in (*made.left_out, made.refused))
    assert bool(made.refused) != bool(made.target)


@given(st.binary(max_size=100))
def test_any_bytes_are_a_file_or_refused(data: bytes) -> None:
    with pytest.raises((ServerJsonError, JsonError)):
        serverjson.parse(data)
