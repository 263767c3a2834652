"""Answers as bytes: what is no JSON, or over ENVELOPE_BYTES, becomes an error in its place, which says so."""

import logging

from fumehood.core import jsonio, limits
from fumehood.core.jsonio import JsonValue
from fumehood.wire import jsonrpc

_LOG = logging.getLogger(__name__)


def line(ident: jsonrpc.Id, member: str, value: JsonValue) -> bytes:
    """The answer of one request as one line: its `result`, or its `error`."""
    try:
        made = jsonio.line({"jsonrpc": "2.0", "id": ident, member: value})
    except ValueError:
        made = b""
    if 0 < len(made) <= limits.ENVELOPE_BYTES:
        return made
    _LOG.error("an answer is no JSON, or over its bound", extra={"size": len(made)})
    words = f"the answer has {len(made)} bytes, where {limits.ENVELOPE_BYTES} are sent" if made else "Internal error"
    return jsonrpc.error_response(ident, jsonrpc.INTERNAL_ERROR, words)
