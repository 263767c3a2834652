"""Reports of progress towards a client that asked for them.

Invariants: reports go out in order, each with more progress than the one before; after PROGRESS_BURST of them at most
one in PROGRESS_SECONDS, the newest; none once it is closed.
"""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeGuard

from fumehood.core import limits
from fumehood.core.jsonio import JsonObject, JsonValue


class Progress:
    """The reports of one request: `wire.hosting.ReportProgress`."""

    def __init__(self, send: Callable[[JsonObject], Awaitable[None]]) -> None:
        """`send` may wait for the client; nobody else does."""
        self._send = send
        self._waiting: deque[JsonObject] = deque()
        self._reached = -math.inf
        self._taken = 0
        self._sent = 0
        self._closed = False
        self._hurry = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def __call__(self, values: JsonObject) -> None:
        """Report; what is no report, or says nothing new, is dropped."""
        report = _report(values)
        if self._closed or report is None or not report[0] > self._reached:
            return
        self._reached = report[0]
        if self._taken >= limits.PROGRESS_BURST and self._waiting:
            self._waiting.pop()
        self._taken += 1
        self._waiting.append(report[1])
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Send what waits, and nothing afterwards."""
        self._closed = True
        self._hurry.set()
        if self._task is not None:
            await self._task

    def stop(self) -> None:
        """Send nothing any more."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while self._waiting:
            await self._send(self._waiting.popleft())
            self._sent += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limits.PROGRESS_SECONDS if self._sent >= limits.PROGRESS_BURST else 0):
                    await self._hurry.wait()
        self._task = None


def _report(values: JsonObject) -> tuple[float, JsonObject] | None:
    """How far it is, and the members that the protocol knows."""
    progress, total, message = (values.get(name) for name in ("progress", "total", "message"))
    if not _is_number(progress):
        return None
    report: JsonObject = {"progress": progress}
    if _is_number(total):
        report["total"] = total
    if isinstance(message, str):
        report["message"] = message
    return float(progress), report


def _is_number(value: JsonValue) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
