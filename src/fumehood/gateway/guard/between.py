"""The lines between one client and one server, until either has ended.

Invariants: a direction hands on a line before it reads the next one, so that nothing is held but a frame of each; a
message is decided about at once and done in order; whatever ends first, the rest is given a bounded time. A fault of
ours ends both: nothing is passed on past it.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, assert_never

from fumehood.core import jsonio, limits
from fumehood.core.jsonio import JsonValue
from fumehood.gateway import pieces
from fumehood.gateway.audit.writer import AuditLog
from fumehood.gateway.guard.clientend import ClientEnd
from fumehood.gateway.guard.events import Event, Recorded, Said, ToClient, ToServer
from fumehood.gateway.guard.traffic import Traffic
from fumehood.sandbox.supervise import Running
from fumehood.wire import frames, inbound, jsonrpc
from fumehood.wire.inbound import Inbound, Refused
from fumehood.wire.lines import Exhausted, Line, LineSplitter, Oversized, Piece

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Who is at either end."""

    client: ClientEnd
    server: Running


class Between:
    """One client and one server. `hold` passes on until it is over."""

    def __init__(self, ends: Ends, traffic: Traffic, audit: AuditLog | None, say: Callable[[str], None]) -> None:
        """Nothing is read before `hold`."""
        self._client = ends.client
        self._server = ends.server
        self._traffic = traffic
        self._audit = audit
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._end: asyncio.TimerHandle | None = None
        self._fault: BaseException | None = None
        self._input_over = False
        self._deciding = asyncio.Lock()  # one message at a time, also where it is decided about in a thread
        self._lines: asyncio.Queue[tuple[bytes, asyncio.Event] | None] = asyncio.Queue()  # for the server, in order
        self._to_client = asyncio.Lock()  # a line is written whole
        self.signalled: int | None = None

    async def hold(self) -> None:
        """Pass lines on. Errors: those of the audit log."""
        works = [self._inward(), self._outward(), self._server.wait(), self._client.gone(), self._writing()]
        inward, outward, ended, gone, writing = (asyncio.ensure_future(one) for one in works)
        inward.add_done_callback(lambda _: self._input_ended())
        ended.add_done_callback(lambda _: self._soon(limits.FLUSH_SECONDS))
        gone.add_done_callback(lambda _: self._left())
        tasks = (inward, outward, ended, gone, writing)
        for task in tasks:
            task.add_done_callback(self._look)
        both = asyncio.gather(outward, ended, return_exceptions=True)
        both.add_done_callback(lambda _: self._over.set())
        try:
            with self._signals():
                await self._over.wait()
        finally:
            if self._end is not None:
                self._end.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, both, return_exceptions=True)
        if self._fault is not None:
            raise self._fault

    # --- ends

    def _soon(self, seconds: float) -> None:
        """Be over in so many seconds, or sooner."""
        at = self._loop.time() + seconds
        if self._end is not None:
            if self._end.when() <= at:
                return
            self._end.cancel()
        self._end = self._loop.call_at(at, self._over.set)

    def _input_ended(self) -> None:
        """The client says no more: the server is told, and has the time to answer what is open, and to end."""
        self._input_over = True
        self._drained()

    def _drained(self) -> None:
        if self._input_over and not self._traffic.is_held:
            self._lines.put_nowait(None)
        if self._input_over:
            self._soon(limits.DRAIN_CALLS_SECONDS if self._traffic.is_awaited else limits.GUARD_END_SECONDS)

    def _left(self) -> None:
        """The client hung up: who does not read waits for nothing."""
        self._soon(0.0 if self._client.is_gone() else limits.DRAIN_CALLS_SECONDS)

    def _look(self, task: "asyncio.Future[None]") -> None:
        """A fault ends everything; that one side is gone is none."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, BrokenPipeError):
            self._soon(0.0 if self._client.is_gone() else limits.FLUSH_SECONDS)
            return
        self._fault = self._fault or error
        self._over.set()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Pass signals to the server; a second one ends it at once. One that is ignored goes on being ignored."""
        mine = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        for number in mine:
            self._loop.add_signal_handler(number, self._signal, number)
        try:
            yield
        finally:
            for number in mine:
                self._loop.remove_signal_handler(number)

    def _signal(self, number: int) -> None:
        again, self.signalled = self.signalled is not None, self.signalled or number
        passed = not again and self._server.signal(number)
        self._soon(limits.GUARD_END_SECONDS if passed else 0.0)

    # --- both directions

    async def _inward(self) -> None:
        """From the client to the server, to the end of the client's input."""
        splitter = LineSplitter(
            line_bytes=limits.FRAME_BYTES, total_bytes=limits.SESSION_BYTES, lines=limits.SESSION_LINES
        )
        while data := await self._client.read():
            for piece in splitter.feed(data):
                read, whole = await pieces.read(piece, _from_client)
                events = await self._decided(pieces.size(piece), lambda: list(self._traffic.from_client(read, whole)))  # noqa: B023 - at once
                await self._do(events, waits=True)

    async def _outward(self) -> None:
        """From the server to the client, to the end of the server's output."""
        splitter = LineSplitter(
            line_bytes=limits.FRAME_BYTES, total_bytes=limits.SESSION_BYTES, lines=limits.SESSION_LINES
        )
        while data := await self._server.read():
            for piece in splitter.feed(data):
                await self._do(await self._from_server(piece))
            self._drained()
            await asyncio.sleep(0)  # a flood keeps neither the other direction nor the deadlines from their turn

    async def _from_server(self, piece: Piece) -> list[Event]:
        """What one piece of the server's output leads to."""
        if isinstance(piece, Exhausted):
            return list(self._traffic.from_server(piece))
        frame = await pieces.read(piece, frames.classify)
        return await self._decided(
            pieces.size(piece), lambda: list(self._traffic.from_server(frame, *pieces.ends(piece)))
        )

    async def _decided(self, size: int, decide: Callable[[], list[Event]]) -> list[Event]:
        """Decide about a small message at once and about a large one in a thread: its controls take seconds."""
        async with self._deciding:
            return decide() if size <= limits.FRAME_INLINE_BYTES else await asyncio.to_thread(decide)

    async def _do(self, events: Iterable[Event], *, waits: bool = False) -> None:
        """Do what was decided, in its order. `waits`: until the server has taken its lines."""
        for event in events:
            match event:
                case ToServer(line=line):
                    await self._tell_server(line, waits=waits)
                case ToClient(line=line):
                    async with self._to_client:
                        await self._client.write(line)
                case Said(text=text):
                    self._say(f"fumehood: {text}")
                case Recorded(event=record):
                    if self._audit is not None:
                        await self._audit.record(record)
                case _:
                    assert_never(event)

    async def _tell_server(self, line: bytes, *, waits: bool) -> None:
        """Only the client's direction waits for the server: if the server's did, both could wait for each other."""
        written = asyncio.Event()
        self._lines.put_nowait((line, written))
        if waits or self._lines.qsize() > 2 * limits.GUARD_IN_FLIGHT:  # more than was held: it asks, and reads nothing
            await written.wait()

    async def _writing(self) -> None:
        """Write the server's lines, each whole, until its input is to be closed."""
        while (next_one := await self._lines.get()) is not None:
            line, written = next_one
            with contextlib.suppress(BrokenPipeError):  # it reads no more: its end is told by its output
                await self._server.write(line)
            written.set()
        self._server.close_stdin()


def _from_client(piece: Piece) -> tuple[Inbound, JsonValue]:
    """A line of the client: what it is, and the whole message."""
    match piece:
        case Line(data=data):
            try:
                whole = jsonio.parse(data, size=limits.FRAME_BYTES, locate=False)
            except jsonio.JsonError as error:
                return Refused(code=jsonrpc.PARSE_ERROR, message=f"Parse error: {error.problem}"), None
            return inbound.classify(whole), whole
        case Oversized(limit_bytes=limit):
            return Refused(code=jsonrpc.PARSE_ERROR, message=f"Parse error: a line of more than {limit} bytes"), None
        case Exhausted():
            return Refused(code=jsonrpc.PARSE_ERROR, message="Parse error: more than one connection may carry"), None
        case _:
            assert_never(piece)
