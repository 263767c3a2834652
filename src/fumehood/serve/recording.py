"""Each call of a served tool as one record, which is kept before the answer is given. Pure but for who keeps it.

Invariants: a call leaves exactly one record, however it ends, also where no such tool is or the arguments do not fit; a
record holds digests and sizes, never content; where it cannot be kept, the answer is withheld and the refusal told.

Not promised: a record of what is refused before it is a call: without a token or a scope, or beyond the bounds of
calls (`wire.httpguard`, `wire.admission`).
"""

import hashlib
import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from fumehood.core import jsonio
from fumehood.core.budget import Budget
from fumehood.core.clock import Clock, SystemClock
from fumehood.core.errors import (
    CancelledError,
    DeniedPathError,
    FumehoodError,
    HardLinkError,
    InvalidArgumentsError,
    OutsideWorkspaceError,
    RefusedError,
    UnknownToolError,
)
from fumehood.core.jsonio import JsonObject
from fumehood.serve.records import ALLOWED, ARGUMENTS, NOT_ALLOWED, Outcome, Record, Records
from fumehood.wire.guarded import Guarded
from fumehood.wire.published import Caller, Published

_LOG = logging.getLogger(__name__)
# Refusals that are a decision about what the caller may see; any other says that there is nothing to see.
_DECISIONS: Final = {
    **{one.code: one.code for one in (OutsideWorkspaceError, DeniedPathError, HardLinkError)},
    UnknownToolError.code: NOT_ALLOWED,
    InvalidArgumentsError.code: ARGUMENTS,
}
_TOOL_CHARACTERS: Final = 60  # of a name as asked
_ESCAPED_CHARACTERS: Final = 256  # the same, inert: a record's own bound


def guarded(stand: Callable[..., Published], records: Records | None) -> Guarded:
    """What `stand` publishes, behind its walls, with each call recorded where somebody keeps records."""
    if records is None:
        return Guarded(stand())
    records.ready()
    return Recorded(stand(*records.containments), records)


class Recorded(Guarded):
    """A `Guarded` whose calls are all recorded."""

    def __init__(self, published: Published, records: Records, clock: Clock | None = None) -> None:
        """Nobody has called yet. Errors: `BadDefinitionError`."""
        super().__init__(published)
        self._records = records
        self._clock = clock or SystemClock()
        self._numbers = itertools.count(1)
        self._refusals = frozenset(_codes(RefusedError))

    def call(self, name: str, arguments: JsonObject, budget: Budget, caller: Caller) -> JsonObject:
        """As `Guarded` has it; a refusal as well where no record of the call could be kept."""
        begun, end = self._clock.monotonic(), _End()
        try:
            result = super().call(name, arguments, budget, caller)
            end = self._end(result)
        except FumehoodError as error:
            end = self._by(error.code)
            raise
        finally:
            took = round((self._clock.monotonic() - begun) * 1_000_000)
            unkept = self._keep(_record(next(self._numbers), (caller.principal, name, arguments), end, took))
        return result if unkept is None else self.published.refused(unkept)

    def _end(self, result: JsonObject) -> "_End":
        size = len(jsonio.line(result))
        if result.get("isError") is not True:
            return _End(outcome="ok", answer_bytes=size)
        facts = result.get("structuredContent")
        code = facts.get("error") if isinstance(facts, dict) else None
        return replace(self._by(code if isinstance(code, str) else ""), answer_bytes=size)

    def _by(self, code: str) -> "_End":
        """The end of a call that an error of this code ended."""
        if code == CancelledError.code:
            return _End(outcome="cancelled", error=code)
        if code not in self._refusals:
            return _End(error=code)
        return _End(decision=_DECISIONS.get(code, ALLOWED), outcome="refused", error=code)

    def _keep(self, record: Record) -> FumehoodError | None:
        """Why a record is not kept; None when it is."""
        try:
            self._records.keep(record)
        except FumehoodError as error:
            _LOG.error("no record of a call could be kept", exc_info=error)
            return error
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """How a call ended: by a fault of ours, where nothing else is known."""

    decision: str = ALLOWED
    outcome: Outcome = "failed"
    error: str = ""
    answer_bytes: int = 0


def _record(number: int, asked: tuple[str, str, JsonObject], end: _End, microseconds: int) -> Record:
    principal, name, arguments = asked
    written = _written(arguments)
    return Record(
        number=number,
        principal=principal,
        tool=ascii(name[:_TOOL_CHARACTERS])[1:-1][:_ESCAPED_CHARACTERS],
        decision=end.decision,
        outcome=end.outcome,
        error=end.error,
        arguments_sha256=hashlib.sha256(written).hexdigest() if written else "",
        arguments_bytes=len(written),
        answer_bytes=end.answer_bytes,
        microseconds=microseconds,
    )


def _written(arguments: JsonObject) -> bytes:
    """The JSON of arguments, a line; empty for what is none."""
    try:
        return jsonio.line(arguments)
    except (TypeError, ValueError, RecursionError):
        return b""


def _codes(kind: type[FumehoodError]) -> Iterator[str]:
    """The codes of a family of errors, as far as it was loaded."""
    yield kind.code
    for one in kind.__subclasses__():
        yield from _codes(one)
