"""One conversation with a remote server, by many askers at once.

Invariants: every request has an id of its own, a deadline and one answer; who waits too long for a turn is told `busy`,
and nothing was sent; a request that nobody waits for any more is cancelled at the server (by a notification in the
legacy era, by closing the stream in the modern one); progress reaches whoever asked for it, by the token of that
request, and nobody once it is answered. What a server asks of us is refused, `ping` excepted, and answered a bounded
number of times.

A conversation is lost once its session is over or the server was not reached REMOTE_FAILURES times in a row: over HTTP
there is no pipe to watch. Whether a server that is reached behaves is not judged here: each request says so.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from fumehood.core import limits
from fumehood.core.errors import BusyError, FumehoodError, RefusedError, TimedOutError
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.upstreams import envelope
from fumehood.gateway.upstreams.model import Introduction, Notified, ServerRefusedError, UpstreamError
from fumehood.gateway.upstreams.remote import parameters
from fumehood.gateway.upstreams.remote.address import UnreachableError
from fumehood.gateway.upstreams.remote.credentials import Header
from fumehood.gateway.upstreams.remote.wire import Answer, Asked, SessionOverError, Wire
from fumehood.wire import frames, jsonrpc
from fumehood.wire.hosting import ReportProgress

_LOG: Final = logging.getLogger(__name__)
_PROGRESS: Final = ("progress", "total", "message")


class Conversation:
    """A `Connection` over HTTP. Made by `dial`, which also ends it."""

    def __init__(self, wire: Wire, introduction: Introduction, notified: Notified) -> None:
        """The server has said who it is."""
        self.wire = wire
        self._introduction = introduction
        self._notified = notified
        self._turns = asyncio.Semaphore(limits.REMOTE_CONNECTIONS)
        self._open: dict[int, ReportProgress | None] = {}
        self._last = limits.REMOTE_FIRST_ID
        self._failures = 0
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._notes: set[asyncio.Task[None]] = set()
        self._replies_left = limits.REPLIES
        self._asked_for: dict[str, tuple[parameters.Mirrored, ...]] = {}  # arguments that are headers, too, by tool

    @property
    def introduction(self) -> Introduction:
        """What the server said at the start."""
        return self._introduction

    async def ask(
        self, method: str, params: JsonObject, *, seconds: float, progress: ReportProgress | None = None
    ) -> JsonObject:
        """The result of one request. Errors: those of `Connection.ask`."""
        if self._lost.done():
            raise UpstreamError(self._lost.result())
        if len(self._open) >= limits.REMOTE_IN_FLIGHT:
            raise BusyError("too many requests to the server are under way", remedy="ask again later")
        self._last += 1
        ident = self._last
        self._open[ident] = progress
        try:
            answer = await self._answered(self._asked(ident, method, params, progress), seconds)
        finally:
            del self._open[ident]
        if isinstance(answer, frames.ErrorResponse):
            raise ServerRefusedError(answer.code, answer.message)
        return self._peeled(method, answer)

    async def lost(self) -> str:
        """Wait until nothing can be asked any more; why."""
        return await asyncio.shield(self._lost)

    def lose(self, why: str) -> None:
        """Ask nothing any more."""
        if not self._lost.done():
            self._lost.set_result(why)

    def heard(self, message: frames.Request | frames.Notification) -> None:
        """What a server says by itself. Errors: `UpstreamError`, where it may not."""
        if isinstance(message, frames.Notification):
            self._told(message)
        elif self._introduction.era == "modern":
            raise UpstreamError("the server asked something of us, which its revision of MCP does not allow")
        elif self._replies_left > 0:
            self._replies_left -= 1
            self.note(self.wire.reply(_reply(message)))

    def reached(self, *, yes: bool) -> None:
        """Count how often a server was not reached since it last was."""
        self._failures = 0 if yes else self._failures + 1
        if self._failures >= limits.REMOTE_FAILURES:
            self.lose(f"the server was not reached {self._failures} times in a row")

    def note(self, sending: Coroutine[Any, Any, None]) -> None:
        """Send what nobody waits for, where not too much of it is under way."""
        if len(self._notes) >= limits.REMOTE_NOTES:
            sending.close()
            return
        task = asyncio.create_task(_quietly(sending))
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)

    async def close(self) -> None:
        """Give up what is being sent, after a moment for cancellations to leave; nothing is asked any more."""
        self.lose("the conversation is over")
        if self._notes:
            await asyncio.wait(self._notes, timeout=limits.REMOTE_END_SECONDS)
        for task in self._notes:
            task.cancel()
        await asyncio.gather(*self._notes, return_exceptions=True)

    def _asked(self, ident: int, method: str, params: JsonObject, progress: ReportProgress | None) -> Asked:
        wrapped = envelope.wrap(params, self.wire.speaks, ident if progress is not None else None)
        return Asked(ident=ident, method=method, params=wrapped, headers=self._mirrored(method, params))

    def _mirrored(self, method: str, params: JsonObject) -> tuple[Header, ...]:
        asked = self._asked_for.get(str(params.get("name"))) if method == "tools/call" else None
        if not asked or self._introduction.era == "legacy":
            return ()
        headers = parameters.headers(asked, params.get("arguments"))
        if headers is None:
            raise RefusedError("the arguments that the server wants as headers are larger than a head can be")
        return headers

    async def _answered(self, asked: Asked, seconds: float) -> Answer:
        has_turn = answered = False
        try:
            async with asyncio.timeout(seconds), self._turns:
                has_turn = True
                answer, _ = await self.wire.ask(asked, self.heard)
                answered = True
        except TimeoutError:
            if not has_turn:
                raise BusyError("every connection to the server is in use", remedy="ask again later") from None
            raise TimedOutError(f"no answer within {seconds:g} s", remedy="ask for less") from None
        except UnreachableError:
            has_turn = False  # nothing was sent that could be cancelled
            self.reached(yes=False)
            raise
        except SessionOverError as error:
            self.lose(error.message)
            raise
        finally:
            if has_turn and not answered and self._introduction.era == "legacy" and not self._lost.done():
                self.note(self.wire.tell(envelope.CANCELLED, {"requestId": asked.ident}))
        self.reached(yes=True)
        return answer

    def _peeled(self, method: str, answer: frames.Response) -> JsonObject:
        result = envelope.peel(answer.result, self._introduction.era)
        if method != "tools/list" or self._introduction.era == "legacy":
            return result
        kept, asked_for, left_out = parameters.listed(result.get("tools"))
        if len(self._asked_for) + len(asked_for) > limits.PIN_TOOLS:
            self._asked_for.clear()
        self._asked_for |= asked_for
        if left_out:
            _LOG.warning("%d tools of %s ask for headers wrongly and are left out", left_out, self.wire.place.origin)
            return {**result, "tools": kept}
        return result

    def _told(self, message: frames.Notification) -> None:
        params = message.params if isinstance(message.params, dict) else {}
        if message.method != envelope.PROGRESS:
            if len(message.method) <= limits.METHOD_CHARACTERS:
                self._notified(message.method, {key: value for key, value in params.items() if key != "_meta"})
            return
        token = params.get("progressToken")
        report = self._open.get(token) if isinstance(token, int) and not isinstance(token, bool) else None
        value = params.get("progress")
        if report is not None and isinstance(value, int | float) and not isinstance(value, bool):
            report({key: params[key] for key in _PROGRESS if key in params})


def _reply(message: frames.Request) -> bytes:
    if message.method == "ping":
        return jsonrpc.response(message.id, {})
    return jsonrpc.error_response(message.id, jsonrpc.METHOD_NOT_FOUND, "Method not found")


async def _quietly(sending: Coroutine[Any, Any, None]) -> None:
    try:
        await sending
    except (FumehoodError, TimeoutError) as error:
        _LOG.debug("a note to a server was not taken: %s", error)
