"""The chain of an audit log: how a line follows another, and whether lines do. Pure.

Invariants: a line is taken only when its bytes are the one canonical form of what they say, its digest is that of these
bytes, its number is the next one and it names the digest of the line before; what is no line is passed over only where
the next line says its size and digest (`Recovered`), or at the very end. Nothing that is written is refused when read.

Not promised: that lines are missing at the end, or that the whole was not written anew: the chain has no secret. Who
keeps a digest elsewhere can tell both (`docs/limits/audit.md`).

Sources: RFC 8785; RFC 9162 for the idea that a log shows its own consistency.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from fumehood.core import limits
from fumehood.gateway.audit.record import NOTHING, VERSION, Event, Line, Recovered

_HEAD: Final = len(b'{"digest":"",') + 64
# Each string is printable ASCII, and nothing in it is escaped that RFC 8785 does not escape.
_PLAIN: Final = re.compile(rb'(?:[ -\[\]-~]|\\["\\])*')


class _Body(Struct, frozen=True, kw_only=True):
    """A line without its digest: what the digest is of."""

    event: Event
    previous: str
    sequence: int
    time: str
    version: int


_ENCODER: Final = msgspec.json.Encoder(order="sorted")
_DECODER: Final = msgspec.json.Decoder(Line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The last line of a chain; the defaults stand before the first one."""

    sequence: int = 0
    digest: str = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class NoLine:
    """What is no line. `torn`: it may be what a crash left of one, for it is no JSON."""

    reason: str
    torn: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The chain holds."""

    lines: int
    first: Line | None
    last: Line | None
    recovered: int  # times that a torn line was stated
    torn_bytes: int  # at the very end, not stated yet
    kept: bool  # whether a line has the digest that was asked for

    @property
    def digest(self) -> str:
        """The digest to keep elsewhere."""
        return NOTHING if self.last is None else self.last.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The chain does not hold. `line` counts from 1, over all files."""

    line: int
    reason: str


Verdict: TypeAlias = Verified | Broken


def written(event: Event, after: Position, time: str) -> tuple[bytes, Position]:
    """The line for an event, and where the chain stands then. ValueError for an event that a reader would refuse."""
    sequence = after.sequence + 1
    body = _Body(event=event, previous=after.digest, sequence=sequence, time=time, version=VERSION)
    data = _ENCODER.encode(body)
    digest = hashlib.sha256(data).hexdigest()
    line = b'{"digest":"' + digest.encode() + b'",' + data[1:] + b"\n"
    if isinstance(found := read(line), NoLine):
        raise ValueError(found.reason)  # noqa: TRY004 - a value of the event is wrong, not a type
    return line, Position(sequence=sequence, digest=digest)


def read(data: bytes) -> Line | NoLine:
    """The line that these bytes are, its line end included; nothing else is known of it than that it is one."""
    if len(data) > limits.AUDIT_LINE_BYTES:
        return NoLine(reason=f"it has more than {limits.AUDIT_LINE_BYTES} bytes", torn=False)
    if not data.endswith(b"\n"):
        return NoLine(reason="it has no end", torn=True)
    try:
        line = _DECODER.decode(data)
    except msgspec.ValidationError as error:
        return NoLine(reason=f"it is no record: {ascii(str(error))[1:-1]}", torn=False)
    except (msgspec.DecodeError, RecursionError):
        return NoLine(reason="it is no JSON", torn=True)
    reason = _uncanonical(line, data)
    return NoLine(reason=reason, torn=False) if reason else line


def _uncanonical(line: Line, data: bytes) -> str:
    if not _PLAIN.fullmatch(data, 0, len(data) - 1) or _ENCODER.encode(line) != data[:-1]:
        return "it is not in canonical form"
    same = hashlib.sha256(b"{" + data[_HEAD:-1]).hexdigest() == line.digest
    return "" if same else "its digest is not that of its bytes"


def verify(lines: Iterable[bytes], *, kept: str | None = None) -> Verdict:
    """Whether these lines, each with its end, are a chain. `kept` is a digest that one of them should have."""
    verifier = Verifier(kept)
    for number, data in enumerate(lines, start=1):
        if reason := verifier.feed(data):
            return Broken(line=number, reason=reason)
    return verifier.end()


class Verifier:
    """Takes line after line. The first one may be any: older files may have been taken away."""

    def __init__(self, kept: str | None = None) -> None:
        """`kept` is a digest to look for."""
        self._wanted = kept
        self._kept = kept == NOTHING
        self._first: Line | None = None
        self._last: Line | None = None
        self._lines = 0
        self._recovered = 0
        self._torn = hashlib.sha256()
        self._torn_bytes = 0
        self._ended = True  # whether the last bytes had a line end

    def feed(self, data: bytes) -> str:
        """Why the chain is broken at this line; empty while it holds."""
        if not self._ended:
            return "the bytes before it are an unfinished line"
        found = read(data)
        if isinstance(found, NoLine):
            return self._pass_over(data) if found.torn else found.reason
        reason = self._misplaced(found)
        if not reason:
            self._take(found)
        return reason

    def end(self) -> Verified:
        """What is known once all lines were taken without a reason."""
        return Verified(
            lines=self._lines,
            first=self._first,
            last=self._last,
            recovered=self._recovered,
            torn_bytes=self._torn_bytes,
            kept=self._kept,
        )

    def _pass_over(self, data: bytes) -> str:
        self._torn.update(data)
        self._torn_bytes += len(data)
        self._ended = data.endswith(b"\n")
        over = self._torn_bytes > limits.AUDIT_TORN_BYTES
        return f"more than {limits.AUDIT_TORN_BYTES} bytes are no line" if over else ""

    def _misplaced(self, line: Line) -> str:
        if reason := self._unstated(line.event):
            return reason
        if self._last is None:
            begins = line.sequence == 1
            return "it is the first, and names a line before it" if begins and line.previous != NOTHING else ""
        if line.sequence != self._last.sequence + 1:
            return f"it is number {line.sequence}, after number {self._last.sequence}"
        return "" if line.previous == self._last.digest else "it does not name the digest of the line before"

    def _unstated(self, event: Event) -> str:
        if not isinstance(event, Recovered):
            return "the bytes before it are no line, and it does not say so" if self._torn_bytes else ""
        if not self._torn_bytes:
            return "it says that the line before it was torn, and none was"
        same = (event.torn_bytes, event.torn_sha256) == (self._torn_bytes, self._torn.hexdigest())
        return "" if same else "the bytes before it are not those that it says were torn"

    def _take(self, line: Line) -> None:
        self._first = self._first or line
        self._last = line
        self._lines += 1
        self._kept = self._kept or line.digest == self._wanted
        if self._torn_bytes:
            self._recovered += 1
            self._torn, self._torn_bytes = hashlib.sha256(), 0
