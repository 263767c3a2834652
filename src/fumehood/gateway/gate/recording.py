"""What happens at the gate as records of the audit log: a refusal, or a begin and an end.

Invariants: what may write, was approved or refused is on the disk before anybody learns of it; a call has one record of
its end, whatever ended it. Names are as asked, inert and cut (`passing` takes credentials out); arguments and
answers are digests and sizes.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from fumehood.core import jsonio
from fumehood.core.clock import Clock
from fumehood.core.errors import FumehoodError, RefusedError
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.audit.record import Call, Event, Outcome
from fumehood.gateway.gate.model import Guest

_NAME_CHARACTERS: Final = 60  # four bytes of an escape for each, and within the record's own bound
ALLOWED: Final = "allowed"


class Audit(Protocol):
    """Keeps records; returns when one is kept as surely as it has to be. Errors: `AuditError`."""

    async def record(self, event: Event) -> None:
        """Keep one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What somebody asks for."""

    guest: Guest
    name: str  # as asked
    arguments: JsonObject
    writes: bool = False


class Recorder:
    """Writes records for every guest; none where there is no log."""

    def __init__(self, audit: Audit | None, clock: Clock) -> None:
        """Nothing is recorded yet."""
        self._audit = audit
        self._clock = clock

    def of(self, act: Act) -> "Recording":
        """The records of one act, which gets the next number of its guest."""
        act.guest.calls += 1
        arguments = jsonio.line(act.arguments)
        event = Call(
            source="gateway",
            who=act.guest.who,
            run=act.guest.run,
            call=act.guest.calls,
            tool=ascii(act.name[:_NAME_CHARACTERS])[1:-1][:256],
            writes=act.writes,
            decision=ALLOWED,
            outcome="begun",
            error="",
            arguments_sha256=hashlib.sha256(arguments).hexdigest(),
            arguments_bytes=len(arguments),
            answer_bytes=0,
            microseconds=0,
        )
        return Recording(self._audit, self._clock, event)


class Recording:
    """The records of one act."""

    def __init__(self, audit: Audit | None, clock: Clock, event: Call) -> None:
        """Its time begins."""
        self._audit = audit
        self._clock = clock
        self._event = event
        self._at = clock.monotonic()

    async def refused(self, rule: str, error: str) -> None:
        """It is not done."""
        await self._record("refused", decision=rule, error=error)

    async def performed(self, decision: str, perform: Callable[[], Awaitable[JsonObject]]) -> JsonObject:
        """Do it, between a record of its begin, where it may write or somebody approved it, and one of its end."""
        self._event = msgspec.structs.replace(self._event, decision=decision)
        outcome: Outcome = "failed"
        error, size = "harness", 0
        try:
            if self._event.writes or decision != ALLOWED:
                await self._record("begun")
            result = await perform()
            size = len(msgspec.json.encode(result))
            outcome, error = ("failed", "server") if result.get("isError") is True else ("ok", "")
        except asyncio.CancelledError:
            outcome, error = "cancelled", ""
            raise
        except FumehoodError as problem:
            outcome, error = "refused" if isinstance(problem, RefusedError) else "failed", problem.code
            raise
        finally:
            await self._record(outcome, error=error, size=size)
        return result

    async def _record(self, outcome: Outcome, *, decision: str = "", error: str = "", size: int = 0) -> None:
        if self._audit is None:
            return
        event = msgspec.structs.replace(
            self._event,
            decision=decision or self._event.decision,
            outcome=outcome,
            error=error,
            answer_bytes=size,
            microseconds=0 if outcome == "begun" else round((self._clock.monotonic() - self._at) * 1_000_000),
        )
        await self._audit.record(event)
