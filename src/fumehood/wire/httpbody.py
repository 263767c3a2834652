"""What the body of a posted request must be, beside its headers and its sender. Pure.

Invariants: a body is one strict JSON object (a key that occurs twice would mean one thing to us and another to who
reads it next); headers that name the revision, the method or the tool agree with it, in both eras, so that nobody who
routes or limits by headers can be told another thing than the server; a tool is called only by a caller that may.

The SDK compares the headers of the modern era only where MCP-Protocol-Version already names that era; here a body of
that era without the header, and the headers of a legacy request, are compared too.

Source: the MCP specification 2026-07-28, Streamable HTTP (-32020), and RFC 6750, 3.1 (insufficient_scope).
"""

import base64
import binascii
from collections.abc import Mapping

from fumehood.core import jsonio
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.wire import jsonrpc
from fumehood.wire.httpchecks import Head, Refusal, Repeated
from fumehood.wire.modern import VERSION_KEY
from fumehood.wire.published import Caller
from fumehood.wire.scopes import may, needed

HEADER_MISMATCH = -32020
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ENCODED = ("=?base64?", "?=")


def parse(body: bytes, size: int) -> JsonObject | Refusal:
    """The one object that a body holds."""
    try:
        value = jsonio.parse(body, size=size, locate=False)
    except jsonio.JsonError:
        return Refusal(status=400, message="Parse error", code=jsonrpc.PARSE_ERROR)
    if not isinstance(value, dict):
        return Refusal(status=400, message="a body is one JSON-RPC message")
    return value


def check_agreement(head: Head, message: JsonObject) -> Refusal | None:
    """Headers say nothing else than the body."""
    params = _object(message.get("params"))
    version = _object(params.get("_meta")).get(VERSION_KEY)
    method = message.get("method")
    named = params.get(_NAMED_BY.get(str(method), ""))
    wrong = (
        _differs(head, b"mcp-protocol-version", version, required=version is not None, any_when_absent=True)
        or _differs(head, b"mcp-method", method)
        or _differs(head, b"mcp-name", named)
    )
    if not wrong:
        return None
    return Refusal(
        status=400, message=f"{wrong} does not agree with the body", code=HEADER_MISMATCH, ident=_id(message)
    )


def check_scope(message: JsonObject, caller: Caller) -> tuple[Refusal, str] | None:
    """Who calls a tool may; else the refusal, and the scope that would have let it through."""
    if message.get("method") != "tools/call":
        return None
    name = _object(message.get("params")).get("name")
    if not isinstance(name, str) or may(caller, name):
        return None
    return Refusal(status=403, message="the token does not cover this tool", ident=_id(message)), needed(name)


def stands(message: JsonObject) -> bool:
    """Whether a request stays open for what may come, until its sender ends it."""
    return message.get("method") == "subscriptions/listen"


def _differs(
    head: Head, name: bytes, value: JsonValue, *, required: bool = False, any_when_absent: bool = False
) -> str | None:
    """The header's name when it is there and says another thing than `value`, or is repeated, or is missing."""
    found = head.one(name)
    shown = name.decode("ascii")
    if isinstance(found, Repeated):
        return shown
    if found is None:
        return shown if required else None
    if value is None and any_when_absent:
        return None
    return None if _decoded(found) == value else shown


def _decoded(value: bytes) -> str | None:
    """The text of a header, out of base64 where it is wrapped; None where it is neither."""
    text = value.decode("latin-1").strip(" \t")
    start, end = _ENCODED
    if not (text.startswith(start) and text.endswith(end)):
        return text
    inner = text[len(start) : -len(end)]
    try:
        data = base64.b64decode(inner, validate=True)
        return data.decode("utf-8") if base64.b64encode(data).decode("ascii") == inner else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _id(message: JsonObject) -> jsonrpc.Id | None:
    ident = message.get("id")
    return ident if jsonrpc.is_id(ident) else None
