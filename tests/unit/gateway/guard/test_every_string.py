"""Every place where a string of a server reaches the client: no credential in it, nothing unseen for people."""

import base64
import json
from typing import Any

import pytest

from fumehood.content.control import Controls
from fumehood.gateway.guard import results
from fumehood.gateway.guard.results import ResultError

pytestmark = pytest.mark.threat("G3")

TOKEN = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"
SAID = f"{TOKEN} \x1b[2Jred\u202eright\u200bzero"
UNSEEN = ("\x1b", "\u202e", "\u200b")
BLOCK = {"type": "text", "text": SAID}

# A text that is content keeps each of its characters: it stands in a fence, or is data of a program.
CONTENT = [
    ("tools/call", {"content": [BLOCK]}),
    ("tools/call", {"content": [BLOCK], "isError": True}),
    ("tools/call", {"content": [], "structuredContent": {SAID: [SAID]}}),
    ("tools/call", {"content": [], "nextCursor": SAID, "progressToken": SAID}),
    ("tools/call", {"content": [{"type": "resource", "resource": {"uri": SAID, "text": SAID, "nextCursor": SAID}}]}),
    ("tasks/result", {"content": [BLOCK]}),
    ("tasks/get", {"taskId": SAID, "result": {"content": [BLOCK]}}),
    ("vendor/unknown", {"content": [BLOCK], "more": {SAID: SAID}}),
    ("resources/read", {"contents": [{"uri": SAID, "mimeType": SAID, "text": SAID}]}),
    ("prompts/get", {"description": SAID, "messages": [{"role": SAID, "content": BLOCK}]}),
]
SHOWN = [
    ("tools/call", {"content": [{"type": "resource_link", "uri": SAID, "name": SAID, "description": SAID}]}),
    ("tools/call", {"content": [{"type": "text", "text": "", "progressToken": SAID, "requestState": SAID}]}),
    ("tools/call", {"content": [{"type": "text", "text": "", "annotations": {"audience": [SAID]}}]}),
    ("tools/call", {"content": [{"type": "image", "data": "AAAA", "mimeType": SAID}]}),
    ("tools/call", {"content": [{"type": "vendor", "data": SAID, "words": {SAID: SAID}}]}),
    ("tools/call", {"resultType": "input_required", "inputRequests": {"a": {"params": {"message": SAID}}}}),
    ("prompts/list", {"prompts": [{"name": SAID, "title": SAID, "arguments": [{"name": SAID, "description": SAID}]}]}),
    ("resources/list", {"resources": [{"name": SAID, "uri": SAID, "mimeType": SAID}], "nextCursor": {"a": SAID}}),
    ("resources/templates/list", {"resourceTemplates": [{"name": SAID, "uriTemplate": SAID}], "progressToken": SAID}),
    ("completion/complete", {"completion": {"values": [SAID]}}),
    ("initialize", {"protocolVersion": SAID, "capabilities": {"x": {SAID: SAID}}, "instructions": SAID}),
    ("initialize", {"serverInfo": {"name": SAID, "icons": [{"src": SAID}]}}),
    (
        "server/discover",
        {"supportedVersions": [SAID], "_meta": {"io.modelcontextprotocol/x": SAID, "tracestate": SAID}},
    ),
]


def answered(wired: Any, method: str, result: Any) -> str:
    """What the client gets, as one text of JSON."""
    wired.ready()
    if method == "tools/call":
        wired.call(1)
    else:
        wired.ask(1, method)
    wired.server_says({"id": 1, "result": result})
    (answer,) = wired.client
    assert "result" in answer
    return json.dumps(answer, ensure_ascii=False)


@pytest.mark.parametrize(("method", "result"), [*CONTENT, *SHOWN])
def test_no_string_of_a_result_carries_a_credential(wired: Any, method: str, result: Any) -> None:
    assert TOKEN not in answered(wired, method, result)


@pytest.mark.parametrize(("method", "result"), SHOWN)
def test_what_people_are_shown_of_a_result_is_all_there_is(wired: Any, method: str, result: Any) -> None:
    text = json.loads(answered(wired, method, result))
    assert not [one for one in UNSEEN if one in _all(text)]


@pytest.mark.parametrize("method", ["tools/call", "tasks/result", "tasks/get", "vendor/unknown"])
def test_what_looks_like_a_result_of_a_tool_is_fenced_whatever_was_asked(wired: Any, method: str) -> None:
    result: Any = {"content": [{"type": "text", "text": "hello"}]}
    text = answered(wired, method, {"result": result} if method == "tasks/get" else result)
    assert "[untrusted content " in text


@pytest.mark.parametrize(
    "method",
    ["notifications/message", "notifications/progress", "notifications/tasks/status", "notifications/cancelled"],
)
def test_what_a_server_tells_is_redacted_and_visible(wired: Any, method: str) -> None:
    params = {"level": SAID, "data": {SAID: [SAID]}, "message": SAID, "requestId": SAID, "nextCursor": SAID}
    wired.server_says({"method": method, "params": {**params, "progressToken": 7, "requestState": SAID}})
    (told,) = wired.client
    assert told["params"]["progressToken"] == 7
    assert not [one for one in (TOKEN, *UNSEEN) if one in _all(told)]


@pytest.mark.parametrize("method", ["sampling/createMessage", "elicitation/create", "roots/list", "vendor/x"])
def test_what_a_server_asks_is_redacted_and_visible(wired: Any, method: str) -> None:
    schema = {"properties": {SAID: {"title": SAID, "enumNames": [SAID]}}}
    messages = [{"role": SAID, "content": BLOCK}]
    params = {"systemPrompt": SAID, "messages": messages, "message": SAID, "requestedSchema": schema, "url": SAID}
    wired.server_says({"id": 1, "method": method, "params": {**params, "requestState": SAID}})
    (asked,) = wired.client
    assert not [one for one in (TOKEN, *UNSEEN) if one in _all(asked)]


def test_an_error_is_redacted_and_visible_with_its_data(wired: Any) -> None:
    wired.ask(1, "ping")
    wired.server_says({"id": 1, "error": {"code": 1, "message": SAID, "data": {SAID: [SAID], "nextCursor": SAID}}})
    assert not [one for one in (TOKEN, *UNSEEN) if one in _all(wired.client)]


@pytest.mark.parametrize("method", [SAID, "x\u200b", "a b", "x\x1b[2J"])
def test_a_method_with_other_characters_than_a_name_has_reaches_nobody(wired: Any, method: str) -> None:
    wired.server_says({"method": method})
    wired.server_says({"id": 1, "method": method})
    wired.server_says({"id": "a\u200b", "method": "roots/list"})
    assert wired.client == []
    assert wired.traffic.dropped == 3


def test_a_credential_in_the_text_that_bytes_are_is_replaced(controls: Controls) -> None:
    blob = base64.b64encode(f"a {TOKEN} b".encode()).decode()
    made: Any = results.resource({"contents": [{"uri": "a:b", "mimeType": "text/plain", "blob": blob}]}, controls)
    assert base64.b64decode(made["contents"][0]["blob"]).startswith(b"a [redacted:")
    assert made["_meta"]["fumehood/taint"]["redacted"] == 1


def test_a_credential_in_the_place_of_a_picture_is_not_passed_on(controls: Controls) -> None:
    with pytest.raises(ResultError, match="looks like a credential"):
        results.tool({"content": [{"type": "image", "data": TOKEN, "mimeType": "image/png"}]}, controls)


def _all(value: Any) -> str:
    """Every string of a message, keys too, one after the other."""
    if isinstance(value, dict):
        return "".join(f"{name}{_all(one)}" for name, one in value.items())
    if isinstance(value, list):
        return "".join(map(_all, value))
    return value if isinstance(value, str) else ""
