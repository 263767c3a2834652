"""Lines for a server, each written whole and in their order, as fast as it reads.

Invariants: what waits is bounded in lines and bytes by who asks `is_full` before each line that it could do without;
a server that takes no byte for STALLED_SECONDS is told apart from one that has closed its input.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from fumehood.core import limits

Write: TypeAlias = Callable[[bytes], Awaitable[None]]  # `OSError` once nobody reads


class StalledError(Exception):
    """Nothing was taken for too long."""


class Outbox:
    """The lines of one server."""

    def __init__(self, write: Write) -> None:
        """Nothing waits."""
        self._write = write
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._some = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether it holds what it may, or more."""
        return len(self._lines) >= limits.UPSTREAM_UNWRITTEN or self._bytes >= limits.UPSTREAM_UNWRITTEN_BYTES

    def say(self, line: bytes) -> None:
        """Have a line written."""
        self._lines.append(line)
        self._bytes += len(line)
        self._some.set()

    async def write(self) -> None:
        """Write for ever. Errors: `StalledError`; `OSError` once nobody reads."""
        while True:
            await self._some.wait()
            self._some.clear()
            while self._lines:
                await self._whole(self._lines.popleft())

    async def _whole(self, line: bytes) -> None:
        """One line, in parts that are each timed."""
        for start in range(0, len(line), limits.UPSTREAM_WRITE_BYTES):
            part = line[start : start + limits.UPSTREAM_WRITE_BYTES]
            try:
                async with asyncio.timeout(limits.STALLED_SECONDS):
                    await self._write(part)
            except TimeoutError:
                raise StalledError from None
            self._bytes -= len(part)
