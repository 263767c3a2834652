"""The runner's end of one link: what a backend says becomes a run, its answers, or the end. Pure: no I/O, no waiting.

Invariants:
- The first message is judged by its token before anything of its job is made into values, and by nothing else if the
  token does not hold. The token is kept nowhere.
- One job a link. An answer is taken for a call that is open, once; anything else that is said during a run breaks the
  link, and the run is to be ended. After the result nothing is read any more: answers may cross it on their way.
- Ids of calls are ours and only grow. There is one last message: a result, `busy` or `refused`.
- No word of a backend raises anything.

Source: `docs/reference/code.md`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

import msgspec

from fumehood.code.job import BadJobError, Job, JobResult, LogLine, ProgramError, State
from fumehood.code.messages import Level, Method
from fumehood.code.service import link
from fumehood.code.service.link import (
    BusyMessage,
    CallError,
    CallMessage,
    CallResultMessage,
    CancelMessage,
    LinkError,
    LogMessage,
    RefusedMessage,
    ResultMessage,
)
from fumehood.core import limits
from fumehood.core.errors import CancelledError, FailedError, FumehoodError, HarnessError, RefusedError, TooLargeError
from fumehood.core.jsonio import JsonValue

Admit: TypeAlias = Callable[[str], BusyMessage | RefusedMessage | None]  # by the token: why there is no run, if so
_LEVELS: Final = frozenset({"debug", "info", "log", "warn", "error"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """A job is to be run."""

    job: Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """There is no run: these bytes are the last. `code` is for the log."""

    data: bytes
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A call has its answer: a value, or the error that it ended with."""

    id: int
    value: JsonValue = None
    error: FumehoodError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The backend does not want the run any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The backend broke the protocol: the run is to be ended, and the link closed. `reason` is short and printable."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """Nothing is to be done."""


Heard: TypeAlias = Begin | Turned | Answered | Cancelled | Broken | Ignored


class RemoteRefusedError(RefusedError):
    """The backend refused a call. `code` is the backend's."""


class RemoteFailedError(FailedError):
    """A call failed at the backend. `code` is the backend's."""


class RemoteCancelledError(CancelledError):
    """The backend ended a call. `code` is the backend's."""


class RunnerEnd:
    """The protocol of one run, from the runner's side."""

    def __init__(self, admit: Admit) -> None:
        """`admit` is asked once, with the token: None lets the job in."""
        self._admit = admit
        self._begun = self._over = False
        self._last_id = 0
        self._open: set[int] = set()

    @property
    def over(self) -> bool:
        """Whether nothing is said or heard any more."""
        return self._over

    # --- from the backend

    def hear(self, data: bytes) -> Heard:
        """What one message means."""
        if self._over:
            return Ignored()
        if not self._begun:
            return self._first(data)
        try:
            if len(data) > limits.CODE_ANSWER_BYTES:
                return self._too_large(link.id_of(data), len(data))
            message = link.read_from_backend(data)
        except LinkError as error:
            return self._broken(error.message)
        match message:
            case CancelMessage():
                return Cancelled()
            case CallResultMessage():
                return self._answered(message)
            case _:
                assert_never(message)

    def hear_binary(self) -> Heard:
        """What a message that is no text means."""
        if self._over:
            return Ignored()
        return self._broken("a binary message") if self._begun else self._refused("bad_message", "a binary message")

    def _first(self, data: bytes) -> Heard:
        try:
            verdict = self._admit(link.token_of(data))
            if verdict is not None:
                return self._turned(verdict)
            job = link.read_job(data)
        except (LinkError, BadJobError) as error:
            return self._refused(error.code, str(error))
        self._begun = True
        return Begin(job=job)

    def _answered(self, message: CallResultMessage) -> Heard:
        if message.id not in self._open:
            return self._broken("an answer to a call that is not open")
        self._open.discard(message.id)
        if isinstance(message.error, CallError):
            return Answered(id=message.id, error=_raisable(message.error))
        return Answered(id=message.id, value=None if message.value is msgspec.UNSET else message.value)

    def _too_large(self, number: int, size: int) -> Heard:
        """No value is made of it: that would take the time, and thirty times the memory, of everybody's runs."""
        if number not in self._open:
            return self._broken("an answer to a call that is not open")
        self._open.discard(number)
        words = f"the answer has {size} bytes, where at most {limits.CODE_ANSWER_BYTES} are passed on"
        return Answered(id=number, error=TooLargeError(words, remedy="ask the tool for less"))

    def _refused(self, code: str, words: str) -> Turned:
        return self._turned(RefusedMessage(code=code, message=words[: limits.CODE_ERROR_CHARACTERS]))

    def _turned(self, message: BusyMessage | RefusedMessage) -> Turned:
        self._over = True
        code = message.code if isinstance(message, RefusedMessage) else "busy"
        return Turned(data=link.write(message), code=code)

    def _broken(self, reason: str) -> Broken:
        self._over = True
        self._open.clear()
        return Broken(reason=reason)

    # --- towards the backend

    def call(self, method: Method, args: list[JsonValue]) -> tuple[int, bytes]:
        """A new call: its id, and what is to be sent. `FailedError` where nobody is there to answer."""
        if self._over or not self._begun:
            raise FailedError("there is nobody to answer the call")
        self._last_id += 1
        data = link.write(CallMessage(id=self._last_id, method=method, args=args))
        self._open.add(self._last_id)
        return self._last_id, data

    def log(self, line: LogLine) -> bytes:
        """A line, as it happens; nothing once it is over."""
        level: Level = line.level if line.level in _LEVELS else "log"  # type: ignore[assignment]  # one of them
        return b"" if self._over or not self._begun else link.write(LogMessage(level=level, message=line.message))

    def finish(self, result: JobResult) -> bytes:
        """The last message; nothing where the link is over already. What a link does not carry is an output limit."""
        if self._over:
            return b""
        if not self._begun:
            raise HarnessError("a result before there was a job")
        self._over = True
        self._open.clear()
        for offered in (result, _cut(result)):
            data = link.write(ResultMessage(result=offered))
            if len(data) <= limits.CODE_LINK_RESULT_BYTES:
                return data
        raise HarnessError("a result without value and logs that is too large")


def _cut(result: JobResult) -> JobResult:
    """The same run without what the child said."""
    most = limits.CODE_LINK_RESULT_BYTES // limits.MIB
    words = f"value, logs and calls have more than {most} MiB once they are written as JSON"
    error = ProgramError(name="OutputLimitExceeded", message=words)
    return msgspec.structs.replace(
        result, state=State.OUTPUT_LIMIT, ok=False, value=None, error=error, logs=(), calls=()
    )


def _raisable(error: CallError) -> FumehoodError:
    """What a tool call raises: of the family that its outcome names, with the backend's own code."""
    kind = {"refused": RemoteRefusedError, "cancelled": RemoteCancelledError}.get(error.outcome, RemoteFailedError)
    made = kind(error.message)
    made.code = error.code  # type: ignore[misc]  # of this one error: the codes are another side's
    return made
