"""A job for the code runner and what comes of it. Pure: shapes only.

Invariants: a job never holds a credential; a result says which walls stood and what could not be measured; text from
the program (value, logs, messages) is bounded and is the program's own.

Sources: the requirements of the code runner; `docs/reference/code.md`.
"""

import enum
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from fumehood.core import limits
from fumehood.core.errors import RefusedError
from fumehood.core.jsonio import JsonValue
from fumehood.core.schemas import DIALECT, components

_SHOWN: Final = 200  # characters of what is wrong: a foreign key may stand in it


class BadJobError(RefusedError):
    """What was asked for is no job."""

    code = "bad_job"


class State(enum.StrEnum):
    """How a run ended."""

    OK = "ok"
    USER_ERROR = "user_error"  # the program threw
    SYNTAX_ERROR = "syntax_error"
    TIMEOUT_WALL = "timeout_wall"
    TIMEOUT_CPU = "timeout_cpu"
    OUT_OF_MEMORY = "out_of_memory"
    OUTPUT_LIMIT = "output_limit"
    CALL_LIMIT = "call_limit"
    PROTOCOL_VIOLATION = "protocol_violation"
    CHILD_EXIT = "child_exit"  # the child ended without a result
    CANCELLED = "cancelled"
    RUNNER_UNAVAILABLE = "runner_unavailable"


class _Shape(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One object of the wire."""


class JobLimits(_Shape, frozen=True, kw_only=True):
    """What one run may use. A job may ask for less than the defaults, and for more up to the bounds."""

    wall_seconds: Annotated[float, Meta(gt=0, le=limits.CODE_WALL_SECONDS_MAX)] = limits.CODE_WALL_SECONDS
    cpu_seconds: Annotated[float, Meta(gt=0, le=limits.CODE_CPU_SECONDS_MAX)] = limits.CODE_CPU_SECONDS
    memory_bytes: Annotated[int, Meta(ge=limits.CODE_MEMORY_BYTES_MIN, le=limits.CODE_MEMORY_BYTES_MAX)] = (
        limits.CODE_MEMORY_BYTES
    )
    output_bytes: Annotated[int, Meta(ge=1024, le=limits.CODE_OUTPUT_BYTES)] = limits.CODE_OUTPUT_BYTES
    calls: Annotated[int, Meta(ge=0, le=limits.CODE_CALLS)] = limits.CODE_CALLS
    calls_in_flight: Annotated[int, Meta(ge=1, le=limits.CODE_CALLS_IN_FLIGHT)] = limits.CODE_CALLS_IN_FLIGHT


class Job(_Shape, frozen=True, kw_only=True):
    """One program, its input, the tools that it may call, and its limits."""

    code: Annotated[str, Meta(min_length=1, max_length=limits.CODE_BYTES)]  # its bytes are bounded too
    input: Any = None  # a JSON value; msgspec does not read the recursive alias of it
    tools: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=limits.CODE_NAME_CHARACTERS)], ...],
        Meta(max_length=limits.CODE_TOOLS),
    ] = ()
    limits: JobLimits = JobLimits()


class ProgramError(_Shape, frozen=True, kw_only=True):
    """What the program threw, or where it could not be read. Lines and columns count from 1 in the user's program."""

    name: str
    message: str
    line: int | None = None
    column: int | None = None
    stack: str = ""


class LogLine(_Shape, frozen=True, kw_only=True):
    """One call of `console`."""

    level: str
    message: str


class CallRecord(_Shape, frozen=True, kw_only=True):
    """One call that the program made."""

    name: str
    milliseconds: float
    outcome: str  # ok, refused, failed, cancelled
    sent_bytes: int
    received_bytes: int


class Usage(_Shape, frozen=True, kw_only=True):
    """What a run used; None where nothing measures it here."""

    wall_milliseconds: float
    cpu_milliseconds: float | None = None
    peak_memory_bytes: int | None = None


class JobResult(_Shape, frozen=True, kw_only=True):
    """What came of a job. `value` is there when `ok`, `error` otherwise."""

    state: State
    ok: bool
    value: Any = None  # a JSON value
    error: ProgramError | None = None
    logs: tuple[LogLine, ...] = ()
    calls: tuple[CallRecord, ...] = ()
    usage: Usage | None = None
    containment: dict[str, str] = msgspec.field(default_factory=dict)  # wall → state, with the reason of one that lacks
    limitations: tuple[str, ...] = ()


def read(fields: JsonValue) -> Job:
    """The job of one JSON value, checked whole; anything else is a `BadJobError`."""
    try:
        job = msgspec.convert(fields, Job)
    except msgspec.ValidationError as error:
        words = ascii(str(error))[1:-1]
        raise BadJobError(f"not a job: {words[:_SHOWN]}", remedy="docs/reference/code.md has every field") from None
    size = len(job.code.encode("utf-8", "surrogatepass"))
    if size > limits.CODE_BYTES:
        raise BadJobError(f"not a job: a program of {size} bytes, where at most {limits.CODE_BYTES} are run")
    if (size := _input_bytes(job)) > limits.CODE_INPUT_BYTES:
        words = f"not a job: an input of {size} bytes, where at most {limits.CODE_INPUT_BYTES} are given"
        raise BadJobError(words, remedy="give the program a tool that reads it in parts")
    return job


def schema() -> dict[str, Any]:
    """The published JSON Schema of a job."""
    return _published(Job, "urn:fumehood:code-job", "Code job")


def result_schema() -> dict[str, Any]:
    """The published JSON Schema of a job's result."""
    return _published(JobResult, "urn:fumehood:code-result", "Code result") | result_rules()


def result_rules() -> dict[str, Any]:
    """What the shape of a result does not say: which of its fields belong together."""
    states = [state.value for state in State if state is not State.OK]
    right = {"state": {"const": State.OK.value}, "ok": {"const": True}, "error": {"const": None}}
    wrong = {"state": {"enum": states}, "ok": {"const": False}, "value": {"const": None}, "error": {"type": "object"}}
    return {"oneOf": [{"properties": right}, {"properties": wrong, "required": ["error"]}]}


def _input_bytes(job: Job) -> int:
    """As UTF-8, without white space."""
    try:
        return len(msgspec.json.encode(job.input))
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise BadJobError("not a job: an input that is no JSON") from None


def _published(kind: type[Struct], name: str, title: str) -> dict[str, Any]:
    parts = components(kind)
    whole = parts.pop(kind.__name__)
    return {"$schema": DIALECT, "$id": name, **whole, "title": title, "$defs": parts}
