"""What a server of ours that asks others publishes, in our own words: requests in, results out, by one loop. Pure.

Whoever implements `Host` never sees a frame of the protocol, a session or an era's envelope; whoever speaks the
protocol (`wire.sdk`) never sees what stands behind. Unlike `wire.published` a host answers asynchronously, its lists
change while it runs, and it may ask the client back.

Invariants for whoever calls a host: a request that nobody waits for any more is cancelled as a task; `connection` is
the same value for all requests that share state (a pipe, a session of HTTP, or, where the protocol knows no
sessions, one principal), and nobody else's; `left` is called once for each that has ended.
"""

import enum
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from fumehood.core.errors import RefusedError
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.wire import jsonrpc
from fumehood.wire.published import Caller, Introduced

Era: TypeAlias = Literal["legacy", "modern"]
ReportProgress: TypeAlias = Callable[[JsonObject], None]  # `progress`, `total`, `message`; never waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessionless:
    """The `connection` of a principal where the protocol knows no sessions: the same one whenever it comes again.

    It is said to have left when its place is needed; whoever keeps what must outlast that keeps it by this value.
    """

    principal: str


class CannotAskError(RefusedError):
    """The client cannot be asked: it offers no elicitation, or left, or did not answer in time."""

    code = "cannot_ask"


class HostError(RefusedError):
    """A request is refused as the protocol refuses it: with a number, not with a result."""

    code = "refused"

    def __init__(self, message: str, *, number: int = jsonrpc.INVALID_PARAMS, remedy: str = "") -> None:
        """`message` is shown to the client as it is."""
        super().__init__(message, remedy=remedy)
        self.number = number


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Something for the person at the client: elicitation in form mode."""

    message: str  # inert
    schema: JsonObject  # of the answer, flat, as MCP's elicitation has it


class Verdict(enum.Enum):
    """What became of a question."""

    ACCEPT = "accept"
    DECLINE = "decline"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the person said. `content` is checked against the schema of the question where it is accepted."""

    verdict: Verdict
    content: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request of a client, without its envelope."""

    method: str  # tools/list, tools/call, prompts/…, resources/…, completion/complete
    params: JsonObject  # without `_meta`
    caller: Caller
    connection: Hashable
    era: Era
    trace: JsonObject = field(default_factory=dict)  # W3C trace context out of `_meta`
    progress: ReportProgress | None = None  # None where the client wants none
    ask: Callable[[Question], Awaitable[Reply]] | None = None  # None where it cannot be asked; errors: CannotAskError


class Changed(enum.Enum):
    """A list that is another one now."""

    TOOLS = "tools"
    PROMPTS = "prompts"
    RESOURCES = "resources"


class Host(Introduced, Protocol):
    """A server that asks others. All methods are called in one event loop."""

    async def answer(self, request: Request) -> JsonObject:
        """The result of a request, without `resultType`, `ttlMs` and the like, which are the era's.

        A list that depends on the caller says so by `"private": true` beside its items, which is taken out. Errors:
        `HostError` with its number, any other `FumehoodError` but one of our own fault with its words; whatever else is
        raised becomes an internal error without detail, and its traceback is logged.
        """
        ...

    def left(self, connection: Hashable) -> None:
        """A connection is over: forget what was kept for it."""
        ...

    def watch(self, changed: Callable[[Changed], None]) -> Callable[[], None]:
        """Have `changed` called when a list is another one; what is returned ends that."""
        ...

    def discover(self) -> Mapping[str, JsonValue]:
        """Members for `_meta` of `initialize` and `server/discover`."""
        ...
