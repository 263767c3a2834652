"""JSON-RPC 2.0 messages as MCP uses them: ids, codes, builders. Pure.

Sources: the JSON-RPC 2.0 specification; the MCP specification, base protocol, where an id is a string or an integer
and never null in a request.
"""

import json
from collections.abc import Mapping
from typing import TypeAlias, TypeGuard

from fumehood.core.jsonio import JsonValue

Id: TypeAlias = str | int

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603


def is_id(value: object) -> TypeGuard[Id]:
    """Whether a value can be the id of a request: a string or an integer, never a boolean."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def same_id(left: object, right: object) -> bool:
    """Whether two ids are one: of one type and equal, so that 1, "1", 1.0 and true are four different things."""
    return type(left) is type(right) and left == right


def request(ident: Id, method: str, params: Mapping[str, JsonValue] | None = None) -> bytes:
    """A request as one line."""
    return _line({"id": ident, "method": method} | _params(params))


def notification(method: str, params: Mapping[str, JsonValue] | None = None) -> bytes:
    """A notification as one line."""
    return _line({"method": method} | _params(params))


def response(ident: Id, result: Mapping[str, JsonValue]) -> bytes:
    """A successful answer as one line."""
    return _line({"id": ident, "result": dict(result)})


def error_response(ident: Id | None, code: int, message: str) -> bytes:
    """A refusal as one line; its id is null where the request's could not be read."""
    return _line({"id": ident, "error": {"code": code, "message": message}})


def _params(params: Mapping[str, JsonValue] | None) -> dict[str, JsonValue]:
    return {} if params is None else {"params": dict(params)}


def _line(message: Mapping[str, JsonValue]) -> bytes:
    document = {"jsonrpc": "2.0", **message}
    return json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"
