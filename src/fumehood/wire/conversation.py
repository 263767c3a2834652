"""One conversation with a server that we do not trust, in either era: a handshake, then questions, one after another.

    talk = Conversation(opened, client, era="legacy", begin=timeline_of_the_caller)
    outcome = await talk.open(seconds=60)
    reply = await talk.request("tools/list", {}, seconds=60)

Invariants: a request ends in exactly one `Reply`, by its own deadline at the latest; an answer with another id, noise,
a frame over its bound in between, or a late answer to an earlier question is counted and never taken for the answer;
what the server asks of us is declined and recorded in `asked`, within a bound, in the modern era as well, where it is a
result (`InputRequired`).

Not promised: that what was answered fits anything. Results are JSON within the bounds of `wire.frames`.

Sources: the MCP specification 2025-06-18 (lifecycle; sampling, where -1 is a user's refusal; elicitation) and
2026-07-28 (multi round-trip requests).
"""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from fumehood.core import jsonio, limits
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.core.untrusted import Untrusted
from fumehood.wire import frames, jsonrpc, modern, outcomes, revisions, stdio
from fumehood.wire.frames import Frame
from fumehood.wire.hosting import Era
from fumehood.wire.lines import Exhausted, Oversized
from fumehood.wire.transcript import untrusted_text

DECLARED: Final[JsonObject] = {"sampling": {}, "elicitation": {}}  # so that servers ask for what is then declined

_USER_REJECTED: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result, and the whole line that it came in."""

    result: JsonValue
    line: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An error in place of a result."""

    code: int
    message: Untrusted
    line: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRequired:
    """The modern era's result that asks us back; it was declined, which means that the request ends here."""

    line: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A line that was meant as a message and is none, while nothing else was waited for; `problem` is ours."""

    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """No answer within the seconds; the server was told that nobody waits any more."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Nothing can be asked any more."""

    why: Literal["exited", "input_closed", "stream_too_large"]


Reply: TypeAlias = Answer | Refusal | InputRequired | Unreadable | TimedOut | Ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Something that the server asked of its client, and what it was answered."""

    method: Untrusted
    answer: Literal["declined", "answered", "not answered"]
    activity: str  # what was under way
    size: int  # of the params as canonical JSON
    digest: str  # SHA-256 of them
    params: Untrusted  # their beginning


class Conversation:
    """One conversation over an open session."""

    def __init__(
        self, opened: stdio.Session, client: stdio.Client, era: Era, begin: Callable[[str], None] = lambda _: None
    ) -> None:
        """Speak as `client`; `begin` is told of each activity when it begins."""
        self.session = opened
        self.era: Era = era
        self.outcome: outcomes.Outcome | outcomes.NoAnswer = outcomes.NoAnswer()
        self.asked: list[Asked] = []
        self.asked_lost = 0
        self._client = client
        self._begin = begin
        self._next = 0
        self._turn = asyncio.Lock()
        opened.reply = self._declined

    @property
    def opening(self) -> str:
        """The method of the handshake."""
        return "initialize" if self.era == "legacy" else modern.DISCOVER

    @property
    def introduction(self) -> revisions.InitializeResult | None:
        """Who answered, once the handshake was completed."""
        return self.outcome.result if isinstance(self.outcome, outcomes.Initialized) else None

    @property
    def ended(self) -> Ended | None:
        """Why nothing can be asked any more; None while something can."""
        if self.session.exhausted:
            return Ended(why="stream_too_large")
        if self.session.ended:
            return Ended(why="exited")
        return Ended(why="input_closed") if self.session.deaf else None

    def begin(self, activity: str) -> None:
        """From now on this is under way. `activity` is inert: our own words, and a name that was made inert."""
        self.session.activity = activity
        self._begin(activity)

    async def open(self, seconds: float) -> outcomes.Outcome | outcomes.NoAnswer:
        """The era's handshake: `initialize` and its confirmation, or `server/discover`."""
        self.begin(self.opening)
        shake = stdio.initialize if self.era == "legacy" else stdio.discover
        try:
            async with asyncio.timeout(seconds):
                self.outcome = await shake(self.session, self._client)
        except TimeoutError:
            self.outcome = self.session.undecided()
        return self.outcome

    async def request(
        self, method: str, params: JsonObject | None = None, *, seconds: float, activity: str | None = None
    ) -> Reply:
        """Ask and wait. Several callers are served one after another; the seconds begin when it is a request's turn."""
        async with self._turn:
            if (ended := self.ended) is not None:
                return ended
            self.begin(activity or method)
            self._next += 1
            ident = self._next if self._client.id != self._next else self._next + 1
            self._next = ident
            if not self.session.ask(ident, jsonrpc.request(ident, method, self._wrapped(params or {}))):
                return self.ended or TimedOut(seconds=0.0)  # it does not read what is sent
            try:
                async with asyncio.timeout(seconds):
                    return await self._reply()
            except TimeoutError:
                self.session.send(jsonrpc.notification("notifications/cancelled", {"requestId": ident}))
                return TimedOut(seconds=seconds)
            finally:
                self.session.forget()

    async def drain(self) -> None:
        """Read on until the server closes its output; the caller's deadline ends it otherwise."""
        await self.session.flushed()
        await stdio.drain(self.session)

    def _wrapped(self, params: JsonObject) -> JsonObject:
        if self.era == "legacy":
            return params
        client = self._client
        return modern.wrap(
            params, modern.Asker(name=client.name, version=client.version, capabilities=client.capabilities)
        )

    async def _reply(self) -> Reply:
        while (frame := await self.session.receive()) is not None:
            if (reply := self._judge(frame)) is not None:
                return reply
        return Ended(why="exited")

    def _judge(self, frame: Frame | Exhausted) -> Reply | None:
        """What a frame decides; None where it decides nothing."""
        line = self.session.last_line
        match frame:
            case frames.Response(id=ident, result=result) if self.session.is_ours(ident):
                return self._result(result, line)
            case frames.ErrorResponse(id=ident) if ident is None or self.session.is_ours(ident):
                message = untrusted_text(frame.message, source="error message")
                return Refusal(code=frame.code, message=message, line=line)
            case frames.Malformed(problem=problem) if _meant(line):
                return Unreadable(problem=problem)
            case Oversized(limit_bytes=limit) if _meant(line):
                return Unreadable(problem=f"a frame is larger than {limit} bytes")
            case Exhausted():
                return Ended(why="stream_too_large")
            case _:
                return None

    def _result(self, result: JsonValue, line: bytes) -> Reply:
        if self.era == "legacy":
            return Answer(result=result, line=line)
        kind = modern.kind_of(result)
        if kind == modern.INPUT_REQUIRED:
            for method, params in modern.input_requests(result, limits.FRAMES_RECORDED):
                self._note(method, params, "declined")
            return InputRequired(line=line)
        if kind != modern.COMPLETE:
            return Unreadable(problem="the resultType is neither complete nor input_required")
        return Answer(result=result, line=line)

    def _declined(self, request: frames.Request) -> bytes:
        """Whatever is asked but a ping is declined, in the way that a client of ours would decline it."""
        offered = request.method.partition("/")[0] in self._client.capabilities
        self._note(request.method, request.params, "answered" if request.method == "ping" else "declined")
        if offered and request.method == "elicitation/create":
            return jsonrpc.response(request.id, {"action": "decline"})
        if offered and request.method == "sampling/createMessage":
            return jsonrpc.error_response(request.id, _USER_REJECTED, "User rejected sampling request")
        return stdio.declined(request)

    def _note(self, method: str, params: JsonValue, answer: Literal["declined", "answered"]) -> None:
        if len(self.asked) >= limits.FRAMES_RECORDED:
            self.asked_lost += 1
            return
        data = jsonio.canonical(params)
        self.asked.append(
            Asked(
                method=untrusted_text(method, source="method"),
                answer=answer,
                activity=self.session.activity,
                size=len(data),
                digest=hashlib.sha256(data).hexdigest(),
                params=Untrusted(data[: limits.TEXT_BYTES], source="params"),
            )
        )


def _meant(line: bytes) -> bool:
    """Whether a line that cannot be read was meant as a message: it says so. `{ a: 1 }` of a log is not."""
    return b'"jsonrpc"' in line[:4096] or b'"jsonrpc"' in line[-4096:]
