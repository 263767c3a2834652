"""What an era puts around requests and results."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.upstreams import envelope
from fumehood.gateway.upstreams.envelope import Next
from fumehood.gateway.upstreams.model import UpstreamError
from fumehood.wire.hosting import Era

OURS = envelope.modern("fumehood", "1")
OLD = envelope.legacy("fumehood", "1")

json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(
    st.sampled_from(["_meta", "resultType", "ttlMs", "cacheScope", "tools", "name", "supportedVersions"]), json_values
)


def test_a_modern_request_says_revision_client_and_no_capability() -> None:
    params = envelope.wrap({"name": "echo"}, OURS, 7)
    assert params == {
        "name": "echo",
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "fumehood", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
            "progressToken": 7,
        },
    }


def test_a_legacy_request_carries_nothing_but_a_wanted_token() -> None:
    assert envelope.wrap({"name": "echo"}, OLD) == {"name": "echo"}
    assert envelope.wrap({"name": "echo"}, OLD, 0) == {"name": "echo", "_meta": {"progressToken": 0}}


@given(objects, st.sampled_from([OURS, OLD]))
def test_nothing_of_foreign_meta_but_trace_context_goes_out(params: JsonObject, speaks: envelope.Speaks) -> None:
    foreign: JsonObject = {"traceparent": "00-1", "secret": "x", envelope.CAPABILITIES_KEY: {"sampling": {}}}
    sent = envelope.wrap({**params, "_meta": foreign}, speaks)["_meta"]
    assert isinstance(sent, dict)
    assert sent["traceparent"] == "00-1"
    assert "secret" not in sent
    assert sent.get(envelope.CAPABILITIES_KEY, {}) == {}


def test_a_result_loses_what_its_era_put_around_it() -> None:
    result: JsonObject = {
        "tools": [],
        "resultType": "complete",
        "ttlMs": 5,
        "cacheScope": "public",
        "_meta": {envelope.SERVER_KEY: {}, "own": 1},
    }
    assert envelope.peel(result, "modern") == {"tools": [], "_meta": {"own": 1}}
    assert envelope.peel({"tools": [], "_meta": {envelope.SERVER_KEY: {}}}, "legacy") == {"tools": []}


def test_a_legacy_result_keeps_members_that_only_look_modern() -> None:
    assert envelope.peel({"ttlMs": 5}, "legacy") == {"ttlMs": 5}


@pytest.mark.parametrize("result", [None, [], "x", {"resultType": "input_required"}, {"resultType": 3}])
def test_what_is_no_finished_result_is_an_error(result: JsonValue) -> None:
    with pytest.raises(UpstreamError):
        envelope.peel(result, "modern")


@given(json_values | objects, st.sampled_from(["modern", "legacy"]))
def test_peeling_gives_an_object_without_reserved_keys_or_our_error(result: JsonValue, era: Era) -> None:
    try:
        peeled = envelope.peel(result, era)
    except UpstreamError:
        return
    meta = peeled.get("_meta")
    assert not isinstance(meta, dict) or not any(key.startswith(envelope.RESERVED) for key in meta)


def test_who_is_discovered_is_known_by_its_versions() -> None:
    known = envelope.discovered(
        {
            "supportedVersions": ["2025-11-25", "2026-07-28"],
            "capabilities": {"tools": {}},
            "instructions": "do",
            "_meta": {envelope.SERVER_KEY: {"name": "s", "version": "2"}},
        }
    )
    assert known is not None
    assert (known.era, known.revision, known.instructions) == ("modern", "2026-07-28", "do")
    assert known.server == {"name": "s", "version": "2"}
    assert envelope.discovered({"supportedVersions": ["2025-11-25"]}) is None
    assert envelope.discovered({"supportedVersions": [["2026-07-28"], {}]}) is None
    assert envelope.discovered(None) is None


def test_who_initializes_offers_a_known_revision() -> None:
    result: JsonObject = {"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {"name": "s"}}
    assert envelope.initialized(result).revision == "2025-03-26"
    for wrong in (None, {**result, "protocolVersion": "2026-07-28"}, {**result, "protocolVersion": []}):
        with pytest.raises(UpstreamError):
            envelope.initialized(wrong)
    with pytest.raises(UpstreamError, match="lacks"):
        envelope.initialized({**result, "serverInfo": None})


@given(json_values | objects)
def test_introductions_are_read_without_surprise(result: JsonValue) -> None:
    envelope.discovered(result)
    try:
        envelope.initialized(result)
    except UpstreamError:
        return
    raise AssertionError("no generated value is an InitializeResult")


@pytest.mark.parametrize(
    ("number", "data", "expected"),
    [
        (-32601, None, Next.INITIALIZE),
        (-32600, None, Next.INITIALIZE),
        (-32602, None, Next.INITIALIZE),
        (-32000, None, Next.INITIALIZE),
        (-32020, None, Next.GIVE_UP),
        (-32021, None, Next.GIVE_UP),
        (-32022, None, Next.GIVE_UP),
        (-32022, {"supported": ["2030-01-01", 1]}, Next.GIVE_UP),
        (-32022, {"supported": ["2025-11-25"]}, Next.INITIALIZE),
    ],
)
def test_only_errors_of_the_modern_era_mean_it(number: int, data: JsonValue, expected: Next) -> None:
    assert envelope.after_discover(number, data) is expected


def test_initialize_asks_for_the_last_legacy_revision() -> None:
    assert envelope.initialize_params(OLD) == {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "fumehood", "version": "1"},
    }
