"""A child's stdout and stdin for who answers it line by line: no task has to be woken for a chunk.

Invariants:
- What the child writes is handed on in order, one chunk of at most CHUNK_BYTES in each turn of the loop: a flood keeps
  nobody else from running.
- What is said is written in order, and what is said in one turn is written at once. What a child does not take is
  kept; while more than `unread_bytes` of it are, nothing more is heard, and `is_full` says so. Then it is kept whole
  only as far as its hearer begins nothing: this is no bound by itself.
- Once the child cannot be written to any more, what is said is dropped; the end of its stdout tells that it is gone.
"""

import asyncio
import contextlib
import os
from types import TracebackType
from typing import Protocol, Self

from fumehood.sandbox.streams import CHUNK_BYTES


class Hearer(Protocol):
    """Who is told what comes. It raises nothing."""

    def heard(self, data: bytes) -> None:
        """The next bytes; none at the end of the child's stdout, once."""
        ...

    def drained(self) -> None:
        """The child has read on, or is gone: `is_full` says which."""
        ...


class Talk:
    """Both directions of one child, while a `with` block lasts; over non-blocking descriptors."""

    def __init__(self, reading: int, writing: int, hearer: Hearer, *, unread_bytes: int) -> None:
        """Hold both ends; the block begins to listen."""
        self._hearer = hearer
        self._unread_bytes = unread_bytes
        self._unread = bytearray()
        self._is_due = self._is_waiting = self._is_over = False  # a flush; for room in the pipe; the child's stdin
        self._is_paused = self._has_ended = False  # to listen; the child's stdout
        self._loop = asyncio.get_running_loop()
        with contextlib.ExitStack() as stack:
            self._reading = _held(reading, stack)
            self._writing = _held(writing, stack)
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._loop.add_reader(self._reading, self._readable)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Neither hear nor write any more."""
        self._loop.remove_reader(self._reading)
        self._drop()
        self._stack.close()

    @property
    def is_full(self) -> bool:
        """Whether the child has left unread what it may, or reads nothing any more: who can wait begins nothing now."""
        return self._is_over or self._is_ahead()

    def say(self, data: bytes, *, at_once: bool = False) -> None:
        """Write in the next turn of the loop, with all that is said until then; or at once, with all that was said."""
        if self._is_over:
            return
        self._unread += data
        self._pause()
        if at_once:
            self._flush()
        elif not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_due = False
        self._flush()

    def _flush(self) -> None:
        if self._is_waiting or not self._unread:
            return
        self._write()
        if self._unread:
            self._is_waiting = True
            self._loop.add_writer(self._writing, self._writable)
        self._resume()

    def _is_ahead(self) -> bool:
        return len(self._unread) > self._unread_bytes

    def _readable(self) -> None:
        try:
            data = os.read(self._reading, CHUNK_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._has_ended = True
            self._loop.remove_reader(self._reading)
        self._hearer.heard(data)

    def _write(self) -> None:
        try:
            del self._unread[: os.write(self._writing, self._unread)]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._drop()

    def _writable(self) -> None:
        self._write()
        if not self._unread and self._is_waiting:
            self._is_waiting = False
            self._loop.remove_writer(self._writing)
        self._resume()

    def _resume(self) -> None:
        if self._is_paused and not self._is_ahead():
            self._is_paused = False
            if not self._has_ended:
                self._loop.add_reader(self._reading, self._readable)
            self._hearer.drained()

    def _pause(self) -> None:
        if self._is_ahead() and not self._is_paused:
            self._is_paused = True
            self._loop.remove_reader(self._reading)

    def _drop(self) -> None:
        self._is_over = True
        self._unread.clear()
        if self._is_waiting:
            self._is_waiting = False
            self._loop.remove_writer(self._writing)


def _held(descriptor: int, stack: contextlib.ExitStack) -> int:
    """A number of our own: the loop keeps one callback for each, and the other may be closed and used again."""
    own = os.dup(descriptor)
    stack.callback(os.close, own)
    return own
