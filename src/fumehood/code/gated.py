"""The tools of a source behind a gate: the `ToolBackend` that a run is given.

Invariants: no call reaches the source that the gate has not allowed, no answer the program that it has not passed; each
call leaves exactly one audit record of its end, however it ends. Of a tool that may write there is one before, too, and
where that cannot be kept the call is not made. The program learns nothing of a call whose record could not be kept.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from fumehood.code import declare, finding, gate
from fumehood.code.backend import ToolSource
from fumehood.code.gate import AuditRecord, Deny, Gate, Rule, Written
from fumehood.core.clock import Clock
from fumehood.core.errors import FumehoodError, UnknownToolError
from fumehood.core.jsonio import JsonValue

# Keeps a record. Where it gives something to wait for, the call goes on when that is done; an error refuses the call.
Audit: TypeAlias = Callable[[AuditRecord], Awaitable[None] | None]

_BEGUN: Final = "begun"
_CANCELLED: Final = "cancelled"


class Gated:
    """One source, one gate, one run."""

    def __init__(self, source: ToolSource, held: Gate, *, clock: Clock, audit: Audit) -> None:
        """`audit` is given each record."""
        self._source = source
        self._gate = held
        self._clock = clock
        self._audit = audit
        self._calls = 0

    async def search(self, query: str, limit: int) -> JsonValue:
        """Name and description of the tools that fit, best first."""
        found = finding.find(self._gate.tools, query, limit)
        return [{"name": tool.name, "description": tool.description} for tool in found]

    async def describe(self, names: Sequence[str]) -> JsonValue:
        """TypeScript for these tools. `UnknownToolError` for a name that may not be called."""
        return declare.declare(self._gate.named(names))

    async def run(self, name: str, arguments: JsonValue) -> JsonValue:
        """`{text, structured}` of one call. Errors: those of the gate and of the tool."""
        self._calls += 1
        written = gate.write(arguments)
        ended = _Ended(self._calls, name, written, writes=self._gate.writes(name))
        began = self._clock.monotonic()
        try:
            return await self._run(name, written, ended)
        except FumehoodError as error:
            ended.outcome, ended.error = gate.outcome_of(error), error.code
            raise
        finally:
            await self._keep(ended.record((self._clock.monotonic() - began) * 1000))

    async def refused(self, name: str, arguments: JsonValue) -> None:
        """Record a call of a tool that the job does not name, which was refused on its way here."""
        self._calls += 1
        ended = _Ended(self._calls, name, gate.write(arguments), writes=self._gate.writes(name))
        ended.decision, ended.outcome, ended.error = Rule.NOT_ALLOWED.value, "refused", UnknownToolError.code
        await self._keep(ended.record(0))

    async def _run(self, name: str, arguments: Written, ended: "_Ended") -> JsonValue:
        decision = self._gate.decide(name, arguments)
        if isinstance(decision, Deny):
            ended.decision = decision.rule.value
            raise decision.error
        if decision.tool.writes:
            await self._keep(ended.begun())
        answer = await self._source.call(decision.tool.name, decision.arguments)
        passed = self._gate.passed(decision.tool, answer)
        ended.outcome, ended.answer_bytes = "ok", len(passed.data)
        return passed.value

    async def _keep(self, record: AuditRecord) -> None:
        kept = self._audit(record)
        if kept is not None:
            await kept


class _Ended:
    """What is known of a call so far: cancelled, until something else is known."""

    def __init__(self, sequence: int, name: str, arguments: Written, *, writes: bool) -> None:
        self._sequence = sequence
        self._name = name
        self._writes = writes
        self._arguments = arguments
        self.decision = "allowed"
        self.outcome = _CANCELLED
        self.error = ""
        self.answer_bytes = 0

    def begun(self) -> AuditRecord:
        return replace(self.record(0), outcome=_BEGUN)

    def record(self, milliseconds: float) -> AuditRecord:
        return AuditRecord(
            sequence=self._sequence,
            tool=gate.inert_name(self._name),
            decision=self.decision,
            outcome=self.outcome,
            error=self.error,
            arguments_sha256=self._arguments.digest(),
            arguments_bytes=len(self._arguments.data),
            answer_bytes=self.answer_bytes,
            milliseconds=milliseconds,
            writes=self._writes,
        )
