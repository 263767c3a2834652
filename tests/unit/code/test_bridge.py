"""code.bridge: what a child says is within the rules, or it ends the run."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.code.bridge import Bridge
from fumehood.code.events import Call, Ended, Event, Finished, Log, OverLimit, Ready, Send, Violation
from fumehood.code.job import Job, JobLimits, LogLine, State
from fumehood.code.messages import Thrown
from fumehood.code.requests import Describe, RunTool, Search
from fumehood.core import limits
from fumehood.core.clock import SystemClock
from fumehood.core.errors import CancelledError, FailedError, HarnessError, RefusedError

pytestmark = pytest.mark.threat("C3")

READY = b'{"type":"ready"}\n'


class Ticks(SystemClock):
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def call(number: int, method: str = "run", args: Any = ("files.read", {})) -> bytes:
    return line(type="call", id=number, method=method, args=args)


def opened(clock: Ticks | None = None, **bounds: Any) -> Bridge:
    """A bridge whose child is ready and has its job."""
    bridge = Bridge(Job(code="return 1", limits=JobLimits(**bounds)), clock or Ticks())
    bridge.opening()
    assert bridge.feed(READY) == [Ready()]
    return bridge


def sent(events: list[Event]) -> list[Any]:
    return [json.loads(event.data) for event in events if isinstance(event, Send)]


def test_the_opening_carries_the_job_and_its_limits_and_nothing_else() -> None:
    job = Job(code="return input", input={"a": [1, "é"]}, tools=("files.read",), limits=JobLimits(calls=3))
    data = Bridge(job, Ticks()).opening()
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    assert json.loads(data) == {
        "type": "job",
        "code": "return input",
        "input": {"a": [1, "é"]},
        "tools": ["files.read"],
        "limits": {
            "calls": 3,
            "calls_in_flight": 16,
            "output_bytes": limits.CODE_OUTPUT_BYTES,
            "message_bytes": limits.CODE_MESSAGE_BYTES,
            "depth": limits.CODE_DEPTH,
        },
    }


def test_a_run_goes_from_ready_to_its_result() -> None:
    bridge = opened()
    asked = bridge.feed(call(1, "run", ["files.read", {"path": "a"}]))
    assert asked == [Call(id=1, request=RunTool(name="files.read", arguments={"path": "a"}))]
    assert sent(bridge.answer(1, {"text": "hello"})) == [
        {"type": "callResult", "id": 1, "ok": True, "value": {"text": "hello"}}
    ]
    assert bridge.feed(line(type="log", level="warn", message="x")) == [Log(line=LogLine(level="warn", message="x"))]
    assert bridge.feed(line(type="result", ok=True, value=[1])) == [Finished(value=[1])]
    assert bridge.terminal == Finished(value=[1])
    assert bridge.closed() == []
    account = bridge.account()
    assert [record.outcome for record in account.calls] == ["ok"]
    assert account.ignored_bytes == 0


def test_a_thrown_error_is_a_result() -> None:
    events = opened().feed(line(type="result", ok=False, error={"name": "E", "message": "m", "stack": "s"}))
    assert events == [Finished(error=Thrown(name="E", message="m", stack="s"))]


@pytest.mark.parametrize(
    ("method", "args", "request_"),
    [
        ("search", ["read a file"], Search(query="read a file")),
        ("search", ["read", None], Search(query="read")),
        ("search", ["read", {}], Search(query="read")),
        ("search", ["read", {"limit": 3}], Search(query="read", limit=3)),
        ("describe", ["a.b"], Describe(names=("a.b",))),
        ("describe", [["a.b", "c.d"]], Describe(names=("a.b", "c.d"))),
        ("run", ["a.b"], RunTool(name="a.b", arguments={})),
        ("run", ["a.b", None], RunTool(name="a.b", arguments={})),
        ("run", ["a.b", {"x": 1}], RunTool(name="a.b", arguments={"x": 1})),
    ],
)
def test_a_call_is_read_by_its_method(method: str, args: Any, request_: Any) -> None:
    assert opened().feed(call(1, method, args)) == [Call(id=1, request=request_)]


@pytest.mark.parametrize(
    ("method", "args"),
    [
        ("search", []),
        ("search", [5]),
        ("search", ["x", {"limit": True}]),
        ("search", ["x", {"limit": 0}]),
        ("search", ["x", {"limit": 51}]),
        ("search", ["x", {"limit": 2, "more": 1}]),
        ("search", ["x", 3]),
        ("search", ["x" * 1001]),
        ("describe", []),
        ("describe", [[]]),
        ("describe", [["a", 5]]),
        ("describe", [["a"] * 51]),
        ("run", []),
        ("run", [5]),
        ("run", [""]),
        ("run", ["a\n"]),
        ("run", ["a" * 201]),
        ("run", ["a", [1]]),
        ("run", ["a", {}, 3]),
    ],
)
def test_a_call_with_other_arguments_is_answered_with_the_form_that_is_expected(method: str, args: Any) -> None:
    bridge = opened()
    (answer,) = sent(bridge.feed(call(1, method, args)))
    assert not answer["ok"]
    assert answer["error"]["code"] == "invalid_arguments"
    assert answer["error"]["message"].startswith(f"amcp.{method}(")
    assert bridge.terminal is None
    assert [(record.name, record.outcome) for record in bridge.account().calls] == [(f"amcp.{method}", "refused")]


VIOLATIONS = {
    "no json": b"hello\n",
    "an empty line": b"\n",
    "not utf-8": b"\xff\n",
    "nan": b'{"type":"result","ok":true,"value":NaN}\n',
    "infinity": b'{"type":"result","ok":true,"value":1e999}\n',
    "an integer of more than 64 bits": b'{"type":"result","ok":true,"value":100000000000000000000}\n',
    "half a surrogate pair": b'{"type":"log","level":"log","message":"\\ud800"}\n',
    "a key twice": b'{"type":"result","ok":true,"value":1,"value":2}\n',
    "two documents": READY[:-1] + READY,
    "deeper than it is read": b'{"type":"result","ok":true,"value":' + b"[" * 64 + b"]" * 64 + b"}\n",
    "a list": b"[]\n",
    "no type": b"{}\n",
    "a type of ours": line(type="callResult", id=1, ok=True, value=1),
    "a job": line(type="job", code="x"),
    "an unknown type": line(type="exec", argv=["id"]),
    "an unknown field": line(type="log", level="log", message="x", extra=1),
    "an unknown level": line(type="log", level="trace", message="x"),
    "a message that is no text": line(type="log", level="log", message=5),
    "an unknown method": call(1, "admin.deleteEverything"),
    "an id of zero": call(0),
    "an id below zero": call(-1),
    "an id that is a float": b'{"type":"call","id":1.0,"method":"run","args":[]}\n',
    "an id that is a bool": line(type="call", id=True, method="run", args=[]),
    "an id that is a text": line(type="call", id="1", method="run", args=[]),
    "an id beyond what a program can count": call(2**53),
    "arguments that are no list": call(1, args={"name": "x"}),
    "a result with both": line(type="result", ok=True, value=1, error={"name": "a", "message": "b"}),
    "a result with neither": line(type="result", ok=False),
    "a result with the wrong one": line(type="result", ok=False, value=1),
    "an error with a field more": line(type="result", ok=False, error={"name": "a", "message": "b", "path": "/"}),
    "ready twice": READY,
}


@pytest.mark.parametrize("words", VIOLATIONS.values(), ids=VIOLATIONS)
def test_what_is_no_message_ends_the_run(words: bytes) -> None:
    bridge = opened()
    (event,) = bridge.feed(words + line(type="result", ok=True, value="forged"))
    assert isinstance(event, Violation)
    assert event.reason.isascii()
    assert event.reason.isprintable()
    assert 0 < len(event.reason) <= 200
    assert bridge.terminal is event
    assert bridge.account().ignored_bytes == len(line(type="result", ok=True, value="forged"))


def test_depth_within_the_bound_is_read() -> None:
    value: Any = 1
    for _ in range(limits.CODE_DEPTH - 1):
        value = [value]
    assert opened().feed(line(type="result", ok=True, value=value)) == [Finished(value=value)]


def test_a_reason_shows_a_childs_words_cut_and_inert() -> None:
    (event,) = opened().feed(line(type="ready", **{"\x1b[2J\u202e" + "x" * 5000: 1}))
    assert isinstance(event, Violation)
    assert event.reason.isprintable()
    assert len(event.reason) == 200


@pytest.mark.parametrize(
    "words",
    [call(1), line(type="log", level="log", message="x"), line(type="result", ok=True, value=1)],
    ids=["call", "log", "result"],
)
def test_nothing_comes_before_ready_nor_before_the_job(words: bytes) -> None:
    unready = Bridge(Job(code="x"), Ticks())
    unready.opening()
    assert unready.feed(words) == [Violation(reason="words before ready")]
    jobless = Bridge(Job(code="x"), Ticks())
    assert jobless.feed(READY) == [Ready()]
    assert jobless.feed(words) == [Violation(reason="words before the job")]


@pytest.mark.parametrize("again", [1, 2, 5])
def test_an_id_is_used_once_and_ids_only_grow(again: int) -> None:
    bridge = opened()
    first = bridge.feed(call(2) + call(5))
    assert [event.id for event in first if isinstance(event, Call)] == [2, 5]
    assert bridge.feed(call(again)) == [Violation(reason="an id of a call that is not new")]


def test_an_id_stays_used_when_its_call_was_answered() -> None:
    bridge = opened()
    bridge.feed(call(1))
    bridge.answer(1, None)
    assert bridge.feed(call(1)) == [Violation(reason="an id of a call that is not new")]


def test_calls_beyond_those_in_flight_wait_in_line_and_come_in_order() -> None:
    bridge = opened(calls_in_flight=2)
    began = bridge.feed(b"".join(call(number) for number in range(1, 6)))
    assert [event.id for event in began if isinstance(event, Call)] == [1, 2]
    send, due = bridge.answer(2, "b")
    assert isinstance(send, Send)
    assert isinstance(due, Call)
    assert due.id == 3
    assert [event.id for event in bridge.refuse(1, RefusedError("no")) if isinstance(event, Call)] == [4]
    assert [event.id for event in bridge.answer(3, "c") if isinstance(event, Call)] == [5]
    assert [event for event in bridge.answer(5, "e") if isinstance(event, Call)] == []


def test_a_call_beyond_the_number_of_calls_ends_the_run() -> None:
    bridge = opened(calls=2)
    bridge.feed(call(1) + call(2, "run", [5]))  # one that was refused counts too
    (event,) = bridge.feed(call(3))
    assert event == OverLimit(state=State.CALL_LIMIT, reason="more than 2 calls")
    assert bridge.answer(1, "late") == []


def test_a_job_without_calls_may_make_none() -> None:
    (event,) = opened(calls=0).feed(call(1))
    assert isinstance(event, OverLimit)


def test_output_up_to_the_bound_is_read_and_the_next_byte_ends_the_run() -> None:
    result = line(type="result", ok=True, value="x")
    room = 1024 - len(READY) - len(result)
    frame = len(line(type="log", level="log", message=""))
    filler = line(type="log", level="log", message="x" * (room - frame))
    within = opened(output_bytes=1024)
    assert within.feed(filler + result)[-1] == Finished(value="x")
    beyond = opened(output_bytes=1024)
    events = beyond.feed(filler[:-2].replace(b"x", b"xx", 1) + filler[-2:] + result)
    assert events[-1] == OverLimit(state=State.OUTPUT_LIMIT, reason="more than 1024 bytes of output")


def test_a_line_that_never_ends_is_noticed_at_its_bound() -> None:
    bridge = opened()
    assert bridge.feed(b"x" * limits.CODE_MESSAGE_BYTES) == []
    (event,) = bridge.feed(b"x")
    assert isinstance(event, OverLimit)
    assert event.state is State.OUTPUT_LIMIT
    assert "one message" in event.reason
    assert bridge.account().ignored_bytes == 1


def test_log_lines_beyond_the_bound_are_counted_and_not_kept() -> None:
    bridge = opened()
    events = bridge.feed(line(type="log", level="log", message="x") * (limits.CODE_LOG_LINES + 7))
    assert len(events) == limits.CODE_LOG_LINES
    account = bridge.account()
    assert len(account.logs) == limits.CODE_LOG_LINES
    assert account.logs_dropped == 7
    assert bridge.feed(line(type="result", ok=True, value=1)) == [Finished(value=1)]


@pytest.mark.parametrize(
    "after", [line(type="result", ok=True, value="second"), call(2), b"\xff\n", b"\n" * 50], ids=repr
)
def test_nothing_counts_after_the_result(after: bytes) -> None:
    bridge = opened()
    result = line(type="result", ok=True, value="first")
    assert bridge.feed(result + after) == [Finished(value="first")]
    assert bridge.feed(after) == []
    assert bridge.terminal == Finished(value="first")
    account = bridge.account()
    assert account.ignored_bytes == 2 * len(after)
    assert account.received_bytes == len(READY) + len(result) + 2 * len(after)


def test_the_end_of_the_stream_without_a_result_says_whether_the_child_ever_was_ready() -> None:
    unready = Bridge(Job(code="x"), Ticks())
    assert unready.closed() == [Ended()]
    assert not unready.account().ready
    bridge = opened()
    bridge.feed(b'{"type":"result","ok":true,"val')
    assert bridge.closed() == [Ended()]
    assert bridge.account().ready
    assert bridge.closed() == []
    assert bridge.feed(b'ue":1}\n') == []


def test_an_answer_is_wanted_once() -> None:
    bridge = opened()
    bridge.feed(call(1))
    bridge.answer(1, 1)
    for again in (1, 2):
        with pytest.raises(HarnessError, match="not under way"):
            bridge.answer(again, 1)


def test_an_answer_after_the_end_is_dropped() -> None:
    bridge = opened()
    bridge.feed(call(1) + call(2) + line(type="result", ok=True, value=1))
    assert bridge.answer(1, 1) == []
    assert bridge.refuse(2, FailedError("late")) == []
    assert [record.outcome for record in bridge.account().calls] == ["cancelled", "cancelled"]


@pytest.mark.parametrize("value", [float("nan"), {"a": object()}, "\ud800", {1, 2}], ids=repr)
def test_an_answer_that_is_no_json_becomes_an_error_of_the_program(value: object) -> None:
    bridge = opened()
    bridge.feed(call(1))
    (answer,) = sent(bridge.answer(1, value))
    assert answer["error"]["code"] == "harness"


def test_an_answer_that_never_ends_becomes_an_error_of_the_program() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    bridge = opened()
    bridge.feed(call(1))
    (answer,) = sent(bridge.answer(1, deep))
    assert answer["error"]["code"] == "harness"


def test_an_answer_that_is_too_large_becomes_an_error_of_the_program() -> None:
    bridge = opened()
    bridge.feed(call(1) + call(2))
    frame = len(b'{"type":"callResult","id":1,"ok":true,"value":""}\n')
    (whole,) = sent(bridge.answer(1, "x" * (limits.CODE_ANSWER_BYTES - frame)))
    assert whole["ok"]
    (refused,) = sent(bridge.answer(2, "x" * (limits.CODE_ANSWER_BYTES - frame + 1)))
    assert refused["error"]["code"] == "too_large"
    assert [record.outcome for record in bridge.account().calls] == ["ok", "failed"]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(RefusedError("no"), "refused"), (CancelledError("no"), "cancelled"), (FailedError("no"), "failed")],
)
def test_a_refusal_shows_code_and_words_and_is_recorded(
    error: RefusedError | CancelledError | FailedError, outcome: str
) -> None:
    bridge = opened()
    bridge.feed(call(1))
    (answer,) = sent(bridge.refuse(1, error))
    assert answer["error"] == {"code": error.code, "message": "no"}
    assert bridge.account().calls[0].outcome == outcome


def test_the_words_of_a_refusal_are_cut_and_can_always_be_written() -> None:
    bridge = opened()
    bridge.feed(call(1))
    (answer,) = sent(bridge.refuse(1, FailedError("\ud800" + "x" * 10_000)))
    assert len(answer["error"]["message"]) == limits.CODE_ERROR_CHARACTERS


def test_a_call_is_timed_from_its_turn_to_its_answer() -> None:
    clock = Ticks()
    bridge = opened(clock, calls_in_flight=1)
    words = call(1)
    bridge.feed(words + call(2) + call(3))
    clock.seconds += 1.5
    (first, _) = bridge.answer(1, "x")
    assert isinstance(first, Send)
    clock.seconds += 0.25
    done, running, waiting = bridge.account().calls
    assert (done.name, done.milliseconds, done.outcome) == ("files.read", 1500.0, "ok")
    assert (done.sent_bytes, done.received_bytes) == (len(words), len(first.data))
    assert (running.milliseconds, running.outcome, running.received_bytes) == (250.0, "cancelled", 0)
    assert (waiting.milliseconds, waiting.outcome) == (0.0, "cancelled")


# --- properties

_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_near = st.one_of(
    st.just(READY),
    st.builds(call, st.integers(-1, 6), st.sampled_from(["run", "search", "describe", "x"]), _json),
    st.builds(lambda text: line(type="log", level="log", message=text), st.text(max_size=30)),
    st.builds(lambda value: line(type="result", ok=True, value=value), _json),
    st.builds(lambda value: json.dumps(value).encode() + b"\n", _json),
    st.binary(max_size=20),
    st.sampled_from([b"\n", b"{", b'"', b"}\n", b'{"type":']),
)


def _answered(bridge: Bridge, events: list[Event]) -> list[Event]:
    """The events, with every call answered at once."""
    told = list(events)
    for event in told:
        if isinstance(event, Call):
            told += bridge.answer(event.id, event.id)
    return told


@given(st.lists(_near, max_size=12), st.integers(1, 9), st.integers(1024, 1100), st.integers(0, 3))
def test_how_bytes_are_cut_into_chunks_makes_no_difference(
    words: list[bytes], size: int, output_bytes: int, calls: int
) -> None:
    data = b"".join(words) * 3
    whole, cut = (opened(output_bytes=output_bytes, calls=calls) for _ in range(2))
    in_one = whole.feed(data)
    in_parts = [event for at in range(0, len(data), size) for event in cut.feed(data[at : at + size])]
    assert in_one == in_parts
    assert whole.closed() == cut.closed()
    assert whole.account() == cut.account()
    assert whole.account().received_bytes == len(READY) + len(data)


@given(st.lists(st.binary(max_size=200), max_size=10))
def test_no_bytes_raise_anything(chunks: list[bytes]) -> None:
    bridge = Bridge(Job(code="x"), Ticks())
    bridge.opening()
    ends = [event for chunk in chunks for event in bridge.feed(chunk) if event is bridge.terminal]
    assert len(ends) <= 1


@given(st.lists(_near, max_size=15))
def test_a_run_has_one_end_and_nothing_after_it(words: list[bytes]) -> None:
    bridge = opened()
    events = [event for part in words for event in _answered(bridge, bridge.feed(part))] + bridge.closed()
    assert bridge.terminal is not None
    assert [event for event in events if not isinstance(event, Ready | Call | Log | Send)] == [bridge.terminal]
    after = events[events.index(bridge.terminal) + 1 :]
    assert after == []


_ANSWERS: list[Callable[[Bridge, int], list[Event]]] = [
    lambda bridge, number: bridge.answer(number, {"n": number}),
    lambda bridge, number: bridge.refuse(number, FailedError("x")),
]


@given(st.integers(0, 30), st.integers(1, 5), st.randoms(use_true_random=False))
def test_each_call_is_answered_once_in_whatever_order(count: int, in_flight: int, random: Any) -> None:
    bridge = opened(calls_in_flight=in_flight)
    events = bridge.feed(b"".join(call(number) for number in range(1, count + 1)))
    open_, answered = [event.id for event in events if isinstance(event, Call)], []
    while open_:
        assert len(open_) <= in_flight
        number = open_.pop(random.randrange(len(open_)))
        more = random.choice(_ANSWERS)(bridge, number)
        answered += [answer["id"] for answer in sent(more)]
        open_ += [event.id for event in more if isinstance(event, Call)]
    assert sorted(answered) == list(range(1, count + 1))
