"""What passes over a bridge: events for whoever runs a child, and the account of it all. Pure: shapes only."""

from dataclasses import dataclass
from typing import TypeAlias

from fumehood.code.job import CallRecord, LogLine, State
from fumehood.code.messages import Thrown
from fumehood.code.requests import Request
from fumehood.core.jsonio import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The child is up: it may be given its job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool is to be run now; its end is told to `answer` or `refuse`."""

    id: int
    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A line that is kept."""

    line: LogLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Bytes that are to be written to the child, in the order of the events."""

    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The child gave a result. Terminal. `error` is None exactly when the program ended well."""

    value: JsonValue = None
    error: Thrown | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """The child broke the protocol. Terminal. `reason` is short and printable."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OverLimit:
    """The child said or asked too much. Terminal. `state` is `output_limit` or `call_limit`."""

    state: State
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The child's stdout ended without a result. Terminal."""


Terminal: TypeAlias = Finished | Violation | OverLimit | Ended
Event: TypeAlias = Ready | Call | Log | Send | Terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What passed over one bridge."""

    ready: bool  # whether the child ever was
    terminal: Terminal | None  # None while the child may still speak
    logs: tuple[LogLine, ...]
    logs_dropped: int  # lines beyond CODE_LOG_LINES
    calls: tuple[CallRecord, ...]
    received_bytes: int  # in all, also what was not read
    ignored_bytes: int  # after the terminal event
