"""The firewall between a child and the tools: what a child says becomes events, or the end. Pure: no I/O, no waiting.

The child is never trusted, for a program can take over whatever runs in its process. So it is not asked who spoke,
harness or program: what is said is within the rules, or it ends the run. Authority is on this side.

Invariants:
- Bytes are cut into lines of at most CODE_MESSAGE_BYTES, at most `output_bytes` in all; the first byte beyond ends the
  run. How the bytes were cut into chunks makes no difference. The work is linear in them.
- `ready` comes first and once; nothing but it comes before the job was sent. Ids of calls only grow, so each is used
  once. `calls` calls are taken, the next one ends the run; `calls_in_flight` of them run at once, the others wait in
  line. Each call is answered once, with at most CODE_ANSWER_BYTES.
- The first terminal event stands: a result, a violation, a limit, or the end of the stream. Whatever comes after it is
  counted and not read; answers that come after it are dropped.
- No word of a child raises anything. (`feed` and `closed` raise nothing; `answer` and `refuse` raise `HarnessError`
  for a call that is not open, which is our own mistake.)

Not promised: that a result is what the program computed, or that a call is what its author wrote. A program may
write lines itself, also a result; it gains nothing that it had not.

Source: `docs/reference/code.md`.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final, assert_never

import msgspec

from fumehood.code import messages, requests
from fumehood.code.events import Account, Call, Ended, Event, Finished, Log, OverLimit, Ready, Send, Terminal, Violation
from fumehood.code.job import CallRecord, Job, LogLine, State
from fumehood.code.messages import (
    AnswerError,
    CallMessage,
    CallResultMessage,
    ChildLimits,
    FromChild,
    JobMessage,
    LogMessage,
    ReadyMessage,
    ResultMessage,
)
from fumehood.code.requests import RunTool
from fumehood.core import limits
from fumehood.core.clock import Clock
from fumehood.core.errors import CancelledError, FumehoodError, HarnessError, RefusedError, TooLargeError

_LINE_END: Final = b"\n"


@dataclass(slots=True, kw_only=True)
class _Record:
    """A call under way, or one that is over when `outcome` is set."""

    name: str
    sent_bytes: int
    began: float | None = None  # None while it waits in line
    outcome: str = ""
    milliseconds: float = 0.0
    received_bytes: int = 0


class Bridge:
    """The protocol of one run, from the supervisor's side."""

    def __init__(self, job: Job, clock: Clock) -> None:
        """One bridge serves one job; `clock` is read to time the calls."""
        self._job = job
        self._clock = clock
        self._held = bytearray()
        self._received_bytes = self._ignored_bytes = 0
        self._opened = self._ready = False
        self._terminal: Terminal | None = None
        self._last_id = 0
        self._records: dict[int, _Record] = {}  # in the order of the calls; at most `calls`
        self._line: deque[Call] = deque()
        self._running: set[int] = set()
        self._logs: list[LogLine] = []
        self._logs_dropped = 0

    # --- what a caller asks

    @property
    def terminal(self) -> Terminal | None:
        """How it ended, once it has."""
        return self._terminal

    def account(self) -> Account:
        """Everything so far; a call without an end counts as cancelled."""
        return Account(
            ready=self._ready,
            terminal=self._terminal,
            logs=tuple(self._logs),
            logs_dropped=self._logs_dropped,
            calls=tuple(self._recorded(record) for record in self._records.values()),
            received_bytes=self._received_bytes,
            ignored_bytes=self._ignored_bytes,
        )

    # --- towards the child

    def opening(self) -> bytes:
        """The `job` message, to be written once. Nothing in it is secret."""
        self._opened = True
        bounds = self._job.limits
        return messages.write(
            JobMessage(
                code=self._job.code,
                input=self._job.input,
                tools=self._job.tools,
                limits=ChildLimits(
                    calls=bounds.calls, calls_in_flight=bounds.calls_in_flight, output_bytes=bounds.output_bytes
                ),
            )
        )

    def answer(self, call_id: int, value: object) -> list[Event]:
        """A call's value: what is to be sent, and the calls whose turn it is now. A value too large is an error."""
        if not self._is_open(call_id):
            return []
        try:
            line = messages.write(CallResultMessage(id=call_id, ok=True, value=value))
        except ValueError:
            return self.refuse(call_id, HarnessError("the answer of the tool is not JSON"))
        if len(line) > limits.CODE_ANSWER_BYTES:
            most = limits.CODE_ANSWER_BYTES
            words = f"the answer has {len(line)} bytes, where at most {most} are passed on"
            return self.refuse(call_id, TooLargeError(words, remedy="ask the tool for less"))
        return self._answered(call_id, line, "ok")

    def refuse(self, call_id: int, error: FumehoodError) -> list[Event]:
        """The same for a call that has no value: the program gets to see the error's code and words."""
        if not self._is_open(call_id):
            return []
        return self._answered(call_id, _refusal(call_id, error), _outcome(error))

    # --- from the child

    def feed(self, data: bytes) -> list[Event]:
        """What these bytes of the child's stdout mean, in order."""
        events: list[Event] = []
        at = 0
        while at < len(data) and self._terminal is None:
            end = data.find(_LINE_END, at)
            stop = len(data) if end < 0 else end + 1
            room = min(
                self._job.limits.output_bytes - self._received_bytes, limits.CODE_MESSAGE_BYTES - len(self._held)
            )
            taken = min(stop - at, room)
            self._held += data[at : at + taken]
            self._received_bytes += taken
            at += taken
            if at < stop:
                events.append(self._end(self._too_much()))
            elif end >= 0:
                line = bytes(self._held[:-1])
                self._held.clear()
                events += self._take(line)
        self._received_bytes += len(data) - at
        self._ignored_bytes += len(data) - at
        return events

    def closed(self) -> list[Event]:
        """What the end of the child's stdout means: nothing after a terminal event, else `Ended`."""
        if self._terminal is not None:
            return []
        return [self._end(Ended())]

    # --- one line

    def _take(self, line: bytes) -> list[Event]:
        try:
            message = messages.read(line)
        except messages.MessageError as error:
            return [self._violation(error.message)]
        if not self._ready and isinstance(message, ReadyMessage):
            self._ready = True
            return [Ready()]
        if not (self._ready and self._opened):
            return [self._violation("words before ready" if self._opened else "words before the job")]
        return self._act(message, len(line) + 1)

    def _act(self, message: FromChild, size: int) -> list[Event]:
        match message:
            case ReadyMessage():
                return [self._violation("ready twice")]
            case CallMessage():
                return self._call(message, size)
            case LogMessage():
                return self._log(LogLine(level=message.level, message=message.message))
            case ResultMessage():
                return [self._end(_finished(message))]
            case _:
                assert_never(message)

    def _log(self, line: LogLine) -> list[Event]:
        if len(self._logs) >= limits.CODE_LOG_LINES:
            self._logs_dropped += 1
            return []
        self._logs.append(line)
        return [Log(line=line)]

    def _call(self, message: CallMessage, size: int) -> list[Event]:
        if message.id <= self._last_id:
            return [self._violation("an id of a call that is not new")]
        self._last_id = message.id
        most = self._job.limits.calls
        if len(self._records) >= most:
            return [self._end(OverLimit(state=State.CALL_LIMIT, reason=f"more than {most} calls"))]
        record = self._records[message.id] = _Record(name=f"amcp.{message.method}", sent_bytes=size)
        try:
            request = requests.read(message.method, message.args)
        except RefusedError as error:
            line = _refusal(message.id, error)
            record.outcome, record.received_bytes = _outcome(error), len(line)
            return [Send(data=line)]
        if isinstance(request, RunTool):
            record.name = request.name
        self._line.append(Call(id=message.id, request=request))
        return self._due()

    def _due(self) -> list[Event]:
        """The calls whose turn it is."""
        due: list[Event] = []
        while self._line and len(self._running) < self._job.limits.calls_in_flight:
            call = self._line.popleft()
            self._running.add(call.id)
            self._records[call.id].began = self._clock.monotonic()
            due.append(call)
        return due

    # --- answers

    def _is_open(self, call_id: int) -> bool:
        """Whether an answer is still wanted; a call that was never begun, or was answered, is our own mistake."""
        if call_id not in self._running:
            raise HarnessError(f"call {call_id} is answered, and it is not under way")
        if self._terminal is None:
            return True
        self._running.discard(call_id)
        return False

    def _answered(self, call_id: int, line: bytes, outcome: str) -> list[Event]:
        record = self._records[call_id]
        record.milliseconds = self._since(record)
        record.outcome, record.received_bytes = outcome, len(line)
        self._running.discard(call_id)
        return [Send(data=line), *self._due()]

    def _since(self, record: _Record) -> float:
        return 0.0 if record.began is None else max(0.0, (self._clock.monotonic() - record.began) * 1000)

    def _recorded(self, record: _Record) -> CallRecord:
        return CallRecord(
            name=record.name,
            milliseconds=record.milliseconds if record.outcome else self._since(record),
            outcome=record.outcome or "cancelled",
            sent_bytes=record.sent_bytes,
            received_bytes=record.received_bytes,
        )

    # --- the end

    def _too_much(self) -> OverLimit:
        most = self._job.limits.output_bytes
        if self._received_bytes >= most:
            return OverLimit(state=State.OUTPUT_LIMIT, reason=f"more than {most} bytes of output")
        words = f"one message of more than {limits.CODE_MESSAGE_BYTES} bytes"
        return OverLimit(state=State.OUTPUT_LIMIT, reason=words)

    def _violation(self, reason: str) -> Terminal:
        return self._end(Violation(reason=reason))

    def _end(self, terminal: Terminal) -> Terminal:
        self._terminal = terminal
        self._held.clear()
        return terminal


def _finished(message: ResultMessage) -> Finished:
    """The event of a result, of which `messages` has seen to that it has the one or the other."""
    error = None if isinstance(message.error, msgspec.UnsetType) else message.error
    return Finished(value=None if isinstance(message.value, msgspec.UnsetType) else message.value, error=error)


def _refusal(call_id: int, error: FumehoodError) -> bytes:
    words = str(error)[: limits.CODE_ERROR_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
    return messages.write(CallResultMessage(id=call_id, ok=False, error=AnswerError(code=error.code, message=words)))


def _outcome(error: FumehoodError) -> str:
    match error:
        case RefusedError():
            return "refused"
        case CancelledError():
            return "cancelled"
        case _:
            return "failed"
