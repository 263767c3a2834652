"""The lines that a server's words become: each answer by what was asked, everything else by its strings. Pure."""

from collections.abc import Callable
from typing import Final

from fumehood.content.control import Controls
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.guard import definitions, results
from fumehood.gateway.guard.events import message
from fumehood.gateway.guard.results import ResultError
from fumehood.gateway.guard.seen import inert
from fumehood.wire import frames, jsonrpc
from fumehood.wire.inbound import Asked

_SHAPED: Final[dict[str, Callable[[JsonObject, Controls], JsonObject]]] = {
    "tools/call": results.tool,
    "tasks/result": results.tool,
    "completion/complete": results.completion,
    "initialize": results.introduction,
    "server/discover": results.introduction,
    "prompts/get": results.prompt,
    "resources/read": results.resource,
    "prompts/list": definitions.listed,
    "resources/list": definitions.listed,
    "resources/templates/list": definitions.listed,
}


def answer(asked: Asked, frame: frames.Response | frames.ErrorResponse, controls: Controls) -> tuple[bytes, bool]:
    """The line that answers a request, and whether it is an error."""
    if isinstance(frame, frames.ErrorResponse):
        error: JsonObject = {"code": frame.code, "message": results.error_words(frame.message, controls)}
        if frame.data is not None:
            error["data"] = results.clean({"data": inert(frame.data)}, controls, results.Marks())["data"]
        return message({"id": asked.id, "error": error}), True
    try:
        result = _result(asked.method, frame.result, controls)
        return message({"id": asked.id, "result": result}), result.get("isError") is True
    except ResultError as problem:
        words = f"the server's answer is not passed on: {problem.message}"
        return jsonrpc.error_response(asked.id, jsonrpc.INTERNAL_ERROR, words), True


def params(value: JsonValue, controls: Controls) -> JsonObject:
    """The parameters of what a server says by itself. Errors: `ResultError`."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ResultError("params are an object")
    return {"params": results.told(value, controls)}


def _result(method: str, result: JsonValue, controls: Controls) -> JsonObject:
    if not isinstance(result, dict):
        raise ResultError("the result is no object")
    return _SHAPED.get(method, results.anything)(result, controls)
