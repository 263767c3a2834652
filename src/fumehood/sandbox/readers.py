"""The pipes of one sandbox, each read to its end by a task of its own.

Invariants: what is read is handed on before more is; where a reader or what it feeds fails, whoever made this is told
at once: a child that nobody watches is not let run on.
"""

import asyncio
from collections.abc import Callable

from fumehood.core import limits
from fumehood.sandbox.streams import pump


class Readers:
    """The tasks. Made and used in one event loop."""

    def __init__(self, failed: Callable[[], None]) -> None:
        """Nothing is read yet. `failed` is called for each that ends by an error."""
        self._failed = failed
        self._tasks: list[asyncio.Task[None]] = []

    def read(
        self,
        descriptor: int,
        feed: Callable[[bytes], None],
        *,
        pause_seconds: float = 0.0,
        full_seconds: float = 0.0,
    ) -> None:
        """Begin to read a non-blocking descriptor, as `streams.pump` does."""
        reading = pump(descriptor, feed, pause_seconds=pause_seconds, full_seconds=full_seconds)
        task = asyncio.get_running_loop().create_task(reading)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    async def drain(self) -> None:
        """Read each to its end, for DRAIN_SECONDS."""
        _, late = await asyncio.wait(self._tasks, timeout=limits.DRAIN_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def fault(self) -> BaseException | None:
        """Why one ended by an error, if one did."""
        ended = [task for task in self._tasks if task.done() and not task.cancelled()]
        return next((error for task in ended if (error := task.exception()) is not None), None)

    def cancel(self) -> None:
        """Read no more."""
        for task in self._tasks:
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._failed()
