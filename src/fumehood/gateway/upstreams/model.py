"""Servers behind the gateway, as everything in front of them sees them. Pure: types only.

A `Connection` is one conversation with one server that is up, of either era, over pipes or HTTP; a `Dial` makes one. A
keeper (`gateway.upstreams.keeper`) owns one `Dial` for each server and says how it stands.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from fumehood.core.errors import FailedError
from fumehood.core.jsonio import JsonObject
from fumehood.wire.hosting import Era, ReportProgress

Notified: TypeAlias = Callable[[str, JsonObject], None]  # a notification of the server: method and params; never waits


class UpstreamError(FailedError):
    """A server is not there, was lost, or did not answer as one does. The message is ours."""

    code = "upstream"


class ServerRefusedError(FailedError):
    """A server answered a request with an error. `words` are its own, uncontrolled; the message holds none of them."""

    code = "server_refused"

    def __init__(self, number: int, words: str) -> None:
        """The number of JSON-RPC, and what the server said."""
        super().__init__(f"the server refused the request ({number})")
        self.number = number
        self.words = words


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """Who a server says it is. Every word is its own, uncontrolled."""

    era: Era
    revision: str
    server: JsonObject = field(default_factory=dict)  # serverInfo
    capabilities: JsonObject = field(default_factory=dict)
    instructions: str = ""


class Connection(Protocol):
    """One conversation. Any number of tasks may ask at once."""

    @property
    def introduction(self) -> Introduction:
        """What the server said at the start."""
        ...

    async def ask(
        self, method: str, params: JsonObject, *, seconds: float, progress: ReportProgress | None = None
    ) -> JsonObject:
        """The result of one request, as the server gave it, without the era's envelope.

        `params` may hold trace context in `_meta` and nothing else there. A cancelled task cancels the request at the
        server. Errors: `UpstreamError`, `ServerRefusedError`, `TimedOutError`, `BusyError`; `TooLargeError` and
        `RefusedError` for what is not sent, which say nothing of the server. Each can be raised again as
        `type(error)(words, remedy=…)`.
        """
        ...

    async def lost(self) -> str:
        """Wait until nothing can be asked any more; why, in words of ours."""
        ...


class Dial(Protocol):
    """Starts or reaches one server. Entering takes a bounded time; leaving ends whatever was started."""

    def __call__(self, notified: Notified) -> AbstractAsyncContextManager[Connection]:
        """A conversation whose notifications, but for progress, go to `notified`. Errors while entering: ours."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """It is being started for the first time, or again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """It answers, and its tools are those that were accepted."""

    introduction: Introduction


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """It answers, and its tools are not those that were accepted. `difference` is inert, a line each."""

    reason: str
    difference: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Down:
    """It does not answer. `again_seconds` is when it is tried again; None: not before the gateway is started again."""

    reason: str
    again_seconds: float | None = None


Standing: TypeAlias = Starting | Up | Withheld | Down


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The tools of a server that is `Up`: as it gave them, and as they may be shown (`guard.definitions`)."""

    tools: tuple[JsonObject, ...] = ()
    shown: tuple[JsonObject, ...] = ()  # in the order of names; of some tools none


class Upstreams(Protocol):
    """Every server of a topology."""

    @property
    def servers(self) -> tuple[str, ...]:
        """Their names, in order."""
        ...

    def standing(self, server: str) -> Standing:
        """How one stands at the moment. `KeyError` for none of ours."""
        ...

    def listed(self, server: str) -> Listed:
        """The tools of one; none where it is not `Up`."""
        ...

    async def settled(self, seconds: float) -> None:
        """Wait until no server is starting for the first time, or until so long after they were started."""
        ...

    async def ask(
        self, server: str, method: str, params: JsonObject, *, seconds: float, progress: ReportProgress | None = None
    ) -> JsonObject:
        """As `Connection.ask`; `UpstreamError`, which says why, at once where it is not `Up`."""
        ...

    def watch(self, changed: Callable[[str, str], None]) -> Callable[[], None]:
        """Have `changed(server, what)` called, `what` one of `tools`, `prompts`, `resources`, `standing`."""
        ...
