"""Saved tools: programs of the operator that are offered as tools, and what of them is pinned. Pure.

A pin of a saved tool is a digest of each of these: its name, title, description and input schema, its program, the
names of its manifest, and, for each tool of that, the digests of the definition that was accepted. A program was
written for tools that said what they said then; where one of them says something else, it may do something else.

Invariants: the manifest is exactly `Saved.tools`, whatever the program names; a saved tool writes if one of these tools
does, sends if one does, and where nobody can tell which tools these are, both. Whoever may not use one of them may not
use the saved tool.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fumehood.content import fencing
from fumehood.core.errors import RefusedError
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway import pins
from fumehood.gateway.codemode import own
from fumehood.gateway.codemode.offers import RUN
from fumehood.gateway.gate.model import Offered
from fumehood.gateway.lockfile import Lock
from fumehood.gateway.pins import Drift, Fields, Same
from fumehood.gateway.topology import marks
from fumehood.gateway.topology.model import SAVED, SEPARATOR, Saved, Topology

IDENTITY: Final = hashlib.sha256(b"fumehood: saved tools").hexdigest()  # of the pin, which is of no server

_CHANGED: Final = "it is not what was accepted"
_NEW: Final = "it was not accepted"


class SavedToolError(RefusedError):
    """A saved tool of gateway.toml cannot be offered. Names the key and the rule."""

    code = "saved_tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One saved tool, and the text of its program."""

    name: str  # in gateway.toml
    saved: Saved
    program: str


def shown_name(name: str) -> str:
    """What a client sees."""
    return f"{SAVED}{SEPARATOR}{name}"


def offered(topology: Topology, one: Loaded) -> Offered:
    """A saved tool as it is offered."""
    found = [_place(topology, tool) for tool in one.saved.tools]
    places = [place for place in found if place is not None]
    unknown = len(places) < len(found)
    writes = unknown or any(marks.writes(topology.servers[server], tool) for server, tool in places)
    sends = unknown or any(marks.sends(topology.servers[server], tool) for server, tool in places)
    name = shown_name(one.name)
    return Offered(
        name=name,
        server=SAVED,
        tool=name,
        definition=_definition(one, writes=writes, sends=sends),
        writes=writes,
        egress=sends,
        trusted=True,  # what its program got of others taints by itself
    )


def unpinned(topology: Topology, one: Loaded, lock: Lock) -> tuple[str, ...]:
    """The tools of its manifest that nobody has accepted yet: with them there is nothing to be pinned."""
    return tuple(tool for tool in one.saved.tools if _pinned(topology, tool, lock) is None)


def definitions(topology: Topology, loaded: Sequence[Loaded], lock: Lock) -> list[JsonValue]:
    """What `pins.pin` makes a pin of: each saved tool as if it were a definition."""
    return [_pinnable(topology, one, lock) for one in loaded]


def withheld(found: Sequence[JsonValue], lock: Lock) -> dict[str, str]:
    """The saved tools that are not as they were accepted, by the name that a client sees, and what differs."""
    pinned = lock.servers.get(SAVED)
    compared = pins.compare({} if pinned is None else pinned.tools, pins.pin(found))
    match compared:
        case Same():
            return {}
        case Drift(added=added, changed=changed, renamed=renamed):
            told = {one.name: f"{_CHANGED}: {', '.join(one.fields)}" for one in changed}
            return told | dict.fromkeys(added, _NEW) | dict.fromkeys((one.new for one in renamed), _NEW)


def _definition(one: Loaded, *, writes: bool, sends: bool) -> JsonObject:
    title: JsonObject = {} if one.saved.title is None else {"title": one.saved.title}
    return {
        "name": shown_name(one.name),
        **title,
        "description": f"{one.saved.description} {fencing.HINT}",
        "inputSchema": dict(one.saved.input_schema),
        "outputSchema": own.DEFINITIONS[RUN]["outputSchema"],
        "annotations": {"readOnlyHint": not writes, "destructiveHint": writes, "openWorldHint": sends},
    }


def _pinnable(topology: Topology, one: Loaded, lock: Lock) -> JsonValue:
    manifest: JsonObject = {}
    for tool in one.saved.tools:
        fields = _pinned(topology, tool, lock)
        manifest[tool] = None if fields is None else {**fields}
    return {
        "name": shown_name(one.name),
        "title": one.saved.title,
        "description": one.saved.description,
        "inputSchema": dict(one.saved.input_schema),
        "program": one.program,
        "tools": [*one.saved.tools],
        "definitions": manifest,
    }


def _pinned(topology: Topology, name: str, lock: Lock) -> Fields | None:
    """The digests of a tool's definition as it was accepted; None where nobody did, or where two have that name."""
    place = _place(topology, name)
    if place is not None:
        pin = lock.servers.get(place[0])
        return None if pin is None else pin.tools.get(place[1])
    pinned: Mapping[str, Mapping[str, Fields]] = {
        server: pin.tools for server, pin in lock.servers.items() if server in topology.servers
    }
    found = [tools[name] for tools in pinned.values() if name in tools]
    return found[0] if len(found) == 1 else None


def _place(topology: Topology, name: str) -> tuple[str, str] | None:
    """The server of a tool, and its name there; None where only the servers' lists can tell."""
    if topology.gateway.names == "plain":
        servers = [name for name, server in topology.servers.items() if server.enabled]
        return (servers[0], name) if len(servers) == 1 else None
    server, _, tool = name.partition(SEPARATOR)
    return (server, tool) if server in topology.servers else None
