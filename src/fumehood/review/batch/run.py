"""One pass over a list: what has no result yet is tried, until it has one or has been tried often enough.

Invariants: a request is done when an attempt of it has a result whose state says something about the target; such a
result is never touched again. Each try has a number of its own, also one that a cluster makes by itself. No more is
under way than there are slots, so whoever ends a batch ends at most those.
"""

import contextlib
import logging
from collections import Counter, deque
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from fumehood.core import limits
from fumehood.core.clock import Clock
from fumehood.core.errors import HarnessError
from fumehood.review.batch.crew import Crew
from fumehood.review.batch.facts import UnreadableResultError
from fumehood.review.batch.listing import Entry
from fumehood.review.batch.place import WORDS, Place, Standing, keep, last_line, write
from fumehood.review.batch.table import Row
from fumehood.review.batch.task import Outcome, Task
from fumehood.review.states import State

_log = logging.getLogger(__name__)
_REFUSED = 2  # exit status of a request that this host refuses: a folder that is not there


class BarrenError(HarnessError):
    """Attempt after attempt left no result: the fault is not the targets'."""

    code = "no_results"


@dataclass(slots=True)
class Tally:
    """Where a pass stands."""

    total: int
    states: Counter[str] = field(default_factory=Counter)
    here: int = 0  # of them, results that were there before this pass
    finished: int = 0  # in this pass
    seconds: float = 0.0  # that those took, as seen from here

    @property
    def done(self) -> int:
        """Requests that nothing is done about any more in this pass."""
        return sum(self.states.values())


@dataclass(slots=True, kw_only=True)
class Running:
    """One attempt that is under way."""

    entry: Entry
    attempt: Path
    since: float
    tokens: list[str] = field(default_factory=list)


class Watch(Protocol):
    """Whoever is told how a pass goes on."""

    def ended(self, row: Row, tally: Tally, seconds: float) -> None:
        """One request has its last word of this pass."""
        ...

    def again(self, row: Row, why: str) -> None:
        """One attempt said nothing about its target, and another will be made."""
        ...

    def tick(self, tally: Tally, running: list[Running]) -> None:
        """Some time has passed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What all tasks of a batch have in common."""

    beside: str
    harness: str
    settings: str | None = None


def settled(standing: Standing) -> bool:
    """Whether a request needs no further attempt."""
    return standing.facts is not None and standing.facts.state != State.HARNESS_ERROR


class Pass:
    """One pass. `run` gives the rows in the list's order."""

    def __init__(self, place: Place, crew: Crew, orders: Orders, *, watch: Watch, clock: Clock) -> None:
        """Nothing is started yet."""
        self._place, self._crew, self._orders = place, crew, orders
        self._watch, self._clock = watch, clock
        self._tries: Counter[str] = Counter()
        self._running: dict[Future[Outcome], Running] = {}
        self._waiting: deque[Entry] = deque()
        self._rows: dict[str, Row] = {}
        self._barren = 0
        self.tally = Tally(total=0)

    @property
    def done(self) -> int:
        """Requests that nothing is done about any more."""
        return self.tally.done

    def run(self, entries: Iterable[Entry]) -> list[Row]:
        """Try what is not settled. Errors: `BarrenError`, `DiskError`; then as much as was learnt is in the folder."""
        order = list(entries)
        self.tally = Tally(total=len(order))
        for entry in order:
            standing = self._place.standing(entry.digest)
            if settled(standing):
                self._settle(entry, standing)
                self.tally.here += 1
            else:
                self._waiting.append(entry)
        while self._waiting or self._running:
            self._fill()
            done, _ = wait(self._running, timeout=limits.BATCH_LOOK_SECONDS, return_when=FIRST_COMPLETED)
            self._note_starts()
            for future in done:
                self._end(future)
            self._watch.tick(self.tally, list(self._running.values()))
        return [self._rows[entry.digest] for entry in order]

    def _fill(self) -> None:
        """Begin as many attempts as there is room for."""
        slots = self._crew.slots()
        while self._waiting and len(self._running) < slots:
            entry = self._waiting.popleft()
            attempt = self._place.begin(entry.digest, entry.canonical)
            task = Task(
                digest=entry.digest,
                request=entry.canonical,
                beside=self._orders.beside,
                harness=self._orders.harness,
                out=str(attempt) if self._crew.shares_disk else None,
                settings=self._orders.settings,
            )
            self._tries[entry.digest] += 1
            future = self._crew.submit(task)
            self._running[future] = Running(entry=entry, attempt=attempt, since=self._clock.monotonic())

    def _note_starts(self) -> None:
        """Give an execution that the crew began by itself, because a worker died, a number of its own."""
        for start in self._crew.starts():
            for running in self._running.values():
                if running.entry.digest == start.digest:
                    self._note(running, start.token)

    def _note(self, running: Running, token: str) -> None:
        if token in running.tokens:
            return
        if running.tokens:
            running.attempt = self._place.begin(running.entry.digest, running.entry.canonical)
            running.since = self._clock.monotonic()
        running.tokens.append(token)

    def _end(self, future: "Future[Outcome]") -> None:
        running = self._running.pop(future)
        outcome = self._outcome(future)
        if outcome.token:
            self._note(running, outcome.token)
        with contextlib.suppress(UnreadableResultError):
            keep(running.attempt, outcome.files)
        entry = running.entry
        standing = self._place.standing(entry.digest)
        fresh = standing.last == running.attempt.name
        if outcome.words and not (fresh and settled(standing)):
            write(running.attempt, WORDS, (outcome.words,))
            standing = self._place.standing(entry.digest)
        if outcome.dropped:
            said = f"too large to come back: {', '.join(outcome.dropped)}\n"
            write(running.attempt, WORDS, (said.encode("ascii"),))
        refused = outcome.status == _REFUSED
        self._barren = 0 if fresh or refused else self._barren + 1
        if self._barren >= limits.BATCH_BARREN:
            said = last_line(outcome.words) or f"exit status {outcome.status}"
            raise BarrenError(
                f"{self._barren} attempts in a row left no result; the last said: {said}",
                remedy="see fumehood doctor, then run the same command again",
            )
        if not settled(standing) and not refused and self._tries[entry.digest] < limits.BATCH_TRIES:
            why = standing.facts.error if fresh and standing.facts else last_line(outcome.words)
            self._watch.again(row(entry, standing), why or f"exit status {outcome.status}")
            self._waiting.append(entry)
            return
        seconds = self._clock.monotonic() - running.since
        self.tally.finished += 1
        self.tally.seconds += seconds
        self._settle(entry, standing)
        self._watch.ended(self._rows[entry.digest], self.tally, seconds)

    def _outcome(self, future: "Future[Outcome]") -> Outcome:
        """What a task returned, or in words why it returned nothing."""
        error = CancelledError("cancelled") if future.cancelled() else future.exception()
        if error is None:
            return future.result()
        _log.warning("a task of the batch returned nothing", exc_info=error)
        words = f"{type(error).__name__}: {error}".encode("ascii", "backslashreplace")
        return Outcome(token="", status=HarnessError.exit_status, words=words[: limits.BATCH_STDERR_BYTES])

    def _settle(self, entry: Entry, standing: Standing) -> None:
        made = row(entry, standing)
        self._rows[entry.digest] = made
        self.tally.states[made.state] += 1


def row(entry: Entry, standing: Standing) -> Row:
    """The line of the summary for a request."""
    return Row(
        target=entry.target,
        digest=entry.digest,
        attempts=standing.attempts,
        result=f"{entry.digest}/{standing.last}/result.json" if standing.last else None,
        facts=standing.facts,
        words=standing.words,
    )
