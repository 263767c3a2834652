"""One request to a host, in a task of its own, which may ask its client and wait for the answer.

Invariants: whoever waits for the next turn and is cancelled cancels the work, once, so that its end may wait for what
it has to; one question is open at a time; a question that nobody will answer ends with `CannotAskError`.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from fumehood.core.jsonio import JsonObject
from fumehood.wire.hosting import CannotAskError, Question, Reply, ReportProgress

_LOG = logging.getLogger(__name__)


class Turns:
    """The work, and what it waits for."""

    def __init__(self) -> None:
        """Nothing runs before `begin`."""
        self.question: Question | None = None
        self.progress: ReportProgress | None = None  # of the request that waits at the moment
        self.deadline: asyncio.TimerHandle | None = None  # while nobody waits
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Future[None] = self._loop.create_future()
        self._reply: asyncio.Future[Reply] | None = None
        self._one = asyncio.Lock()
        self._task: asyncio.Task[JsonObject] | None = None

    def begin(self, work: Coroutine[Any, Any, JsonObject]) -> asyncio.Task[JsonObject]:
        """Run it, in a task that its caller keeps."""
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(self._ended)
        return self._task

    async def ask(self, question: Question) -> Reply:
        """Ask, from inside of the work. Errors: `CannotAskError`."""
        async with self._one:
            self.question, self._reply = question, self._loop.create_future()
            self._turn()
            try:
                return await self._reply
            finally:
                self.question = self._reply = None

    def report(self, values: JsonObject) -> None:
        """Pass a report on to whoever waits."""
        if self.progress is not None:
            self.progress(values)

    async def next(self) -> Question | None:
        """Wait until the work asks, or (None) is over."""
        try:
            await self._next
        except asyncio.CancelledError:
            self.cancel()
            raise
        return None if self._task is None or self._task.done() else self.question

    def answer(self, reply: Reply | CannotAskError) -> None:
        """Answer the question that is open; the work goes on."""
        self._next = self._loop.create_future()
        if self._reply is None or self._reply.done():
            return
        if isinstance(reply, CannotAskError):
            self._reply.set_exception(reply)
        else:
            self._reply.set_result(reply)

    def result(self) -> JsonObject:
        """What the work came to. Errors: whatever it raised; RuntimeError where it cancelled itself."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            raise RuntimeError("a host's work ended without a result")
        return self._task.result()

    def cancel(self) -> None:
        """End it."""
        if self.deadline is not None:
            self.deadline.cancel()
        if self._task is not None:
            self._task.cancel()

    def _turn(self) -> None:
        if not self._next.done():
            self._next.set_result(None)

    def _ended(self, task: asyncio.Task[JsonObject]) -> None:
        waited_for = not self._next.done()
        self._turn()
        if not task.cancelled() and (error := task.exception()) is not None and not waited_for:
            _LOG.info("work that nobody waited for ended with an error", exc_info=error)
