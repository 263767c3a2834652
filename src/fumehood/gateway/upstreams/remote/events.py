"""Cut a hostile stream of server-sent events into events within bounds. Pure: bytes in, events out.

Invariants: the work is linear in the input, however it is cut; at most one line and one event are held between two
calls; a line or an event over its bound, and one event too many, end the stream by an error. What stands unfinished at
the end of a stream is no event. The data of an event stay bytes: who reads them decides about their encoding.

Source: WHATWG HTML, 9.2.5 and 9.2.6 (event streams): lines end in CR, LF or CRLF; one byte order mark is dropped; data
lines are joined by LF; an event without data is none; `id` with a NUL and `retry` with anything but digits are ignored.
"""

import re
from dataclasses import dataclass
from typing import Final

from fumehood.core import limits
from fumehood.gateway.upstreams.model import UpstreamError

_BOM: Final = b"\xef\xbb\xbf"
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_DIGITS: Final = re.compile(rb"[0-9]{1,9}")  # milliseconds; more digits are eleven days and more


class EventStreamError(UpstreamError):
    """A stream crosses a bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event."""

    data: bytes
    kind: bytes = b"message"


class EventReader:
    """Reads one stream."""

    def __init__(
        self,
        *,
        line_bytes: int = limits.FRAME_BYTES,
        event_bytes: int = limits.FRAME_BYTES,
        events: int = limits.REMOTE_EVENTS,
    ) -> None:
        """Bounds: of one line, of the data of one event, of the number of events."""
        self.last_id = b""
        self.retry_milliseconds: int | None = None
        self._line_bytes = line_bytes
        self._event_bytes = event_bytes
        self._events_left = events
        self._line = bytearray()  # unfinished
        self._data = bytearray()  # each line with an LF
        self._kind = b""
        self._begun = False  # a line was read: a byte order mark can come no more
        self._after_cr = False  # an LF that comes now belongs to a CR before

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that are complete. Errors: `EventStreamError`."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        if not chunk:
            return []
        self._after_cr = chunk.endswith(b"\r")
        found: list[Event] = []
        *ended, rest = _LINE_END.split(chunk)
        for piece in ended:
            self._keep(piece)
            line = bytes(self._line)
            self._line.clear()
            if (event := self._take(line)) is not None:
                found.append(event)
        self._keep(rest)
        return found

    def _keep(self, piece: bytes) -> None:
        if len(self._line) + len(piece) > self._line_bytes:
            raise EventStreamError("the server sent a line that is longer than is read")
        self._line += piece

    def _take(self, line: bytes) -> Event | None:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")  # a comment has an empty name, which is no field
        self._field(name, value.removeprefix(b" "))
        return None

    def _field(self, name: bytes, value: bytes) -> None:
        match name:
            case b"data":
                if len(self._data) + len(value) + 1 > self._event_bytes:
                    raise EventStreamError("the server sent an event that is larger than is read")
                self._data += value
                self._data += b"\n"
            case b"event":
                self._kind = value
            case b"id" if b"\x00" not in value:
                self.last_id = value
            case b"retry" if _DIGITS.fullmatch(value):
                self.retry_milliseconds = int(value)
            case _:
                pass

    def _dispatch(self) -> Event | None:
        data, kind = bytes(self._data), self._kind
        self._data.clear()
        self._kind = b""
        if not data:
            return None
        if self._events_left <= 0:
            raise EventStreamError("the server sent more events than are read")
        self._events_left -= 1
        return Event(data=data[:-1], kind=kind or b"message")
