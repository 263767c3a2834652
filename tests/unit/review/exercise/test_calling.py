"""review.exercise.calling and called: tools are called in rounds, and each ending is a fact."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.core.jsonio import JsonValue
from fumehood.core.untrusted import Untrusted
from fumehood.review import request
from fumehood.review.exercise import called, calling, lists
from fumehood.review.exercise.called import Calls
from fumehood.review.exercise.calling import Caller
from fumehood.review.exercise.child import Live
from fumehood.review.exercise.listing import SORTS, Listing
from fumehood.review.inputs import maker
from fumehood.review.inputs.made import Made, NotMade
from fumehood.wire.conversation import (
    Answer,
    Conversation,
    Ended,
    InputRequired,
    Refusal,
    Reply,
    TimedOut,
    Unreadable,
)

SCHEMA: dict[str, Any] = {"properties": {"path": {"type": "string"}, "n": {"type": "integer"}}, "required": ["path"]}
RESULT = Answer(result={"content": [{"type": "text", "text": "ok"}]}, line=b"{}")


def tool(name: object, schema: JsonValue = SCHEMA) -> dict[str, Any]:
    return {"name": name, "inputSchema": schema}


class Talk:
    """A conversation whose replies are given."""

    def __init__(self, reply: Callable[[str, Any], Reply]) -> None:
        self.reply = reply
        self.sent: list[tuple[str, Any, str | None]] = []
        self.ended: Ended | None = None

    async def request(
        self, method: str, params: Any, *, seconds: float, activity: str | None = None
    ) -> Reply:  # any JSON value
        assert seconds <= max(limits.TOOL_CALL_SECONDS, limits.LIST_SECONDS)
        self.sent.append((method, params, activity))
        reply = self.reply(method, params)
        self.ended = reply if isinstance(reply, Ended) else None
        return reply

    async def drain(self) -> None:
        return


class Inputs:
    """A maker of the same arguments for every schema that is an object."""

    without: tuple[str, ...] = ()

    def __init__(self, *, unsafe_without_walls: bool) -> None:
        assert not unsafe_without_walls

    async def make(self, schema: JsonValue, seed: int, extent: str, about: str) -> Made | NotMade:
        assert seed > 0
        assert about
        if not isinstance(schema, dict):
            return NotMade(reason="not an object\x1b")
        return Made(arguments={"path": "{workspace}/a", "extent": extent}, valid=True)

    def close(self) -> None:
        return


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Calls, Talk]]:
    """Call the tools of a list with replies; gives what came of it, and the conversation."""
    monkeypatch.setattr(maker, "Maker", Inputs)

    def run(tools: list[Any], reply: Callable[[str, Any], Reply], seconds: float = 60.0) -> tuple[Calls, Talk]:
        async def read(live: Live) -> None:
            live.lists["tool"] = Listing(SORTS[0], offered=True)
            live.lists["tool"].take(Answer(result={"tools": tools}, line=b""))

        async def talk() -> tuple[Calls, Talk]:
            spoken = Talk(reply)
            live = Live(cast("Conversation", spoken), seconds)
            await Caller(seed=7, workspace="/home/u/w", linger_seconds=0)(live)
            assert live.calls is not None
            return live.calls, spoken

        monkeypatch.setattr(lists, "read", read)
        return asyncio.run(talk())

    return run


Call = Callable[..., tuple[Calls, Talk]]


def answered(tools: list[Any]) -> Callable[[str, Any], Reply]:
    return lambda method, _: RESULT if method == "tools/call" else Answer(result={"tools": tools}, line=b"")


def test_tools_are_called_in_two_rounds_in_the_order_of_the_list(call: Call) -> None:
    tools = [tool("b"), tool("a"), tool("c", {})]
    calls, talk = call(tools, answered(tools))

    assert [(params["name"], activity) for method, params, activity in talk.sent if method == "tools/call"] == [
        ("b", "tools/call:b"),
        ("a", "tools/call:a"),
        ("c", "tools/call:c"),
        ("b", "tools/call:b"),
        ("a", "tools/call:a"),
    ]
    assert talk.sent[0][1]["arguments"] == {"path": "/home/u/w/a", "extent": "required"}
    assert calls.details[0][1]["arguments"] == '{"extent":"required","path":"{workspace}/a"}'
    assert talk.sent[-1][0] == "tools/list"
    assert calls.later is not None
    assert [name for _, name, _ in calls.facts()] == ["inputs", *["called"] * 5]


@pytest.mark.threat("R33")
def test_a_server_that_ends_is_asked_nothing_more(call: Call) -> None:
    ends = Ended(why="exited")
    tools = [tool("a"), tool("b"), tool("c")]
    calls, talk = call(tools, lambda _, params: ends if params["name"] == "b" else RESULT)

    assert [params["name"] for _, params, _ in talk.sent] == ["a", "b"]
    assert (calls.ended_by, calls.tools, calls.later) == ("b", {"a", "b"}, None)
    assert calls.left == {"the server ended": ["c"]}


def test_a_tool_that_never_answers_is_called_once_and_the_others_go_on(call: Call) -> None:
    tools = [tool("a"), tool("b")]
    slow = TimedOut(seconds=10.0)
    calls, talk = call(tools, lambda method, params: slow if params.get("name") == "a" else answered(tools)(method, 0))

    assert [params.get("name") for _, params, _ in talk.sent] == ["a", "b", "b", None]
    assert [detail["outcome"] for _, detail in calls.details] == ["timeout", "result", "result"]


@pytest.mark.threat("R33")
def test_what_is_not_called_is_told_with_its_reason(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CALLED_TOOLS", 2)
    tools = [tool("a"), tool("a"), tool(5), tool("b", "no schema"), *(tool(f"t{n}") for n in range(10_000 - 4))]
    calls, _ = call(tools, answered(tools))

    facts = [(name, detail) for _, name, detail in calls.facts() if name != "called"]
    assert facts[0][1]["tools_called"] == 1
    assert facts[1] == ("inputs_not_generated", {"tool": "b", "reason": "not an object\\x1b"})
    reasons = {str(detail["reason"]): detail for name, detail in facts if name == "not_called"}
    assert reasons[called.NAMELESS]["count"] == 1
    assert reasons[called.TOO_MANY]["count"] == 10_000 - 4
    assert len(cast("list[str]", reasons[called.TOO_MANY]["tools"])) == limits.CALLED_NAMES


def test_without_time_nothing_is_called(call: Call) -> None:
    calls, talk = call([tool("a")], answered([]), 0.0)

    assert calls.left == {called.NO_TIME: ["a"]}
    assert talk.sent == []


MADE = Made(arguments={"a": 1}, valid=None, why="too deep", notes=("nothing_fits",))


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (RESULT, {"outcome": "result", "content": {"text": 1}, "text": "ok", "problem": None, "structured": None}),
        (
            Answer(result={"isError": True, "structuredContent": {}, "content": [{"type": "x"}, 5]}, line=b""),
            {"outcome": "tool_error", "content": {"other": 2}, "structured": True, "text": None},
        ),
        (Answer(result=5, line=b""), {"outcome": "result", "problem": "the result has no list of content"}),
        (
            Refusal(code=-32602, message=Untrusted(b"no\x07", source="x"), line=b"12"),
            {"outcome": "error", "code": -32602, "message": "no\\x07", "bytes": 2},
        ),
        (InputRequired(line=b"123"), {"outcome": "input_required", "bytes": 3}),
        (Unreadable(problem="a frame is larger"), {"outcome": "unreadable", "message": "a frame is larger"}),
        (TimedOut(seconds=10.0), {"outcome": "timeout", "message": "no answer within 10 s"}),
        (Ended(why="input_closed"), {"outcome": "ended", "message": "the server closed its input"}),
    ],
)
def test_each_reply_is_an_outcome(reply: Reply, outcome: dict[str, Any]) -> None:
    detail = called.detail("t", 2, "all", MADE, reply)

    assert {key: detail.get(key) for key in outcome} == outcome
    assert (detail["tool"], detail["call"], detail["members"], detail["arguments"]) == ("t", 2, "all", '{"a":1}')
    assert (detail["valid"], detail["not_validated"], detail["given_up"]) == (None, "too deep", ["nothing_fits"])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(alphabet=st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["content", "type", "text", "isError", "x"]), inner, max_size=4)
    ),
)


@given(JSON, st.text(max_size=300))
def test_any_result_of_any_tool_is_a_bounded_fact(result: JsonValue, name: str) -> None:
    detail = called.detail(name, 1, "all", MADE, Answer(result=result, line=b""))

    assert len(json.dumps(detail)) < limits.ROW_BYTES
    assert json.dumps(detail).isprintable()
    assert "\n" not in called.activity(name)


@pytest.mark.threat("R33")
@pytest.mark.parametrize("name", ["a\nb", "\x1b[31m", "x" * 1_000_000, "\u202e", "é" * 500])
def test_a_name_is_one_inert_line_of_bounded_length(name: str) -> None:
    shown = called.short(name)

    assert len(shown) <= limits.CALLED_NAME_CHARACTERS + 1
    assert shown.isprintable()


def test_the_workspace_is_put_in_place_at_every_depth() -> None:
    value: JsonValue = {"a": ["{workspace}/x", 5, {"b": "see {workspace}"}], "c": None}

    assert called.placed(value, "/w") == {"a": ["/w/x", 5, {"b": "see /w"}], "c": None}


def test_the_seed_hangs_on_the_target_and_on_nothing_else() -> None:
    fields: dict[str, Any] = {
        "schema_version": 2,
        "target": {"kind": "npm", "name": "a", "version": "1.0.0"},
        "adapter": "node_stdio",
        "action_profile": "mcp_call",
        "network_mode": "NONE",
        "credentials": "NONE",
        "question": "one",
        "evidence": ["process"],
        "timeout_seconds": 60,
    }
    other = {**fields, "question": "two", "timeout_seconds": 30}
    newer = {**fields, "target": {"kind": "npm", "name": "a", "version": "1.0.1"}}

    seeds = [calling.seed(request.convert(one)) for one in (fields, other, newer)]
    assert seeds[0] == seeds[1] != seeds[2]
