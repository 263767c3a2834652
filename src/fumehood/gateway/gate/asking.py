"""Ask a person for an approval: one question at a time for each guest, and each one once.

Invariants: while a question of a guest waits, its other calls that need one wait behind it; identical calls of one
program, made at once or later, are covered by one approval of all of them and refused by one refusal; a program may put
a bounded number of questions, and whoever has refused several times in a row is left alone. Whoever cannot be asked is
refused.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fumehood.content.control import Controls
from fumehood.core import jsonio, limits
from fumehood.core.errors import RefusedError
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.gate import approval
from fumehood.gateway.gate.approval import Said
from fumehood.gateway.gate.model import Guest, Offered, Way
from fumehood.wire.hosting import CannotAskError, Question


class NotApprovedError(RefusedError):
    """A person refused, or did not say yes. `rule` is the word of the audit log."""

    code = "not_approved"

    def __init__(self, message: str, rule: str = Said.NO.value) -> None:
        """Say which."""
        super().__init__(message, remedy="do without it, or ask the person what to do instead")
        self.rule = rule


@dataclass(slots=True)
class _Turn:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


class Approvals:
    """Questions of all guests; a guest is known by its run."""

    def __init__(self, controls: Controls) -> None:
        """Nobody is asked."""
        self._controls = controls
        self._turns: dict[str, _Turn] = {}

    async def sought(self, guest: Guest, offered: Offered, arguments: JsonObject, way: Way) -> Said:
        """How a call was approved. Errors: `NotApprovedError`, `CannotAskError`."""
        digest = approval.digest(offered, arguments)
        async with self._turn(guest.run):
            if digest in guest.approved:
                return Said.BATCH
            if digest in guest.denied:
                raise NotApprovedError("a person has refused this call of the program already")
            said = await self._asked(guest, offered, arguments, way)
            if said is Said.BATCH:
                guest.approved.add(digest)
            if said in {Said.ONCE, Said.BATCH}:
                guest.refusals = 0
                return said
            guest.refusals += 1
            if guest.program:
                guest.denied.add(digest)
            raise NotApprovedError("a person was asked, and did not allow this call", said.value)

    async def _asked(self, guest: Guest, offered: Offered, arguments: JsonObject, way: Way) -> Said:
        if way.ask is None:
            words = f"this call needs a person's approval, since {_why(guest)}, and the client cannot ask one"
            raise CannotAskError(words, remedy=approval.REMEDY)
        if guest.program and guest.questions >= limits.GATE_QUESTIONS:
            words = f"a program may put {limits.GATE_QUESTIONS} questions to a person, and this one has"
            raise CannotAskError(words, remedy="write a program that calls fewer different tools")
        if guest.refusals >= limits.GATE_REFUSALS:
            words = f"a person has refused {limits.GATE_REFUSALS} times in a row, and is not asked again"
            raise CannotAskError(words, remedy="do without it")
        guest.questions += 1
        question = await self._question(guest, offered, arguments)
        try:
            reply = await way.ask(question)
        except CannotAskError as error:
            words = f"this call needs a person's approval, since {_why(guest)}: {error.message}"
            raise CannotAskError(words, remedy=error.remedy or approval.REMEDY) from None
        return approval.said(guest, reply)

    async def _question(self, guest: Guest, offered: Offered, arguments: JsonObject) -> Question:
        """Half a MiB of arguments takes a while to look through: nobody else waits for that."""
        if len(jsonio.line(arguments)) <= limits.GATE_THREAD_BYTES:
            return approval.question(guest, offered, arguments, self._controls)
        return await asyncio.to_thread(approval.question, guest, offered, arguments, self._controls)

    @asynccontextmanager
    async def _turn(self, run: str) -> AsyncIterator[None]:
        turn = self._turns.setdefault(run, _Turn())
        turn.waiting += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                del self._turns[run]


def _why(guest: Guest) -> str:
    return f"results of servers that are not trusted were read before ({approval.sources(guest)})"
