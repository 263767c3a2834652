"""code.bridge against a model: whatever a child says and in whatever order calls are answered."""

import json
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fumehood.code.bridge import Bridge
from fumehood.code.events import Call, Ended, Event, Finished, Log, OverLimit, Ready, Send, Violation
from fumehood.code.job import Job, JobLimits, State
from fumehood.core.clock import SystemClock
from fumehood.core.errors import FailedError, FumehoodError, HarnessError

_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
_errors = st.sampled_from([FailedError("failed"), HarnessError("ours")])
# Each is refused wherever it stands, as far as it ends its line.
_JUNK = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b"\xff\xfe",
    b'{"type":"job","code":"x"}',
    b'{"type":"callResult","id":1,"ok":true,"value":1}',
    b'{"type":"log","level":"log"}',
    b'{"type":"log","level":"log","message":"\\udfff"}',
    b'{"type":"call","id":1e3,"method":"run","args":[]}',
    b'{"type":"call","id":1,"id":2,"method":"run","args":[]}',
    b'{"type":"call","id":9007199254740992,"method":"run","args":[]}',
    b'{"type":"result","ok":true,"value":' + b"[" * 70 + b"]" * 70 + b"}",
    b'{"type":"result","ok":true,"value":-Infinity}',
    b'{"type":"result","ok":1,"value":1}',
]


def patient(machine: "BridgeMachine") -> bool:
    """Whether the run has gone on for long enough to be ended by a child that breaks a rule."""
    return machine.patience <= 0


class BridgeMachine(RuleBasedStateMachine):
    """A child that says anything, a supervisor that answers in any order, and what must come of it."""

    @initialize(
        output=st.integers(1024, 4096),
        calls=st.integers(0, 12),
        in_flight=st.integers(1, 3),
        patience=st.integers(0, 20),
        usual=st.booleans(),
    )
    def begin(self, output: int, calls: int, in_flight: int, patience: int, usual: bool) -> None:
        self.limits = JobLimits(output_bytes=output, calls=calls, calls_in_flight=in_flight)
        self.bridge = Bridge(Job(code="return 1", limits=self.limits), SystemClock())
        self.said = 0  # bytes
        self.opened = self.ready = self.torn = False
        self.ended: Event | None = None
        self.taken: list[int] = []  # ids of calls, in order
        self.refused: list[int] = []  # those with arguments that do not fit
        self.running: list[int] = []
        self.answered: list[int] = []
        self.logs = 0
        self.patience = patience  # steps before anything may end the run
        if usual:
            self.open()
            self.say_ready(1)

    # --- what the child says

    def say(self, words: bytes, parts: int) -> list[Event]:
        """Feed a line in some parts. Nothing but the last of them may mean anything, unless too much is said."""
        if self.torn:
            words = b"\n" + words  # the line before never ended: that line is no message
        data = words + b"\n"
        size = max(1, len(data) // parts)
        events = [event for at in range(0, len(data), size) for event in self.bridge.feed(data[at : at + size])]
        self.said += len(data)
        return events

    def expect(self, events: list[Event], *expected: Event) -> None:
        """What a line must mean, unless it ended before, or is beyond the bound of output."""
        if self.ended is not None:
            assert events == []
        elif self.torn:
            assert isinstance(events[0], Violation | OverLimit)
            self.end(events)
        elif self.said > self.limits.output_bytes:
            assert events == [
                OverLimit(state=State.OUTPUT_LIMIT, reason=f"more than {self.limits.output_bytes} bytes of output")
            ]
            self.end(events)
        else:
            assert events == list(expected)
            if expected and not isinstance(expected[-1], Ready | Call | Log | Send):
                self.end(events)

    def end(self, events: list[Event]) -> None:
        self.ended = events[-1]
        assert self.bridge.terminal is self.ended

    def alive(self, size: int) -> bool:
        """Whether a line of that many bytes would be read as what it says."""
        fits = self.said + size + 1 <= self.limits.output_bytes
        return self.ended is None and not self.torn and self.ready and self.opened and fits

    def early(self) -> Event:
        return Violation(reason="words before ready" if self.opened else "words before the job")

    @precondition(patient)
    @rule(parts=st.integers(1, 9))
    def say_ready(self, parts: int) -> None:
        events = self.say(b'{"type":"ready"}', parts)
        again = Violation(reason="ready twice") if self.opened else Violation(reason="words before the job")
        self.expect(events, again if self.ready else Ready())
        self.ready = self.ready or events == [Ready()]

    @rule(message=st.text(max_size=20), parts=st.integers(1, 9))
    def say_log(self, message: str, parts: int) -> None:
        words = json.dumps({"type": "log", "level": "info", "message": message}).encode()
        alive = self.alive(len(words))
        events = self.say(words, parts)
        if not alive:
            self.expect(events, self.early())
            return
        (event,) = events
        assert isinstance(event, Log)
        assert event.line.message == message
        self.logs += 1

    @precondition(patient)
    @rule(value=_json, parts=st.integers(1, 9))
    def say_result(self, value: Any, parts: int) -> None:
        words = json.dumps({"type": "result", "ok": True, "value": value}).encode()
        alive = self.alive(len(words))
        events = self.say(words, parts)
        self.expect(events, Finished(value=value) if alive else self.early())

    @rule(step=st.integers(1, 4), fits=st.booleans(), parts=st.integers(1, 9))
    def say_call(self, step: int, fits: bool, parts: int) -> None:
        number = max(self.taken, default=0) + step
        words = json.dumps({"type": "call", "id": number, "method": "run", "args": ["a"] if fits else []}).encode()
        alive, full = self.alive(len(words)), len(self.taken) == self.limits.calls
        events = self.say(words, parts)
        if not alive:
            self.expect(events, self.early())
        elif full:
            self.expect(events, OverLimit(state=State.CALL_LIMIT, reason=f"more than {self.limits.calls} calls"))
        else:
            self.taken.append(number)
            if fits:
                self.started(events)
            else:
                self.refused.append(number)
                (event,) = events
                assert isinstance(event, Send)
                assert json.loads(event.data)["id"] == number

    @precondition(lambda self: self.taken and patient(self))
    @rule(data=st.data())
    def forge_an_id(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(1, max(self.taken)))
        words = json.dumps({"type": "call", "id": number, "method": "search", "args": ["x"]}).encode()
        alive = self.alive(len(words))
        events = self.say(words, 1)
        self.expect(events, Violation(reason="an id of a call that is not new") if alive else self.early())

    @precondition(patient)
    @rule(words=st.sampled_from(_JUNK), parts=st.integers(1, 9))
    def say_junk(self, words: bytes, parts: int) -> None:
        alive = self.ended is None and not self.torn and self.said + len(words) + 1 <= self.limits.output_bytes
        events = self.say(words, parts)
        if alive:
            (event,) = events
            assert isinstance(event, Violation)
            self.end(events)
        else:
            self.expect(events, self.early())

    @precondition(patient)
    @rule(words=st.binary(min_size=1, max_size=30).filter(lambda words: b"\n" not in words))
    def tear_a_line(self, words: bytes) -> None:
        """Say something without its end; what the next line makes of it is no message."""
        words = b"\x00" + words
        events = self.bridge.feed(words)
        self.said += len(words)
        if self.ended is None and self.said > self.limits.output_bytes:
            (event,) = events
            assert isinstance(event, OverLimit)
            self.end(events)
        else:
            assert events == []
            self.torn = True

    # --- what the supervisor does

    @rule()
    def open(self) -> None:
        assert json.loads(self.bridge.opening())["code"] == "return 1"
        self.opened = True

    @precondition(lambda self: self.running)
    @rule(data=st.data(), value=_json)
    def answer(self, data: st.DataObject, value: Any) -> None:
        number = data.draw(st.sampled_from(self.running))
        self.settle(number, self.bridge.answer(number, value), ok=True)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), error=_errors)
    def refuse(self, data: st.DataObject, error: FumehoodError) -> None:
        number = data.draw(st.sampled_from(self.running))
        self.settle(number, self.bridge.refuse(number, error), ok=False)

    @rule(number=st.integers(0, 40))
    def answer_what_is_not_under_way(self, number: int) -> None:
        if number not in self.running:
            with pytest.raises(HarnessError):
                self.bridge.answer(number, 1)

    @precondition(patient)
    @rule()
    def close(self) -> None:
        events = self.bridge.closed()
        assert events == ([] if self.ended else [Ended()])
        if events:
            self.end(events)

    def settle(self, number: int, events: list[Event], *, ok: bool) -> None:
        self.running.remove(number)
        if self.ended is not None:
            assert events == []
            return
        self.answered.append(number)
        send, *due = events
        assert isinstance(send, Send)
        told = json.loads(send.data)
        assert (told["type"], told["id"], told["ok"]) == ("callResult", number, ok)
        assert send.data.count(b"\n") == 1
        self.started(due)

    def started(self, events: list[Event]) -> None:
        """Calls begin in their order, as soon as one may."""
        assert all(isinstance(event, Call) for event in events)
        self.running += [event.id for event in events if isinstance(event, Call)]
        begun = set(self.running) | set(self.answered) | set(self.refused)
        waiting = [number for number in self.taken if number not in begun]
        assert not waiting or len(self.running) == self.limits.calls_in_flight
        assert not waiting or max(self.running) < min(waiting)

    # --- what always holds

    @invariant()
    def holds(self) -> None:
        self.patience -= 1
        account = self.bridge.account()
        assert self.bridge.terminal is self.ended
        assert account.terminal is self.ended
        assert len(self.running) <= self.limits.calls_in_flight
        assert account.received_bytes == self.said
        assert account.received_bytes - account.ignored_bytes <= self.limits.output_bytes
        assert account.ready == self.ready
        assert len(account.logs) == self.logs
        assert len(account.calls) == len(self.taken)
        outcomes = [record.outcome for record in account.calls]
        assert outcomes.count("cancelled") == len(self.taken) - len(self.answered) - len(self.refused)


class LongBridgeMachine(BridgeMachine):
    """The same for minutes."""


TestBridge = BridgeMachine.TestCase
TestBridge.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestBridgeAtLength = pytest.mark.long(LongBridgeMachine.TestCase)
TestBridgeAtLength.settings = settings(max_examples=4_000, stateful_step_count=40, deadline=None)
