"""What one message leads to, in order: lines for either side, words for the operator, records. Pure."""

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from fumehood.core import jsonio, limits
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.audit.record import Call
from fumehood.gateway.guard import results
from fumehood.wire import jsonrpc
from fumehood.wire.inbound import Asked
from fumehood.wire.jsonrpc import Id

_ID: Final = re.compile(rb'"id"\s*:\s*(?:"([^"\\]{1,200})"|(-?[0-9]{1,19})(?![0-9.eE]))')

_ID_LAST: Final = re.compile(_ID.pattern + rb"\s*\}\s*\Z")
_ANSWER_FIRST: Final = re.compile(rb'\s*\{\s*"(?:result|error)"')  # the TypeScript SDK writes its answers so
_METHOD_FIRST: Final = re.compile(rb'\s*\{[^{]*"(?:method|params)"\s*:')  # it asks or tells; its id is another's
_METHOD: Final = re.compile(r"[A-Za-z0-9_$./-]+")  # those of the specification, and what extensions make of them


@dataclass(frozen=True, slots=True, kw_only=True)
class ToServer:
    """One line for the server."""

    line: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ToClient:
    """One line for the client."""

    line: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Words for the operator."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A record that has to be kept before what follows is done."""

    event: Call


Event: TypeAlias = ToServer | ToClient | Said | Recorded


def message(members: dict[str, JsonValue]) -> bytes:
    """One message of JSON-RPC as a line."""
    return jsonio.line({"jsonrpc": "2.0", **members})


def refusal(ident: Id, code: int, words: str) -> ToClient:
    """The client's request, refused in words of ours."""
    return ToClient(line=jsonrpc.error_response(ident, code, words))


def passed(asked: Asked) -> bytes:
    """A request of the client as the server gets it."""
    return message({"id": asked.id, "method": asked.method, **params_of(asked.params)})


def params_of(params: JsonObject | None) -> JsonObject:
    """What a client said, without foreign `_meta`."""
    if params is None:
        return {}
    kept = results.meta(params.get("_meta"))
    rest = {key: value for key, value in params.items() if key != "_meta"}
    return {"params": {**rest, "_meta": kept} if kept or "_meta" in params else rest}


def fits(ident: Id, method: str) -> bool:
    """Whether an id and a method of the server are within their bounds, and hold nothing that nobody sees."""
    within = len(str(ident)) <= limits.REQUEST_ID_CHARACTERS and 0 < len(method) <= limits.METHOD_CHARACTERS
    return within and str(ident).isprintable() and _METHOD.fullmatch(method) is not None


def named(asked: Asked) -> Asked:
    """A request by its id and method: what is kept until it is answered."""
    return Asked(id=asked.id, method=asked.method)


def is_answer_first(head: bytes) -> bool:
    """Whether a line begins with what it answers, so that its id stands at its end."""
    return _ANSWER_FIRST.match(head) is not None


def meant(head: bytes, tail: bytes = b"") -> Id | None:
    """The id of the request that a broken line seems to answer."""
    if _METHOD_FIRST.match(head):
        return None
    found = _ID_LAST.search(tail) if is_answer_first(head) else _ID.search(head)
    if found is None:
        return None
    return found[1].decode("utf-8", "replace") if found[1] is not None else int(found[2])
