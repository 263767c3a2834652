"""What an era puts around a request and a result, and what a server says of itself at the start. Pure.

Modern requests carry the revision, who asks and what it can do in `_meta`; modern results carry what kind they are and
how long they keep. Legacy ones carry nothing of that. Whoever asks through a `Connection` sees neither.

Invariants: `_meta` of a request is ours but for W3C trace context; no capability is ever declared, so no server may
ask us back; a result that wants input is an error, never a result; no result keeps members of `_meta` that the
specification keeps for itself.

Sources: the MCP specification 2026-07-28 (base protocol, `_meta`; server/discover; versioning, whose advice is to ask
in the modern way first) and 2025-11-25 (lifecycle).
"""

import enum
from dataclasses import dataclass
from typing import Final

from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.upstreams.model import Introduction, UpstreamError
from fumehood.wire import jsonrpc, revisions
from fumehood.wire import modern as modern_era
from fumehood.wire.hosting import Era

MODERN: Final = revisions.MODERN[-1]  # asked for first
LEGACY: Final = revisions.LEGACY[-1]  # asked for by `initialize`
DISCOVER: Final = modern_era.DISCOVER
INITIALIZE: Final = "initialize"
INITIALIZED: Final = "notifications/initialized"
CANCELLED: Final = "notifications/cancelled"
LISTEN: Final = "subscriptions/listen"
PROGRESS: Final = "notifications/progress"

RESERVED: Final = modern_era.RESERVED
VERSION_KEY: Final = modern_era.VERSION_KEY
CLIENT_KEY: Final = modern_era.CLIENT_KEY
CAPABILITIES_KEY: Final = modern_era.CAPABILITIES_KEY
SERVER_KEY: Final = modern_era.SERVER_KEY
TRACE_KEYS: Final = frozenset({"traceparent", "tracestate"})  # W3C Trace Context; baggage may hold anything

HEADER_MISMATCH: Final = -32020
_MODERN_ERRORS: Final = frozenset(
    {HEADER_MISMATCH, revisions.MISSING_CLIENT_CAPABILITY, revisions.UNSUPPORTED_PROTOCOL_VERSION}
)
_OF_THE_ERA: Final = frozenset({"resultType", "ttlMs", "cacheScope"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaks:
    """The era and revision of one conversation, and who we say we are in it."""

    era: Era
    revision: str
    name: str  # of ours
    version: str

    @property
    def client(self) -> JsonObject:
        """`clientInfo`."""
        return {"name": self.name, "version": self.version}


class Next(enum.Enum):
    """What follows when a server did not answer `server/discover`."""

    INITIALIZE = "initialize"  # nothing says that it is of the modern era
    GIVE_UP = "give up"  # it is, and we cannot speak with it


def modern(name: str, version: str) -> Speaks:
    """How a conversation is begun."""
    return Speaks(era="modern", revision=MODERN, name=name, version=version)


def legacy(name: str, version: str, revision: str = LEGACY) -> Speaks:
    """How it goes on with a server of the other era."""
    return Speaks(era="legacy", revision=revision, name=name, version=version)


def wrap(params: JsonObject, speaks: Speaks, token: jsonrpc.Id | None = None) -> JsonObject:
    """The params of a request as a server gets them; `token`: of its progress, None where nobody wants to know."""
    given = _members(params.get("_meta"))
    meta: JsonObject = {key: value for key, value in given.items() if key in TRACE_KEYS}
    if speaks.era == "modern":
        meta |= {VERSION_KEY: speaks.revision, CLIENT_KEY: speaks.client, CAPABILITIES_KEY: {}}
    if token is not None:
        meta["progressToken"] = token
    bare = {key: value for key, value in params.items() if key != "_meta"}
    return {**bare, "_meta": meta} if meta else bare


def initialize_params(speaks: Speaks) -> JsonObject:
    """The params of `initialize`."""
    return {"protocolVersion": speaks.revision, "capabilities": {}, "clientInfo": speaks.client}


def peel(result: JsonValue, era: Era) -> JsonObject:
    """A result without what its era put around it. Errors: `UpstreamError`."""
    if not isinstance(result, dict):
        raise UpstreamError("the server's result is no object")
    kind = result.get("resultType", "complete") if era == "modern" else "complete"
    if kind == "input_required":
        raise UpstreamError("the server asks for input before it answers, which is not passed on")
    if kind != "complete":
        raise UpstreamError("the server's result is of a kind that is not known")
    bare = result if era == "legacy" else {key: value for key, value in result.items() if key not in _OF_THE_ERA}
    meta = bare.get("_meta")
    if not isinstance(meta, dict):
        return bare
    kept = {key: value for key, value in meta.items() if not key.startswith(RESERVED)}
    return {**bare, "_meta": kept} if kept else {key: value for key, value in bare.items() if key != "_meta"}


def discovered(result: JsonValue) -> Introduction | None:
    """Who answered `server/discover`; None where it says of itself that it is of the legacy era."""
    if not isinstance(result, dict) or not isinstance(versions := result.get("supportedVersions"), list):
        return None
    if MODERN not in versions:
        return None
    meta = _members(result.get("_meta"))
    server = meta.get(SERVER_KEY, result.get("serverInfo"))  # the latter in drafts
    return Introduction(
        era="modern",
        revision=MODERN,
        server=_members(server),
        capabilities=_members(result.get("capabilities")),
        instructions=_text(result.get("instructions")),
    )


def initialized(result: JsonValue) -> Introduction:
    """Who answered `initialize`, in a revision of the specification. Errors: `UpstreamError`."""
    if not isinstance(result, dict):
        raise UpstreamError("the server's answer to initialize is no object")
    revision = result.get("protocolVersion")
    if revision not in revisions.LEGACY:
        raise UpstreamError("the server offers a revision of MCP that is not known")
    if not isinstance(result.get("capabilities"), dict) or not isinstance(result.get("serverInfo"), dict):
        raise UpstreamError("the server's answer to initialize lacks capabilities or serverInfo")
    return Introduction(
        era="legacy",
        revision=str(revision),
        server=_members(result["serverInfo"]),
        capabilities=_members(result["capabilities"]),
        instructions=_text(result.get("instructions")),
    )


def after_discover(number: int, data: JsonValue = None) -> Next:
    """What follows an error to `server/discover`.

    Only an error that the modern era alone knows means that the server is of it; every other one, whatever its number,
    comes from servers of the legacy era. `data`: of the error; one names the versions there are.
    """
    if number == revisions.UNSUPPORTED_PROTOCOL_VERSION:
        supported = _members(data).get("supported")
        known = isinstance(supported, list) and any(
            one in revisions.LEGACY for one in supported if isinstance(one, str)
        )
        return Next.INITIALIZE if known else Next.GIVE_UP
    return Next.GIVE_UP if number in _MODERN_ERRORS else Next.INITIALIZE


def _members(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
