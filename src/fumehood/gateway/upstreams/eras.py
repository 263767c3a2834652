"""In which era a server over pipes is asked, what its answer to the opening means, and what it tells later. Pure.

The legacy era comes first, then, in a fresh start, the modern one, where the answer says that it is needed
(`OtherEraError`); over HTTP it is the other way round (`envelope`). For these facts: an SDK's server over pipes stays
in the era of its first request, so that a guess cannot be taken back on the same pipes; a legacy server may end, or be
mute, at a method that it does not know before `initialize`, which costs a deadline, while a modern one refuses
`initialize` by a number (-32601, -32021, -32022; -32600 or -32602 where it misses the envelope), or offers no revision
that begins with it, which costs a start; a server of both eras says the same in either, and in the legacy one tells of
changed lists without being asked to.

Which legacy revision a server offers in answer does not matter: each of them is taken.
"""

from typing import Final

from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.upstreams import envelope
from fumehood.gateway.upstreams.envelope import Speaks
from fumehood.gateway.upstreams.model import Introduction, UpstreamError
from fumehood.wire import jsonrpc, revisions
from fumehood.wire.hosting import Era

CHANGED: Final = {  # what is told → the list that is another one now, which is the capability as well
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}
_ENVELOPE_MISSED: Final = frozenset({jsonrpc.INVALID_REQUEST, jsonrpc.INVALID_PARAMS})


class OtherEraError(UpstreamError):
    """A server answered the opening of one era as one of the other era does."""

    code = "other_era"


def other(era: Era) -> Era:
    """The era that is not this one."""
    return "modern" if era == "legacy" else "legacy"


def opening(speaks: Speaks) -> tuple[str, JsonObject]:
    """The first request of an era, before the envelope."""
    if speaks.era == "modern":
        return envelope.DISCOVER, {}
    return envelope.INITIALIZE, envelope.initialize_params(speaks)


def refused(era: Era, number: int) -> UpstreamError:
    """What a refusal of the opening means. The words of the server are not in it."""
    if revisions.means_another_era(number) or (era == "legacy" and number in _ENVELOPE_MISSED):
        return OtherEraError(f"the server refuses to begin in the {era} era ({number})")
    return UpstreamError(f"the server refuses to begin a conversation ({number})")


def introduced(era: Era, result: JsonValue) -> Introduction:
    """Who answered the opening. Errors: `OtherEraError`, `UpstreamError`."""
    if era == "modern":
        if (found := envelope.discovered(result)) is None:
            raise OtherEraError(f"the server does not offer {envelope.MODERN}")
        return found
    offered = result.get("protocolVersion") if isinstance(result, dict) else None
    if isinstance(offered, str) and offered not in revisions.LEGACY:
        raise OtherEraError("the server offers no revision that begins with `initialize`")
    return envelope.initialized(result)


def changes(introduction: Introduction) -> dict[str, str]:
    """What a server can tell of changed lists: members of a modern listener's filter, and the notification of each."""
    found = {}
    for method, name in CHANGED.items():
        capability = introduction.capabilities.get(name)
        if isinstance(capability, dict) and capability.get("listChanged") is True:
            found[f"{name}ListChanged"] = method
    return found
