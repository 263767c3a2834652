"""A server's words on stderr, for a person: by whole lines, redacted, inert, marked as its own, and not without end.

Pure: time is told. What is over the rate is dropped and counted, and the count is said once there is room.
"""

from typing import Final

from fumehood.content import control
from fumehood.core import limits
from fumehood.core.untrusted import Untrusted
from fumehood.wire.lines import LineSplitter, Oversized, Piece

_MARK: Final = "server| "  # so that no word of its own passes for one of fumehood's


class Voice:
    """The words of one server."""

    def __init__(self, mark: str = _MARK, who: str = "the server") -> None:
        """It has said nothing. `mark` stands before each line; `who` said it, where lines are left out."""
        self._mark = mark
        self._who = who
        self._lines = LineSplitter(
            line_bytes=limits.GUARD_STDERR_LINE_BYTES, total_bytes=limits.SESSION_BYTES, lines=limits.SESSION_LINES
        )
        self._room = float(limits.GUARD_STDERR_BURST_BYTES)
        self._at: float | None = None
        self._dropped = 0

    def feed(self, data: bytes, at: float) -> list[str]:
        """The lines to write, at this moment in seconds."""
        return self._written(self._lines.feed(data), at)

    def close(self, at: float) -> list[str]:
        """What stood unfinished at its end."""
        return self._written(self._lines.close(), at)

    def _written(self, pieces: list[Piece], at: float) -> list[str]:
        if self._at is not None:
            gained = max(0.0, at - self._at) * limits.GUARD_STDERR_BYTES
            self._room = min(self._room + gained, float(limits.GUARD_STDERR_BURST_BYTES))
        self._at = at
        shown: list[str] = []
        for piece in pieces:
            data = piece.prefix if isinstance(piece, Oversized) else getattr(piece, "data", b"")
            if len(data) > self._room:
                self._dropped += 1
                continue
            self._room -= len(data) + len(self._mark)
            if self._dropped:
                words = f"{self._dropped} lines of {self._who} are left out: it says too much at once"
                shown.append(f"fumehood: {words}")
                self._dropped = 0
            shown.append(self._mark + _inert(data) + (" [cut]" if isinstance(piece, Oversized) else ""))
        return shown


def _inert(line: bytes) -> str:
    untrusted = Untrusted(line.removesuffix(b"\r"), source="stderr")
    return control.inert(untrusted, limit_bytes=limits.GUARD_STDERR_LINE_BYTES)
