"""How much a model has to read: the definitions of two hundred tools, or of the three that find and run them.

.venv/bin/python bench/codesize.py

The tools are made up, in the manner of public servers: a name of two or three words, one to three sentences, three to
eight parameters with a sentence each. `sizes` gives the figures to other benchmarks.
"""

import asyncio
import json
import random
from dataclasses import dataclass
from typing import Any

from fumehood.content.control import Controls
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.codemode import own
from fumehood.gateway.codemode.reading import DescribeTools, SearchTools
from fumehood.gateway.gate import catalogue
from fumehood.gateway.gate.model import EVERYTHING, Guest, Offered, Way
from fumehood.gateway.topology.model import Server, Topology

VERBS = ("create", "list", "get", "update", "delete", "search", "merge", "assign", "export", "watch")
THINGS = (
    "issue",
    "pull_request",
    "branch",
    "calendar_event",
    "invoice",
    "contact",
    "document",
    "dashboard",
    "page",
    "job",
)
SERVERS = ("github", "calendar", "billing", "wiki")
PARAMETERS = ("owner", "name", "query", "since", "state", "labels", "page", "limit", "assignee", "format")
WORDS = (
    "Returns the matching entries with their metadata, newest first.",
    "Use this when the user asks for a change of an existing entry.",
    "Results are paginated; pass the cursor of the previous answer to continue.",
    "Requires write access to the container that holds the entry.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Bytes of JSON that a model is given."""

    tools: int
    direct: int  # all definitions
    three: int  # those of code mode
    search: int  # one answer of a search, both halves
    describe: int  # one answer for three tools

    @property
    def ratio(self) -> float:
        """How many times more the direct ones are."""
        return self.direct / self.three


def sizes(count: int = 200, seed: int = 1) -> Sizes:
    """The same count and seed give the same figures."""
    topology = Topology(servers={name: Server(command=(name,)) for name in SERVERS})
    shown = {name: made[number::4] for made in [synthetic(count, seed)] for number, name in enumerate(SERVERS)}
    found = [one.offered for one in catalogue.catalogue(topology, shown).direct]
    three = [*own.DEFINITIONS.values()]
    answers = asyncio.run(_answers(found))
    return Sizes(
        tools=len(found),
        direct=_bytes([one.definition for one in found]),
        three=_bytes(three),
        search=_bytes(answers[0]),
        describe=_bytes(answers[1]),
    )


def synthetic(count: int, seed: int = 1) -> list[JsonObject]:
    """So many definitions, as servers give them."""
    chance = random.Random(seed)
    names = [f"{verb}_{thing}" for thing in THINGS for verb in VERBS]
    return [_definition(f"{names[number % len(names)]}_{number // len(names)}", chance) for number in range(count)]


def _definition(name: str, chance: random.Random) -> JsonObject:
    words = [f"{name.replace('_', ' ').capitalize()}.", *chance.sample(WORDS, chance.randint(0, 2))]
    properties: dict[str, Any] = {
        one: {"type": "string", "description": f"The {one} of the {name.split('_')[1]}, as the service spells it."}
        for one in chance.sample(PARAMETERS, chance.randint(3, 8))
    }
    schema: JsonObject = {"type": "object", "properties": properties, "required": [next(iter(properties))]}
    return {"name": name, "description": " ".join(words), "inputSchema": schema}


class _Offers:
    """Implements `Calls` for who only looks."""

    def __init__(self, found: list[Offered]) -> None:
        """Offer these."""
        self._found = found

    def offered(self, guest: Guest) -> list[Offered]:
        """All of them."""
        del guest
        return self._found

    async def call(self, guest: Guest, name: str, arguments: JsonObject, way: Way) -> JsonObject:
        """Nobody calls."""
        raise NotImplementedError(guest, name, arguments, way)


async def _answers(found: list[Offered]) -> tuple[JsonObject, JsonObject]:
    calls, controls = _Offers(found), Controls(key=b"k" * 32)
    guest = Guest(who="uid:0", rights=EVERYTHING, run="0" * 16)
    searched = await SearchTools(calls, controls).call(guest, {"query": "merge a pull request"}, Way())
    names: Any = [one.name for one in found[:3]]
    return searched, await DescribeTools(calls, controls).call(guest, {"names": names}, Way())


def _bytes(value: object) -> int:
    return len(json.dumps(value, separators=(",", ":")))


def main() -> None:
    """Print them."""
    found = sizes()
    print(f"{found.tools} tools have {found.direct} bytes of definitions, the three of code mode {found.three}:")
    print(f"{found.ratio:.0f} times less")
    print(f"a search: {found.search} bytes; the declarations of three tools: {found.describe}")


if __name__ == "__main__":
    main()
