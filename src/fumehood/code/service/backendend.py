"""The backend's end of one link: what a runner says becomes calls of tools, and a result. Pure: no I/O, no waiting.

The runner is not trusted here. It runs other people's programs; whoever breaks out of one speaks for it. What it says
is within the rules or ends the link, and what a call may do is decided by the backend's own gate.

Invariants:
- At most CODE_LINK_RESULT_BYTES a message, CODE_LINK_SAID_BYTES and CODE_LOG_LINES lines in all. Ids of calls only
  grow; at most `calls` calls, `calls_in_flight` of them at once; a tool that the job does not name is refused here.
- There is one end: a result that is whole, a refusal, `busy`, or a breach; nothing counts after it. `busy` and
  `refused` come first or never.
- The calls that reached this end stand in `calls`, whatever the runner says of them.
- No word of a runner raises anything. (`answer` and `refuse` raise `HarnessError` for a call that is not open, which is
  our own mistake.)

Not promised: that a result is what the program computed, that there was a program, or that there were walls around it.

Source: `docs/reference/code.md`.
"""

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from fumehood.code import requests
from fumehood.code.job import CallRecord, Job, JobResult, LogLine
from fumehood.code.requests import Request, RunTool
from fumehood.code.service import link
from fumehood.code.service.link import (
    BusyMessage,
    CallError,
    CallMessage,
    CallResultMessage,
    CancelMessage,
    FromRunner,
    JobMessage,
    LinkError,
    LogMessage,
    RefusedMessage,
    ResultMessage,
)
from fumehood.core import limits
from fumehood.core.clock import Clock
from fumehood.core.errors import (
    CancelledError,
    FumehoodError,
    HarnessError,
    RefusedError,
    TooLargeError,
    UnknownToolError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A tool is to be called; its end is told to `answer` or `refuse`."""

    id: int
    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Bytes that are to be sent."""

    data: bytes
    refused: RunTool | None = None  # the call that they refuse, for a tool that the job does not name


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """A line of the program, as the runner says; nothing where `line` is beyond those that are kept."""

    line: LogLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What came of the run, as the runner says. Terminal."""

    result: JobResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """No run: the runner has no room. Terminal."""

    retry_after_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """No run: the runner does not take the job. Terminal. Both texts are short and printable."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The runner broke the protocol, or is gone. Terminal. `reason` is short and printable."""

    reason: str


Terminal: TypeAlias = Done | Busy | Refused | Broken
Heard: TypeAlias = Ask | Reply | Logged | Terminal | None


@dataclass(slots=True, kw_only=True)
class _Record:
    """A call under way, or one that is over when `outcome` is set."""

    name: str
    sent_bytes: int
    began: float
    outcome: str = ""
    milliseconds: float = 0.0
    received_bytes: int = 0


class BackendEnd:
    """The protocol of one run, from the backend's side."""

    def __init__(self, job: Job, clock: Clock) -> None:
        """One end serves one job; `clock` is read to time the calls."""
        self._job = job
        self._clock = clock
        self._terminal: Terminal | None = None
        self._said_bytes = self._logs = self._last_id = 0
        self._spoken = False
        self._open: set[int] = set()
        self._records: dict[int, _Record] = {}

    @property
    def terminal(self) -> Terminal | None:
        """How it ended, once it has."""
        return self._terminal

    @property
    def calls(self) -> tuple[CallRecord, ...]:
        """The calls that reached this end; one without an end counts as cancelled."""
        return tuple(
            CallRecord(
                name=one.name,
                milliseconds=one.milliseconds if one.outcome else self._since(one),
                outcome=one.outcome or "cancelled",
                sent_bytes=one.sent_bytes,
                received_bytes=one.received_bytes,
            )
            for one in self._records.values()
        )

    # --- towards the runner

    def opening(self, token: str) -> bytes:
        """The first message. `TooLargeError` for a job that no runner takes."""
        data = link.write(JobMessage(token=token, job=self._job))
        if len(data) > limits.CODE_LINK_JOB_BYTES:
            words = f"a job of {len(data)} bytes, where at most {limits.CODE_LINK_JOB_BYTES} are sent"
            raise TooLargeError(words, remedy="a smaller input, or fewer tools")
        return data

    def cancelling(self) -> bytes:
        """The message that ends the run."""
        return link.write(CancelMessage())

    def answer(self, call_id: int, value: object) -> bytes:
        """A call's value: what is to be sent, nothing after the end. A value too large is an error."""
        if not self._closes(call_id):
            return b""
        try:
            data = link.write(CallResultMessage(id=call_id, ok=True, value=value))
            if len(data) <= limits.CODE_ANSWER_BYTES:
                link.read_from_backend(data)  # what the other side would not read ends one call, and not the run
        except (ValueError, LinkError):
            return self._failed(call_id, HarnessError("the answer of the tool is not JSON"))
        if len(data) > limits.CODE_ANSWER_BYTES:
            words = f"the answer has {len(data)} bytes, where at most {limits.CODE_ANSWER_BYTES} are passed on"
            return self._failed(call_id, TooLargeError(words, remedy="ask the tool for less"))
        return self._closed(call_id, data, "ok")

    def refuse(self, call_id: int, error: FumehoodError) -> bytes:
        """The same for a call that has no value."""
        return self._failed(call_id, error) if self._closes(call_id) else b""

    # --- from the runner

    def hear(self, data: bytes) -> Heard:
        """What one message means; nothing after the end."""
        if self._terminal is not None:
            return None
        self._said_bytes += len(data)
        if self._said_bytes > limits.CODE_LINK_SAID_BYTES:
            return self._broken(f"more than {limits.CODE_LINK_SAID_BYTES} bytes in one run")
        try:
            message = link.read_from_runner(data)
        except LinkError as error:
            return self._broken(error.message)
        if isinstance(message, BusyMessage | RefusedMessage):
            return self._turned_down(message)
        self._spoken = True
        return self._act(message, len(data))

    def hear_binary(self) -> Heard:
        """What a message that is no text means."""
        return None if self._terminal is not None else self._broken("a binary message")

    def gone(self, reason: str) -> Heard:
        """The link is no more; `reason` is ours."""
        return None if self._terminal is not None else self._broken(reason)

    def _turned_down(self, message: BusyMessage | RefusedMessage) -> Terminal:
        if self._spoken:
            return self._broken("a refusal after the run began")
        if isinstance(message, BusyMessage):
            return self._end(Busy(retry_after_seconds=message.retry_after_seconds))
        return self._end(Refused(code=message.code, reason=link.shown(message.message)))

    def _act(self, message: FromRunner, size: int) -> Heard:
        match message:
            case CallMessage():
                return self._call(message, size)
            case LogMessage():
                return self._log(LogLine(level=message.level, message=message.message))
            case ResultMessage():
                return self._end(Done(result=message.result))
            case BusyMessage() | RefusedMessage():
                return self._turned_down(message)
            case _:
                assert_never(message)

    def _log(self, line: LogLine) -> Heard:
        self._logs += 1
        if self._logs > limits.CODE_LOG_LINES:
            return self._broken(f"more than {limits.CODE_LOG_LINES} lines of log")
        return Logged(line=line)

    def _call(self, message: CallMessage, size: int) -> Heard:
        bounds = self._job.limits
        if message.id <= self._last_id:
            return self._broken("an id of a call that is not new")
        self._last_id = message.id
        if len(self._records) >= bounds.calls:
            return self._broken(f"more than {bounds.calls} calls")
        if len(self._open) >= bounds.calls_in_flight:
            return self._broken(f"more than {bounds.calls_in_flight} calls at once")
        self._open.add(message.id)
        record = _Record(name=f"amcp.{message.method}", sent_bytes=size, began=self._clock.monotonic())
        self._records[message.id] = record
        try:
            request = requests.read(message.method, message.args)
            if isinstance(request, RunTool):
                record.name = request.name
                if request.name not in self._job.tools:
                    error = UnknownToolError(f"{request.name}: not among the tools of this run")
                    return Reply(data=self.refuse(message.id, error), refused=request)
        except RefusedError as error:
            return Reply(data=self.refuse(message.id, error))
        return Ask(id=message.id, request=request)

    # --- the books

    def _closes(self, call_id: int) -> bool:
        """Whether an answer is still wanted; a call that was never asked, or was answered, is our own mistake."""
        if call_id not in self._open:
            raise HarnessError(f"call {call_id} is answered, and it is not open")
        self._open.discard(call_id)
        return self._terminal is None

    def _failed(self, call_id: int, error: FumehoodError) -> bytes:
        outcome = "refused" if isinstance(error, RefusedError) else "failed"
        if isinstance(error, CancelledError):
            outcome = "cancelled"
        words = str(error)[: limits.CODE_ERROR_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
        told = CallError(code=error.code, message=words, outcome=outcome)  # type: ignore[arg-type]  # one of the three
        return self._closed(call_id, link.write(CallResultMessage(id=call_id, ok=False, error=told)), outcome)

    def _closed(self, call_id: int, data: bytes, outcome: str) -> bytes:
        record = self._records[call_id]
        record.milliseconds, record.outcome, record.received_bytes = self._since(record), outcome, len(data)
        return data

    def _since(self, record: _Record) -> float:
        return max(0.0, (self._clock.monotonic() - record.began) * 1000)

    def _broken(self, reason: str) -> Terminal:
        return self._end(Broken(reason=reason))

    def _end(self, terminal: Terminal) -> Terminal:
        self._terminal = terminal
        return terminal
