"""Each message is decided about by what is open: no answer comes twice, nothing passes without its controls."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.gateway.guard.listing import Taken, Withheld
from fumehood.wire import frames
from fumehood.wire.lines import Exhausted, Oversized

Connect = Callable[..., Any]


# --- requests and answers


def test_a_request_is_passed_on_and_answered_once(wired: Any) -> None:
    wired.ask(1, "completion/complete", ref={"type": "ref/prompt"})
    assert wired.server == [
        {"jsonrpc": "2.0", "id": 1, "method": "completion/complete", "params": {"ref": {"type": "ref/prompt"}}}
    ]
    wired.server_says({"id": 1, "result": {"values": ["a"]}})
    wired.server_says({"id": 1, "result": {"values": ["b"]}})
    assert wired.client == [{"jsonrpc": "2.0", "id": 1, "result": {"values": ["a"]}}]
    assert wired.traffic.dropped == 1


@pytest.mark.threat("G3")
@pytest.mark.parametrize("ident", [2, "1", "fumehood:1", 1.0, None, True])
def test_an_answer_that_nobody_waits_for_reaches_nobody(wired: Any, ident: Any) -> None:
    wired.ask(1, "ping")
    wired.server_says({"id": ident, "result": {"forged": True}})
    wired.server_says({"id": ident, "error": {"code": 1, "message": "forged"}})
    assert wired.client == []


def test_an_id_in_flight_is_refused_a_second_time_without_its_id(wired: Any) -> None:
    wired.ask(1, "ping")
    wired.ask(1, "ping")
    assert len(wired.server) == 1
    assert [(one["id"], one["error"]["code"]) for one in wired.client] == [(None, -32600)]


@pytest.mark.threat("G3")
def test_requests_in_flight_are_bounded(wired: Any) -> None:
    for number in range(limits.GUARD_IN_FLIGHT + 1):
        wired.ask(number, "ping")
    assert len(wired.server) == limits.GUARD_IN_FLIGHT
    assert [(one["id"], one["error"]["code"]) for one in wired.client] == [(limits.GUARD_IN_FLIGHT, -32000)]


def test_ids_like_ours_are_the_clients_own_affair_no_more(wired: Any) -> None:
    wired.ask("fumehood:1", "ping")
    assert wired.server == []
    assert wired.client[0]["error"]["code"] == -32000


def test_what_is_no_message_is_answered(wired: Any) -> None:
    wired.client_says({"id": 1, "method": 7})
    wired.client_says({"id": [], "method": "ping"})
    assert [(one["id"], one["error"]["code"]) for one in wired.client] == [(1, -32600), (None, -32600)]
    assert wired.server == []


@pytest.mark.threat("G3")
def test_of_meta_only_the_protocol_progress_and_trace_are_passed_on(wired: Any) -> None:
    meta = {"progressToken": 7, "traceparent": "00-1", "baggage": "user=me", "vendor/x": {"secret": 1}}
    wired.ask(1, "ping", _meta={**meta, "io.modelcontextprotocol/protocolVersion": "2026-07-28"})
    assert wired.server[0]["params"] == {
        "_meta": {"progressToken": 7, "traceparent": "00-1", "io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    }


def test_a_notification_is_passed_on(wired: Any) -> None:
    wired.client_says({"method": "notifications/initialized"})
    assert wired.server == [{"jsonrpc": "2.0", "method": "notifications/initialized"}]


def test_a_cancelled_request_is_forgotten_and_its_answer_dropped(wired: Any) -> None:
    wired.ask(1, "ping")
    wired.client_says({"method": "notifications/cancelled", "params": {"requestId": 1}})
    wired.client_says({"method": "notifications/cancelled", "params": {"requestId": 2}})
    wired.server_says({"id": 1, "result": {}})
    assert [one.get("params") for one in wired.server[1:]] == [{"requestId": 1}]
    assert wired.client == []


@pytest.mark.threat("G3")
def test_an_error_is_inert_text(wired: Any) -> None:
    token = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"
    wired.ask(1, "ping")
    wired.server_says({"id": 1, "error": {"code": -5, "message": f"no\x1b[2J\u200b {token}", "data": {"key": token}}})
    (answer,) = wired.client
    assert answer["error"]["code"] == -5
    assert token not in json.dumps(answer)
    assert answer["error"]["message"].startswith("no[2J [redacted:")


# --- calls and the list of tools


@pytest.mark.threat("G3")
def test_no_tool_is_called_before_the_whole_list_was_judged(wired: Any) -> None:
    wired.call(1)
    assert [one["method"] for one in wired.server] == ["tools/list"]
    wired.lists(nextCursor="2", tools=[{"name": "other", "inputSchema": {}}])
    assert [one["method"] for one in wired.server] == ["tools/list", "tools/list"]
    assert wired.server[1]["params"] == {"cursor": "2"}
    wired.lists()
    assert [one["method"] for one in wired.server] == ["tools/list", "tools/list", "tools/call"]
    wired.call(2, "other")
    assert len(wired.server) == 4


def test_a_list_is_shown_whole_and_without_its_pages(wired: Any) -> None:
    wired.ask(1, "tools/list")
    wired.lists([{"name": "a", "inputSchema": {}}], nextCursor="2", ttlMs=5)
    wired.lists([{"name": "b", "inputSchema": {}}])
    (answer,) = wired.client
    assert [tool["name"] for tool in answer["result"]["tools"]] == ["a", "b"]
    assert "nextCursor" not in answer["result"]
    assert answer["result"]["ttlMs"] == 5


def test_our_own_request_has_the_envelope_of_the_clients(wired: Any) -> None:
    version = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    wired.ask(1, "tools/list", _meta={**version, "progressToken": 3})
    assert wired.server[0]["params"] == {"_meta": version}
    assert str(wired.server[0]["id"]).startswith("fumehood:")


@pytest.mark.threat("G3")
def test_a_tool_that_is_not_listed_is_not_called(wired: Any) -> None:
    wired.ready()
    wired.call(1, "hidden")
    assert wired.server == []
    assert wired.client[0]["error"]["code"] == -32602
    assert [(one.tool, one.decision, one.outcome) for one in wired.records] == [("hidden", "unknown_tool", "refused")]


@pytest.mark.threat("G3")
def test_a_list_that_changes_is_judged_before_the_next_call(connect: Connect) -> None:
    wired = connect(Taken(), Withheld(reason="read is another; fumehood gateway accept"))
    wired.ready()
    wired.call(1)
    wired.server_says({"method": "notifications/tools/list_changed"})
    assert wired.client == [{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}]
    wired.call(2)
    assert [one["method"] for one in wired.server] == ["tools/call", "tools/list"]
    wired.lists([{"name": "read", "description": "Another.", "inputSchema": {}}])
    assert wired.client[-1]["error"] == {"code": -32001, "message": "read is another; fumehood gateway accept"}
    assert wired.said == ["its tools are withheld: read is another; fumehood gateway accept"]
    wired.ask(3, "tools/list")
    wired.lists([{"name": "read", "description": "Another.", "inputSchema": {}}])
    assert wired.client[-1]["result"]["tools"] == [{"name": "read", "description": "Another.", "inputSchema": {}}]


@pytest.mark.threat("G3")
def test_withheld_tools_are_an_empty_list(connect: Connect) -> None:
    wired = connect(Withheld(reason="changed"))
    wired.ask(1, "tools/list")
    wired.lists()
    assert wired.client == [{"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}]
    wired.call(2)
    assert wired.client[-1]["error"]["code"] == -32001


@pytest.mark.parametrize(
    "result",
    [
        {"result": {"tools": 7}},
        {"result": []},
        {"error": {"code": -32601, "message": "no tools"}},
    ],
)
def test_without_a_list_nothing_is_called(wired: Any, result: dict[str, Any]) -> None:
    wired.call(1)
    wired.ask(2, "tools/list")
    wired.server_says({"id": wired.server[0]["id"], **result})
    assert [(one["id"], one["error"]["code"]) for one in wired.client] == [(1, -32602), (2, -32603)]
    wired.call(3)
    assert wired.server[-1]["method"] == "tools/list"  # asked again


@pytest.mark.threat("G3")
@pytest.mark.parametrize("cursors", [["x", "x"], [7], [str(number) for number in range(limits.GUARD_PAGES + 1)]])
def test_a_list_without_an_end_is_none(wired: Any, cursors: list[Any]) -> None:
    wired.ask(1, "tools/list")
    for cursor in cursors:
        if not wired.client:
            wired.lists(nextCursor=cursor)
    assert wired.client[0]["error"]["code"] == -32603


def test_a_held_call_that_is_cancelled_is_never_made(wired: Any) -> None:
    wired.call(1)
    assert wired.traffic.is_held
    wired.client_says({"method": "notifications/cancelled", "params": {"requestId": 1}})
    wired.lists()
    assert [one["method"] for one in wired.server] == ["tools/list"]
    assert not wired.traffic.is_held
    assert wired.client == []


# --- records


@pytest.mark.threat("G1")
def test_a_call_is_recorded_before_it_is_made_and_before_it_is_answered(wired: Any) -> None:
    wired.ready()
    wired.call(1)
    assert wired.order == ["Recorded", "ToServer"]
    wired.server_says({"id": 1, "result": {"content": []}})
    assert wired.order[2:] == ["Recorded", "ToClient"]
    assert [(one.call, one.outcome, one.writes) for one in wired.records] == [(1, "begun", True), (1, "ok", True)]
    assert wired.records[1].answer_bytes > 0


@pytest.mark.threat("G1")
def test_failures_and_cancellations_are_recorded(wired: Any) -> None:
    wired.ready()
    wired.call(1)
    wired.server_says({"id": 1, "result": {"content": [], "isError": True}})
    wired.call(2)
    wired.server_says({"id": 2, "error": {"code": 1, "message": "x"}})
    wired.call(3)
    wired.client_says({"method": "notifications/cancelled", "params": {"requestId": 3}})
    assert [(one.call, one.outcome) for one in wired.records if one.outcome != "begun"] == [
        (1, "failed"),
        (2, "failed"),
        (3, "cancelled"),
    ]


# --- what a server says by itself


def test_what_the_server_asks_is_passed_on_and_answered_once(wired: Any) -> None:
    wired.server_says({"id": 5, "method": "sampling/createMessage", "params": {"messages": []}})
    assert wired.client[0]["method"] == "sampling/createMessage"
    wired.client_says({"id": 5, "result": {"role": "assistant"}})
    wired.client_says({"id": 5, "result": {"role": "assistant"}})
    wired.client_says({"id": 6, "error": {"code": 1, "message": "no"}})
    assert wired.server == [{"jsonrpc": "2.0", "id": 5, "result": {"role": "assistant"}}]


@pytest.mark.threat("G3")
def test_questions_of_the_server_are_bounded_and_redacted(wired: Any) -> None:
    token = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"
    for number in range(limits.GUARD_ASKED_BACK + 2):
        wired.server_says({"id": number, "method": "elicitation/create", "params": {"message": token}})
    assert len(wired.client) == limits.GUARD_ASKED_BACK
    assert token not in json.dumps(wired.client)
    assert wired.traffic.dropped == 2
    assert wired.said == ["it asks the client more at once than is passed on"]


def test_a_question_that_the_server_takes_back_is_no_longer_open(wired: Any) -> None:
    wired.server_says({"id": 5, "method": "roots/list"})
    wired.server_says({"method": "notifications/cancelled", "params": {"requestId": 5}})
    wired.client_says({"id": 5, "result": {"roots": []}})
    assert wired.server == []


def test_params_that_are_none_are_refused_or_left_out(wired: Any) -> None:
    wired.server_says({"id": 5, "method": "roots/list", "params": [1]})
    wired.server_says({"method": "notifications/message", "params": [1]})
    wired.server_says({"method": "m" * (limits.METHOD_CHARACTERS + 1)})
    assert [one["error"]["code"] for one in wired.server] == [-32602]
    assert wired.client == []


def test_progress_and_logs_are_passed_on_redacted(wired: Any) -> None:
    token = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"
    wired.server_says({"method": "notifications/progress", "params": {"progressToken": 7, "progress": 0.5}})
    wired.server_says({"method": "notifications/message", "params": {"level": "info", "data": {"x": [token]}}})
    assert wired.client[0]["params"] == {"progressToken": 7, "progress": 0.5}
    assert token not in json.dumps(wired.client[1])


# --- what is no message


@pytest.mark.threat("G3")
def test_noise_is_left_out_and_said_once(wired: Any) -> None:
    for _ in range(5):
        wired.server_says(b"a banner")
        wired.server_says(b'{"level": "info"}')
    assert wired.client == []
    assert wired.traffic.dropped == 10
    assert wired.said == ["a line that is no message is left out"]


@pytest.mark.threat("G3")
@pytest.mark.parametrize("ident", ["1", '"1"'])
def test_who_waits_for_a_line_over_its_bound_is_told(wired: Any, ident: str) -> None:
    wired.ask(json.loads(ident), "ping")
    prefix = f'{{"jsonrpc":"2.0","id":{ident},"result":{{"x":"'.encode()
    wired._do(wired.traffic.from_server(Oversized(prefix=prefix, limit_bytes=10), prefix))
    wired._do(wired.traffic.from_server(Oversized(prefix=prefix, limit_bytes=10), prefix))
    assert [(one["id"], one["error"]["code"]) for one in wired.client] == [(json.loads(ident), -32603)]


@pytest.mark.threat("G3")
def test_of_a_long_line_that_ends_with_its_id_the_only_one_who_waits_is_told(wired: Any) -> None:
    wired.ask(1, "ping")
    head = b'{"result":{"content":[{"type":"text","id":7,"text":"'
    wired._do(wired.traffic.from_server(Oversized(prefix=head, limit_bytes=10), head))
    assert [(one["id"], one["error"]["code"]) for one in wired.client] == [(1, -32603)]
    wired.ask(2, "ping")
    wired.ask(7, "ping")
    wired._do(wired.traffic.from_server(Oversized(prefix=head, limit_bytes=10), head))
    assert len(wired.client) == 1  # nobody knows whose it was


def test_of_a_deep_line_that_ends_with_its_id_that_one_is_told(wired: Any) -> None:
    wired.ask(1, "ping")
    wired.ask("b", "ping")
    line = b'{"result":' + b'{"id":1,"a":' * 100 + b"1" + b"}" * 100 + b',"jsonrpc":"2.0","id":"b"}'
    wired._do(wired.traffic.from_server(frames.Malformed(problem="deep", size=9), line[:256], line[-256:]))
    assert [one["id"] for one in wired.client] == ["b"]


@pytest.mark.threat("G3")
@pytest.mark.parametrize(
    "head", ['{"jsonrpc":"2.0","id":1,"method":"x","params":{"y":"', '{"method":"x","params":{"id":1,']
)
def test_a_long_question_of_the_server_answers_nobody(wired: Any, head: str) -> None:
    wired.ask(1, "ping")
    wired._do(wired.traffic.from_server(Oversized(prefix=head.encode(), limit_bytes=10), head.encode()))
    assert wired.client == []


@pytest.mark.threat("G3")
def test_what_waits_for_the_list_of_tools_is_bounded_in_bytes(wired: Any) -> None:
    words = "x" * (limits.GUARD_HELD_BYTES // 4 - 1000)
    for number in range(5):
        wired.call(number, extra=words)
    assert [(one["id"], one["error"]["code"]) for one in wired.client] == [(4, -32000)]
    wired.lists()
    assert [one["id"] for one in wired.server[1:]] == [0, 1, 2, 3]
    assert words not in repr(wired.traffic._open)  # nothing of what was passed on is kept


def test_who_waits_for_a_deep_answer_is_told(wired: Any) -> None:
    wired.ask(1, "ping")
    wired.server_says(b'{"jsonrpc":"2.0","id":1,"result":' + b'{"a":' * 100 + b"1" + b"}" * 101)
    assert wired.client[0]["id"] == 1
    assert "nested deeper" in wired.client[0]["error"]["message"]


def test_a_broken_list_is_no_list(wired: Any) -> None:
    wired.call(1)
    prefix = f'{{"id":"{wired.server[0]["id"]}"'.encode()
    wired._do(wired.traffic.from_server(frames.Malformed(problem="x", size=9), prefix))
    wired._do(wired.traffic.from_server(Exhausted(received_bytes=9)))
    assert wired.client[0]["error"]["code"] == -32602


@pytest.mark.parametrize("result", [7, [], "x", {"content": 7}, {"content": [7]}, {"content": [{"text": 1}]}])
def test_a_result_without_a_shape_is_an_error(wired: Any, result: Any) -> None:
    wired.ready()
    wired.call(1)
    wired.server_says({"id": 1, "result": result})
    assert wired.client[0]["error"]["code"] == -32603
    assert wired.records[-1].outcome == "failed"


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_members = st.dictionaries(
    st.sampled_from(["id", "method", "params", "result", "error"]),
    st.sampled_from([1, 2, "fumehood:1", "tools/list", "tools/call", {"tools": []}, {"code": 1, "message": "m"}])
    | _values,
    max_size=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(steps=st.lists(st.tuples(st.booleans(), _members), max_size=12))
def test_whatever_both_say_each_request_has_one_answer_at_most(connect: Connect, steps: list[Any]) -> None:
    wired = connect()
    asked = 0
    for from_client, members in steps:
        if from_client:
            asked += "id" in members and "method" in members
            wired.client_says(members)
        else:
            wired.server_says(members)
    answers = [one["id"] for one in wired.client if "method" not in one and one["id"] is not None]
    assert len(answers) <= asked + sum(1 for mine, members in steps if mine and "id" in members)
    assert all(one.get("jsonrpc") == "2.0" for one in [*wired.client, *wired.server])
