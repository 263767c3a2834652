"""The prompts, resources and templates of many servers, gathered at once.

Invariants: each server has its own deadline and bounds, of pages, items and bytes; one that fails, takes too long or
has no end is left out with a reason and holds up nobody; only servers that a guest may see are asked, and only for what
they say they have.
"""

import asyncio
from dataclasses import dataclass, field
from functools import partial

import msgspec

from fumehood.core import limits
from fumehood.core.errors import FumehoodError
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.gate import scopes, standings, unpinned
from fumehood.gateway.gate.model import Guest
from fumehood.gateway.gate.passing import Parts
from fumehood.gateway.gate.places import Places
from fumehood.gateway.gate.unpinned import Kind
from fumehood.gateway.guard import definitions
from fumehood.gateway.topology import marks
from fumehood.gateway.upstreams.model import ServerRefusedError, Up
from fumehood.wire import jsonrpc


@dataclass(slots=True)
class Gathered:
    """A list of all servers in their order, and why some are not in it."""

    items: list[JsonObject] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


async def gathered(kind: Kind, guest: Guest, parts: Parts, places: Places) -> Gathered:
    """What a guest is shown of this kind."""
    if places.is_crowded:
        return Gathered()
    found = Gathered(left_out=standings.missing(parts.upstreams, guest.rights))
    asked = []
    for server in parts.upstreams.servers:
        standing = parts.upstreams.standing(server)
        has = isinstance(standing, Up) and kind.capability in standing.introduction.capabilities
        if has and scopes.may_see_server(guest.rights, server):
            asked.append(server)
    lists = await asyncio.gather(*[_of_one(kind, server, parts, places) for server in asked])
    for server, one in zip(asked, lists, strict=True):
        if isinstance(one, str):
            found.left_out[server] = one
        else:
            found.items += one
    return found


async def _of_one(kind: Kind, server: str, parts: Parts, places: Places) -> list[JsonObject] | str:
    """The list of one server, or why there is none."""
    try:
        async with asyncio.timeout(limits.GATE_LIST_SECONDS):
            items = await _pages(kind, server, parts)
    except TimeoutError:
        return f"its list took more than {limits.GATE_LIST_SECONDS:g} s"
    except ServerRefusedError as error:
        return [] if error.number == jsonrpc.METHOD_NOT_FOUND else f"it refused to list them ({error.number})"
    except FumehoodError as error:
        return error.message
    if isinstance(items, str):
        return items
    trusted = marks.is_trusted(parts.topology.servers[server])
    return unpinned.listed(kind, server, items, places, trusted=trusted)


async def _pages(kind: Kind, server: str, parts: Parts) -> list[JsonValue] | str:
    items: list[JsonValue] = []
    params: JsonObject = {}
    seen: set[str] = set()
    size = 0
    for _ in range(limits.GUARD_PAGES):
        result = await parts.upstreams.ask(server, kind.method, params, seconds=limits.GATE_LIST_SECONDS)
        data = len(msgspec.json.encode(result))
        size += data
        if size > limits.FRAME_BYTES:
            return f"its list has more than {limits.FRAME_BYTES} bytes"
        control = partial(definitions.listed, result, parts.controls)
        shown = control() if data <= limits.GATE_THREAD_BYTES else await asyncio.to_thread(control)
        found, cursor = shown.get(kind.member), result.get("nextCursor")
        if not isinstance(found, list):
            return "its list is none"
        items += found
        if cursor is None or len(items) >= limits.GUARD_ITEMS:
            return items[: limits.GUARD_ITEMS]
        if not isinstance(cursor, str) or cursor in seen:
            return "its list has no end"
        seen.add(cursor)
        params = {"cursor": cursor}
    return f"its list has more than {limits.GUARD_PAGES} pages"
