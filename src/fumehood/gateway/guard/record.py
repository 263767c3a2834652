"""The calls of one guarded server as events of an audit log: digests and sizes, never content. Pure.

Invariant: a tool counts as one that may write, whatever it says of itself: its annotations are the server's own word.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from fumehood.core import jsonio
from fumehood.core.jsonio import JsonValue
from fumehood.gateway.audit.calls import Caller
from fumehood.gateway.audit.record import Call, Outcome

_NAME_CHARACTERS = 60  # four bytes of an escape for each, and within the record's own bound


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    event: Call
    at: float


class Calls:
    """Numbers the calls of one connection, and keeps what an ended one needs."""

    def __init__(self, caller: Caller, monotonic: Callable[[], float]) -> None:
        """None yet."""
        self._caller = caller
        self._monotonic = monotonic
        self._count = 0
        self._begun: dict[int, _Begun] = {}

    def begun(self, params: dict[str, JsonValue] | None, *, decision: str) -> tuple[int, Call]:
        """The number of a call, and the record of its begin, or of its refusal."""
        self._count += 1
        given = params or {}
        arguments = jsonio.line(given.get("arguments", {}))
        name = given.get("name")
        event = Call(
            source=self._caller.source,
            who=self._caller.who,
            run=self._caller.run,
            call=self._count,
            tool=ascii(name[:_NAME_CHARACTERS])[1:-1][:256] if isinstance(name, str) else "",
            writes=True,
            decision=decision,
            outcome="begun" if decision == "allowed" else "refused",
            error="" if decision == "allowed" else decision,
            arguments_sha256=hashlib.sha256(arguments).hexdigest(),
            arguments_bytes=len(arguments),
            answer_bytes=0,
            microseconds=0,
        )
        if decision == "allowed":
            self._begun[self._count] = _Begun(event=event, at=self._monotonic())
        return self._count, event

    def ended(self, number: int, *, outcome: Outcome, size: int = 0) -> Call:
        """The record of what came of a call."""
        begun = self._begun.pop(number)
        return msgspec.structs.replace(
            begun.event,
            outcome=outcome,
            error="server" if outcome == "failed" else "",
            answer_bytes=size,
            microseconds=round((self._monotonic() - begun.at) * 1_000_000),
        )
