"""The client's end of a guarded server: standard input and output as they were given, without threads.

Invariants: what is read or written at a time is bounded, and nothing waits in here: a client that does not read holds
up the server and nobody else. The descriptors' flags are left alone, for others may share them: each call is made only
when poll(2) says that it would not wait, and a pipe takes PIPE_BUF bytes then (pipe(7)).
"""

import asyncio
import contextlib
import os
import select
from typing import Final

from fumehood.sandbox.launch import readable
from fumehood.sandbox.streams import CHUNK_BYTES, writable
from fumehood.wire.descriptors import Wire

_TURN_BYTES: Final = 256 * 1024  # written before the loop has its turn again


class ClientEnd:
    """One client over two descriptors."""

    def __init__(self, wire: Wire) -> None:
        """Use them; who claimed them keeps them."""
        self._wire = wire

    async def read(self) -> bytes:
        """The next bytes; empty at the end, or when the client is gone."""
        if not _is_ready(self._wire.reading, select.POLLIN | select.POLLHUP):
            await readable(self._wire.reading)
        try:
            return os.read(self._wire.reading, CHUNK_BYTES)
        except OSError:  # a terminal that hung up, a socket that was reset
            return b""

    async def write(self, data: bytes) -> None:
        """Write it all, at the client's pace. `BrokenPipeError` once nobody reads."""
        rest, turn = memoryview(data), 0
        while rest:
            if turn >= _TURN_BYTES:
                await asyncio.sleep(0)
                turn = 0
            if not _is_ready(self._wire.writing, select.POLLOUT):
                if self.is_gone():
                    raise BrokenPipeError
                await writable(self._wire.writing)
            try:
                count = os.write(self._wire.writing, rest[: select.PIPE_BUF])
            except OSError as error:
                raise BrokenPipeError(error.errno, error.strerror) from None
            rest, turn = rest[count:], turn + count

    def is_gone(self) -> bool:
        """Whether nobody reads any more."""
        return _is_ready(self._wire.writing, select.POLLERR | select.POLLHUP)

    async def gone(self) -> None:
        """Wait until nobody reads any more, or nobody writes any more and may have left bytes unread."""
        watched = select.epoll()
        try:
            for descriptor in (self._wire.writing, self._wire.reading):
                with contextlib.suppress(OSError):  # a file of the disk, of which nobody goes away
                    watched.register(descriptor, 0)  # errors and hang-ups are always told
            await readable(watched.fileno())
        finally:
            watched.close()

    def close(self) -> None:
        """Let go of both."""
        for descriptor in (self._wire.reading, self._wire.writing):
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _is_ready(descriptor: int, events: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, events)
    return any(event & events for _, event in poll.poll(0))
