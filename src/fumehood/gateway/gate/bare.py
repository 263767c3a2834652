"""A server's answer, as far as there is anything in it for whoever asked. Pure.

Invariants: of a result only the members that the protocol has for its request are left; of `_meta` nothing is, at any
depth where the protocol has one, so that a server tells a client nothing of tasks, revisions, caches or states, nor
anything that would pass no control (`requestState` is meant for the server alone). What stands in `structuredContent`
is a value of the tool's own and stays as it is.
"""

from collections.abc import Mapping
from typing import Final

from fumehood.core.jsonio import JsonObject, JsonValue

_STRUCTURED: Final = "structuredContent"
_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "tools/call": ("content", _STRUCTURED, "isError"),
    "prompts/get": ("description", "messages"),
    "resources/read": ("contents",),
    "completion/complete": ("completion",),
}


def bare(method: str, found: JsonObject) -> JsonObject:
    """What is left of the result of a request."""
    kept = {name: found[name] for name in _MEMBERS[method] if name in found}
    return {name: one if name == _STRUCTURED else _without_meta(one) for name, one in kept.items()}


def _without_meta(value: JsonValue) -> JsonValue:
    """The same structure; its depth is bounded by the parser."""
    if isinstance(value, dict):
        return {name: _without_meta(one) for name, one in value.items() if name != "_meta"}
    return [_without_meta(one) for one in value] if isinstance(value, list) else value
