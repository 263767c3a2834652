"""Every tool that is offered, by the name that a client sees. Pure: the same servers give the same list.

Invariants: a name leads to one tool of one server, and back; a name that two of them would have is nobody's, but for
one of ours, which keeps it; what a server says of its own tools (annotations, icons, `_meta`) is not shown: whether a
tool writes or sends is the operator's word. What is left out is said.

Not promised: that a description tells the truth (`gateway.guard.definitions` says what is done to it).

Source: MCP 2025-11-25, server/tools: names of 1 to 128 letters, digits, `_`, `-` and `.`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fumehood.core.jsonio import JsonObject
from fumehood.gateway.gate import paging
from fumehood.gateway.gate.model import Offered
from fumehood.gateway.gate.paging import Entry
from fumehood.gateway.topology import marks
from fumehood.gateway.topology.model import SEPARATOR, Topology

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_LONG: Final = 64  # the longest name that several models' interfaces take
_KEPT: Final = ("title", "inputSchema", "outputSchema")
_SHOWN: Final = 80  # characters of a name that is no proper one


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A tool and its place in a list."""

    offered: Offered
    entry: Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The tools of all servers in the order of their names, those of ours before them."""

    own: tuple[Listing, ...]
    direct: tuple[Listing, ...]
    said: tuple[str, ...]
    named: Mapping[str, Offered]

    def entries(self, seen: Callable[[Offered], bool], *, direct: bool) -> list[Entry]:
        """The list of somebody who sees these tools; without `direct`, those of ours only."""
        every = (*self.own, *self.direct) if direct else self.own
        return [one.entry for one in every if seen(one.offered)]


def catalogue(topology: Topology, shown: Mapping[str, Sequence[JsonObject]], own: Sequence[Offered] = ()) -> Catalogue:
    """What is offered of these servers' tools, as they may be shown (`Listed.shown`)."""
    found = [
        offered(topology, name, tool) for name, tools in shown.items() for tool in tools if name in topology.servers
    ]
    ours = {one.name for one in own}
    names = Counter(one.name for one in found)
    kept = sorted((one for one in found if _is_proper(one.name, names, ours)), key=lambda one: one.name)
    every = (*own, *kept)
    return Catalogue(
        own=tuple(_listing(one) for one in own),
        direct=tuple(_listing(one) for one in kept),
        said=tuple(dict.fromkeys(_said(found, names, ours))),
        named={one.name: one for one in every},
    )


def shown_name(server: str, tool: str, *, plain: bool) -> str:
    """What a client sees of a server's own name; a server's holds no separator, so that it can be told again."""
    return tool if plain else f"{server}{SEPARATOR}{tool}"


def own_name(name: str) -> tuple[str, str]:
    """The server and its own name of a name that was prefixed; both empty for any other."""
    server, separator, rest = name.partition(SEPARATOR)
    return (server, rest) if separator else ("", "")


def annotations(offered: Offered) -> JsonObject:
    """What the operator says of a tool, as MCP's hints."""
    return {
        "readOnlyHint": not offered.writes,
        "destructiveHint": offered.writes,
        "openWorldHint": offered.egress,
    }


def offered(topology: Topology, name: str, tool: JsonObject) -> Offered:
    """A tool of one server, whoever else has its name."""
    server, plain = topology.servers[name], topology.gateway.names == "plain"
    called = str(tool.get("name"))
    made = Offered(
        name=shown_name(name, called, plain=plain),
        server=name,
        tool=called,
        definition={},
        writes=marks.writes(server, called),
        egress=marks.sends(server, called),
        trusted=marks.is_trusted(server),
    )
    return replace(made, definition=_definition(made, tool))


def _definition(offered: Offered, tool: JsonObject) -> JsonObject:
    kept: JsonObject = {key: tool[key] for key in _KEPT if key in tool}
    trust = "" if offered.trusted else ", untrusted"
    words = tool.get("description")
    origin = f"[{offered.server}{trust}]"
    return {
        "name": offered.name,
        **kept,
        "description": f"{origin} {words}" if isinstance(words, str) and words else origin,
        "annotations": annotations(offered),
    }


def _is_proper(name: str, names: Mapping[str, int], ours: set[str]) -> bool:
    return _NAME.fullmatch(name) is not None and names[name] == 1 and name not in ours


def _said(found: Sequence[Offered], names: Mapping[str, int], ours: set[str]) -> Iterator[str]:
    for one in found:
        if not _NAME.fullmatch(one.name):
            cut = ascii(one.name[:_SHOWN])
            yield f"a tool of {one.server} is left out: {cut} is no name of 1 to 128 letters, digits, _, - and ."
        elif one.name in ours:
            yield f"the tool {one.name} of {one.server} is left out: one of fumehood's has that name"
        elif names[one.name] > 1:
            whose = ", ".join(sorted({other.server for other in found if other.name == one.name}))
            yield f"the tool {one.name} is left out: {names[one.name]} have that name ({whose})"
        elif len(one.name) > _LONG:
            yield f"the tool {one.name} has more than {_LONG} characters, which some clients do not take"


def _listing(offered: Offered) -> Listing:
    return Listing(offered=offered, entry=paging.entry(offered.definition))
