"""The state machine of a conversation: whatever comes in whatever order, each request gets its own answer once."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.gateway.upstreams import talk
from fumehood.gateway.upstreams.talk import Answered, Failed, Lost, Progressed, Refused, Reply, Talk, Told
from fumehood.wire import frames
from fumehood.wire.lines import Exhausted, Line, LineSplitter, Oversized

pytestmark = pytest.mark.threat("G6")

Parsed = dict[str, Any]


def hear(made: Talk, *lines: bytes | Parsed) -> list[Any]:
    """What lines lead to, as a session hands them over."""
    found = []
    for line in lines:
        data = line if isinstance(line, bytes) else json.dumps(line).encode()
        event = made.heard(frames.classify(Line(data=data)), data[:256], data[-256:])
        found += [event] if event is not None else []
    return found


def answer(ident: Any, result: Any = None) -> Parsed:
    return {"jsonrpc": "2.0", "id": ident, "result": result}


def tell(method: str, params: Any) -> Parsed:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def test_each_request_gets_its_own_answer_once() -> None:
    made = Talk()
    first, second = made.begin(progress=False), made.begin(progress=False)
    assert hear(made, answer(second, "b"), answer(second, "again"), answer(first, "a"), answer(first)) == [
        Answered(id=second, result="b"),
        Answered(id=first, result="a"),
    ]
    assert (made.open, made.unasked) == (0, 2)


@pytest.mark.parametrize("ident", ["1", 1.0, True, None, 2, -1])
def test_an_answer_with_another_id_is_nobody_s(ident: Any) -> None:
    made = Talk()
    made.begin(progress=False)
    assert not [one for one in hear(made, answer(ident)) if isinstance(one, Answered)]


def test_a_refusal_has_its_number_and_its_words_are_cut() -> None:
    made = Talk()
    ident = made.begin(progress=False)
    (event,) = hear(made, {"jsonrpc": "2.0", "id": ident, "error": {"code": -32000, "message": "x" * 10_000}})
    assert event == Refused(id=ident, number=-32000, words="x" * limits.GUARD_ERROR_CHARACTERS)


def test_a_refusal_without_an_id_is_that_of_the_only_request() -> None:
    refusal: Parsed = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no"}}
    made = Talk()
    made.begin(progress=False)
    assert isinstance(hear(made, refusal)[0], Refused)
    made.begin(progress=False)
    made.begin(progress=False)
    assert hear(made, refusal) == []


def test_progress_reaches_an_open_request_that_wants_it_and_nothing_else() -> None:
    made = Talk()
    deaf, keen = made.begin(progress=False), made.begin(progress=True)
    shown: Parsed = {"progress": 1, "total": 2.5, "message": "half"}
    said = tell("notifications/progress", {"progressToken": keen, **shown, "_meta": {"a": 1}, "more": "x"})
    assert hear(made, said) == [Progressed(id=keen, progress=shown)]
    for params in (
        {"progressToken": deaf, "progress": 1},
        {"progressToken": str(keen), "progress": 1},
        {"progressToken": True, "progress": 1},
        {"progressToken": keen, "progress": "1"},
        {"progressToken": keen, "progress": True},
        {"progressToken": keen},
    ):
        assert hear(made, tell("notifications/progress", params)) == []
    long = {"progressToken": keen, "progress": 1, "total": "x", "message": "y" * 10_000}
    (event,) = hear(made, tell("notifications/progress", long))
    assert event.progress == {"progress": 1, "message": "y" * limits.UPSTREAM_PROGRESS_CHARACTERS}
    hear(made, answer(keen))
    assert hear(made, said) == []


def test_what_nobody_waits_for_any_more_is_cancelled_once_and_its_answer_dropped() -> None:
    made = Talk()
    ident = made.begin(progress=True)
    line = made.cancel(ident)
    assert line is not None
    assert json.loads(line) == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": ident},
    }
    assert made.cancel(ident) is None
    assert hear(made, answer(ident), tell("notifications/progress", {"progressToken": ident, "progress": 1})) == []
    assert made.unasked == 2


def test_a_ping_is_answered_and_everything_else_refused() -> None:
    made = Talk()
    ping, roots = hear(made, {"jsonrpc": "2.0", "id": "p", "method": "ping"}, {**answer(7), "method": "x"} | {}), None
    assert [type(one) for one in ping] == [Reply]
    assert json.loads(ping[0].line) == {"jsonrpc": "2.0", "id": "p", "result": {}}
    (roots,) = hear(made, {"jsonrpc": "2.0", "id": 7, "method": "roots/list"})
    assert json.loads(roots.line)["error"]["code"] == -32601
    assert hear(made, {"jsonrpc": "2.0", "id": "x" * 1000, "method": "ping"}) == []


def test_a_notification_is_told_without_its_meta() -> None:
    made = Talk()
    said = tell("notifications/tools/list_changed", {"_meta": {"a": 1}, "b": 2})
    assert hear(made, said) == [Told(method="notifications/tools/list_changed", params={"b": 2})]
    assert hear(made, {"jsonrpc": "2.0", "method": "n"}) == [Told(method="n", params={})]
    for one in (tell("n", [1]), tell("x" * 1000, {}), tell("a\x1bb", {}), tell("notifications/cancelled", {})):
        assert hear(made, one) == []


def test_a_message_that_cannot_be_read_fails_the_request_that_it_answers() -> None:
    made = Talk()
    first, second = made.begin(progress=False), made.begin(progress=False)
    deep = b'{"jsonrpc":"2.0","id":%d,"result":' % first + b"[" * 100 + b"]" * 100 + b"}"
    assert hear(made, deep) == [Failed(id=first, why="the server sent nested deeper than 64")]
    last = b'{"result":' + b"[" * 100 + b"]" * 100 + b',"jsonrpc":"2.0","id":%d}' % second
    assert [type(one) for one in hear(made, last)] == [Failed]
    assert hear(made, deep) == []


def test_a_line_over_its_bound_that_begins_with_the_answer_is_the_only_request_s() -> None:
    made = Talk()
    ident = made.begin(progress=False)
    long = Oversized(prefix=b'{"result":{"content":[', limit_bytes=9)
    assert made.heard(long, long.prefix) == Failed(id=ident, why="the server sent a line over its bound")
    made.begin(progress=False)
    made.begin(progress=False)
    assert isinstance(made.heard(long, long.prefix), Lost)


def test_a_broken_message_that_is_nobody_s_loses_the_conversation_only_while_somebody_waits() -> None:
    made = Talk()
    broken = b'{"jsonrpc": "2.0", oh'
    assert hear(made, broken) == []
    made.begin(progress=False)
    assert hear(made, b"{ name: 'a log of an object' }", b"a banner", b'{"level":"info"}') == []
    assert isinstance(hear(made, broken)[0], Lost)
    assert made.noise == 4


def test_a_broken_line_about_a_request_that_is_over_loses_nothing() -> None:
    made = Talk()
    made.begin(progress=False)
    assert hear(made, b'{"jsonrpc":"2.0","id":99,"result":' + b"[" * 100) == []
    assert hear(made, answer(1.5), answer(None)) == []


def test_a_stream_over_its_own_bound_is_lost() -> None:
    assert isinstance(Talk().heard(Exhausted(received_bytes=1)), Lost)


def test_a_request_is_one_line() -> None:
    line = talk.request(3, "tools/call", {"name": "a\nb"})
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "a\nb"}}


IDS = st.integers(0, 6) | st.sampled_from(["1", 1.5, None, True])
ACTS = st.one_of(
    st.tuples(st.just("begin"), st.booleans()),
    st.tuples(st.just("cancel"), st.integers(0, 6)),
    st.tuples(st.just("answer"), IDS),
    st.tuples(st.just("error"), IDS),
    st.tuples(st.just("progress"), IDS),
    st.tuples(st.just("bytes"), st.binary(max_size=60) | st.just(b'{"jsonrpc":"2.0","id":1,"result":[')),
)


def _line(kind: str, value: Any) -> bytes:
    match kind:
        case "answer":
            return json.dumps(answer(value, value)).encode()
        case "error":
            return json.dumps({"jsonrpc": "2.0", "id": value, "error": {"code": 1, "message": ""}}).encode()
        case "progress":
            return json.dumps(tell("notifications/progress", {"progressToken": value, "progress": 0})).encode()
        case _:
            return bytes(value).replace(b"\n", b" ")


@given(st.lists(ACTS, max_size=60))
def test_in_any_order_a_request_gets_at_most_one_answer_and_nothing_after_it(acts: list[tuple[str, Any]]) -> None:
    made = Talk()
    waiting: dict[int, bool] = {}  # by a model that is simpler: id, and whether progress is wanted
    splitter = LineSplitter()
    for kind, value in acts:
        if kind == "begin":
            ident = made.begin(progress=value)
            assert ident not in waiting
            waiting[ident] = value
            continue
        if kind == "cancel":
            assert (made.cancel(value) is not None) == (waiting.pop(value, None) is not None)
            continue
        for piece in splitter.feed(_line(kind, value) + b"\n"):
            assert isinstance(piece, Line)
            match made.heard(frames.classify(piece), piece.data[:256], piece.data[-256:]):
                case Answered(id=ident, result=result):
                    assert result == ident  # its own
                    del waiting[ident]
                case Refused(id=ident) | Failed(id=ident):
                    del waiting[ident]
                case Progressed(id=ident):
                    assert waiting[ident]
    assert made.open == len(waiting)
