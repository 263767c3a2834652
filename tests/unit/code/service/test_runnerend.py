"""code.service.runnerend: the token first, one job, answers to open calls only; against a model."""

import json
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fumehood.code.job import Job, JobResult, LogLine, State
from fumehood.code.service import link
from fumehood.code.service.link import BusyMessage, CallError, CallResultMessage, RefusedMessage
from fumehood.code.service.runnerend import Answered, Begin, Broken, Cancelled, Ignored, RunnerEnd, Turned
from fumehood.core import limits
from fumehood.core.errors import CancelledError, FailedError, HarnessError, RefusedError, TooLargeError

pytestmark = pytest.mark.threat("C5")
TOKEN = "right" * 8
OK = JobResult(state=State.OK, ok=True, value=1)
FIRST = link.write(link.JobMessage(token=TOKEN, job=Job(code="return 1")))
JUNK = [b"", b"null", b"{}", b"\xff", b'{"type":"result","result":{}}', b'{"type":"cancel","x":1}', FIRST]


def admit(token: str) -> BusyMessage | RefusedMessage | None:
    return None if token == TOKEN else RefusedMessage(code="bad_token", message="no")


def begun() -> RunnerEnd:
    end = RunnerEnd(admit)
    assert isinstance(end.hear(FIRST), Begin)
    return end


def answer(number: int, value: Any = 1) -> bytes:
    return link.write(CallResultMessage(id=number, ok=True, value=value))


def test_a_job_with_the_right_token_begins() -> None:
    assert RunnerEnd(admit).hear(FIRST) == Begin(job=Job(code="return 1"))


@pytest.mark.parametrize("job", ['{"code":"return 1"}', "{", "1", '{"code":1}', '{"code":"x","code":"y"}', "[" * 99])
def test_nothing_of_a_job_is_looked_at_before_its_token(job: str) -> None:
    words = f'{{"type":"job","token":"{"wrong" * 8}","job":{job}}}'
    heard = RunnerEnd(admit).hear(words.encode())
    assert isinstance(heard, Turned)
    told = json.loads(heard.data)
    # What is no JSON at all has no token either; whatever has one is told the same, whether its job is one or not.
    assert told["code"] == ("bad_message" if job in {"{", "[" * 99} else "bad_token")


def test_a_right_token_before_a_wrong_job_is_told_what_is_wrong() -> None:
    heard = RunnerEnd(admit).hear(f'{{"type":"job","token":"{TOKEN}","job":{{"code":1}}}}'.encode())
    assert isinstance(heard, Turned)
    assert heard.code == "bad_job"
    assert TOKEN not in heard.data.decode()


def test_the_reason_not_to_run_is_the_last_word() -> None:
    end = RunnerEnd(lambda token: BusyMessage(retry_after_seconds=2) if token else None)
    heard = end.hear(FIRST)
    assert isinstance(heard, Turned)
    assert (json.loads(heard.data), heard.code) == ({"type": "busy", "retry_after_seconds": 2}, "busy")
    assert (end.over, end.hear(FIRST), end.finish(OK)) == (True, Ignored(), b"")


def test_a_second_job_breaks_the_link() -> None:
    end = begun()
    assert isinstance(end.hear(FIRST), Broken)
    assert end.finish(OK) == b""


def test_a_second_answer_to_a_call_breaks_the_link() -> None:
    end = begun()
    number, _ = end.call("run", ["a.b", {}])
    assert end.hear(answer(number)) == Answered(id=number, value=1)
    assert isinstance(end.hear(answer(number)), Broken)


def test_no_value_is_made_of_an_answer_that_is_too_large() -> None:
    end = begun()
    number, _ = end.call("run", ["a.b", {}])
    heard = end.hear(answer(number, "x" * limits.CODE_ANSWER_BYTES))
    assert isinstance(heard, Answered)
    assert (heard.id, heard.value) == (number, None)
    assert isinstance(heard.error, TooLargeError)
    broken = end.hear(answer(number, "x" * limits.CODE_ANSWER_BYTES))
    assert broken == Broken(reason="an answer to a call that is not open")


def test_a_large_message_that_is_no_answer_breaks_the_link() -> None:
    heard = begun().hear(b" " * limits.CODE_ANSWER_BYTES + b'{"type":"cancel"}')
    assert heard == Broken(reason="a message too large, and no answer")


def test_binary_is_refused_first_breaks_a_run_and_is_ignored_after_it() -> None:
    assert isinstance(RunnerEnd(admit).hear_binary(), Turned)
    end = begun()
    assert isinstance(end.hear_binary(), Broken)
    assert end.hear_binary() == Ignored()


@pytest.mark.parametrize(
    ("outcome", "kind"), [("refused", RefusedError), ("failed", FailedError), ("cancelled", CancelledError)]
)
def test_an_error_of_the_backend_keeps_its_code_and_its_family(outcome: Any, kind: type[Exception]) -> None:
    end = begun()
    number, _ = end.call("run", ["a.b", {}])
    heard = end.hear(
        link.write(CallResultMessage(id=number, ok=False, error=CallError(code="x_y", message="no", outcome=outcome)))
    )
    assert isinstance(heard, Answered)
    assert isinstance(heard.error, kind)
    assert (heard.error.code, str(heard.error)) == ("x_y", "no")
    assert kind.code != "x_y"  # type: ignore[attr-defined]  # of the class: only this error has the foreign code


def test_what_a_link_does_not_carry_is_an_output_limit_and_keeps_the_rest() -> None:
    end = begun()
    whole = JobResult(state=State.OK, ok=True, value="é" * limits.CODE_LINK_RESULT_BYTES, limitations=("a",))
    told = link.read_from_runner(end.finish(whole))
    assert isinstance(told, link.ResultMessage)
    assert (told.result.state, told.result.value, told.result.limitations) == (State.OUTPUT_LIMIT, None, ("a",))


def test_a_result_before_a_job_is_our_own_mistake() -> None:
    with pytest.raises(HarnessError):
        RunnerEnd(admit).finish(OK)
    with pytest.raises(FailedError):
        RunnerEnd(admit).call("run", [])


def test_a_line_is_told_while_there_is_a_run() -> None:
    end = RunnerEnd(admit)
    assert end.log(LogLine(level="log", message="x")) == b""
    end.hear(FIRST)
    assert json.loads(end.log(LogLine(level="warn", message="x")))["level"] == "warn"
    assert json.loads(end.log(LogLine(level="odd", message="x")))["level"] == "log"


class RunnerEndMachine(RuleBasedStateMachine):
    """Whatever a backend says, in whatever order."""

    def __init__(self) -> None:
        super().__init__()
        self.end = RunnerEnd(admit)
        self.began = self.over = False
        self.open: set[int] = set()
        self.last = 0

    @rule(right=st.booleans())
    def send_a_job(self, right: bool) -> None:
        heard = self.end.hear(FIRST if right else FIRST.replace(TOKEN.encode(), b"wrong"))
        if self.over:
            assert heard == Ignored()
        elif self.began:
            assert isinstance(heard, Broken)
            self.over = True
        else:
            assert isinstance(heard, Begin if right else Turned)
            self.began, self.over = right, not right

    @rule(number=st.integers(1, 12), value=st.none() | st.integers(0, 3) | st.lists(st.text(max_size=3), max_size=3))
    def answer(self, number: int, value: Any) -> None:
        heard = self.end.hear(answer(number, value))
        if self.over:
            assert heard == Ignored()
        elif not self.began:
            assert isinstance(heard, Turned)
            self.over = True
        elif number in self.open:
            assert heard == Answered(id=number, value=value)
            self.open.discard(number)
        else:
            assert isinstance(heard, Broken)
            self.over = True

    @rule(words=st.sampled_from(JUNK[:-1]))
    def say_junk(self, words: bytes) -> None:
        heard = self.end.hear(words)
        assert isinstance(heard, Ignored if self.over else Broken if self.began else Turned)
        self.over = True

    @precondition(lambda self: self.began)
    @rule()
    def cancel(self) -> None:
        assert self.end.hear(link.write(link.CancelMessage())) == (Ignored() if self.over else Cancelled())

    @rule()
    def call(self) -> None:
        if self.over or not self.began:
            with pytest.raises(FailedError):
                self.end.call("run", ["a", {}])
            return
        number, data = self.end.call("run", ["a", {}])
        assert number > self.last
        assert json.loads(data)["id"] == number
        self.last = number
        self.open.add(number)

    @precondition(lambda self: self.began)
    @rule()
    def finish(self) -> None:
        data = self.end.finish(OK)
        assert bool(data) is not self.over
        self.over = True

    @invariant()
    def agrees(self) -> None:
        assert self.end.over is self.over


TestRunnerEnd = RunnerEndMachine.TestCase
TestRunnerEnd.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
