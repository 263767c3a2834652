"""The tools of one server, read whole, and what of them may be shown. It waits for nothing but the server.

Invariants: the pages of one list are bounded in number and size, and no page is asked for twice; a tool whose schemas
cannot be held is left out and said; what is shown has passed `guard.definitions`, in the order of names.

Not promised: a bound of time, which is the caller's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fumehood.content.control import Controls
from fumehood.core import limits
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.guard import definitions
from fumehood.gateway.guard.listing import Failed, Listing, accept_all
from fumehood.gateway.upstreams.model import Connection, Listed, ServerRefusedError, UpstreamError
from fumehood.wire.foreign import ForeignChecker

_LIST: Final = "tools/list"
_INPUT, _OUTPUT = "inputSchema", "outputSchema"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A list that may be shown, and what is to be said of it."""

    listed: Listed
    said: tuple[str, ...] = ()


async def read(connection: Connection) -> tuple[JsonValue, ...]:
    """Every page; nothing of a server that says it has no tools. Errors: `UpstreamError`, `TimedOutError`."""
    if "tools" not in connection.introduction.capabilities:
        return ()
    listing = Listing(accept_all)
    listing.begin()
    params: JsonObject = {}
    while True:
        try:
            result = await connection.ask(_LIST, params, seconds=limits.UPSTREAM_LIST_SECONDS)
        except ServerRefusedError as error:
            raise UpstreamError(f"it refuses to list its tools ({error.number})") from None
        cursor = listing.page(result)
        if cursor is None:
            break
        params = {"cursor": cursor}
    if isinstance(listing.outcome, Failed):
        raise UpstreamError(listing.outcome.reason)
    return listing.tools


def prepare(found: Sequence[JsonValue], controls: Controls) -> Prepared:
    """What of these tools may be shown."""
    given: dict[str, JsonObject] = {}
    for one in found:
        if isinstance(one, dict) and isinstance(name := one.get("name"), str):
            given.setdefault(name, one)
    shown = definitions.tools(found, controls)
    held: list[JsonObject] = []
    said = list(shown.said)
    for item in sorted(shown.items, key=lambda item: str(item["name"])):
        name = str(item["name"])
        if problem := _unheld(given[name]):
            said.append(f"the tool {name} is left out: {problem}")
        else:
            held.append(item)
    tools = tuple(given[name] for name in sorted(given))
    return Prepared(listed=Listed(tools=tools, shown=tuple(held)), said=tuple(said[: limits.GUARD_SAID]))


def _unheld(tool: JsonObject) -> str:
    """Why values cannot be checked against its schemas; empty where they can."""
    for key in (_INPUT, _OUTPUT):
        schema = tool.get(key)
        if schema is None and key == _OUTPUT:
            continue
        if not isinstance(schema, dict):
            return f"its {key} is no schema of an object"
        try:
            ForeignChecker(schema)
        except ValueError as error:
            return f"its {key} cannot be held: {error}"
    return ""
