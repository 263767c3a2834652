"""What one message from a client is. Pure: bytes in, one member of a closed union out.

Sources: JSON-RPC 2.0, sections 4 and 5.1; the MCP specification, base protocol (an id is a string or an integer, never
null; params are an object) and 2025-06-18, which removed batches.
"""

from dataclasses import dataclass
from typing import TypeAlias

from fumehood.core import jsonio, limits
from fumehood.core.jsonio import JsonError, JsonValue
from fumehood.wire import jsonrpc
from fumehood.wire.jsonrpc import Id


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request: somebody waits for its answer."""

    id: Id
    method: str
    params: dict[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A notification: nobody waits."""

    method: str
    params: dict[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """No message of the protocol: what to answer. The id is None where it could not be read."""

    code: int
    message: str
    id: Id | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer. A server that asks nothing drops it. A refusal has no result, whatever it says."""

    id: Id | None
    result: JsonValue = None


Inbound: TypeAlias = Asked | Told | Refused | Answered


def read(data: bytes, *, size: int = limits.REQUEST_BYTES) -> Inbound:
    """What the bytes of one line, or of one body, are."""
    try:
        message = jsonio.parse(data, size=size, locate=False)
    except JsonError as error:
        return Refused(code=jsonrpc.PARSE_ERROR, message=f"Parse error: {error.problem}")
    return classify(message)


def classify(message: JsonValue) -> Inbound:
    """What a parsed document is."""
    if isinstance(message, list):
        return _invalid("batches are not taken: send one message at a time")
    if not isinstance(message, dict):
        return _invalid("a message is an object")
    ident = _id(message)
    if message.get("jsonrpc") != "2.0":
        return _invalid('jsonrpc is not "2.0"', ident)
    if "method" not in message:
        return _answer(message, ident)
    return _call(message, ident)


def _call(message: dict[str, JsonValue], ident: Id | None) -> Inbound:
    method, params = message["method"], message.get("params")
    if "id" in message and ident is None:
        return _invalid(f"an id is an integer or a string of at most {limits.REQUEST_ID_CHARACTERS} characters")
    if not isinstance(method, str) or not 0 < len(method) <= limits.METHOD_CHARACTERS:
        return _invalid(f"a method is a string of at most {limits.METHOD_CHARACTERS} characters", ident)
    if params is not None and not isinstance(params, dict):
        return Refused(code=jsonrpc.INVALID_PARAMS, message="Invalid params: params are an object", id=ident)
    return Told(method=method, params=params) if ident is None else Asked(id=ident, method=method, params=params)


def _answer(message: dict[str, JsonValue], ident: Id | None) -> Inbound:
    if "result" in message or "error" in message:
        return Answered(id=ident, result=None if "error" in message else message["result"])
    return _invalid("a message has a method, a result or an error", ident)


def _id(message: dict[str, JsonValue]) -> Id | None:
    ident = message.get("id")
    if not jsonrpc.is_id(ident) or (isinstance(ident, str) and len(ident) > limits.REQUEST_ID_CHARACTERS):
        return None
    return ident


def _invalid(problem: str, ident: Id | None = None) -> Refused:
    return Refused(code=jsonrpc.INVALID_REQUEST, message=f"Invalid request: {problem}", id=ident)
