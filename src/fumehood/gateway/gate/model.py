"""Who asks, what is offered, and the way back to whoever asks: the values of the gate. Pure.

A `Guest` is one connection of a client, or one program within it. What is kept of it (its taint, what was approved) is
nobody else's.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from fumehood.core.jsonio import JsonObject
from fumehood.gateway.topology.model import Role
from fumehood.wire.hosting import Question, Reply, ReportProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """One tool as it is offered. Whether it writes or sends is the operator's word, never the server's."""

    name: str  # as a client sees it
    server: str
    tool: str  # as the server knows it; of a tool of ours the same as `name`
    definition: JsonObject  # MCP's Tool, fit to be shown, with `name`
    writes: bool = True
    egress: bool = True
    trusted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What somebody may use (`gateway.gate.scopes` decides): what one of the roles allows, within `only`."""

    roles: tuple[Role, ...] | None = None  # None: no role limits it
    only: frozenset[str] | None = None  # names of tools, where a token is good for some of them only
    reading: bool = False  # a token that is good for reading only, whatever its roles say


EVERYTHING = Rights()


@dataclass(slots=True, kw_only=True, eq=False)
class Guest:
    """Somebody who asks, for as long as one connection or one program lasts.

    A program gets results as values: redacted, their texts without a fence. What a program returns to a model passes
    the controls as a whole, in a fence of its own, and its taint is joined to that of the guest who ran it.
    """

    who: str  # as the audit log names it: `uid:N` or `token:KEY`
    rights: Rights
    run: str  # 16 hex digits, of this connection or program
    tainted_by: set[str] = field(default_factory=set)  # servers whose results it got, and which are not trusted
    approved: set[str] = field(default_factory=set)  # digests of calls of a program that one approval covers
    denied: set[str] = field(default_factory=set)  # the same of those that a person refused
    program: bool = False  # whether this is a program of another guest
    calls: int = 0  # so far; the number of each in the audit log
    in_flight: int = 0
    questions: int = 0  # that a person was asked so far
    refusals: int = 0  # one after the other, by a person


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The way back to whoever asks, for the time of one request."""

    ask: Callable[[Question], Awaitable[Reply]] | None = None
    progress: ReportProgress | None = None
    trace: JsonObject = field(default_factory=dict)


class OwnTool(Protocol):
    """A tool that the gateway answers itself."""

    @property
    def offered(self) -> Offered:
        """What it is. A tool of ours passes the same checks as any other."""
        ...

    def is_for(self, guest: Guest) -> bool:
        """Whether a guest may see it, beyond what its role says."""
        ...

    async def call(self, guest: Guest, arguments: JsonObject, way: Way) -> JsonObject:
        """MCP's CallToolResult, fit to be shown. A refusal is a result."""
        ...


class Calls(Protocol):
    """The gate as code mode sees it."""

    def offered(self, guest: Guest) -> list[Offered]:
        """The tools of servers that a guest may use, in order; none of ours."""
        ...

    async def call(self, guest: Guest, name: str, arguments: JsonObject, way: Way) -> JsonObject:
        """One call, judged, recorded, controlled: MCP's CallToolResult. A refusal is a result with `isError`.

        The texts of a result stand in fences, but for a `guest.program`, which computes with them. A refusal of the
        gate has `{error, message, remedy}` as its structured half.
        """
        ...
