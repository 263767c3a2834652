"""What the modern era puts around a request and a result, and what an answer to `server/discover` is. Pure.

Sources: the MCP specification 2026-07-28, base protocol (`_meta`, `resultType`), server/discover, multi round-trip
requests.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.wire import jsonrpc, revisions

VERSION: Final = revisions.MODERN[-1]
DISCOVER: Final = "server/discover"
RESERVED: Final = "io.modelcontextprotocol/"  # of keys of `_meta`
VERSION_KEY: Final = f"{RESERVED}protocolVersion"
CLIENT_KEY: Final = f"{RESERVED}clientInfo"
CAPABILITIES_KEY: Final = f"{RESERVED}clientCapabilities"
SERVER_KEY: Final = f"{RESERVED}serverInfo"
INPUT_REQUIRED: Final = "input_required"
COMPLETE: Final = "complete"

_UNKNOWN_METHOD: Final = frozenset(  # how a server of the other era refuses what it does not know, or not yet
    {jsonrpc.METHOD_NOT_FOUND, jsonrpc.INVALID_REQUEST, jsonrpc.INVALID_PARAMS, revisions.UNSUPPORTED_PROTOCOL_VERSION}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who asks, as each request says it."""

    name: str
    version: str
    capabilities: JsonObject = field(default_factory=dict)


def wrap(params: Mapping[str, JsonValue], asker: Asker) -> JsonObject:
    """The params of a request with the revision, who asks and what it can do."""
    given = params.get("_meta")
    meta: JsonObject = {
        **(given if isinstance(given, dict) else {}),
        VERSION_KEY: VERSION,
        CLIENT_KEY: {"name": asker.name, "version": asker.version},
        CAPABILITIES_KEY: asker.capabilities,
    }
    return {**params, "_meta": meta}


def means_another_era(code: int) -> bool:
    """Whether an error to `server/discover` says that the peer speaks another era, and nothing more."""
    return code in _UNKNOWN_METHOD


def kind_of(result: JsonValue) -> str | None:
    """The `resultType` of a result, which is `complete` where none is said; None for what is no result."""
    if not isinstance(result, dict):
        return None
    kind = result.get("resultType", COMPLETE)
    return kind if isinstance(kind, str) else None


def input_requests(result: JsonValue, most: int) -> Iterator[tuple[str, JsonValue]]:
    """Method and params of what an `input_required` result asks for, the first `most` of them."""
    asked = result.get("inputRequests") if isinstance(result, dict) else None
    for _, one in zip(range(most), asked.values() if isinstance(asked, dict) else (), strict=False):
        method = one.get("method") if isinstance(one, dict) else None
        yield method if isinstance(method, str) else "", one.get("params") if isinstance(one, dict) else None


def read_discover_result(result: JsonValue) -> revisions.Reading:
    """What an answer to `server/discover` is. Another version comes first, as with `initialize`."""
    if not isinstance(result, dict):
        return revisions.BadShape(errors=(revisions.ShapeError(path="$", problem="is not an object"),))
    versions = result.get("supportedVersions")
    if isinstance(versions, list) and VERSION not in versions:
        named = [version for version in versions if isinstance(version, str)]
        known = any(version in revisions.LEGACY for version in named)
        return revisions.AnotherVersion(offered=", ".join(named[:8]), known=known)
    if errors := tuple(_errors(result)):
        return revisions.BadShape(errors=errors)
    meta = result.get("_meta")
    server = (meta if isinstance(meta, dict) else {}).get(SERVER_KEY, result.get("serverInfo"))  # the latter in drafts
    info = server if isinstance(server, dict) else {}
    capabilities = result["capabilities"]
    return revisions.InitializeResult(
        protocol_version=VERSION,
        server_name=_text(info.get("name")) or "",
        server_version=_text(info.get("version")) or "",
        server_title=_text(info.get("title")),
        capabilities=capabilities if isinstance(capabilities, dict) else {},
        instructions=_text(result.get("instructions")),
    )


def _errors(result: JsonObject) -> Iterator[revisions.ShapeError]:
    for name, kind, words, required in (
        ("supportedVersions", list, "a list", True),
        ("capabilities", dict, "an object", True),
        ("instructions", str, "a string", False),
        ("_meta", dict, "an object", False),
    ):
        if name not in result:
            if required:
                yield revisions.ShapeError(path=f"$.{name}", problem="is missing")
        elif not isinstance(result[name], kind):
            yield revisions.ShapeError(path=f"$.{name}", problem=f"is not {words}")


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None
