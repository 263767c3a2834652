"""The messages between a backend and a runner: one JSON object a WebSocket message, one run a socket. Pure.

From the backend go `job`, first and once, then `callResult`, once for each call, and perhaps `cancel`. From the runner
come `call` and `log`, then `result`, last and once; or, instead of all that, `busy` or `refused`.

Invariants: what the readers return came from one strict document within its bounds in which every field is known and
of its type; whatever else is said is a `LinkError`, whose words are short and printable. `token_of` makes no value of
the job: who has no token has nothing of it looked at. A token stands in no other message, and in no error.

Sources: `docs/reference/code.md`; RFC 6455; RFC 8259.
"""

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from fumehood.code import job as jobs
from fumehood.code.job import Job, JobResult, State
from fumehood.code.messages import CallId, Level, Method
from fumehood.core import jsonio, limits
from fumehood.core.errors import FailedError
from fumehood.core.jsonio import JsonError
from fumehood.core.schemas import DIALECT, components

_SHOWN: Final = 200  # characters of a reason: a foreign name may stand in it
_CODE_CHARACTERS: Final = 60  # of an error code; ours are below 20

Token = Annotated[str, Meta(min_length=1, max_length=limits.CODE_TOKEN_CHARACTERS)]
ErrorCode = Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$", max_length=_CODE_CHARACTERS)]
Words = Annotated[str, Meta(max_length=limits.CODE_ERROR_CHARACTERS)]


class LinkError(FailedError):
    """What the other side of a link said is no message."""

    code = "bad_message"


class _Message(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    """One WebSocket message, of text."""


class _Envelope(Struct, frozen=True, kw_only=True, tag_field="type", tag="job"):
    """As much of the first message as is read of whoever sends it."""

    token: Token


class _AnswerHead(Struct, frozen=True, kw_only=True, tag_field="type", tag="callResult"):
    """As much of an answer as is read of one that is too large."""

    id: CallId


# --- from the backend


class JobMessage(_Message, frozen=True, kw_only=True, tag="job"):
    """The run. First, and once. `token` proves that whoever asks may ask; it goes no further than the runner."""

    token: Token
    job: Job


class CallError(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Why a call has no value. `code` is one of fumehood's error codes, `outcome` what the call's record will say."""

    code: ErrorCode
    message: Words
    outcome: Literal["refused", "failed", "cancelled"] = "failed"


class CallResultMessage(_Message, frozen=True, kw_only=True, tag="callResult"):
    """The answer to one call: with `ok` and `value`, or without and `error`."""

    id: CallId
    ok: bool
    value: Any | msgspec.UnsetType = msgspec.UNSET
    error: CallError | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        """Refuse an answer that has both, none, or the wrong one."""
        if self.ok is not (self.value is not msgspec.UNSET) or self.ok is not (self.error is msgspec.UNSET):
            raise ValueError("an answer has a value when it is ok, and an error when it is not")


class CancelMessage(_Message, frozen=True, kw_only=True, tag="cancel"):
    """The run is not wanted any more; its result still comes."""


# --- from the runner


class CallMessage(_Message, frozen=True, kw_only=True, tag="call"):
    """The program asks for a tool. `id` is larger than that of every call before it."""

    id: CallId
    method: Method
    args: Annotated[list[Any], Meta(max_length=2)]


class LogMessage(_Message, frozen=True, kw_only=True, tag="log"):
    """One call of `console`, as it happens; all of them stand in the result."""

    level: Level
    message: str


class ResultMessage(_Message, frozen=True, kw_only=True, tag="result"):
    """What came of the run. Last, and once."""

    result: JobResult


class BusyMessage(_Message, frozen=True, kw_only=True, tag="busy"):
    """As many programs run as may; the same job may be sent again. Instead of a run."""

    retry_after_seconds: Annotated[float, Meta(ge=0, le=3600)]


class RefusedMessage(_Message, frozen=True, kw_only=True, tag="refused"):
    """The job is not taken: `bad_token`, `bad_message`, `bad_job`, or `draining`. Instead of a run."""

    code: ErrorCode
    message: Words


FromBackend: TypeAlias = JobMessage | CallResultMessage | CancelMessage
FromRunner: TypeAlias = CallMessage | LogMessage | ResultMessage | BusyMessage | RefusedMessage
_Later: TypeAlias = CallResultMessage | CancelMessage


def token_of(data: bytes) -> str:
    """The token of a first message, of which nothing else is made into values."""
    try:
        return msgspec.json.decode(data, type=_Envelope).token
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise LinkError("the first message is no job with a token") from None


def id_of(data: bytes) -> int:
    """Which call an answer is for; nothing else of it is made into values."""
    try:
        return msgspec.json.decode(data, type=_AnswerHead).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise LinkError("a message too large, and no answer") from None


def read_job(data: bytes) -> Job:
    """The job of a first message. `LinkError` for no message, `BadJobError` for no job."""
    fields = _parsed(data, limits.CODE_LINK_JOB_BYTES)
    match fields:
        case {"type": "job", "token": str(), "job": dict(job), **rest} if not rest:
            return jobs.read(job)
    raise LinkError("the first message is no job with a token")


def read_from_backend(data: bytes) -> _Later:
    """A later message of a backend."""
    message: _Later = _converted(_parsed(data, limits.CODE_LINK_JOB_BYTES), _Later)
    return message


def read_from_runner(data: bytes) -> FromRunner:
    """A message of a runner. A result is whole: a value exactly when it is `ok`, an error exactly when it is not."""
    message: FromRunner = _converted(_parsed(data, limits.CODE_LINK_RESULT_BYTES), FromRunner)
    if isinstance(message, ResultMessage) and not _is_whole(message.result):
        raise LinkError("a result whose state, value and error do not fit each other")
    return message


def write(message: FromBackend | FromRunner) -> bytes:
    """One message, in ASCII; ValueError for a value that is no JSON."""
    try:
        return jsonio.dump(msgspec.to_builtins(message))[:-1]
    except (TypeError, RecursionError, OverflowError, msgspec.EncodeError):
        raise ValueError("a value that cannot be written as JSON") from None


def schema() -> dict[str, Any]:
    """The published JSON Schema of every message."""
    found = components(FromBackend | FromRunner)
    found["CallResultMessage"]["oneOf"] = [
        {"properties": {"ok": {"const": ok}}, "required": [has], "not": {"required": [lacks]}}
        for ok, has, lacks in ((True, "value", "error"), (False, "error", "value"))
    ]
    found["JobResult"] |= jobs.result_rules()
    names = sorted(name for name in found if name.endswith("Message"))
    return {
        "$schema": DIALECT,
        "$id": "urn:fumehood:code-link",
        "title": "Messages between a backend and a code runner",
        "description": "One WebSocket message of text. Every field that is not named here is refused.",
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in names],
        "$defs": found,
    }


def shown(words: str) -> str:
    """Foreign words, cut and inert."""
    inert = ascii(words)[1:-1]
    return inert if len(inert) <= _SHOWN else inert[: _SHOWN - 3] + "..."


def _parsed(data: bytes, size: int) -> Any:  # noqa: ANN401 - a JSON value
    try:
        return jsonio.parse(data, depth=limits.CODE_LINK_DEPTH, size=size, locate=False)
    except JsonError as error:
        raise LinkError(shown(f"not JSON as it is read: {error.problem}")) from None


def _converted(value: Any, kind: Any) -> Any:  # noqa: ANN401 - a JSON value, a union of types, one of its members
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise LinkError(shown(f"not a message: {error}")) from None


def _is_whole(result: JobResult) -> bool:
    if result.state is State.OK:
        return result.ok and result.error is None
    return not result.ok and result.error is not None and result.value is None
