"""What the page's own program reads: data inside the page, in a form that no parser of HTML acts on. Pure.

Two forms. The result without its rows is JSON in which `<`, `>`, `&` and both separators of lines are escaped. The rows
are one gzip stream a phase, in base64: up to 100,000 of them would be 40 MB as text.

Invariants: no island can hold a tag; a phase's stream is bounded in compressed and in unfolded bytes, so that one phase
cannot push out another's rows and a hostile result makes no page that a browser cannot open; what is left out is
counted. What `result.json` keeps goes in first, then the events in their order.
"""

import base64
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from fumehood.core import limits
from fumehood.observe.model import Phase
from fumehood.review.result import ReviewResult

_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
_GZIP = 16 + zlib.MAX_WBITS


class _Line(Struct, frozen=True):
    """What is looked at of a line of events."""

    sequence: int
    phase: Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """The rows of a page: each phase's stream in base64, how many they are, and how many had no room."""

    streams: dict[Phase, str]
    rows: int
    left_out: int


def json(value: object) -> str:
    """`value` as JSON that can stand in a `script` of data."""
    return msgspec.json.encode(value).decode().translate(_ESCAPES)


def head(result: ReviewResult) -> dict[str, object]:
    """The result without its rows, as a JSON value."""
    whole: dict[str, object] = msgspec.to_builtins(result)
    observations = {name: value for name, value in msgspec.to_builtins(result.observations).items() if name != "items"}
    return {**whole, "observations": observations}


def rows(result: ReviewResult, lines: Iterable[bytes]) -> Embedded:
    """The rows of the result, then those of `events.ndjson` that it has not, within the bounds."""
    streams: dict[Phase, _Stream] = {}
    kept: set[int] = set()
    left_out = 0

    def put(sequence: int, phase: Phase, line: bytes) -> None:
        nonlocal left_out
        if sequence in kept:
            return
        if streams.setdefault(phase, _Stream()).put(line):
            kept.add(sequence)
        else:
            left_out += 1

    refused: set[int] = set()
    for item in result.observations.items:
        put(item.sequence, item.phase, msgspec.json.encode(item))
        if item.sequence not in kept:
            refused.add(item.sequence)
    for line in lines:
        found = msgspec.json.decode(line, type=_Line)
        if found.sequence not in refused:
            put(found.sequence, found.phase, line.rstrip(b"\n"))
    return Embedded(
        streams={phase: stream.finish() for phase, stream in sorted(streams.items())},
        rows=len(kept),
        left_out=left_out,
    )


class _Stream:
    """One phase's lines as a gzip stream that stays within its bounds."""

    def __init__(self) -> None:
        self._pack = zlib.compressobj(level=6, wbits=_GZIP)
        self._parts: list[bytes] = []
        self._packed = 0
        self._waiting = 0  # bytes given since the stream was last flushed: at most so many come out
        self._unfolded = 0
        self._full = False

    def put(self, line: bytes) -> bool:
        """Add one line; False once the bounds are reached, for whatever comes after."""
        if self._full:
            return False
        size = len(line) + 1
        if self._packed + self._waiting + size > limits.REPORT_PHASE_PACKED_BYTES:
            self._take(self._pack.flush(zlib.Z_SYNC_FLUSH))
            self._waiting = 0
        self._full = (
            self._packed + self._waiting + size > limits.REPORT_PHASE_PACKED_BYTES
            or self._unfolded + size > limits.REPORT_PHASE_BYTES
        )
        if self._full:
            return False
        self._unfolded += size
        self._waiting += size
        self._take(self._pack.compress(line + b"\n"))
        return True

    def finish(self) -> str:
        """The whole stream in base64."""
        self._take(self._pack.flush())
        return base64.b64encode(b"".join(self._parts)).decode()

    def _take(self, part: bytes) -> None:
        self._parts.append(part)
        self._packed += len(part)
