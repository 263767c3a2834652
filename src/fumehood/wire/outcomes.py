"""How a handshake ended: a closed union that the caller maps to its states. Text of the peer's is `Untrusted`."""

from dataclasses import dataclass
from typing import TypeAlias

from fumehood.core.untrusted import Untrusted
from fumehood.wire.revisions import InitializeResult, ShapeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialized:
    """The answer fits, its version is the one asked for, and `notifications/initialized` was sent."""

    result: InitializeResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReply:
    """The peer refused, for a reason that is not its era. `data` is JSON, cut."""

    code: int
    message: Untrusted
    data: Untrusted | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherEra:
    """The peer says that it does not know `initialize`. No sign of anything unsafe. `data` is JSON, cut."""

    code: int
    message: Untrusted
    data: Untrusted | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongVersion:
    """The peer offers another version; `known` when it is one of the specification's."""

    offered: Untrusted
    known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeInvalid:
    """The answer is no InitializeResult."""

    errors: tuple[ShapeError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BadFrame:
    """A line that was meant as a frame and is none, or is nested too deep; `problem` is a sentence of ours."""

    problem: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameTooLarge:
    """A frame crossed the bound of one frame."""

    limit_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTooLarge:
    """All lines together crossed the bound of the stream before an answer came."""

    received_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """The peer closed its output before it answered anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlyOtherIds:
    """The peer answered, but never what was asked."""

    answers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAnswer:
    """Nothing was answered so far; only the caller's deadline ends this."""


Outcome: TypeAlias = (
    Initialized
    | ErrorReply
    | OtherEra
    | WrongVersion
    | ShapeInvalid
    | BadFrame
    | FrameTooLarge
    | StreamTooLarge
    | Exited
    | OnlyOtherIds
)
Undecided: TypeAlias = OnlyOtherIds | NoAnswer
