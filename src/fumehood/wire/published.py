"""What a server of ours publishes, in our own words: the wire knows nothing else of it, and it knows no wire. Pure.

Whoever implements `Published` never sees a protocol message; whoever speaks the protocol (`wire.sdk`) never sees a
tool. `wire.guarded` stands between the two and checks arguments and results against the definitions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fumehood.core.budget import Budget
from fumehood.core.errors import FumehoodError
from fumehood.core.jsonio import JsonObject, JsonValue

CALLER_KEY = "fumehood.caller"  # where a guard in front of HTTP leaves the `Caller` in the ASGI scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls. `principal` is what concurrency and rate are counted by; it is never shown to anybody.

    `scopes` is what a token grants; None where nothing limits the caller (stdio, a token without scopes).
    """

    principal: str = "local"
    scopes: frozenset[str] | None = None


LOCAL = Caller()


class Introduced(Protocol):
    """Who a server of ours says that it is."""

    @property
    def name(self) -> str:
        """The name of the implementation, as `serverInfo` says it."""
        ...

    @property
    def version(self) -> str:
        """Its version."""
        ...

    @property
    def title(self) -> str:
        """Its name for people."""
        ...

    @property
    def instructions(self) -> str:
        """What a client is told about using it."""
        ...


class Published(Introduced, Protocol):
    """One published server. Its methods are called from several threads at once."""

    def definitions(self) -> Sequence[Mapping[str, JsonValue]]:
        """Every tool as MCP's `Tool` object (`name`, `inputSchema`, …), always in the same order."""
        ...

    def call(self, name: str, arguments: JsonObject, budget: Budget, caller: Caller) -> JsonObject:
        """Answer one call with MCP's `CallToolResult` object: `content`, `structuredContent`, `isError`, `_meta`.

        The arguments fit the tool's input schema. A refusal is a result. Errors: `UnknownToolError`; whatever else is
        raised becomes an internal error without detail, and its traceback goes to the log.
        """
        ...

    def refused(self, error: FumehoodError) -> JsonObject:
        """The `CallToolResult` of a refusal: the same shape, whoever refuses."""
        ...

    def discover(self) -> JsonObject:
        """Members for `_meta` of `initialize` and `server/discover`: which walls stand, which settings weaken one."""
        ...
