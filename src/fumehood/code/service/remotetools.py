"""The tools of a run whose backend is at the other end of a link: each call goes there and waits for its answer.

Invariants: nothing is decided here, for authority is at the other end; an answer wakes the call that it is for; once
the link is gone every call that waits fails.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from fumehood.code.messages import Method
from fumehood.code.service.runnerend import Answered, RunnerEnd
from fumehood.core.errors import FailedError
from fumehood.core.jsonio import JsonValue

Send: TypeAlias = Callable[[bytes], Awaitable[None]]  # `FailedError` where the other side is gone


class RemoteTools:
    """A `ToolBackend` over one link."""

    def __init__(self, end: RunnerEnd, send: Send) -> None:
        """Calls get their ids from `end` and go out by `send`."""
        self._end = end
        self._send = send
        self._waiting: dict[int, asyncio.Future[JsonValue]] = {}

    async def search(self, query: str, limit: int) -> JsonValue:
        """Ask which tools fit a query."""
        return await self._ask("search", [query, {"limit": limit}])

    async def describe(self, names: Sequence[str]) -> JsonValue:
        """Ask how tools are called."""
        return await self._ask("describe", [list(names)])

    async def run(self, name: str, arguments: JsonValue) -> JsonValue:
        """Call one tool."""
        return await self._ask("run", [name, arguments])

    def answered(self, answer: Answered) -> None:
        """Wake the call that an answer is for; nobody may wait any more."""
        waiting = self._waiting.get(answer.id)
        if waiting is None or waiting.done():
            return
        if answer.error is not None:
            waiting.set_exception(answer.error)
        else:
            waiting.set_result(answer.value)

    def gone(self) -> None:
        """Fail every call that waits."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(FailedError("whoever answers calls is gone"))

    async def _ask(self, method: Method, args: list[JsonValue]) -> JsonValue:
        try:
            number, data = self._end.call(method, args)
        except ValueError:
            raise FailedError("arguments that cannot be written as JSON") from None
        waiting: asyncio.Future[JsonValue] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            await self._send(data)
            return await waiting
        finally:
            del self._waiting[number]
            waiting.cancel()
            if not waiting.cancelled():
                waiting.exception()  # heard of, also where it came while the call was still being sent
