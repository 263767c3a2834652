"""What one line of a peer's output is. Pure: a piece of the stream in, one member of a closed union out.

MCP over stdio is one JSON-RPC message a line. A line that does not begin with `{` is noise (a banner); so is an
object without `jsonrpc` (a log line in JSON), unless it answers. A line that begins with `{` and is no strict JSON,
or calls itself JSON-RPC and is none, is malformed. Arrays (batches existed in 2025-03-26 only) are noise.
"""

from dataclasses import dataclass
from typing import TypeAlias

from fumehood.core import jsonio, limits
from fumehood.core.jsonio import JsonValue
from fumehood.wire import jsonrpc
from fumehood.wire.jsonrpc import Id
from fumehood.wire.lines import Line, Oversized

_SPACE = b" \t\r"  # what JSON allows around a document, within a line


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The peer asks."""

    id: Id
    method: str
    params: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """The peer tells."""

    method: str
    params: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The peer answers."""

    id: Id
    result: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorResponse:
    """The peer refuses. Its id is None where it could not read ours."""

    id: Id | None
    code: int
    message: str
    data: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Not meant as a frame, or never finished."""

    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """Meant as a frame and none; `problem` is a sentence of ours."""

    problem: str
    size: int


Frame: TypeAlias = Request | Notification | Response | ErrorResponse | Noise | Malformed | Oversized


def classify(piece: Line | Oversized) -> Frame:
    """The frame that a line holds; never raises."""
    if isinstance(piece, Oversized):
        meant = piece.prefix.lstrip(_SPACE).startswith(b"{")
        return piece if meant else Noise(size=piece.limit_bytes)
    size = len(piece.data)
    text = piece.data.strip(_SPACE)
    if not piece.ended or not text.startswith(b"{"):
        return Noise(size=size)
    try:
        message = jsonio.parse(text, depth=limits.JSON_DEPTH, size=limits.FRAME_BYTES, locate=False)
    except jsonio.JsonError as error:
        return Malformed(problem=error.problem, size=size)
    return _envelope(message, size)


def _envelope(message: JsonValue, size: int) -> Frame:
    if not isinstance(message, dict) or not _meant(message):
        return Noise(size=size)
    if message.get("jsonrpc") != "2.0":
        return Malformed(problem='"jsonrpc" is not "2.0"', size=size)
    match ("method" in message, "result" in message, "error" in message):
        case (True, False, False):
            return _call(message, size)
        case (False, True, False):
            return _answer(message, size)
        case (False, False, True):
            return _refusal(message, size)
        case _:
            return Malformed(problem="not exactly one of method, result and error", size=size)


def _meant(message: dict[str, JsonValue]) -> bool:
    """Whether an object is meant for us: it says so, or it answers."""
    return "jsonrpc" in message or ("id" in message and ("result" in message or "error" in message))


def _answer(message: dict[str, JsonValue], size: int) -> Frame:
    ident = message.get("id")
    if not jsonrpc.is_id(ident):
        return Malformed(problem="the id of an answer is neither a string nor an integer", size=size)
    return Response(id=ident, result=message["result"])


def _call(message: dict[str, JsonValue], size: int) -> Frame:
    method, params = message["method"], message.get("params")
    if not isinstance(method, str):
        return Malformed(problem="the method is not a string", size=size)
    if "id" not in message:
        return Notification(method=method, params=params)
    ident = message["id"]
    if not jsonrpc.is_id(ident):
        return Malformed(problem="the id of a request is neither a string nor an integer", size=size)
    return Request(id=ident, method=method, params=params)


def _refusal(message: dict[str, JsonValue], size: int) -> Frame:
    ident, error = message.get("id"), message["error"]
    if ident is not None and not jsonrpc.is_id(ident):
        return Malformed(problem="the id of an answer is neither a string nor an integer", size=size)
    if not isinstance(error, dict):
        return Malformed(problem="the error is not an object", size=size)
    code, text = error.get("code"), error.get("message")
    if not isinstance(code, int) or isinstance(code, bool) or not isinstance(text, str):
        return Malformed(problem="the error has no integer code and string message", size=size)
    return ErrorResponse(id=ident, code=code, message=text, data=error.get("data"))
