"""A bounded record of the frames that went over one session. Pure.

Counts are exact. Records are kept up to a quota per direction and kind, so that a flood of one kind hides no other.
Text of the peer's (methods, ids) stays `Untrusted`.
"""

import enum
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from fumehood.core import limits
from fumehood.core.untrusted import Untrusted
from fumehood.wire import frames
from fumehood.wire.frames import Frame
from fumehood.wire.lines import Oversized


class Direction(enum.StrEnum):
    """Who wrote a frame."""

    SENT = "sent"  # by us
    RECEIVED = "received"


class FrameKind(enum.StrEnum):
    """What a frame was."""

    REQUEST = "request"
    NOTIFICATION = "notification"
    RESPONSE = "response"
    ERROR = "error"
    NOISE = "noise"
    MALFORMED = "malformed"
    OVERSIZED = "oversized"


_KINDS: Mapping[type[Frame], FrameKind] = {
    frames.Request: FrameKind.REQUEST,
    frames.Notification: FrameKind.NOTIFICATION,
    frames.Response: FrameKind.RESPONSE,
    frames.ErrorResponse: FrameKind.ERROR,
    frames.Noise: FrameKind.NOISE,
    frames.Malformed: FrameKind.MALFORMED,
    Oversized: FrameKind.OVERSIZED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One frame: `size` in bytes without the line end, `digest` the SHA-256 of them ("" where they were dropped)."""

    direction: Direction
    kind: FrameKind
    method: Untrusted | None
    id: Untrusted | None
    size: int
    digest: str
    problem: str = ""
    activity: str = ""  # what was under way: a word of the caller's


class Transcript:
    """What one session saw, in order."""

    def __init__(self, *, per_kind: int = limits.FRAMES_RECORDED) -> None:
        """Keep at most `per_kind` records of each direction and kind."""
        self.records: list[Record] = []
        self.counts: Counter[tuple[Direction, FrameKind]] = Counter()
        self.bytes: Counter[Direction] = Counter()
        self._per_kind = per_kind

    @property
    def lost(self) -> int:
        """Frames that were counted and not recorded."""
        return self.counts.total() - len(self.records)

    def received(self, kind: FrameKind) -> int:
        """How many frames of a kind came from the peer."""
        return self.counts[Direction.RECEIVED, kind]

    def add(self, direction: Direction, frame: Frame, data: bytes, activity: str = "") -> None:
        """Count a frame whose bytes are `data`, and record it within the quota."""
        kind = kind_of(frame)
        self.counts[direction, kind] += 1
        self.bytes[direction] += len(data)
        if self.counts[direction, kind] > self._per_kind:
            return
        method = frame.method if isinstance(frame, frames.Request | frames.Notification) else None
        record = Record(
            direction=direction,
            kind=kind,
            method=None if method is None else untrusted_text(method, source="method"),
            id=_shown_id(frame),
            size=len(data),
            digest="" if kind is FrameKind.OVERSIZED else hashlib.sha256(data).hexdigest(),
            problem=frame.problem if isinstance(frame, frames.Malformed) else "",
            activity=activity,
        )
        self.records.append(record)


def kind_of(frame: Frame) -> FrameKind:
    """The word for a frame."""
    return _KINDS[type(frame)]


def untrusted_text(text: str, *, source: str) -> Untrusted:
    """Text of the peer's, closed and cut to what an observation may hold."""
    return Untrusted(text.encode("utf-8", "surrogatepass")[: limits.TEXT_BYTES], source=source)


def _shown_id(frame: Frame) -> Untrusted | None:
    """An id as JSON, so that 1 and "1" stay apart."""
    if isinstance(frame, frames.Request | frames.Response | frames.ErrorResponse):
        return untrusted_text(json.dumps(frame.id), source="id")
    return None
