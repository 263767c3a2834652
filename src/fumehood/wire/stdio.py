"""The client half of an MCP session over stdio, bounded on every side, for peers that we do not trust.

It reads and writes through two callables and owns neither processes nor deadlines: `asyncio.timeout` around
`initialize` and `drain` is the caller's, and after it has fired `Session.undecided` says what had been seen.

Invariants: memory is bounded by one frame, the quotas of the transcript and the queue of replies; writing never holds
up reading, so a peer that does not read cannot make its own answer invisible; every frame is counted.

Not promised: that a peer's text is inert. Whatever is its own stays `Untrusted`.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from fumehood.core import limits
from fumehood.core.jsonio import JsonValue
from fumehood.core.untrusted import Untrusted
from fumehood.wire import frames, jsonrpc, outcomes, revisions
from fumehood.wire.frames import Frame
from fumehood.wire.jsonrpc import Id
from fumehood.wire.lines import Exhausted, Line, LineSplitter, Oversized, Piece
from fumehood.wire.outcomes import Outcome
from fumehood.wire.transcript import Direction, FrameKind, Transcript, untrusted_text

Read: TypeAlias = Callable[[], Awaitable[bytes]]  # some bytes, at most a pipe's worth; none at the end
Write: TypeAlias = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Who we say we are. A constant name would give the sandbox away: the caller chooses."""

    name: str
    version: str
    asks: str = revisions.REVIEWED
    id: Id = 0  # what the published SDKs begin with


class Session:
    """One conversation. Made by `session`, which owns the task that writes."""

    def __init__(self, read: Read, write: Write, *, splitter: LineSplitter | None = None) -> None:
        """Wrap two ends of pipes."""
        self.transcript = Transcript()
        self.noise_sample: Untrusted | None = None  # the first line that was not a frame
        self.answers = 0  # with our id, the one that counted included
        self.other_answers = 0
        self.replies_dropped = 0
        self.ended = False  # the peer closed its output
        self.deaf = False  # the peer closed its input
        self.exhausted = False
        self.splitter = splitter or LineSplitter()
        self._read = read
        self._write = write
        self._replies = 0
        self._pieces: deque[Piece] = deque()
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue(maxsize=limits.REPLIES_QUEUED)
        self._asked: Id | None = None

    @property
    def later_answers(self) -> int:
        """Second and further answers to one question."""
        return max(0, self.answers - 1)

    @property
    def noise(self) -> int:
        """Lines that were not frames; blank ones are apart, in the splitter."""
        return self.transcript.received(FrameKind.NOISE)

    def undecided(self) -> outcomes.Undecided:
        """What to say of a handshake that a deadline ended."""
        return outcomes.OnlyOtherIds(answers=self.other_answers) if self.other_answers else outcomes.NoAnswer()

    def send(self, data: bytes) -> bool:
        """Queue one frame; false where the peer holds up too many, or has closed its input."""
        if self.deaf or self._outbox.full():
            return False
        self._outbox.put_nowait(data)
        self.transcript.add(Direction.SENT, frames.classify(Line(data=data[:-1])), data[:-1])
        return True

    def ask(self, ident: Id, data: bytes) -> None:
        """Send the one request whose answer is waited for."""
        self._asked = ident
        self.send(data)

    async def receive(self) -> Frame | Exhausted | None:
        """The next frame, counted; None at the end of the stream. The peer's own requests are answered in passing."""
        while not self._pieces:
            if self.ended:
                return None
            data = await self._read()
            await asyncio.sleep(0)  # a reader that always has data must not keep the deadline from firing
            self.ended = not data
            self._pieces.extend(self.splitter.feed(data) if data else self.splitter.close())
        return await self._note(self._pieces.popleft())

    async def _note(self, piece: Piece) -> Frame | Exhausted:
        if isinstance(piece, Exhausted):
            self.exhausted = True
            return piece
        large = isinstance(piece, Line) and len(piece.data) > limits.FRAME_INLINE_BYTES
        frame = await asyncio.to_thread(frames.classify, piece) if large else frames.classify(piece)
        data = piece.prefix if isinstance(piece, Oversized) else piece.data
        self.transcript.add(Direction.RECEIVED, frame, data)
        match frame:
            case frames.Noise():
                self.noise_sample = self.noise_sample or Untrusted(data[: limits.TEXT_BYTES], source="stdout")
            case frames.Request():
                self._answer(frame)
            case frames.Response() | frames.ErrorResponse():
                if self.is_ours(frame.id):
                    self.answers += 1
                else:
                    self.other_answers += 1
            case _:
                pass
        return frame

    def is_ours(self, ident: Id | None) -> bool:
        """Whether an answer's id is that of the question."""
        return self._asked is not None and jsonrpc.same_id(ident, self._asked)

    def _answer(self, request: frames.Request) -> None:
        """A ping is answered; whatever else a server may ask of a client, this one offers nothing."""
        if request.method == "ping":
            reply = jsonrpc.response(request.id, {})
        else:
            reply = jsonrpc.error_response(request.id, jsonrpc.METHOD_NOT_FOUND, "Method not found")
        if self._replies < limits.REPLIES and self.send(reply):
            self._replies += 1
        else:
            self.replies_dropped += 1

    async def _write_all(self) -> None:
        while True:
            data = await self._outbox.get()
            try:
                if not self.deaf:
                    await self._write(data)
            except OSError:  # EPIPE, ECONNRESET: the peer closed its input; what it still says is read
                self.deaf = True
            finally:
                self._outbox.task_done()

    async def flushed(self) -> None:
        """Wait until what was queued is written, or cannot be."""
        await self._outbox.join()


@asynccontextmanager
async def session(read: Read, write: Write, *, splitter: LineSplitter | None = None) -> AsyncIterator[Session]:
    """A session whose writing task ends with it."""
    opened = Session(read, write, splitter=splitter)
    writer = asyncio.create_task(opened._write_all())  # noqa: SLF001  # the session's own owner
    try:
        yield opened
    finally:
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)


async def initialize(opened: Session, client: Client) -> Outcome:
    """Ask, wait for the matching answer, validate it, confirm it. Ends by itself or by the caller's deadline."""
    params: dict[str, JsonValue] = {
        "protocolVersion": client.asks,
        "capabilities": {},
        "clientInfo": {"name": client.name, "version": client.version},
    }
    opened.ask(client.id, jsonrpc.request(client.id, "initialize", params))
    while (frame := await opened.receive()) is not None:
        outcome = _judge(opened, frame, client)
        if isinstance(outcome, outcomes.Initialized):
            opened.send(jsonrpc.notification("notifications/initialized"))
        if outcome is not None:
            return outcome
    undecided = opened.undecided()
    return undecided if isinstance(undecided, outcomes.OnlyOtherIds) else outcomes.Exited()


async def drain(opened: Session) -> None:
    """Read on, counting and answering, until the peer closes its output; the caller's deadline ends it otherwise."""
    while await opened.receive() is not None:
        pass


def _judge(opened: Session, frame: Frame | Exhausted, client: Client) -> Outcome | None:
    """What a frame decides; None where it decides nothing."""
    match frame:
        case frames.Response():
            return _judge_result(frame.result, client) if opened.is_ours(frame.id) else None
        case frames.ErrorResponse():
            return _judge_refusal(frame) if opened.is_ours(frame.id) else None
        case frames.Malformed():
            return outcomes.BadFrame(problem=frame.problem, size=frame.size)
        case Oversized():
            return outcomes.FrameTooLarge(limit_bytes=frame.limit_bytes)
        case Exhausted():
            return outcomes.StreamTooLarge(received_bytes=frame.received_bytes)
        case frames.Request() | frames.Notification() | frames.Noise():
            return None
        case _:
            assert_never(frame)


def _judge_result(result: JsonValue, client: Client) -> Outcome:
    reading = revisions.read_initialize_result(result, asked=client.asks)
    match reading:
        case revisions.InitializeResult():
            return outcomes.Initialized(result=reading)
        case revisions.AnotherVersion():
            return outcomes.WrongVersion(
                offered=untrusted_text(reading.offered, source="protocol version"), known=reading.known
            )
        case revisions.BadShape():
            return outcomes.ShapeInvalid(errors=reading.errors)
        case _:
            assert_never(reading)


def _judge_refusal(frame: frames.ErrorResponse) -> Outcome:
    kind = outcomes.OtherEra if revisions.means_another_era(frame.code) else outcomes.ErrorReply
    data = None if frame.data is None else untrusted_text(json.dumps(frame.data), source="error data")
    return kind(code=frame.code, message=untrusted_text(frame.message, source="error message"), data=data)
