"""A server of ours over standard input and output (`descriptors`), bounded on both sides (T8).

Invariants: a line over REQUEST_BYTES is refused as soon as it crosses that, its
rest is dropped, and the next line is read; every line that is no message is answered (-32700, -32600); an id in flight
is refused a second time; messages are read however many calls run, until the client stops reading our answers; what
is held for it then is bounded, and it is given up after STALLED_SECONDS; at the end of input what is in flight is
finished first; a client that is gone cancels everything.

Not promised: that an answer which a client has not read before it goes is delivered.
"""

import asyncio
import contextlib
import enum
import logging
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import assert_never

from fumehood.core import limits
from fumehood.core.jsonio import JsonValue
from fumehood.wire import answers, inbound, jsonrpc
from fumehood.wire.descriptors import Wire, nobody_reads, read_chunk
from fumehood.wire.flight import DuplicateError, Flight
from fumehood.wire.inbound import Answered, Asked, Inbound, Refused, Told
from fumehood.wire.lines import Exhausted, Line, LineSplitter, Oversized, Piece
from fumehood.wire.outbound import Writer
from fumehood.wire.published import LOCAL, Caller

_LOG = logging.getLogger(__name__)
_GLANCE_SECONDS = 0.1  # between looks at whether the client is still there, at the end of input
_TURN_SECONDS = 0.005  # between looks at whether all is written, at the end


class Ended(enum.Enum):
    """Why a connection is over."""

    END_OF_INPUT = "end of input"
    GONE = "the client is gone"
    STALLED = "the client does not read"
    EXHAUSTED = "the connection's bound is crossed"
    TERMINATED = "terminated"
    INTERRUPTED = "interrupted"


class Connection:
    """One client: `wire.channel.Channel` for the loop that answers. Created and used in one event loop."""

    def __init__(
        self, wire: Wire, *, calls: int = limits.CALLS_RUNNING + limits.CALLS_QUEUED, asks: bool = False
    ) -> None:
        """Nothing is read before `run`.

        `calls` is how many the other side of the channel lets in at once; `asks`: it may ask the client something.
        """
        self.connection = object()
        self._wire = wire
        self._asks = asks
        self._asked_back: set[int] = set()  # ids of requests of ours without an answer
        self._standing: set[int] = set()  # requests that nothing waits for
        self._loop = asyncio.get_running_loop()
        self._flight = Flight()
        self._in_flight_most = calls + limits.CONTROL_IN_FLIGHT
        self._inbox: asyncio.Queue[tuple[int, Asked] | Told | Answered] = asyncio.Queue()
        self._room = threading.BoundedSemaphore(limits.HANDED_OVER)  # between the reading thread and the loop
        self._open = threading.Event()  # cleared while no more is read
        self._open.set()
        self._over = asyncio.Event()  # something that `run` waits for may have come to pass
        self._input_over = False
        self._ended: Ended | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._writer = Writer(wire.writing, self._written, self._gone)

    async def run(self, serve: Callable[["Connection"], Awaitable[None]]) -> Ended:
        """Answer the client with `serve` until it, or the process, has had enough; then say why."""
        with _signals(self._loop, self._end):
            threading.Thread(target=self._read, name="wire-in", daemon=True).start()
            serving = asyncio.ensure_future(serve(self))
            serving.add_done_callback(lambda _: self._over.set())
            try:
                await self._until_over(serving)
                by_itself = serving.done()
            finally:
                serving.cancel()
                await asyncio.wait({serving})
                await self._flush()
        if by_itself:
            serving.result()  # raises what it ended with
        elif not serving.cancelled() and (error := serving.exception()) is not None:
            _LOG.info("what answers was cancelled and said so otherwise", exc_info=error)
        return self._ended or Ended.END_OF_INPUT

    def caller(self, number: int) -> Caller:
        """Who has the pipe: one for all requests."""
        del number
        return LOCAL

    def ident(self, number: int) -> jsonrpc.Id:
        """What the client calls a request that waits."""
        return self._flight.ident(number)

    def can_ask(self, number: int) -> bool:
        """Whether requests of ours go out, and somebody is there to answer."""
        del number
        return self._asks and not self._input_over

    async def receive(self) -> tuple[int, Asked] | Told | Answered | None:
        """The next message for the loop that answers."""
        message = await self._inbox.get()
        self._settle()
        return message

    def answer(self, number: int, member: str, value: JsonValue) -> None:
        """Write the answer of a request, unless it is over."""
        self._standing.discard(number)
        if (ident := self._flight.end(number)) is not None:
            self._send(answers.line(ident, member, value))

    def tell(self, method: str, params: JsonValue, about: int | None = None) -> None:
        """Write a notification; none for a client that does not read its answers either."""
        del about
        if self._writer.pending_bytes < limits.OUTPUT_PENDING_BYTES:
            self._send(jsonrpc.notification(method, params if isinstance(params, dict) else None))

    def ask(self, ident: int, method: str, params: JsonValue, about: int | None = None) -> None:
        """Write a request of ours. What cannot be answered is answered at once."""
        del about
        self._asked_back.add(ident)
        if not self.can_ask(0) or len(self._asked_back) > limits.ASKED_BACK:
            self._answered(Answered(id=ident))
            return
        self._send(jsonrpc.request(ident, method, params if isinstance(params, dict) else None))

    def unanswered(self, number: int) -> None:
        """Forget a request that the client has cancelled."""
        self._standing.discard(number)
        self._flight.end(number)
        self._settle()

    def stands(self, number: int) -> None:
        """Wait for this one no more at the end of input."""
        self._standing.add(number)

    def _read(self) -> None:
        """The reading thread: cut, parse, hand over one message at a time."""
        splitter = LineSplitter(
            line_bytes=limits.REQUEST_BYTES, total_bytes=limits.SESSION_BYTES, lines=limits.SESSION_LINES
        )
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends
            while data := read_chunk(self._wire.reading):
                for piece in splitter.feed(data):
                    self._hand_over(piece)
            for piece in splitter.close():
                self._hand_over(piece)
            self._loop.call_soon_threadsafe(self._input_ended)

    def _hand_over(self, piece: Piece) -> None:
        message = _message(piece)
        self._room.acquire()
        self._open.wait()
        self._loop.call_soon_threadsafe(self._received, message)

    def _received(self, message: Inbound | Ended) -> None:
        self._room.release()
        match message:
            case Asked():
                self._asked(message)
            case Told():
                self._told(message)
            case Refused(code=code, message=text, id=ident):
                self._send(jsonrpc.error_response(ident, code, text))
            case Answered():
                self._answered(message)
            case Ended():
                self._end(message)
            case _:
                assert_never(message)
        self._settle()

    def _asked(self, asked: Asked) -> None:
        try:
            number = self._flight.begin(asked.id)
        except DuplicateError:  # without its id: that is the other request's
            text = "Invalid request: a request with this id is in flight"
            self._send(jsonrpc.error_response(None, jsonrpc.INVALID_REQUEST, text))
            return
        self._inbox.put_nowait((number, asked))

    def _told(self, told: Told) -> None:
        if (passed := self._flight.told(told)) is not None:
            self._inbox.put_nowait(passed)

    def _answered(self, answer: Answered) -> None:
        """Pass on what was asked for, once; nothing else."""
        if type(answer.id) is int and answer.id in self._asked_back:
            self._asked_back.discard(answer.id)
            self._inbox.put_nowait(answer)

    def _send(self, line: bytes) -> None:
        self._writer.write(line)
        if self._watch is None and self._writer.pending_bytes:
            self._watch = self._loop.call_later(limits.STALLED_SECONDS / 4, self._look_at_writer)
        self._settle()

    def _look_at_writer(self) -> None:
        self._watch = None
        if self._writer.stalled():
            self._end(Ended.STALLED)
        elif self._writer.pending_bytes:
            self._watch = self._loop.call_later(limits.STALLED_SECONDS / 4, self._look_at_writer)

    def _settle(self) -> None:
        """Read on, or read no more: whatever changes one of the three amounts calls this."""
        crowded = (
            len(self._flight) >= self._in_flight_most
            or self._inbox.qsize() >= limits.HANDED_OVER
            or self._writer.pending_bytes >= limits.OUTPUT_PENDING_BYTES
        )
        if crowded == self._open.is_set():
            (self._open.clear if crowded else self._open.set)()
        if self._input_over and not self._awaited:
            self._over.set()

    @property
    def _awaited(self) -> int:
        """Requests whose answers somebody waits for."""
        return len(self._flight) - len(self._standing)

    def _written(self) -> None:
        """From the writing thread: a line is out."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._settle)

    def _gone(self) -> None:
        """From the writing thread: nothing will be read any more."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._end, Ended.GONE)

    def _input_ended(self) -> None:
        self._input_over = True
        for ident in tuple(self._asked_back):  # nobody will answer
            self._answered(Answered(id=ident))
        self._over.set()

    def _end(self, why: Ended) -> None:
        self._ended = self._ended or why
        self._over.set()

    async def _until_over(self, serving: "asyncio.Future[None]") -> None:
        deadline = None
        while self._ended is None and not serving.done() and not (self._input_over and not self._awaited):
            self._over.clear()
            if self._input_over:
                deadline = deadline or self._loop.time() + limits.DRAIN_CALLS_SECONDS
                if nobody_reads(self._wire.writing) or self._loop.time() > deadline:
                    self._end(Ended.GONE)
                    break
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), _GLANCE_SECONDS if self._input_over else None)

    async def _flush(self) -> None:
        """Let what is written go out; who is gone or does not read waits for nothing."""
        if self._watch is not None:
            self._watch.cancel()
        self._writer.close()
        if self._ended not in {Ended.GONE, Ended.STALLED}:
            end = self._loop.time() + limits.FLUSH_SECONDS
            while not self._writer.done and self._loop.time() < end:  # noqa: ASYNC110 - a thread's end is no event
                await asyncio.sleep(_TURN_SECONDS)


def _message(piece: Piece) -> Inbound | Ended:
    match piece:
        case Line(data=data):
            return inbound.read(data)
        case Oversized(limit_bytes=limit):
            return Refused(code=jsonrpc.PARSE_ERROR, message=f"Parse error: a line of more than {limit} bytes")
        case Exhausted():
            return Ended.EXHAUSTED
        case _:
            assert_never(piece)


@contextlib.contextmanager
def _signals(loop: asyncio.AbstractEventLoop, end: Callable[[Ended], None]) -> Iterator[None]:
    """Have SIGTERM and SIGINT end the connection; who ignores SIGINT (a job in the background) goes on doing so."""
    wanted = {signal.SIGTERM: Ended.TERMINATED, signal.SIGINT: Ended.INTERRUPTED}
    mine = [number for number in wanted if signal.getsignal(number) is not signal.SIG_IGN]
    for number in mine:
        loop.add_signal_handler(number, end, wanted[number])
    try:
        yield
    finally:
        for number in mine:
            loop.remove_signal_handler(number)
