"""Work that waits until its client comes back, and who may come back for it. Pure.

Where the protocol knows no requests of a server (2026-07-28), a question to the client is an answer of its own: the
client gets a `requestState` and sends the same request again with it. What was begun waits meanwhile.

Invariants: a state is drawn by the caller of this module, 256 random bits; it fits once, only for the same caller with
the same scopes, on the same connection, with the same request, and before its deadline; what does not fit is refused
with one text, whatever was wrong, and changes nothing; of one principal at most PARKED_EACH wait, in all PARKED.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from fumehood.core import limits
from fumehood.core.clock import Clock
from fumehood.core.errors import BusyError
from fumehood.core.jsonio import JsonObject
from fumehood.wire.hosting import HostError
from fumehood.wire.published import Caller

Work = TypeVar("Work")


class UnknownStateError(HostError):
    """A `requestState` is none that waits for this request."""

    code = "unknown_state"

    def __init__(self) -> None:
        """One text for every reason."""
        super().__init__("requestState is none that waits for this request", remedy="send the request without it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """Who asked, and for what."""

    caller: Caller
    connection: Hashable
    digest: str  # of the request: see `digest`


@dataclass(frozen=True, slots=True)
class _Parked(Generic[Work]):
    ticket: Ticket
    work: Work
    until: float


class Parking(Generic[Work]):
    """Everything that waits. What is taken out is not known any more."""

    def __init__(self, draw: Callable[[], str], clock: Clock) -> None:
        """`draw` gives a state that nobody can guess and that was never given before."""
        self._draw = draw
        self._clock = clock
        self._parked: dict[str, _Parked[Work]] = {}
        self._held: Counter[str] = Counter()  # by principal

    def __len__(self) -> int:
        """How many wait."""
        return len(self._parked)

    def park(self, ticket: Ticket, work: Work) -> str:
        """Have `work` wait; the state that fetches it. Errors: `BusyError`."""
        principal = ticket.caller.principal
        if len(self._parked) >= limits.PARKED or self._held[principal] >= limits.PARKED_EACH:
            raise BusyError("too many questions wait for an answer", remedy="answer those that are open")
        state = self._draw()
        self._parked[state] = _Parked(ticket, work, self._clock.monotonic() + limits.PARKED_SECONDS)
        self._held[principal] += 1
        return state

    def look(self, state: object, ticket: Ticket) -> Work:
        """What a state would fetch. Errors: `UnknownStateError`."""
        parked = self._parked.get(state) if isinstance(state, str) else None
        if parked is None or parked.ticket != ticket or parked.until <= self._clock.monotonic():
            raise UnknownStateError
        return parked.work

    def take(self, state: str, ticket: Ticket) -> Work:
        """Fetch it; a second time it is not there. Errors: `UnknownStateError`."""
        work = self.look(state, ticket)
        self.drop(state)
        return work

    def drop(self, state: str) -> Work | None:
        """Take out whatever waits under a state, if anything does."""
        parked = self._parked.pop(state, None)
        if parked is None:
            return None
        principal = parked.ticket.caller.principal
        self._held[principal] -= 1
        if not self._held[principal]:
            del self._held[principal]
        return parked.work

    def leave(self, connection: Hashable) -> list[Work]:
        """Take out everything of a connection that is over."""
        mine = [state for state, parked in self._parked.items() if parked.ticket.connection == connection]
        return [work for state in mine if (work := self.drop(state)) is not None]


def digest(method: str, params: JsonObject) -> str:
    """What a request asks for, independent of the order of its members."""
    text = json.dumps([method, params], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
