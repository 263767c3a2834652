"""What happens to each message between one client and one server. Pure: a message in, what is to be done out.

Invariants:
- An answer of the server reaches the client once, and only for a request that is open; one that the server asked of
  the client likewise. How many are open is bounded on both sides.
- Whatever strings a server says have passed the controls of `results` and `definitions`. Its list of tools is read
  whole and judged (`listing`) before any of it is shown or called, by requests of ours that the client does not see.
- What a client says is passed on as it was read, without foreign `_meta`. Both eras are relayed, neither is translated.
- A call is recorded before it is passed on, and before its answer is.

Not promised: that a server does what it is asked, or that what it says is true.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from fumehood.content.control import Controls
from fumehood.core import limits
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.guard import answers, definitions, results
from fumehood.gateway.guard.events import (
    Event,
    Recorded,
    Said,
    ToClient,
    ToServer,
    fits,
    is_answer_first,
    meant,
    message,
    named,
    params_of,
    passed,
    refusal,
)
from fumehood.gateway.guard.listing import Failed, Judge, Listing, Taken, Withheld
from fumehood.gateway.guard.record import Calls
from fumehood.gateway.guard.results import ResultError
from fumehood.wire import frames, jsonrpc
from fumehood.wire.frames import Frame
from fumehood.wire.inbound import Answered, Asked, Inbound, Refused, Told
from fumehood.wire.jsonrpc import Id
from fumehood.wire.lines import Exhausted, Oversized

Events: TypeAlias = Iterator[Event]

BUSY: Final = -32000  # the first of the codes that JSON-RPC leaves to servers
WITHHELD: Final = -32001
_LIST, _CALL, _CANCELLED = "tools/list", "tools/call", "notifications/cancelled"
_CHANGED: Final = "notifications/tools/list_changed"
_OURS: Final = "fumehood:"  # begins the ids of our own requests


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """A request of the client that has no answer yet."""

    asked: Asked
    call: int = 0  # its number in the audit log, of a call
    held: int = 0  # its bytes, while it waits for the list of tools


class Traffic:
    """One connection."""

    def __init__(self, controls: Controls, judge: Judge, calls: Calls) -> None:
        """Nothing was said."""
        self._controls = controls
        self._calls = calls
        self._open: dict[Id, _Open] = {}
        self._asked_back: dict[Id, str] = {}
        self._listing = Listing(judge)
        self._shown: list[JsonValue] = []
        self._names: frozenset[str] = frozenset()
        self._said: set[str] = set()
        self._ours: Id | None = None  # our own request, of which there is one at a time
        self._envelope: JsonObject = {}  # the `_meta` of the request that made us ask
        self._asked = 0
        self.dropped = 0  # messages of the server that nobody waited for, or that were none

    @property
    def is_awaited(self) -> bool:
        """Whether the client still waits for an answer."""
        return bool(self._open)

    @property
    def is_held(self) -> bool:
        """Whether something of the client still waits to be passed on to the server."""
        return any(one.held for one in [*self._open.values()])  # a copy: another thread may decide meanwhile

    # --- from the client

    def from_client(self, read: Inbound, whole: JsonValue) -> Events:
        """What one message of the client leads to; `whole` is the message."""
        match read:
            case Asked():
                yield from self._request(read)
            case Told(method=method, params=params):
                yield from self._told(method, params)
            case Answered(id=ident):
                yield from self._answered_back(ident, whole)
            case Refused(code=code, message=words, id=ident):
                yield ToClient(line=jsonrpc.error_response(ident, code, words))

    def _request(self, asked: Asked) -> Events:
        if asked.id in self._open:
            words = "Invalid request: a request with this id is in flight"
            yield ToClient(line=jsonrpc.error_response(None, jsonrpc.INVALID_REQUEST, words))
        elif len(self._open) >= limits.GUARD_IN_FLIGHT or str(asked.id).startswith(_OURS):
            yield refusal(asked.id, BUSY, f"{limits.GUARD_IN_FLIGHT} requests have no answer yet: ask again later")
        elif asked.method not in {_LIST, _CALL}:
            self._open[asked.id] = _Open(asked=named(asked))
            yield ToServer(line=passed(asked))
        elif asked.method == _CALL and self._listing.known:
            yield from self._call(asked)
        elif (held := self._held() + len(passed(asked))) > limits.GUARD_HELD_BYTES:
            yield refusal(asked.id, BUSY, f"{held} bytes would wait for the list of tools: ask again later")
        else:
            self._open[asked.id] = _Open(asked=asked, held=len(passed(asked)))
            if not self._listing.reading:
                yield self._read_list(asked)

    def _held(self) -> int:
        """Bytes of requests that wait for the list of tools."""
        return sum(one.held for one in self._open.values())

    def _told(self, method: str, params: JsonObject | None) -> Events:
        if method == _CANCELLED:
            ident = (params or {}).get("requestId")
            found = self._open.pop(ident, None) if jsonrpc.is_id(ident) else None
            if found is None:
                return
            if found.call:
                yield Recorded(event=self._calls.ended(found.call, outcome="cancelled"))
            if found.held:
                return
        yield ToServer(line=message({"method": method, **params_of(params)}))

    def _answered_back(self, ident: Id | None, whole: JsonValue) -> Events:
        """An answer of the client to what the server asked it."""
        if ident is None or not isinstance(whole, dict) or self._asked_back.pop(ident, None) is None:
            return
        kept = {key: value for key, value in whole.items() if key in {"id", "result", "error"}}
        yield ToServer(line=message(kept))

    def _call(self, asked: Asked) -> Events:
        """A call, with the list judged."""
        name = (asked.params or {}).get("name")
        rule, words = self._denied(name)
        number, begun = self._calls.begun(asked.params, decision=rule or "allowed")
        if begun is not None:
            yield Recorded(event=begun)
        if rule:
            yield refusal(asked.id, WITHHELD if rule == "withheld" else jsonrpc.INVALID_PARAMS, words)
            return
        self._open[asked.id] = _Open(asked=named(asked), call=number)
        yield ToServer(line=passed(asked))

    def _denied(self, name: JsonValue) -> tuple[str, str]:
        """The rule that denies a call, and its words; empty when none does."""
        match self._listing.outcome:
            case Withheld(reason=reason):
                return "withheld", reason
            case Failed(reason=reason):
                return "no_list", f"no tool can be called: {reason}"
            case Taken():
                return ("", "") if name in self._names else ("unknown_tool", "the server lists no tool of that name")

    # --- the list of tools

    def _read_list(self, asked: Asked) -> ToServer:
        """Ask for its first page, in the envelope of whoever made us."""
        self._listing.begin()
        self._envelope = results.meta((asked.params or {}).get("_meta"))
        self._envelope.pop("progressToken", None)
        return self._ask_page(None)

    def _ask_page(self, cursor: str | None) -> ToServer:
        self._asked += 1
        self._ours = f"{_OURS}{self._asked}"
        params: JsonObject = {"_meta": self._envelope} if self._envelope else {}
        if cursor is not None:
            params["cursor"] = cursor
        return ToServer(line=message({"id": self._ours, "method": _LIST, "params": params}))

    def _page(self, frame: frames.Response | frames.ErrorResponse) -> Events:
        if isinstance(frame, frames.Response):
            cursor = self._listing.page(frame.result)
            if cursor is not None:
                yield self._ask_page(cursor)
                return
        else:
            words = results.error_words(frame.message, self._controls)
            self._listing.fail(f"the server refuses to list its tools: {words} ({frame.code})")
        self._ours = None
        yield from self._judged()
        for ident, one in [*self._open.items()]:
            if one.held:
                del self._open[ident]
                yield from self._call(one.asked) if one.asked.method == _CALL else self._tools(one.asked)

    def _judged(self) -> Events:
        shown = definitions.tools(self._listing.tools, self._controls)
        self._shown = [*shown.items]
        self._names = frozenset(str(one["name"]) for one in shown.items)
        outcome = self._listing.outcome
        if isinstance(outcome, Withheld):
            yield Said(text=f"its tools are withheld: {outcome.reason}")
            yield from (Said(text=one) for one in outcome.said)
        elif isinstance(outcome, Taken):
            yield from (Said(text=one) for one in outcome.said)
        yield from self._say(shown.said)

    def _tools(self, asked: Asked) -> Events:
        """The answer to `tools/list`: the whole list at once."""
        outcome = self._listing.outcome
        if isinstance(outcome, Failed):
            yield refusal(asked.id, jsonrpc.INTERNAL_ERROR, outcome.reason)
            return
        beside = results.anything(self._listing.first, self._controls)
        yield ToClient(line=message({"id": asked.id, "result": {**beside, "tools": self._shown}}))

    # --- from the server

    def from_server(self, frame: Frame | Exhausted, head: bytes = b"", tail: bytes = b"") -> Events:
        """What one line of the server leads to; `head` and `tail` are its ends, for a line that is no message."""
        match frame:
            case frames.Response() | frames.ErrorResponse() if frame.id == self._ours and frame.id is not None:
                yield from self._page(frame)
            case frames.Response() | frames.ErrorResponse():
                yield from self._answer(frame)
            case frames.Request(id=ident, method=method):
                yield from self._asks(ident, method, frame.params)
            case frames.Notification(method=method, params=params):
                yield from self._tells(method, params)
            case frames.Noise():
                self.dropped += 1
                yield from self._say(("a line that is no message is left out",))
            case frames.Malformed() | Oversized() | Exhausted():
                yield from self._broken(frame, head, tail)

    def _answer(self, frame: frames.Response | frames.ErrorResponse) -> Events:
        found = self._open.get(frame.id) if frame.id is not None else None
        if found is None or found.held or frame.id is None:
            self.dropped += 1
            yield from self._say(("an answer that nobody waits for is left out",))
            return
        del self._open[frame.id]
        line, error = answers.answer(found.asked, frame, self._controls)
        if found.call:
            yield Recorded(event=self._calls.ended(found.call, outcome="failed" if error else "ok", size=len(line)))
        yield ToClient(line=line)

    def _asks(self, ident: Id, method: str, params: JsonValue) -> Events:
        """A request of the server to the client: sampling, elicitation, roots, a ping."""
        if ident in self._asked_back or len(self._asked_back) >= limits.GUARD_ASKED_BACK or not fits(ident, method):
            self.dropped += 1
            yield from self._say(("it asks the client more at once than is passed on",))
            return
        try:
            inner = answers.params(params, self._controls)
        except ResultError as error:
            yield ToServer(line=jsonrpc.error_response(ident, jsonrpc.INVALID_PARAMS, error.message))
            return
        self._asked_back[ident] = method
        yield ToClient(line=message({"id": ident, "method": method, **inner}))

    def _tells(self, method: str, params: JsonValue) -> Events:
        if method == _CHANGED:
            self._listing.changed()
        if method == _CANCELLED and isinstance(params, dict) and jsonrpc.is_id(ident := params.get("requestId")):
            self._asked_back.pop(ident, None)
        if not fits("", method):
            self.dropped += 1
            return
        try:
            inner = answers.params(params, self._controls)
        except ResultError:
            self.dropped += 1
            return
        yield ToClient(line=message({"method": method, **inner}))

    def _broken(self, frame: frames.Malformed | Oversized | Exhausted, head: bytes, tail: bytes) -> Events:
        """A line that was meant as a message: whoever seems to wait for it is told."""
        self.dropped += 1
        what = frame.problem if isinstance(frame, frames.Malformed) else "a line over its bound"
        yield from self._say((f"a message that cannot be read is left out: {what}",))
        ident = meant(head, tail)
        if ident is None and isinstance(frame, Oversized) and is_answer_first(head):
            ident = self._only()
        if ident is not None and ident == self._ours:
            yield from self._page(frames.ErrorResponse(id=ident, code=jsonrpc.PARSE_ERROR, message=what))
        elif ident is not None and ident in self._open and not self._open[ident].held:
            answer = frames.ErrorResponse(id=ident, code=jsonrpc.INTERNAL_ERROR, message=f"the server sent {what}")
            yield from self._answer(answer)

    def _only(self) -> Id | None:
        """The one request that waits for the server, if there is but one: nothing is kept of a long line's end."""
        waiting = [self._ours] if self._ours is not None else []
        waiting += [ident for ident, one in self._open.items() if not one.held]
        return waiting[0] if len(waiting) == 1 else None

    def _say(self, words: tuple[str, ...]) -> Events:
        """Each thing once, and not without end."""
        for text in words:
            if text not in self._said and len(self._said) < limits.GUARD_SAID:
                self._said.add(text)
                yield Said(text=text)
