"""`search_tools` and `describe_tools`: which tools there are for a guest, and how a program calls them.

Invariants: both speak only of tools that the guest may use; a name that is none of them is refused in the same words
whether it exists or not; answers are bounded. What they quote of servers was made visible and cut when it was listed
(`guard.definitions`) and stands in a fence here.
"""

from fumehood.code import declare, finding
from fumehood.content.control import Controls
from fumehood.core import limits
from fumehood.core.errors import FumehoodError
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.codemode import offers, own, replies
from fumehood.gateway.codemode.offers import DESCRIBE, SEARCH
from fumehood.gateway.gate.model import Calls, Guest, Offered, Way


class _Telling:
    """What both have in common: an `OwnTool` but for its call."""

    def __init__(self, name: str, calls: Calls, controls: Controls) -> None:
        """Look in what the gate offers."""
        self._name = name
        self._calls = calls
        self._controls = controls
        schema = own.DEFINITIONS[name]["inputSchema"]
        self._arguments = own.Arguments(name, schema if isinstance(schema, dict) else {})

    @property
    def offered(self) -> Offered:
        """What it is."""
        return own.offered(self._name)

    def is_for(self, guest: Guest) -> bool:
        """For everybody: it tells each of its own tools."""
        del guest
        return True


class SearchTools(_Telling):
    """An `OwnTool`."""

    def __init__(self, calls: Calls, controls: Controls) -> None:
        """Search them."""
        super().__init__(SEARCH, calls, controls)

    async def call(self, guest: Guest, arguments: JsonObject, way: Way) -> JsonObject:
        """Names, first sentences, and whether each writes or sends; best first."""
        del way
        try:
            given = self._arguments.read(arguments)
            every = self._calls.offered(guest)
            by_name = {one.name: one for one in every}
            limit = given.get("limit", limits.CODE_FOUND_TOOLS)
            tools = [offers.of_program(one) for one in every]
            found = finding.find(tools, str(given["query"]), int(limit) if isinstance(limit, int | float) else 1)
        except FumehoodError as error:
            return replies.refused(error, self._controls)
        return replies.found([by_name[tool.name] for tool in found], len(every), self._controls)


class DescribeTools(_Telling):
    """An `OwnTool`."""

    def __init__(self, calls: Calls, controls: Controls) -> None:
        """Describe them."""
        super().__init__(DESCRIBE, calls, controls)

    async def call(self, guest: Guest, arguments: JsonObject, way: Way) -> JsonObject:
        """Declarations of exactly the named tools, as far as there is room; the others are named."""
        del way
        try:
            names = self._arguments.read(arguments)["names"]
            wanted = [str(name) for name in names] if isinstance(names, list) else []
            found = offers.named(self._calls.offered(guest), wanted)
        except FumehoodError as error:
            return replies.refused(error, self._controls)
        taken, room = list[Offered](), limits.CODEMODE_DESCRIBED_CHARACTERS
        for one in found:
            room -= len(declare.declare([offers.of_program(one)]))
            if room < 0 and taken:
                break
            taken.append(one)
        text = declare.declare([offers.of_program(one) for one in taken])
        return replies.described(text, [one.name for one in found[len(taken) :]], self._controls)
