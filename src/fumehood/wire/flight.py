"""The requests of one connection that are not answered yet. Pure.

Inside, each request has a number of ours: a client's id is compared exactly (1 and "1" are two), is never used twice
at a time, and what the SDK takes for equal cannot mix up two requests.
"""

from typing import Final

from fumehood.wire.inbound import Told
from fumehood.wire.jsonrpc import Id

_CANCELLED: Final = "notifications/cancelled"


class DuplicateError(Exception):
    """The id is in flight."""


class Flight:
    """One connection's table. At most as many entries as its caller lets in: see `len`."""

    def __init__(self) -> None:
        """Nothing is in flight."""
        self._last = 0
        self._ids: dict[int, Id] = {}
        self._numbers: dict[tuple[type, Id], int] = {}

    def __len__(self) -> int:
        """How many are in flight."""
        return len(self._ids)

    def begin(self, ident: Id) -> int:
        """The number of a new request. Errors: `DuplicateError`."""
        if (type(ident), ident) in self._numbers:
            raise DuplicateError
        self._last += 1
        self._ids[self._last] = ident
        self._numbers[type(ident), ident] = self._last
        return self._last

    def number(self, ident: object) -> int | None:
        """The number of the request that a client knows by `ident`."""
        return self._numbers.get((type(ident), ident)) if isinstance(ident, str | int) else None

    def told(self, told: Told) -> Told | None:
        """A notification of the client as it is passed on; None for one that cancels nothing."""
        if told.method != _CANCELLED:
            return told
        number = self.number((told.params or {}).get("requestId"))
        return None if number is None else cancelled(number)

    def knows(self, number: int) -> bool:
        """Whether a request is in flight."""
        return number in self._ids

    def ident(self, number: int) -> Id:
        """What the client calls a request that is in flight. Errors: `KeyError`."""
        return self._ids[number]

    def end(self, number: object) -> Id | None:
        """The client's id of a request that is over; None when it was over before."""
        if not isinstance(number, int) or number not in self._ids:
            return None
        ident = self._ids.pop(number)
        del self._numbers[type(ident), ident]
        return ident


def cancelled(number: int) -> Told:
    """That a request is cancelled, by our number."""
    return Told(method=_CANCELLED, params={"requestId": number})
