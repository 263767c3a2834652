"""code.service.backendend: what a runner may make a backend do, however it lies; against a model."""

import json
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fumehood.code.job import Job, JobLimits, JobResult, LogLine, ProgramError, State
from fumehood.code.requests import Describe, RunTool, Search
from fumehood.code.service import link
from fumehood.code.service.backendend import Ask, BackendEnd, Broken, Busy, Done, Heard, Logged, Refused, Reply
from fumehood.core import limits
from fumehood.core.clock import SystemClock
from fumehood.core.errors import CancelledError, FailedError, FumehoodError, HarnessError, NotFoundError, TooLargeError

pytestmark = pytest.mark.threat("C5")
JOB = Job(code="return 1", tools=("a.b",), limits=JobLimits(calls=3, calls_in_flight=2))
OK = JobResult(state=State.OK, ok=True, value=1)
RESULT = link.write(link.ResultMessage(result=OK))
BUSY = link.write(link.BusyMessage(retry_after_seconds=2))
REFUSED = link.write(link.RefusedMessage(code="bad_token", message="no\x1b[2J"))
LOG = link.write(link.LogMessage(level="log", message="words"))


def end_of(job: Job = JOB) -> BackendEnd:
    return BackendEnd(job, SystemClock())


def call(number: int, method: Any = "run", args: Any = None) -> bytes:
    return link.write(link.CallMessage(id=number, method=method, args=["a.b", {}] if args is None else args))


def broken(heard: Heard) -> str:
    assert isinstance(heard, Broken)
    return heard.reason


@pytest.mark.parametrize(
    ("method", "args", "request_"),
    [
        ("run", ["a.b", {"x": 1}], RunTool(name="a.b", arguments={"x": 1})),
        ("search", ["words", {"limit": 3}], Search(query="words", limit=3)),
        ("describe", [["a.b"]], Describe(names=("a.b",))),
    ],
)
def test_a_call_is_asked_and_answered(method: Any, args: Any, request_: Any) -> None:
    end = end_of()
    assert end.hear(call(7, method, args)) == Ask(id=7, request=request_)
    assert json.loads(end.answer(7, [1])) == {"type": "callResult", "id": 7, "ok": True, "value": [1]}
    assert [record.outcome for record in end.calls] == ["ok"]


def test_a_tool_that_the_job_does_not_name_is_refused_here() -> None:
    end = end_of()
    heard = end.hear(call(1, args=["a.c", {}]))
    assert isinstance(heard, Reply)
    assert json.loads(heard.data)["error"] == {
        "code": "unknown_tool",
        "message": "a.c: not among the tools of this run",
        "outcome": "refused",
    }


def test_arguments_of_another_form_are_refused_here() -> None:
    heard = end_of().hear(call(1, args=["a.b", 1]))
    assert isinstance(heard, Reply)
    assert json.loads(heard.data)["error"]["code"] == "invalid_arguments"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(NotFoundError("no"), "refused"), (FailedError("no"), "failed"), (CancelledError("no"), "cancelled")],
)
def test_an_error_of_a_tool_goes_out_with_its_code(error: FumehoodError, outcome: str) -> None:
    end = end_of()
    end.hear(call(1))
    told = json.loads(end.refuse(1, error))["error"]
    assert (told["code"], told["message"], told["outcome"]) == (error.code, "no", outcome)
    assert [record.outcome for record in end.calls] == [outcome]


@pytest.mark.parametrize("value", [float("nan"), 2**70, "\ud800", object()])
def test_an_answer_that_is_no_json_ends_its_call_and_nothing_else(value: Any) -> None:
    end = end_of()
    end.hear(call(1))
    assert json.loads(end.answer(1, value))["error"]["code"] == "harness"
    assert isinstance(end.hear(call(2)), Ask)


def test_an_answer_that_is_too_large_or_too_deep_ends_its_call() -> None:
    end = end_of()
    end.hear(call(1))
    assert json.loads(end.answer(1, "x" * limits.CODE_ANSWER_BYTES))["error"]["code"] == "too_large"
    end.hear(call(2))
    deep: Any = 1
    for _ in range(limits.CODE_LINK_DEPTH):
        deep = [deep]
    assert json.loads(end.answer(2, deep))["error"]["code"] == "harness"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ([call(2), call(2)], "not new"),
        ([call(2), call(1)], "not new"),
        ([call(1), call(2), call(3)], "at once"),
        ([LOG, BUSY], "after the run began"),
        ([LOG, REFUSED], "after the run began"),
        ([b"{"], "not JSON"),
        ([LOG] * (limits.CODE_LOG_LINES + 1), "lines of log"),
        ([link.write(link.LogMessage(level="log", message="x" * limits.MIB))] * 8, "bytes in one run"),
        ([link.write(link.CancelMessage())], "not a message"),
    ],
)
def test_what_a_runner_may_not_say_breaks_the_link(said: list[bytes], reason: str) -> None:
    end = end_of()
    heard: list[Heard] = [end.hear(one) for one in said]
    assert reason in broken(heard[-1])
    assert not any(isinstance(one, Broken) for one in heard[:-1])
    assert end.hear(RESULT) is None


def test_a_call_more_than_the_job_allows_breaks_the_link() -> None:
    end = end_of()
    for number in (1, 2, 3):
        end.hear(call(number))
        end.answer(number, None)
    assert "more than 3 calls" in broken(end.hear(call(4)))


def test_calls_are_kept_whatever_the_runner_says_of_them() -> None:
    end = end_of()
    end.hear(call(1))
    assert end.hear(RESULT) == Done(result=OK)
    assert [(record.name, record.outcome) for record in end.calls] == [("a.b", "cancelled")]
    assert end.answer(1, "late") == b""


def test_no_run_is_told_as_such() -> None:
    assert end_of().hear(BUSY) == Busy(retry_after_seconds=2)
    refused = end_of().hear(REFUSED)
    assert isinstance(refused, Refused)
    assert refused.reason.isprintable()


def test_the_end_of_the_link_is_an_end_once() -> None:
    end = end_of()
    assert end.gone("lost") == Broken(reason="lost")
    assert (end.gone("again"), end.hear_binary(), end.hear(RESULT)) == (None, None, None)
    assert "binary" in broken(end_of().hear_binary())


def test_a_job_larger_than_a_link_carries_is_not_sent() -> None:
    with pytest.raises(TooLargeError):
        end_of(Job(code="x", input="x" * limits.CODE_LINK_JOB_BYTES)).opening("t")
    assert link.token_of(end_of().opening("t")) == "t"


def test_a_result_that_is_not_whole_is_a_breach() -> None:
    wrong = JobResult(state=State.USER_ERROR, ok=True, error=ProgramError(name="a", message="b"))
    assert "do not fit" in broken(end_of().hear(link.write(link.ResultMessage(result=wrong))))


class BackendEndMachine(RuleBasedStateMachine):
    """A runner that says anything, and tools that answer in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = self.spoken = False
        self.open: set[int] = set()
        self.last = self.calls = self.logs = 0

    @initialize(calls=st.integers(0, 6), at_once=st.integers(1, 3))
    def start(self, calls: int, at_once: int) -> None:
        self.limits = JobLimits(calls=calls, calls_in_flight=at_once)
        self.end = end_of(Job(code="x", tools=("a.b",), limits=self.limits))

    def ends(self, heard: Heard, kind: type[Any]) -> None:
        assert heard is None if self.ended else isinstance(heard, kind)
        self.ended = True

    @rule(number=st.integers(1, 15), known=st.booleans())
    def call(self, number: int, known: bool) -> None:
        heard = self.end.hear(call(number, args=["a.b" if known else "a.c"]))
        is_new = number > self.last
        room = self.calls < self.limits.calls and len(self.open) < self.limits.calls_in_flight
        if self.ended or not (is_new and room):
            self.ends(heard, Broken)
            return
        self.spoken, self.last, self.calls = True, number, self.calls + 1
        if known:
            assert heard == Ask(id=number, request=RunTool(name="a.b", arguments={}))
            self.open.add(number)
        else:
            assert isinstance(heard, Reply)

    @rule()
    def log(self) -> None:
        heard = self.end.hear(LOG)
        assert heard == (None if self.ended else Logged(line=LogLine(level="log", message="words")))
        self.spoken = True

    @rule(words=st.sampled_from([b"", b"null", b"{}", b"\xff", b'{"type":"call"}', BUSY + b"x"]))
    def junk(self, words: bytes) -> None:
        self.ends(self.end.hear(words), Broken)

    @rule()
    def result(self) -> None:
        self.ends(self.end.hear(RESULT), Done)

    @rule(words=st.sampled_from([BUSY, REFUSED]))
    def turn_down(self, words: bytes) -> None:
        self.ends(self.end.hear(words), Broken if self.spoken else Busy if words == BUSY else Refused)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), well=st.booleans())
    def answer(self, data: st.DataObject, well: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.open)))
        told = self.end.answer(number, 1) if well else self.end.refuse(number, FailedError("no"))
        assert bool(told) is not self.ended
        self.open.discard(number)

    @rule(number=st.integers(1, 15))
    def answer_what_is_not_open(self, number: int) -> None:
        if number not in self.open:
            with pytest.raises(HarnessError):
                self.end.answer(number, 1)

    @rule()
    def go(self) -> None:
        self.ends(self.end.gone("lost"), Broken)

    @invariant()
    def agrees(self) -> None:
        assert (self.end.terminal is not None) is self.ended
        assert len(self.open) <= self.limits.calls_in_flight
        assert len(self.end.calls) == self.calls <= self.limits.calls


TestBackendEnd = BackendEndMachine.TestCase
TestBackendEnd.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
