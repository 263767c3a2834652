"""Refusals and failures as results of a tool, and as errors of the protocol. Pure.

Invariant: the words are ours, but for those of a server that refused, which are controlled, and stand in a fence where
a model gets them.
"""

from typing import Final

from fumehood.content.control import Controls
from fumehood.core.errors import FumehoodError, RefusedError
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.guard import results
from fumehood.gateway.upstreams.model import ServerRefusedError
from fumehood.wire import jsonrpc
from fumehood.wire.hosting import Era, HostError

# JSON-RPC's own, and those of MCP that say something of a request and not of its envelope.
_KNOWN: Final = frozenset({jsonrpc.METHOD_NOT_FOUND, jsonrpc.INVALID_PARAMS, jsonrpc.INTERNAL_ERROR})
_NOT_FOUND: Final = -32002  # of a resource, until 2025-11-25


def result(error: FumehoodError) -> JsonObject:
    """A refusal as a CallToolResult."""
    text = f"{error.code}: {error.message}" + (f"\n{error.remedy}" if error.remedy else "")
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": {"error": error.code, "message": error.message, "remedy": error.remedy},
        "isError": True,
    }


def of_server(server: str, error: ServerRefusedError, controls: Controls, *, fence: bool) -> JsonObject:
    """What a server answered with instead of a result, as a CallToolResult."""
    said = f"the server {server} refused the call ({error.number})"
    words = results.error_words(error.words, controls)
    whole = said if fence or not words else f"{said}: {words}"
    made: JsonObject = {"content": [{"type": "text", "text": words}], "isError": True}
    shown = results.tool(made, controls, fence=fence)
    content = shown["content"]
    blocks = [*content] if words and isinstance(content, list) else []
    return {
        **shown,
        "content": [{"type": "text", "text": f"{error.code}: {said}"}, *blocks],
        "structuredContent": {"error": error.code, "message": whole, "remedy": ""},
    }


def raised(server: str, error: FumehoodError, controls: Controls, era: Era) -> HostError:
    """The same for a request that has no such result."""
    if isinstance(error, HostError):
        return error
    if not isinstance(error, ServerRefusedError):
        words = str(error) if not server or error.message.startswith(f"{server}: ") else f"{server}: {error}"
        refused = isinstance(error, RefusedError)
        return HostError(words, number=jsonrpc.INVALID_PARAMS if refused else jsonrpc.INTERNAL_ERROR)
    words = results.error_words(error.words, controls)
    number = error.number if error.number in _KNOWN else jsonrpc.INTERNAL_ERROR
    if error.number == _NOT_FOUND:
        number = _NOT_FOUND if era == "legacy" else jsonrpc.INVALID_PARAMS
    return HostError(f"the server {server} refused: {words}", number=number)
