"""How a batch shows that it goes on: a live line on a terminal, else a line for each review; and its table at the end.

Invariants: all of it is inert and goes to stderr but the table; no time left is named before enough reviews have
ended to guess from.
"""

import sys
import time
from typing import TextIO

from fumehood.cli import render
from fumehood.core import limits
from fumehood.review.batch.run import Running, Tally
from fumehood.review.batch.table import Row, Summary

_CLEAR = "\r\x1b[K"
_SHOWN_RUNNING = 3
_ERROR_CHARACTERS = 60
_MINUTE, _HOUR = 60, 3600


class Progress:
    """Tells of a pass: `live` redraws one line, otherwise nothing is written but ends."""

    def __init__(self, stream: TextIO, *, live: bool, workers: int) -> None:
        """Write to `stream`."""
        self._stream, self._live, self._workers = stream, live, workers
        self._drawn = 0.0

    def ended(self, row: Row, tally: Tally, seconds: float) -> None:
        """One line for a request that is done."""
        why = (row.facts.error if row.facts else row.words) if row.state != "COMPLETED" else ""
        self._say(
            f"[{tally.done}/{tally.total}] {row.state}  {row.target}  {seconds:.1f} s" + (f"  {why}" if why else "")
        )

    def again(self, row: Row, why: str) -> None:
        """One line for an attempt that is followed by another."""
        self._say(f"again: {row.target}, attempt {row.attempts} said nothing about it: {why}")

    def tick(self, tally: Tally, running: list[Running]) -> None:
        """Redraw the live line, when it is time."""
        now = time.monotonic()
        if self._live and now - self._drawn >= limits.BATCH_LIVE_SECONDS:
            self._drawn = now
            self._write(_CLEAR + render.inert(live_line(tally, running, now=now, workers=self._workers)))

    def close(self) -> None:
        """Leave no live line behind."""
        if self._live:
            self._write(_CLEAR)

    def _say(self, text: str) -> None:
        self._write((_CLEAR if self._live else "") + render.inert(text.replace("\n", " ")) + "\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def watch(workers: int) -> Progress:
    """Progress on stderr."""
    return Progress(sys.stderr, live=sys.stderr.isatty(), workers=workers)


def live_line(tally: Tally, running: list[Running], *, now: float, workers: int, width: int = 118) -> str:
    """Counts by state, what runs and for how long, and a guess at the rest once there is ground for one."""
    counts = " ".join(f"{state} {count}" for state, count in sorted(tally.states.items()))
    oldest = sorted(running, key=lambda one: one.since)
    shown = ", ".join(f"{one.entry.target} {now - one.since:.0f} s" for one in oldest[:_SHOWN_RUNNING])
    more = f" and {len(oldest) - _SHOWN_RUNNING} more" if len(oldest) > _SHOWN_RUNNING else ""
    parts = [f"{tally.done}/{tally.total}", counts, f"running: {shown}{more}" if shown else "", left(tally, workers)]
    line = "  ".join(part for part in parts if part)
    return line if len(line) <= width else line[: width - 1] + "…"


def left(tally: Tally, workers: int) -> str:
    """About how long the rest takes, by the mean of this pass; empty while that would be a guess at nothing."""
    rest = tally.total - tally.done
    if tally.finished < limits.BATCH_ETA_FINISHED or not rest:
        return ""
    seconds = rest * tally.seconds / tally.finished / max(1, workers)
    if seconds >= _HOUR:
        return f"about {seconds / _HOUR:.1f} h left"
    return f"about {max(1, round(seconds / _MINUTE))} min left" if seconds >= _MINUTE else f"about {seconds:.0f} s left"


def lines(made: Summary) -> list[str]:
    """The table at the end: a line for each request, and the counts."""
    rows = [_cells(row) for row in made.rows]
    head = ("STATE", "TARGET", "PROTOCOL", "TOOLS", "HOSTS", "CANARIES", "SECONDS", "ATTEMPTS", "ERROR")
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    table = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    ]
    counts = ", ".join(f"{state} {count}" for state, count in made.states.items())
    return [*table, f"{made.requests} requests: {counts}"]


def _cells(row: Row) -> tuple[str, ...]:
    facts = row.facts
    if facts is None:
        return (row.state, row.target, "", "", "", "", "", str(row.attempts), row.words[:_ERROR_CHARACTERS])
    hosts = len(facts.hosts.names) + facts.hosts.more
    tools = "" if facts.tools is None else str(facts.tools)
    code = facts.error.partition(":")[0][:_ERROR_CHARACTERS]
    counts = (("read", facts.canaries_read), ("found", facts.canaries_sent))
    canaries = ", ".join(f"{len(named.names) + named.more} {word}" for word, named in counts if named.names)
    seconds = f"{facts.seconds:.1f}"
    return (row.state, row.target, facts.protocol, tools, str(hosts), canaries, seconds, str(row.attempts), code)
