"""One connection of a client as the SDK's loop needs it: a pipe, or a session of HTTP. Pure: types.

Requests have numbers of ours, which are never used twice. None of the methods but `receive` waits: a channel bounds
what it holds, and drops notifications that a client does not read before anything else.
"""

from collections.abc import Hashable
from typing import Protocol

from fumehood.core.jsonio import JsonValue
from fumehood.wire.inbound import Answered, Asked, Told
from fumehood.wire.jsonrpc import Id
from fumehood.wire.published import Caller


class Channel(Protocol):
    """One connection."""

    @property
    def connection(self) -> Hashable:
        """The same value for as long as the connection lasts, and nobody else's."""
        ...

    def caller(self, number: int) -> Caller:
        """Who sent a request."""
        ...

    def ident(self, number: int) -> Id:
        """What its client calls a request that waits."""
        ...

    def can_ask(self, number: int) -> bool:
        """Whether its client could be asked something while a request waits."""
        ...

    async def receive(self) -> tuple[int, Asked] | Told | Answered | None:
        """The next message of the client; None at its end. An answer is one to something that was asked, once."""
        ...

    def answer(self, number: int, member: str, value: JsonValue) -> None:
        """Send the `result` or the `error` of a request."""
        ...

    def tell(self, method: str, params: JsonValue, about: int | None = None) -> None:
        """Send a notification, beside the answer of a request where it is `about` one."""
        ...

    def ask(self, ident: int, method: str, params: JsonValue, about: int | None = None) -> None:
        """Send a request of ours; its answer comes out of `receive`."""
        ...

    def unanswered(self, number: int) -> None:
        """A request is over, and gets no answer: the client has cancelled it."""
        ...

    def stands(self, number: int) -> None:
        """A request stays open until its client ends it: nothing waits for it at the end of input."""
        ...
