"""The messages between a child and its supervisor: one JSON object a line. Pure: bytes in, one message out.

Towards the child go `job`, once, and `callResult`, once for each call. From it come `ready`, once and first, then
`call`, `log`, and `result`, once and last.

Invariants: what `read` returns came from one strict document within its bounds in which every field is known and of
its type; whatever else a child says is a `MessageError`, whose words are short and printable.

Sources: `docs/reference/code.md`; RFC 8259.
"""

import re
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from fumehood.core import jsonio, limits
from fumehood.core.errors import FailedError
from fumehood.core.jsonio import JsonError, JsonValue
from fumehood.core.schemas import DIALECT, components

_LAST_ID: Final = 2**53 - 1  # the last integer that a program can count to
_SHOWN: Final = 200  # characters of a reason: a name of the child's may stand in it
_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")  # any shorter integer fits 64 bits

Level: TypeAlias = Literal["debug", "info", "log", "warn", "error"]
Method: TypeAlias = Literal["search", "describe", "run"]
CallId: TypeAlias = Annotated[int, Meta(ge=1, le=_LAST_ID)]


class MessageError(FailedError):
    """What a child said is no message."""

    code = "bad_message"


class _Message(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    """One line."""


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of a message."""


# --- from the child


class ReadyMessage(_Message, frozen=True, kw_only=True, tag="ready"):
    """The child is up and waits for its job. First, and once."""


class CallMessage(_Message, frozen=True, kw_only=True, tag="call"):
    """The program asks for a tool. `id` is larger than that of every call before it."""

    id: CallId
    method: Method
    args: list[Any]  # as the program gave them: `search` query, options; `describe` names; `run` name, arguments


class LogMessage(_Message, frozen=True, kw_only=True, tag="log"):
    """One call of `console`."""

    level: Level
    message: str


class Thrown(_Part, frozen=True, kw_only=True):
    """What the program threw. `phase` is `load` when the program could not even be read."""

    name: str
    message: str
    stack: str = ""
    phase: Literal["load", "run"] = "run"


class ResultMessage(_Message, frozen=True, kw_only=True, tag="result"):
    """How the program ended: with `ok` and `value`, or without and `error`. Last, and once."""

    ok: bool
    value: Any | msgspec.UnsetType = msgspec.UNSET
    error: Thrown | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        """Refuse a result that has both, none, or the wrong one."""
        if self.ok is not (self.value is not msgspec.UNSET) or self.ok is not (self.error is msgspec.UNSET):
            raise ValueError("a result has a value when it is ok, and an error when it is not")


FromChild: TypeAlias = ReadyMessage | CallMessage | LogMessage | ResultMessage


# --- towards the child


class ChildLimits(_Part, frozen=True, kw_only=True):
    """Bounds that a child may hold itself to, so that a program meets them as errors it can read."""

    calls: int
    calls_in_flight: int  # further ones wait in line
    output_bytes: int  # of everything that the child says
    message_bytes: int = limits.CODE_MESSAGE_BYTES  # of one line, its line end included
    depth: int = limits.CODE_DEPTH  # of containers in one line, that of the message included


class JobMessage(_Message, frozen=True, kw_only=True, tag="job"):
    """The program, its input, and what it may call. Nothing in it is secret."""

    code: str
    input: Any
    tools: tuple[str, ...]
    limits: ChildLimits


class AnswerError(_Part, frozen=True, kw_only=True):
    """Why a call has no value. `code` is one of fumehood's error codes."""

    code: str
    message: str


class CallResultMessage(_Message, frozen=True, kw_only=True, tag="callResult"):
    """The answer to one call: with `ok` and `value`, or without and `error`."""

    id: CallId
    ok: bool
    value: Any | msgspec.UnsetType = msgspec.UNSET
    error: AnswerError | msgspec.UnsetType = msgspec.UNSET


ToChild: TypeAlias = JobMessage | CallResultMessage


_DECODER: Final = msgspec.json.Decoder(FromChild)
_ENCODER: Final = msgspec.json.Encoder()


def read(line: bytes) -> FromChild:
    """The message of one line without its line end; anything else is a `MessageError`."""
    return canonical(line) or strict(line)


def canonical(line: bytes) -> FromChild | None:
    """The message of a line that is its one canonical form, five times as fast; None for any other, good or bad.

    The quicker reader lets a key stand twice, and takes numbers that we do not. But of each message the quicker writer
    writes one line, which has none of that: whoever has said exactly this line has said nothing else.
    """
    if len(line) > limits.CODE_MESSAGE_BYTES or line.count(b"{") + line.count(b"[") > limits.CODE_DEPTH:
        return None
    if _LONG_NUMBER.search(line):
        return None
    try:
        message = _DECODER.decode(line)
    except msgspec.DecodeError:
        return None
    return message if _ENCODER.encode(message) == line else None


def strict(line: bytes) -> FromChild:
    """What `read` gives, of any line."""
    try:
        value = jsonio.parse(line, depth=limits.CODE_DEPTH, size=limits.CODE_MESSAGE_BYTES, locate=False)
    except JsonError as error:
        raise MessageError(_shown(f"not JSON as it is read: {error.problem}")) from None
    try:
        message: FromChild = msgspec.convert(value, FromChild)
    except msgspec.ValidationError as error:
        raise MessageError(_shown(f"not a message: {error}")) from None
    return message


def write(message: ToChild) -> bytes:
    """The line of one message, with its line end; ValueError for a value that is no JSON."""
    fields: dict[str, object] = {"type": message.__struct_config__.tag}
    for name, value in msgspec.structs.asdict(message).items():
        if value is not msgspec.UNSET:
            fields[name] = msgspec.structs.asdict(value) if isinstance(value, _Part) else value
    try:
        return jsonio.line(fields)
    except (TypeError, RecursionError):
        raise ValueError("a value that cannot be written as JSON") from None


def schema() -> dict[str, Any]:
    """The published JSON Schema of every message."""
    found = components(FromChild | ToChild)
    for name in ("ResultMessage", "CallResultMessage"):
        found[name]["oneOf"] = [_when(ok=True, has="value", lacks="error"), _when(ok=False, has="error", lacks="value")]
    messages: list[JsonValue] = [{"$ref": f"#/$defs/{name}"} for name in sorted(found) if name.endswith("Message")]
    return {
        "$schema": DIALECT,
        "$id": "urn:fumehood:code-messages",
        "title": "Messages of the code runner",
        "description": "One line between a child and its supervisor. Every field that is not named here is refused.",
        "oneOf": messages,
        "$defs": found,
    }


def _when(*, ok: bool, has: str, lacks: str) -> dict[str, JsonValue]:
    return {"properties": {"ok": {"const": ok}}, "required": [has], "not": {"required": [lacks]}}


def _shown(words: str) -> str:
    """A reason that may have the child's words in it, cut and inert."""
    inert = ascii(words)[1:-1]
    return inert if len(inert) <= _SHOWN else inert[: _SHOWN - 3] + "..."
