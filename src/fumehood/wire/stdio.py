"""The client half of an MCP session over stdio, bounded on every side, for peers that we do not trust.

It reads and writes through two callables and owns neither processes nor deadlines: `asyncio.timeout` around
`initialize`, `discover` and `drain` is the caller's, and after it has fired `Session.undecided` says what had been
seen. Further questions, one after another, are `wire.conversation`'s.

Invariants: memory is bounded by one frame, the quotas of the transcript and the queue of replies; writing never holds
up reading, so a peer that does not read cannot make its own answer invisible; every frame is counted.

Not promised: that a peer's text is inert. Whatever is its own stays `Untrusted`.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from fumehood.core import limits
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.core.untrusted import Untrusted
from fumehood.wire import frames, jsonrpc, modern, outcomes, revisions
from fumehood.wire.frames import Frame
from fumehood.wire.jsonrpc import Id
from fumehood.wire.lines import Exhausted, Line, LineSplitter, Oversized, Piece
from fumehood.wire.outcomes import Outcome
from fumehood.wire.transcript import Direction, FrameKind, Transcript, untrusted_text

_OWN_QUEUED = 8  # of our own frames, beside the replies: a peer that floods with requests has not yet read them

Read: TypeAlias = Callable[[], Awaitable[bytes]]  # some bytes, at most a pipe's worth; none at the end
Write: TypeAlias = Callable[[bytes], Awaitable[None]]
Reply: TypeAlias = Callable[[frames.Request], bytes]  # one line for what the peer asks


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Who we say we are. A constant name would give the sandbox away: the caller chooses."""

    name: str
    version: str
    asks: str = revisions.REVIEWED
    id: Id = 0  # what the published SDKs begin with
    capabilities: JsonObject = field(default_factory=dict)


class Session:
    """One conversation. Made by `session`, which owns the task that writes."""

    def __init__(self, read: Read, write: Write, *, splitter: LineSplitter | None = None) -> None:
        """Wrap two ends of pipes."""
        self.transcript = Transcript()
        self.noise_sample: Untrusted | None = None  # the first line that was not a frame
        self.answers = 0  # with an id that was asked with, those that counted included
        self.later_answers = 0  # second ones, and those to what nobody waits for any more
        self.other_answers = 0  # with an id that was never asked with
        self.replies_dropped = 0
        self.ended = False  # the peer closed its output
        self.deaf = False  # the peer closed its input
        self.exhausted = False
        self.activity = ""  # what is under way: a word of the caller's, which frames are recorded with
        self.last_line = b""  # of the last frame, without its line end; of one over its bound only the beginning
        self.heard: Callable[[bytes], None] = lambda _: None  # is given each of these lines
        self.reply: Reply = declined
        self.splitter = splitter or LineSplitter()
        self._read = read
        self._write = write
        self._replies = 0
        self._pieces: deque[Piece] = deque()
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue(maxsize=limits.REPLIES_QUEUED + _OWN_QUEUED)
        self._asked: Id | None = None
        self._open = False  # whether it has no answer yet
        self._past: set[tuple[type, Id]] = set()

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
        self.transcript.add(Direction.SENT, frames.classify(Line(data=data[:-1])), data[:-1], self.activity)
        return True

    def ask(self, ident: Id, data: bytes) -> bool:
        """Send the one request whose answer is waited for from now on; false as `send`."""
        self.forget()
        self._asked = ident
        self._open = True
        return self.send(data)

    def forget(self) -> None:
        """Wait no longer for the answer to what was asked; one that comes yet is counted as a later one."""
        if self._asked is not None:
            self._past.add((type(self._asked), self._asked))
        self._asked = None

    async def receive(self) -> Frame | Exhausted | None:
        """The next frame, counted; None at the end of the stream. The peer's own requests are answered in passing."""
        while not self._pieces:
            if self.ended:
                return None
            data = await self._read()
            self.ended = not data
            self._pieces.extend(self.splitter.feed(data) if data else self.splitter.close())
            await asyncio.sleep(0)  # a reader that always has data must not keep the deadline from firing
        frame = await self._note(self._pieces[0])
        self._pieces.popleft()  # only now: a deadline that fires while a large frame is read loses none
        return frame

    async def _note(self, piece: Piece) -> Frame | Exhausted:
        if isinstance(piece, Exhausted):
            self.exhausted = True
            return piece
        large = isinstance(piece, Line) and len(piece.data) > limits.FRAME_INLINE_BYTES
        frame = await asyncio.to_thread(frames.classify, piece) if large else frames.classify(piece)
        data = piece.prefix if isinstance(piece, Oversized) else piece.data
        self.transcript.add(Direction.RECEIVED, frame, data, self.activity)
        self.last_line = data
        self.heard(data)
        match frame:
            case frames.Noise():
                self.noise_sample = self.noise_sample or Untrusted(data[: limits.TEXT_BYTES], source="stdout")
            case frames.Request():
                self._answer(frame)
            case frames.Response() | frames.ErrorResponse():
                self._count_answer(frame.id)
            case _:
                pass
        return frame

    def _count_answer(self, ident: Id | None) -> None:
        asked = self.is_ours(ident) or (type(ident), ident) in self._past
        first = self._open and self.is_ours(ident)
        self._open = self._open and not first
        self.answers += asked
        self.later_answers += asked and not first
        self.other_answers += not asked

    def is_ours(self, ident: Id | None) -> bool:
        """Whether an answer's id is that of the question."""
        return self._asked is not None and jsonrpc.same_id(ident, self._asked)

    def _answer(self, request: frames.Request) -> None:
        room = self._outbox.qsize() < limits.REPLIES_QUEUED  # the rest is for what we ask
        if self._replies < limits.REPLIES and room and self.send(self.reply(request)):
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


def declined(request: frames.Request) -> bytes:
    """A ping is answered; whatever else a server may ask of a client, this one offers nothing."""
    if request.method == "ping":
        return jsonrpc.response(request.id, {})
    return jsonrpc.error_response(request.id, jsonrpc.METHOD_NOT_FOUND, "Method not found")


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
        "capabilities": client.capabilities,
        "clientInfo": {"name": client.name, "version": client.version},
    }
    opened.ask(client.id, jsonrpc.request(client.id, "initialize", params))
    outcome = await _outcome(opened, _Legacy(asks=client.asks))
    if isinstance(outcome, outcomes.Initialized):
        opened.send(jsonrpc.notification("notifications/initialized"))
    return outcome


async def discover(opened: Session, client: Client) -> Outcome:
    """Ask who answers in the modern era; no confirmation follows. Ends as `initialize` does."""
    params = modern.wrap({}, modern.Asker(name=client.name, version=client.version, capabilities=client.capabilities))
    opened.ask(client.id, jsonrpc.request(client.id, modern.DISCOVER, params))
    return await _outcome(opened, _Modern())


async def drain(opened: Session) -> None:
    """Read on, counting and answering, until the peer closes its output; the caller's deadline ends it otherwise."""
    while await opened.receive() is not None:
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class _Legacy:
    """How the answer to `initialize` is read."""

    asks: str

    def read(self, result: JsonValue) -> revisions.Reading:
        return revisions.read_initialize_result(result, asked=self.asks)

    def means_another_era(self, code: int) -> bool:
        return revisions.means_another_era(code)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Modern:
    """How the answer to `server/discover` is read."""

    def read(self, result: JsonValue) -> revisions.Reading:
        return modern.read_discover_result(result)

    def means_another_era(self, code: int) -> bool:
        return modern.means_another_era(code)


async def _outcome(opened: Session, era: _Legacy | _Modern) -> Outcome:
    while (frame := await opened.receive()) is not None:
        outcome = _judge(opened, frame, era)
        if outcome is not None:
            return outcome
    undecided = opened.undecided()
    return undecided if isinstance(undecided, outcomes.OnlyOtherIds) else outcomes.Exited()


def _judge(opened: Session, frame: Frame | Exhausted, era: _Legacy | _Modern) -> Outcome | None:
    """What a frame decides; None where it decides nothing."""
    match frame:
        case frames.Response():
            return _judge_result(era.read(frame.result)) if opened.is_ours(frame.id) else None
        case frames.ErrorResponse():
            return _judge_refusal(frame, era) if opened.is_ours(frame.id) else None
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


def _judge_result(reading: revisions.Reading) -> Outcome:
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


def _judge_refusal(frame: frames.ErrorResponse, era: _Legacy | _Modern) -> Outcome:
    kind = outcomes.OtherEra if era.means_another_era(frame.code) else outcomes.ErrorReply
    data = None if frame.data is None else untrusted_text(json.dumps(frame.data), source="error data")
    return kind(code=frame.code, message=untrusted_text(frame.message, source="error message"), data=data)
