"""Bounded reading and writing of a child's pipes, without threads.

Whatever a child writes costs a bounded amount of memory: what does not fit is read, counted and dropped.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Final

from fumehood.sandbox.launch import readable

CHUNK_BYTES: Final = 64 * 1024  # a pipe's own buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """What a stream carried: the first bytes, how many there were, and how many of them were not kept."""

    data: bytes = b""
    total_bytes: int = 0
    dropped_bytes: int = 0


class Sink:
    """Keeps the first bytes of a stream and counts the rest."""

    def __init__(self, keep_bytes: int) -> None:
        """Keep at most `keep_bytes`."""
        self._keep = keep_bytes
        self._data = bytearray()
        self._total = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._total += len(chunk)
        self._data += chunk[: self._keep - len(self._data)]

    @property
    def total_bytes(self) -> int:
        """How many bytes came up to now."""
        return self._total

    @property
    def capture(self) -> Capture:
        """What came up to now."""
        kept = bytes(self._data)
        return Capture(data=kept, total_bytes=self._total, dropped_bytes=self._total - len(kept))


async def read_chunk(descriptor: int, size: int = CHUNK_BYTES) -> bytes:
    """The next bytes of a non-blocking descriptor; empty at the end."""
    while True:
        try:
            return os.read(descriptor, size)
        except BlockingIOError:
            await readable(descriptor)


async def pump(
    descriptor: int, feed: Callable[[bytes], None], *, pause_seconds: float = 0.0, full_seconds: float = 0.0
) -> None:
    """Read a non-blocking descriptor to its end; each chunk is handed on before the next is read (back-pressure).

    `pause_seconds`: how long to let more come together after a chunk that was not full. `full_seconds`: how long to let
    whoever writes wait after a full one, which bounds what reading without end costs.
    """
    while chunk := await read_chunk(descriptor):
        feed(chunk)
        # A flood must not keep everybody else from running; a writer of short lines must not wake us for each.
        await asyncio.sleep(pause_seconds if len(chunk) < CHUNK_BYTES else full_seconds)


async def writable(descriptor: int) -> None:
    """Wait until a descriptor takes bytes, or nobody can read it any more."""
    own = os.dup(descriptor)
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def fire() -> None:
        if not done.done():
            done.set_result(None)

    loop.add_writer(own, fire)
    try:
        await done
    finally:
        loop.remove_writer(own)
        os.close(own)


async def write_all(descriptor: int, data: bytes) -> None:
    """Write to a non-blocking descriptor; `BrokenPipeError` once nobody reads it."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            await writable(descriptor)


def unblocked(stream: IO[bytes] | None) -> int:
    """The descriptor of a pipe that was asked for, made non-blocking; the stream still owns it."""
    if stream is None:
        raise ValueError("a pipe that was not asked for")
    os.set_blocking(stream.fileno(), False)
    return stream.fileno()


class Pipe:
    """One pipe: a non-blocking end of ours, and the child's, which is closed here once the child has it."""

    def __init__(self, *, child_reads: bool) -> None:
        """Open both ends, neither inheritable."""
        reading, writing = os.pipe2(os.O_CLOEXEC)
        self.child, self.ours = (reading, writing) if child_reads else (writing, reading)
        os.set_blocking(self.ours, False)

    def started(self) -> None:
        """Close the child's end."""
        self.child = _closed(self.child)

    def close(self) -> None:
        """Close what is still open."""
        self.started()
        self.ours = _closed(self.ours)


def _closed(descriptor: int) -> int:
    if descriptor >= 0:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    return -1
