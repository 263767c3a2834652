"""Lines on their way to the client of a pipe: at once where the wire takes them, else by a thread.

Invariants: lines go out whole and in order; who writes one never waits; how much waits is known (`pending_bytes`), and
whether one write waits too long (`stalled`): the bound is for whoever has lines to decide.
"""

import errno
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from fumehood.core import limits
from fumehood.wire.descriptors import CHUNK_BYTES

_HERE: Final = -1  # pwritev2(2): where the descriptor stands, as a pipe and a socket have no other place
_NOWAIT: Final = 0x8  # RWF_NOWAIT: EAGAIN instead of waiting, in whatever mode; files and terminals refuse it


class Writer:
    """Writes at once what the wire takes without waiting; a thread writes the rest, so that nothing else is blocked.

    To wake the thread takes longer than everything else that is done with a short answer.
    """

    def __init__(self, descriptor: int, written: Callable[[], None], gone: Callable[[], None]) -> None:
        """`written` is called for each line that is out, `gone` once nobody will read any more; by the thread."""
        self.pending_bytes = 0
        self._descriptor = descriptor
        self._written = written
        self._gone = gone
        self._lines: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._takes_at_once = sys.platform == "linux"
        self._since = 0.0  # when the write that runs began; 0.0 when none does
        self._thread = threading.Thread(target=self._run, name="wire-out", daemon=True)
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Write one line, or queue what of it the wire does not take yet."""
        with self._changed:
            left = line if self.pending_bytes or len(line) > CHUNK_BYTES else line[self._at_once(line) :]
            if left:
                self._lines.append(left)
                self.pending_bytes += len(left)
                self._changed.notify()

    def _at_once(self, line: bytes) -> int:
        """How many bytes were written without waiting; whatever stands in the way, the thread meets it and says so."""
        if not self._takes_at_once:
            return 0
        try:
            return os.pwritev(self._descriptor, [line], _HERE, _NOWAIT)
        except OSError as error:
            self._takes_at_once = error.errno == errno.EAGAIN
            return 0

    def stalled(self) -> bool:
        """Whether one write has been waiting too long."""
        since = self._since
        return since > 0 and time.monotonic() - since > limits.STALLED_SECONDS

    def close(self) -> None:
        """Let the thread end once all is written."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    @property
    def done(self) -> bool:
        """Whether the thread has ended."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while (line := self._next()) is not None:
                self._write(line)
                with self._changed:
                    self.pending_bytes -= len(line)
                self._written()
        except OSError:  # EPIPE: nobody will read
            self._gone()

    def _next(self) -> bytes | None:
        with self._changed:
            while not self._lines and not self._closing:
                self._changed.wait()
            return self._lines.popleft() if self._lines else None

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            self._since = time.monotonic()
            rest = rest[os.write(self._descriptor, rest[:CHUNK_BYTES]) :]
        self._since = 0.0
