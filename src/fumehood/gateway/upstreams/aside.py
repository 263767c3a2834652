"""Work that waits for children and for the disk by turns, away from the loop that everybody's calls go through.

Invariants: it has a thread and a loop of its own; whoever waits is answered or cancelled as if it ran here; one that is
cancelled is cancelled there as well, and waited for until it has cleaned up, for a bounded time.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fumehood.core import limits

_Made = TypeVar("_Made")


class _Work:
    """One piece of work, as both threads see it."""

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_cancelled = False

    async def hold(self, work: Callable[[], Coroutine[Any, Any, _Made]]) -> _Made:
        """Do it, in its own loop."""
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        if self._is_cancelled:  # before there was anything to cancel
            raise asyncio.CancelledError
        return await work()

    def cancel(self) -> None:
        """Cancel it, from outside of its loop."""
        self._is_cancelled = True
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # its loop is over
                self._loop.call_soon_threadsafe(self._task.cancel)


async def aside(work: Callable[[], Coroutine[Any, Any, _Made]]) -> _Made:
    """What it gives or raises."""
    held = _Work()
    running = asyncio.ensure_future(asyncio.to_thread(lambda: asyncio.run(held.hold(work))))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        held.cancel()
        await asyncio.wait({running}, timeout=limits.STOP_SECONDS)
        if running.done() and not running.cancelled():
            running.exception()  # it is taken: nobody waits for it
        raise
