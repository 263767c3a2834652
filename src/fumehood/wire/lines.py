"""Cut a hostile byte stream into lines within bounds. Pure: bytes in, lines out.

Invariants: the work is linear in the input; at most one line's bound is held between two calls; a line over its
bound is reported as soon as the bound is crossed (a line that never ends is still noticed), its rest is dropped and
counted, and the stream goes on with the next line. Once the stream's own bound is crossed, everything is dropped and
counted.

Not promised: that a chunk is small. Who feeds bounds what it reads at a time.
"""

from dataclasses import dataclass
from typing import TypeAlias

from fumehood.core import limits

_PREFIX_BYTES = 64  # enough to see whether an oversized line was meant as a frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line without its line end; `ended` is false for what stood unfinished when the stream closed."""

    data: bytes
    ended: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Oversized:
    """A line crossed its bound; its beginning is kept, its rest is dropped."""

    prefix: bytes
    limit_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted:
    """The stream crossed its own bound, in bytes or in lines; reported once, nothing follows."""

    received_bytes: int


Piece: TypeAlias = Line | Oversized | Exhausted


class LineSplitter:
    """Cuts one stream. Blank lines are counted, never delivered."""

    def __init__(
        self,
        *,
        line_bytes: int = limits.FRAME_BYTES,
        total_bytes: int = limits.FRAMES_TOTAL_BYTES,
        lines: int = limits.FRAMES,
    ) -> None:
        """Bounds: of one line, of all delivered bytes, of the number of lines."""
        self.received_bytes = 0
        self.dropped_bytes = 0
        self.blank_lines = 0
        self._line_bytes = line_bytes
        self._bytes_left = total_bytes
        self._lines_left = lines
        self._held = bytearray()
        self._skipping = False
        self._exhausted = False

    def feed(self, data: bytes) -> list[Piece]:
        """The lines that `data` completes, in order."""
        self.received_bytes += len(data)
        if self._exhausted:
            self.dropped_bytes += len(data)
            return []
        pieces: list[Piece] = []
        *whole, rest = data.split(b"\n")
        for part in whole:
            self._extend(part, pieces)
            self._finish(pieces)
        self._extend(rest, pieces)
        return pieces

    def close(self) -> list[Piece]:
        """What stood unfinished when the stream ended."""
        data, self._held = bytes(self._held), bytearray()
        return [Line(data=data, ended=False)] if data else []

    @property
    def held_bytes(self) -> int:
        """Bytes of the unfinished line; never above the bound of a line."""
        return len(self._held)

    def _extend(self, part: bytes, pieces: list[Piece]) -> None:
        if self._exhausted or self._skipping:
            self.dropped_bytes += len(part)
            return
        if len(part) > self._bytes_left:
            self._exhaust(len(part), pieces)
            return
        if len(self._held) + len(part) > self._line_bytes:
            prefix = bytes(self._held[:_PREFIX_BYTES]) + part[:_PREFIX_BYTES]
            pieces.append(Oversized(prefix=prefix[:_PREFIX_BYTES], limit_bytes=self._line_bytes))
            self.dropped_bytes += len(self._held) + len(part)
            self._bytes_left += len(self._held)
            self._held.clear()
            self._skipping = True
            return
        self._bytes_left -= len(part)
        self._held += part

    def _finish(self, pieces: list[Piece]) -> None:
        if self._exhausted:
            self.dropped_bytes += 1
        elif self._lines_left == 0:
            self._exhaust(1, pieces)
        elif self._skipping:
            self._skipping = False
            self._lines_left -= 1
        elif not self._held:
            self.blank_lines += 1
        else:
            self._lines_left -= 1
            pieces.append(Line(data=bytes(self._held)))
            self._held.clear()

    def _exhaust(self, size: int, pieces: list[Piece]) -> None:
        self.dropped_bytes += len(self._held) + size
        self._held.clear()
        self._exhausted = True
        pieces.append(Exhausted(received_bytes=self.received_bytes))
