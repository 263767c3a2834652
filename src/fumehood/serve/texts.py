"""Texts that were read, decoded and judged, kept while the files on disk are the same; and where their lines begin.

Invariants: nothing is kept of a file that changed while it was read, or so shortly before that its times could not
tell another change; what is kept together has at most KEPT_TEXT_BYTES. A text is only looked up by what was opened,
so whoever looks has passed the fence and the denylist for that very file.

Not promised: that a change through a memory mapping is seen before the kernel has written it back.
"""

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import accumulate

from fumehood.content import encoding
from fumehood.core import limits

_STRIDE_BYTES = 4096  # between two places where the lines so far are known


class Lines:
    """Where the lines of a text begin. Counted once; a place is then found in one stride."""

    __slots__ = ("_ends", "_text", "total")

    def __init__(self, text: bytes) -> None:
        """Count the line feeds of each stride."""
        strides = range(0, len(text), _STRIDE_BYTES)
        self._ends = list(accumulate((text.count(b"\n", at, at + _STRIDE_BYTES) for at in strides), initial=0))
        self._text = text
        self.total = self._ends[-1] + (1 if text and not text.endswith(b"\n") else 0)

    def after(self, number: int) -> int:
        """The offset behind so many lines, or the end of the text."""
        if number <= 0:
            return 0
        if number > self._ends[-1]:
            return len(self._text)
        stride = bisect_left(self._ends, number) - 1
        low, left = stride * _STRIDE_BYTES, number - self._ends[stride]
        high = min(low + _STRIDE_BYTES, len(self._text))
        while high - low > 1:  # by halves: counting is quicker than finding one after the other
            middle = (low + high) // 2
            counted = self._text.count(b"\n", low, middle)
            if counted >= left:
                high = middle
            else:
                left -= counted
                low = middle
        return high


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text file that may be served: where it lies, relative to the root, and its size on disk in bytes."""

    path: bytes
    size: int
    decoded: encoding.Decoded
    lines: Lines


class Texts:
    """The last texts, by what tells one state of one file from every other. Any thread may use it."""

    __slots__ = ("_bytes", "_kept", "_lock", "_most_bytes")

    def __init__(self, most_bytes: int = limits.KEPT_TEXT_BYTES) -> None:
        """Keep nothing yet."""
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[Hashable, Text] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Text | None:
        """The text of that state, if it is kept."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def keep(self, key: Hashable, text: Text) -> None:
        """Keep a text, and let go of those that were not asked for longest."""
        with self._lock:
            before = self._kept.pop(key, None)
            self._bytes += _bytes(text) - _bytes(before)
            self._kept[key] = text
            while self._bytes > self._most_bytes:
                self._bytes -= _bytes(self._kept.popitem(last=False)[1])


def _bytes(text: Text | None) -> int:
    return 0 if text is None else len(text.decoded.text)
