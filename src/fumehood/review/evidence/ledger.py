"""Collects what a review learns, within bounds, and numbers it.

Invariants: no type of observation in one phase can push out another, in number or in bytes, nor one phase another in
the events; what has a room of its own is kept beyond a full list; what is not kept is counted; every text is inert once
more here, whatever a sensor did with it, and went through the veil before.
"""

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from fumehood.core import jsonio, limits
from fumehood.observe.model import Collector, Kind, Observation, Phase, Scalar, Value
from fumehood.review import result
from fumehood.sandbox.containment import Containment

Sink: TypeAlias = Callable[[bytes], bool]  # takes one line of events.ndjson; False: it was not written
Veil: TypeAlias = Callable[[str], str]  # puts a word in the place of what must stand in no result
_List: TypeAlias = tuple[Phase, Kind, bool]  # whether it is of a later start of EXERCISE

# C0 but tab and line feed, DEL, C1, half surrogates, and what reorders or hides text (UAX #9, zero width, line ends)
_ACTIVE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
_LEAST, _MOST = -(2**63), 2**64 - 1  # compared, never `in range`: that counts for a subclass of int
_SHORT = 256  # characters of a text in a row that is too large as a whole


class Ledger:
    """What a review has learned so far."""

    def __init__(self, sink: Sink) -> None:
        """Write each observation to `sink` as well as it takes them."""
        self._sink = sink
        self.veil: Veil = str
        self._rows: list[result.Row] = []
        self._kept: Counter[_List] = Counter()
        self._kept_bytes: Counter[_List] = Counter()
        self._lost: Counter[_List] = Counter()
        self._rooms: Counter[tuple[_List, str]] = Counter()
        self._beyond: Counter[_List] = Counter()
        self._beyond_bytes: Counter[_List] = Counter()
        self._lines: Counter[Phase] = Counter()
        self._line_bytes: Counter[Phase] = Counter()
        self._total = 0
        self._written = 0
        self._collectors: list[result.CollectorRecord] = []
        self._containment: list[result.ContainmentRecord] = []
        self._errors: list[result.ErrorRecord] = []
        self._limitations: dict[str, None] = {result.FIRST_LIMITATION: None}

    def observe(self, observation: Observation, *, room: str = "") -> None:
        """Number one observation, write it to the events, and keep it where its list, or else its room, has room.

        `room` is from a table of ours (`review.evidence.rooms`), never a word of the target's.
        """
        self._total += 1
        row, line = _row(observation, self._total, self.veil)
        self._write(observation.phase, line)
        key = (observation.phase, observation.kind, _is_later(observation))
        most = limits.OUTPUT_LIST_BYTES if observation.kind is Kind.OUTPUT_TEXT else limits.LIST_BYTES
        full = self._kept[key] >= limits.LIST_ITEMS or self._kept_bytes[key] + len(line) > most
        if full and not self._has_room(key, room, len(line)):
            self._lost[key] += 1
            return
        if full:
            self._beyond[key] += 1
            self._beyond_bytes[key] += len(line)
        else:
            self._kept[key] += 1
            self._kept_bytes[key] += len(line)
        self._rooms[key, room] += 1
        self._rows.append(row)

    def _write(self, phase: Phase, line: bytes) -> None:
        full = self._lines[phase] >= limits.EVENTS_PHASE
        if full or self._line_bytes[phase] + len(line) > limits.EVENTS_PHASE_BYTES or not self._sink(line):
            return
        self._written += 1
        self._lines[phase] += 1
        self._line_bytes[phase] += len(line)

    def _has_room(self, key: _List, room: str, size: int) -> bool:
        return (
            room != ""
            and self._rooms[key, room] < limits.ROOM_ITEMS
            and self._beyond[key] < limits.ROOMS_ITEMS
            and self._beyond_bytes[key] + size <= limits.ROOMS_BYTES
        )

    def collector(self, collector: Collector, *, step: str = "") -> None:
        """Keep what a sensor says of itself, in the step named; its limitations stand beside it."""
        record = result.CollectorRecord(
            name=collector.name,
            phase=collector.phase,
            step=step,
            state=collector.state,
            lost=collector.lost,
            why=inert(self.veil(collector.why)),
            limitations=tuple(inert(text) for text in collector.limitations),
            counts={inert(name): count for name, count in collector.counts.items()},
        )
        self._collectors.append(record)

    def walls(self, step: str, containment: Containment) -> None:
        """Keep the walls that stood around one step."""
        self._containment.append(result.containment(step, containment))

    def error(self, code: str, message: str, *, step: str | None = None) -> None:
        """Keep what ended the review or went wrong in it; beyond the bound a limitation says that there were more."""
        if len(self._errors) < limits.ERRORS:
            self._errors.append(result.ErrorRecord(code=code, message=inert(self.veil(message)), step=step))
        else:
            self.limitation(f"more than {limits.ERRORS} errors: the others are not listed")

    def limitation(self, text: str) -> None:
        """Say once what this review could not see or hold."""
        if len(self._limitations) < limits.ERRORS:
            self._limitations[inert(self.veil(text))] = None

    @property
    def collectors(self) -> tuple[result.CollectorRecord, ...]:
        """The sensors, in order."""
        return tuple(self._collectors)

    @property
    def containment(self) -> tuple[result.ContainmentRecord, ...]:
        """The walls, by step."""
        return tuple(self._containment)

    @property
    def errors(self) -> tuple[result.ErrorRecord, ...]:
        """The errors, in order."""
        return tuple(self._errors)

    @property
    def limitations(self) -> tuple[str, ...]:
        """The limitations, `FIRST_LIMITATION` first."""
        return tuple(self._limitations)

    @property
    def observations(self) -> result.Observations:
        """What was kept, and how many were lost of which list."""
        counts: Counter[tuple[Phase, Kind]] = Counter()
        for (phase, kind, _), count in self._lost.items():
            counts[phase, kind] += count
        lost = [result.Lost(phase=phase, type=kind, count=count) for (phase, kind), count in sorted(counts.items())]
        return result.Observations(items=tuple(self._rows), total=self._total, lost=tuple(lost))

    def count(self, kind: Kind, phase: Phase) -> int:
        """How many observations of one type were made in one phase, the lost ones included."""
        keys = [(phase, kind, later) for later in (False, True)]
        return sum(self._kept[key] + self._beyond[key] + self._lost[key] for key in keys)

    def covered(self, coverage: result.Coverage) -> result.Coverage:
        """`coverage` with the counts of events filled in."""
        lost = self._total - self._written
        return msgspec.structs.replace(coverage, events_written=self._written, events_lost=lost)


def _is_later(observation: Observation) -> bool:
    """Whether it is of a start after the first: these have lists of their own, whatever floods those of the first."""
    return observation.phase is Phase.EXERCISE and observation.step.partition("/")[0] != "exercise"


def inert(text: str, *, characters: int = limits.TEXT_BYTES) -> str:
    """`text` cut, with every character escaped that a terminal, an editor or JSON's readers could act on."""
    kept = text if len(text) <= characters else text[:characters] + "…"
    return _ACTIVE.sub(lambda found: ascii(found[0])[1:-1], kept)


def _row(observation: Observation, sequence: int, veil: Veil) -> tuple[result.Row, bytes]:
    """The row and its line; a row that is too large as a whole is cut shorter, and says so."""
    captured = observation.kind is Kind.OUTPUT_TEXT
    row = _cut_row(observation, sequence, limits.CAPTURE_BYTES if captured else limits.TEXT_BYTES, veil)
    line = jsonio.dump(msgspec.to_builtins(row))
    if len(line) > limits.ROW_BYTES and not captured:
        row = msgspec.structs.replace(_cut_row(observation, sequence, _SHORT, veil), cut=True)
        line = jsonio.dump(msgspec.to_builtins(row))
    if len(line) > limits.ROW_BYTES and not captured:
        row = msgspec.structs.replace(row, detail={}, cut=True)
        line = jsonio.dump(msgspec.to_builtins(row))
    return row, line


def _cut_row(observation: Observation, sequence: int, characters: int, veil: Veil) -> result.Row:
    cutter = _Cutter(characters, veil)
    detail = cutter.value(dict(observation.detail), 0)
    return result.Row(
        sequence=sequence,
        phase=observation.phase,
        step=inert(veil(observation.step), characters=_SHORT),
        type=observation.kind,
        collector=inert(observation.collector, characters=_SHORT),
        fidelity=observation.fidelity,
        detail=detail if isinstance(detail, dict) else {},
        cut=cutter.cut,
    )


class _Cutter:
    """Makes a detail inert and bounded, and remembers whether anything was cut."""

    def __init__(self, characters: int, veil: Veil = str) -> None:
        self._characters = characters
        self._veil = veil
        self._left = max(limits.ROW_BYTES, 2 * characters)  # characters of the whole detail, so that none costs more
        self.cut = False

    def value(self, value: Value, depth: int) -> Value:
        """The value within the bounds on text, entries and depth."""
        self._left -= 1
        if self._left < 0:
            self.cut = True
            return None
        if isinstance(value, str):
            value = self._veil(value)
            self.cut |= len(value) > self._characters
            self._left -= min(len(value), self._characters)
            return inert(value, characters=self._characters)
        if not isinstance(value, list | dict):
            return _number(value)
        if depth >= limits.DETAIL_DEPTH:
            self.cut = True
            return "…"
        self.cut |= len(value) > limits.DETAIL_ITEMS
        if isinstance(value, list):
            return [self.value(entry, depth + 1) for entry in value[: limits.DETAIL_ITEMS]]
        first = list(value.items())[: limits.DETAIL_ITEMS]
        return {inert(self._veil(key), characters=_SHORT): self.value(entry, depth + 1) for key, entry in first}


def _number(value: Scalar) -> Value:
    """A number that JSON can carry; NaN, infinities and integers beyond 64 bits become text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value) if _LEAST <= value <= _MOST else "an integer beyond 64 bits"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
