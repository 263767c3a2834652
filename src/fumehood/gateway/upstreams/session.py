"""A conversation with one server over two callables, for any number of askers at once.

Invariants: what `talk` decides is done in order; memory is bounded by one frame, the requests that are open and what
waits to be written, whatever the server sends or leaves unread; one that takes no byte for STALLED_SECONDS, or says
more than its `allowance`, is lost; once it is lost each asker is told why, those that wait and those to come; a request
that nobody waits for any more is cancelled at the server, and its answer dropped.

Nothing bounds what a server says in its whole life: see `allowance`. No task is made for a request, and none is woken
but its asker's; a frame of up to FRAME_INLINE_BYTES is read at once, a larger one in a thread.

Not promised: that a server stops working on what was cancelled; that answers of more than a frame are attributed when
several requests wait and the server writes its ids last, as one of the SDKs does: then the server is lost.
"""

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, assert_never

from fumehood.core import limits
from fumehood.core.errors import BusyError, TimedOutError
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway import pieces
from fumehood.gateway.upstreams import envelope, eras, talk
from fumehood.gateway.upstreams.allowance import Allowance
from fumehood.gateway.upstreams.envelope import Speaks
from fumehood.gateway.upstreams.model import Introduction, Notified, ServerRefusedError, UpstreamError
from fumehood.gateway.upstreams.outbox import Outbox, StalledError, Write
from fumehood.gateway.upstreams.talk import Event, Talk
from fumehood.wire import frames, jsonrpc
from fumehood.wire.frames import Frame
from fumehood.wire.hosting import ReportProgress
from fumehood.wire.lines import Exhausted, LineSplitter, Piece

_LOG: Final = logging.getLogger(__name__)
_CLOSED: Final = "the server closed its output"
_DEAF: Final = "the server takes nothing that it is asked"
_LOUD: Final = "the server says more than it is asked for"


async def _closed() -> str:
    return _CLOSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipes:
    """The way to a server and back."""

    read: Callable[[], Awaitable[bytes]]  # some bytes, at most a pipe's worth; none at the end
    write: Write
    cause: Callable[[], Awaitable[str]] = _closed  # why the server's output ended, in words of ours; bounded in time


@dataclass(slots=True, eq=False)
class _Asker:
    answer: "asyncio.Future[JsonValue]"
    progress: ReportProgress | None


class Conversation:
    """A `Connection` over pipes. Made by `conversation`, which owns the tasks that read and write."""

    def __init__(self, pipes: Pipes, speaks: Speaks, notified: Notified) -> None:
        """Nothing is asked yet."""
        self._pipes = pipes
        self._speaks = speaks
        self._notified = notified
        self._loop = asyncio.get_running_loop()
        self._talk = Talk()
        self._askers: dict[int, _Asker] = {}
        self._splitter = LineSplitter(line_bytes=limits.FRAME_BYTES, total_bytes=sys.maxsize, lines=sys.maxsize)
        self._allowance = Allowance(time.monotonic())
        self._outbox = Outbox(pipes.write)
        self._over: asyncio.Future[str] = self._loop.create_future()
        self._introduction: Introduction | None = None
        self._listening: tuple[int, dict[str, str]] | None = None  # the request that changes of lists come by
        self._again: asyncio.TimerHandle | None = None

    @property
    def introduction(self) -> Introduction:
        """What the server said at the start."""
        if self._introduction is None:
            raise UpstreamError("the server has not introduced itself")
        return self._introduction

    @property
    def unasked(self) -> int:
        """Lines of the server that nobody waited for."""
        return self._talk.unasked

    async def lost(self) -> str:
        """Wait until nothing can be asked any more; why."""
        return await asyncio.shield(self._over)

    async def ask(
        self, method: str, params: JsonObject, *, seconds: float, progress: ReportProgress | None = None
    ) -> JsonObject:
        """The result of one request. Errors: `UpstreamError`, `ServerRefusedError`, `TimedOutError`, `BusyError`."""
        return envelope.peel(await self._ask(method, params, seconds, progress), self._speaks.era)

    async def _ask(self, method: str, params: JsonObject, seconds: float, progress: ReportProgress | None) -> JsonValue:
        self._demand_room()
        ident = self._talk.begin(progress=progress is not None)
        asker = self._askers[ident] = _Asker(self._loop.create_future(), progress)
        timer = self._loop.call_later(seconds, _expire, asker.answer, seconds)
        try:
            self._send(ident, method, params, wants_progress=progress is not None)
            return await asker.answer
        finally:
            timer.cancel()
            del self._askers[ident]
            if asker.answer.done() and not asker.answer.cancelled():
                asker.answer.exception()  # it is taken, also where its asker was cancelled in the same moment
            if (cancelled := self._talk.cancel(ident)) is not None and not self._over.done():
                self._outbox.say(cancelled)

    def _demand_room(self) -> None:
        if self._over.done():
            raise UpstreamError(self._over.result())
        if self._talk.open >= limits.UPSTREAM_IN_FLIGHT:
            raise BusyError("the server has too many requests without an answer", remedy="ask again later")
        if self._outbox.is_full:
            raise BusyError("the server does not read what it is asked", remedy="ask again later")

    def _send(self, ident: int, method: str, params: JsonObject, *, wants_progress: bool = False) -> None:
        self._outbox.say(
            talk.request(ident, method, envelope.wrap(params, self._speaks, ident if wants_progress else None))
        )

    # --- the opening

    async def open(self) -> None:
        """Have the server introduce itself. The caller bounds the time. Errors: `OtherEraError`, `UpstreamError`."""
        era = self._speaks.era
        method, params = eras.opening(self._speaks)
        try:
            answer = await self._ask(method, params, limits.UPSTREAM_OPEN_SECONDS, None)
        except ServerRefusedError as error:
            raise eras.refused(era, error.number) from error
        except TimedOutError as error:
            noise = f"; {self._talk.noise} lines of it are no messages" if self._talk.noise else ""
            raise TimedOutError(f"the server did not introduce itself: {error.message}{noise}") from None
        self._introduction = eras.introduced(era, answer)
        if era == "legacy":
            self._outbox.say(jsonrpc.notification(envelope.INITIALIZED))
        else:
            self._listen()

    def _listen(self) -> None:
        """Ask a modern server to tell of changed lists; a legacy one does so by itself."""
        told = eras.changes(self.introduction)
        self._again = None
        if told and not self._over.done():
            ident = self._talk.begin(progress=False)
            self._listening = (ident, told)
            wanted: JsonObject = dict.fromkeys(told, True)
            self._send(ident, envelope.LISTEN, {"notifications": wanted})

    def _listened(self, *, refused: bool) -> None:
        """The stream of changes has ended: each may have, and it is asked for again, but not at once."""
        told = self._listening[1] if self._listening else {}
        self._listening = None
        if not refused:
            for method in told.values():
                self._notified(method, {})
            self._again = self._loop.call_later(limits.UPSTREAM_LISTEN_SECONDS, self._listen)

    # --- from the server

    async def reading(self) -> None:
        """Hand each answer to whoever waits for it, until the server's output ends or breaks."""
        while not self._over.done():
            try:
                data = await self._pipes.read()
            except OSError:
                data = b""
            if not data:
                break
            await self._heard(data)
            await asyncio.sleep(0)  # a server that always says something keeps nobody else from their turn
        if not self._over.done():
            self._lose(await self._pipes.cause())

    async def _heard(self, data: bytes) -> None:
        found = self._splitter.feed(data)
        if not self._allowance.spend(lines=0, size=len(data), at=time.monotonic()):
            self._lose(_LOUD)
        for number, piece in enumerate(found, 1):
            if self._over.done():
                return
            frame = piece if isinstance(piece, Exhausted) else await pieces.read(piece, frames.classify)
            self._judge(piece, frame)
            if number % limits.UPSTREAM_PIECES == 0:
                await asyncio.sleep(0)

    def _judge(self, piece: Piece, frame: Frame | Exhausted) -> None:
        unasked = self._talk.unasked
        event = self._talk.heard(frame, *pieces.ends(piece))
        lines = self._talk.unasked - unasked
        if not self._allowance.spend(lines=lines, size=0 if lines else -pieces.size(piece), at=time.monotonic()):
            self._lose(_LOUD)
        if event is not None:
            self._do(event)

    def _do(self, event: Event) -> None:
        match event:
            case talk.Answered(id=ident, result=result):
                self._settle(ident, result)
            case talk.Refused(id=ident, number=number, words=words):
                self._settle(ident, ServerRefusedError(number, words))
            case talk.Failed(id=ident, why=why):
                self._settle(ident, UpstreamError(why))
            case talk.Progressed(id=ident, progress=progress):
                if (asker := self._askers.get(ident)) is not None and asker.progress is not None:
                    asker.progress(progress)
            case talk.Told(method=method, params=params):
                self._notified(method, params)
            case talk.Reply(line=line):
                if not self._outbox.is_full:  # one that asks and does not read gets no more
                    self._outbox.say(line)
            case talk.Lost(why=why):
                self._lose(why)
            case _:
                assert_never(event)

    def _settle(self, ident: int, answer: "JsonValue | UpstreamError | ServerRefusedError") -> None:
        if self._listening is not None and self._listening[0] == ident:
            self._listened(refused=isinstance(answer, UpstreamError | ServerRefusedError))
            return
        asker = self._askers.get(ident)
        if asker is None or asker.answer.done():
            return
        if isinstance(answer, UpstreamError | ServerRefusedError):
            asker.answer.set_exception(answer)
        else:
            asker.answer.set_result(answer)

    # --- to the server

    async def writing(self) -> None:
        """Write what is said until the server reads no more."""
        try:
            await self._outbox.write()
        except StalledError:
            self._lose(_DEAF)
        except OSError:  # how it ended, `cause` tells
            self._lose(await self._pipes.cause())

    # --- the end

    def _lose(self, why: str) -> None:
        if self._over.done():
            return
        self._over.set_result(why)
        if self._again is not None:
            self._again.cancel()
        for asker in self._askers.values():
            if not asker.answer.done():
                asker.answer.set_exception(UpstreamError(why))

    def faulty(self, task: "asyncio.Task[None]") -> None:
        """A task of ours that failed leaves nobody waiting, and its traceback in the log."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a conversation with a server failed", exc_info=error)
            self._lose("the gateway failed to go on with the server")

    def close(self) -> None:
        """Nothing is asked any more."""
        self._lose("the conversation is over")


@asynccontextmanager
async def conversation(pipes: Pipes, speaks: Speaks, notified: Notified) -> AsyncIterator[Conversation]:
    """A server that has introduced itself, in one era. Errors: `OtherEraError`, `UpstreamError`, `TimedOutError`."""
    made = Conversation(pipes, speaks, notified)
    tasks = [asyncio.create_task(made.reading()), asyncio.create_task(made.writing())]
    for task in tasks:
        task.add_done_callback(made.faulty)
    try:
        await made.open()
        yield made
    finally:
        made.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _expire(answer: "asyncio.Future[JsonValue]", seconds: float) -> None:
    if not answer.done():
        answer.set_exception(TimedOutError(f"no answer within {seconds:g} s", remedy="ask for less"))
