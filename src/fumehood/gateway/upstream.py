"""One MCP server that is asked by many tasks at once, over a bounded session (`wire.stdio`).

Invariants: each request has an id of its own, a deadline and one answer; an answer to anything else is counted and
dropped; a request that nobody waits for any more is cancelled at the server; whatever breaks the stream (a line that is
no message, one over its bound, the end) fails every request, those that wait and those to come. Words of the server in
an error are cut and inert.

Not promised: that a server stops working on what was cancelled.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fumehood.core import limits
from fumehood.core.errors import BusyError, FailedError, TimedOutError
from fumehood.core.jsonio import JsonValue
from fumehood.wire import frames, jsonrpc
from fumehood.wire.frames import Frame
from fumehood.wire.lines import Exhausted, LineSplitter, Oversized
from fumehood.wire.outcomes import Initialized, Outcome
from fumehood.wire.stdio import Client, Read, Session, Write, initialize, session

_ASKS: Final = "2025-11-25"  # the last revision that begins with `initialize`
_SHOWN: Final = 300  # characters of a server's words
_GONE: Final = "the server closed its output"


class UpstreamError(FailedError):
    """A server did not answer as one does, or refused a request."""

    code = "upstream"


class Upstream:
    """A server that is up. Made by `connected`, which owns the task that reads."""

    def __init__(self, opened: Session) -> None:
        """Nothing is asked yet."""
        self._session = opened
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self._last = 0
        self._lost = ""  # why nothing can be asked any more

    async def ask(self, method: str, params: dict[str, JsonValue], *, seconds: float) -> JsonValue:
        """The result of one request. Errors: `UpstreamError`, `TimedOutError`, `BusyError`."""
        if self._lost:
            raise UpstreamError(self._lost)
        self._last += 1
        ident = self._last
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._waiting[ident] = answer
        try:
            if not self._session.send(jsonrpc.request(ident, method, params)):
                raise BusyError("the server does not read what it is asked", remedy="ask again later")
            async with asyncio.timeout(seconds):
                return _result(await answer)
        except TimeoutError:
            raise TimedOutError(f"no answer within {seconds:g} s", remedy="ask for less") from None
        finally:
            if not answer.done() or answer.cancelled():
                self._session.send(jsonrpc.notification("notifications/cancelled", {"requestId": ident}))
            del self._waiting[ident]

    async def listen(self) -> None:
        """Hand each answer to whoever waits for it, until the stream ends or breaks."""
        lost = _GONE
        try:
            while (frame := await self._session.receive()) is not None:
                match frame:
                    case frames.Response(id=int(ident)) | frames.ErrorResponse(id=int(ident)):
                        if (answer := self._waiting.get(ident)) is not None and not answer.done():
                            answer.set_result(frame)
                    case frames.Malformed() | Oversized() | Exhausted():
                        lost = "the server sent what is no message, or more than is read"
                        return
                    case _:
                        pass
        finally:
            self._lose(lost)

    def _lose(self, why: str) -> None:
        self._lost = why
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(UpstreamError(why))


class NotInitializedError(UpstreamError):
    """A server did not come up; `outcome` is what it did instead."""

    code = "not_initialized"

    def __init__(self, outcome: Outcome) -> None:
        """Keep the outcome, and say its kind."""
        self.outcome = outcome
        super().__init__(f"the server was not initialized: {type(outcome).__name__}")


@asynccontextmanager
async def connected(read: Read, write: Write, client: Client, *, calls: int) -> AsyncIterator[Upstream]:
    """A server that answered `initialize`, for at most `calls` answers of their largest size.

    The caller bounds the time of the start. Errors: `NotInitializedError`.
    """
    splitter = LineSplitter(total_bytes=limits.FRAMES_TOTAL_BYTES + calls * limits.ENVELOPE_BYTES)
    async with session(read, write, splitter=splitter) as opened:
        outcome = await initialize(opened, client)
        if not isinstance(outcome, Initialized):
            raise NotInitializedError(outcome)
        upstream = Upstream(opened)
        listening = asyncio.create_task(upstream.listen())
        try:
            yield upstream
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


def client(name: str, version: str) -> Client:
    """Who we say we are."""
    return Client(name=name, version=version, asks=_ASKS)


def _result(frame: Frame) -> JsonValue:
    match frame:
        case frames.Response(result=result):
            return result
        case frames.ErrorResponse(code=code, message=message):
            words = ascii(message[:_SHOWN])[1:-1]
            raise UpstreamError(f"the server refused: {words} ({code})")
        case _:
            raise UpstreamError(_GONE)
