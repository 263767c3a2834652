"""One conversation with a server as a state machine: requests out, frames in, events out. Pure.

Invariants: ids are numbers, never used twice, and are the progress tokens as well; each open request gets at most one
answer, its own, matched by id and its type; progress reaches an open request that wants it, and nothing after its
answer; what the server asks is answered by us: a ping with nothing, everything else with -32601; a line that was meant
as a message and cannot be read fails the request that it seems to answer, or, where that cannot be told while somebody
waits, the conversation.

What nobody asked for is counted in `unasked`; it costs no memory.
"""

import math
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from fumehood.core import jsonio, limits
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.guard import events
from fumehood.wire import frames, jsonrpc
from fumehood.wire.frames import Frame
from fumehood.wire.lines import Exhausted, Oversized

_PROGRESS: Final = "notifications/progress"
_CANCELLED: Final = "notifications/cancelled"
_NAMED: Final = re.compile(rb'"id"\s*:\s*[a-z0-9"-]')  # whatever it is
_OVERSIZED: Final = "a line over its bound"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A request has its result."""

    id: int
    result: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A request is refused by the server; `words` are its own, cut."""

    id: int
    number: int
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A request will get no answer that can be read."""

    id: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """How far an open request is."""

    id: int
    progress: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A notification, without its `_meta`."""

    method: str
    params: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A line that answers the server."""

    line: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Nothing that follows can be relied on."""

    why: str


Event: TypeAlias = Answered | Refused | Failed | Progressed | Told | Reply | Lost


class Talk:
    """One conversation."""

    def __init__(self) -> None:
        """Nothing was asked yet."""
        self.unasked = 0  # lines that nobody waits for: noise, late and second answers, notifications, requests
        self.noise = 0  # of them, lines that are no messages
        self._open: dict[int, bool] = {}  # requests without an answer: whether progress is wanted
        self._last = 0

    @property
    def open(self) -> int:
        """How many requests have no answer."""
        return len(self._open)

    def begin(self, *, progress: bool) -> int:
        """The id of a new request, which is open from now on; its progress token as well."""
        self._last += 1
        self._open[self._last] = progress
        return self._last

    def cancel(self, ident: int) -> bytes | None:
        """Forget a request that nobody waits for any more: what the server is told, if it has not answered yet."""
        if self._open.pop(ident, None) is None:
            return None
        return jsonrpc.notification(_CANCELLED, {"requestId": ident})

    def heard(self, frame: Frame | Exhausted, head: bytes = b"", tail: bytes = b"") -> Event | None:
        """What one line of the server leads to; `head` and `tail` are its ends, for a line that cannot be read."""
        match frame:
            case frames.Response(id=int(ident), result=result) if self._open.pop(ident, None) is not None:
                return Answered(id=ident, result=result)
            case frames.ErrorResponse(id=int(ident)) if self._open.pop(ident, None) is not None:
                return _refused(ident, frame)
            case frames.ErrorResponse(id=None) if len(self._open) == 1:  # it could not read whose it was
                return _refused(self._open.popitem()[0], frame)
            case frames.Malformed(problem=problem):
                return self._broken(problem, head, tail)
            case Oversized():
                return self._broken(_OVERSIZED, head, tail)
            case _:
                return self._unasked(frame)

    def _unasked(self, frame: Frame | Exhausted) -> Event | None:
        """A line that answers nothing that is open."""
        self.unasked += 1
        match frame:
            case frames.Notification(method=method, params=params):
                return self._told(method, params)
            case frames.Request(id=asked, method=method):
                return _reply(asked, method)
            case Exhausted():
                return Lost(why="the server said more than is read")
            case _:
                self.noise += isinstance(frame, frames.Noise)
                return None

    def _told(self, method: str, params: JsonValue) -> Event | None:
        if not events.fits("", method) or not isinstance(params, dict | None) or method == _CANCELLED:
            return None  # of what we ask nothing is cancelled by a server, and of what it asks nothing is open
        given = params or {}
        if method == _PROGRESS:
            return self._progress(given)
        return Told(method=method, params={name: value for name, value in given.items() if name != "_meta"})

    def _progress(self, params: JsonObject) -> Event | None:
        match params:
            case {"progressToken": int(token), "progress": done} if self._open.get(token) and _is_number(done):
                shown: JsonObject = {"progress": done}
                if _is_number(total := params.get("total")):
                    shown["total"] = total
                if isinstance(words := params.get("message"), str):
                    shown["message"] = words[: limits.UPSTREAM_PROGRESS_CHARACTERS]
                return Progressed(id=token, progress=shown)
            case _:
                return None

    def _broken(self, problem: str, head: bytes, tail: bytes) -> Event | None:
        """A line that began as a message: whoever seems to wait for it is told."""
        ident = events.meant(head, tail)
        first = events.is_answer_first(head)
        if ident is None and first and len(self._open) == 1:  # of a line over its bound no end is kept
            ident = next(iter(self._open))
        if isinstance(ident, int) and self._open.pop(ident, None) is not None:
            return Failed(id=ident, why=f"the server sent {problem}")
        self.unasked += 1
        nobodys = ident is not None or _NAMED.search(head) or _NAMED.search(tail)  # an id that is none of ours
        if self._open and not nobodys and (first or b'"jsonrpc"' in head):
            return Lost(why=f"the server sent a message that cannot be read: {problem}")
        self.noise += 1
        return None


def request(ident: int, method: str, params: JsonObject) -> bytes:
    """A request as one line."""
    return jsonio.line({"jsonrpc": "2.0", "id": ident, "method": method, "params": params})


def _refused(ident: int, frame: frames.ErrorResponse) -> Refused:
    return Refused(id=ident, number=frame.code, words=frame.message[: limits.GUARD_ERROR_CHARACTERS])


def _reply(ident: jsonrpc.Id, method: str) -> Reply | None:
    if not events.fits(ident, method):
        return None
    if method == "ping":
        return Reply(line=jsonrpc.response(ident, {}))
    return Reply(line=jsonrpc.error_response(ident, jsonrpc.METHOD_NOT_FOUND, "Method not found"))


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
