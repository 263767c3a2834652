"""How much a server may say that nobody asked for: a burst, and so much in each second afterwards. Pure: time is told.

A conversation lasts for days, so that no bound of its whole life fits: one that is small ends a good server silently
some morning, and one that is large bounds nothing. What is bounded is the rate of what is not an answer; answers are
bounded by what is asked.
"""

from fumehood.core import limits


class Allowance:
    """What one server may still say at the moment."""

    def __init__(self, at: float) -> None:
        """The whole burst, at a moment in seconds."""
        self._lines = float(limits.UPSTREAM_UNASKED_LINES)
        self._bytes = float(limits.UPSTREAM_UNASKED_BYTES)
        self._at = at

    def spend(self, *, lines: int, size: int, at: float) -> bool:
        """Whether that is still within it. A negative `size` gives back what turned out to be an answer."""
        gained = max(0.0, at - self._at)
        self._at = max(self._at, at)
        self._lines = min(self._lines + gained * limits.UPSTREAM_UNASKED_LINES_A_SECOND, limits.UPSTREAM_UNASKED_LINES)
        self._bytes = min(self._bytes + gained * limits.UPSTREAM_UNASKED_BYTES_A_SECOND, limits.UPSTREAM_UNASKED_BYTES)
        self._lines -= lines
        self._bytes = min(self._bytes - size, limits.UPSTREAM_UNASKED_BYTES)
        return self._lines >= 0 and self._bytes >= 0
