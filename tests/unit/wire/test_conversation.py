"""wire.conversation: each question has one reply, whatever the server says, does, or leaves undone."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import virtualtime
from fumehood.content import control
from fumehood.core import limits
from fumehood.wire import frames, outcomes, revisions, stdio
from fumehood.wire.conversation import (
    DECLARED,
    Answer,
    Conversation,
    Ended,
    InputRequired,
    Refusal,
    Reply,
    TimedOut,
    Unreadable,
)
from fumehood.wire.hosting import Era

Message = dict[str, Any]
Reaction = Callable[[Message], Iterable[bytes]]
VERSION = "io.modelcontextprotocol/protocolVersion"
RESULT = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
DISCOVERED = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}


def line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def result(ident: object, value: object) -> bytes:
    return line({"jsonrpc": "2.0", "id": ident, "result": value})


class Server:
    """Answers both openings; `react` says what comes of everything else. None in what it says closes its output."""

    def __init__(self, react: Callable[[Message], Iterable[bytes | None]]) -> None:
        self.heard: list[Message] = []
        self.deaf = False
        self._react = react
        self._out: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._closed = False

    async def read(self) -> bytes:
        chunk = None if self._closed else await self._out.get()
        self._closed = chunk is None
        return chunk or b""

    async def write(self, data: bytes) -> None:
        if self.deaf:
            raise BrokenPipeError
        message = json.loads(data)
        self.heard.append(message)
        said: Iterable[bytes | None] = ()
        if message.get("method") == "initialize":
            said = [result(message["id"], RESULT)]
        elif message.get("method") == "server/discover":
            said = [result(message["id"], DISCOVERED)]
        elif message.get("method") != "notifications/initialized":
            said = self._react(message)
        for chunk in said:
            self._out.put_nowait(chunk)

    @property
    def methods(self) -> list[str]:
        return [message.get("method", "answer") for message in self.heard]


class Talked:
    """A conversation that has ended."""

    def __init__(self, server: Server, talk: Conversation, begun: list[str]) -> None:
        self.server = server
        self.talk = talk
        self.begun = begun
        self.replies: list[Reply] = []


def talked(
    react: Callable[[Message], Iterable[bytes | None]],
    *methods: str,
    era: Era = "legacy",
    capabilities: dict[str, Any] | None = None,
    then: Callable[[Talked], Coroutine[Any, Any, None]] | None = None,
) -> Talked:
    """Shake hands, ask each method with ten seconds, in time that passes only when nothing can be done."""

    async def run() -> Talked:
        server, begun = Server(react), list[str]()
        async with stdio.session(server.read, server.write) as opened:
            client = stdio.Client(name="c", version="1", capabilities=capabilities or {})
            found = Talked(server, Conversation(opened, client, era, begun.append), begun)
            assert isinstance(await found.talk.open(10.0), outcomes.Initialized)
            for method in methods:
                found.replies.append(await found.talk.request(method, {"a": 1}, seconds=10.0))
            if then is not None:
                await then(found)
            await opened.flushed()
        return found

    return virtualtime.run(run())


def answering(message: Message) -> list[bytes]:
    return [result(message["id"], {"of": message["method"]})] if "method" in message and "id" in message else []


def test_each_question_gets_its_own_answer_and_its_own_id() -> None:
    found = talked(answering, "tools/list", "prompts/list")
    assert [reply.result for reply in found.replies if isinstance(reply, Answer)] == [
        {"of": "tools/list"},
        {"of": "prompts/list"},
    ]
    assert [message["id"] for message in found.server.heard if "id" in message] == [0, 1, 2]
    assert found.begun == ["initialize", "tools/list", "prompts/list"]
    assert found.server.heard[2]["params"] == {"a": 1}


def test_the_line_of_an_answer_is_given_as_it_came() -> None:
    raw = b'{"jsonrpc":"2.0", "id":1,  "result":{}}'
    (reply,) = talked(lambda _: [raw + b"\n"], "tools/list").replies
    assert isinstance(reply, Answer)
    assert reply.line == raw


def test_every_modern_request_carries_who_asks_and_in_which_revision() -> None:
    found = talked(answering, "tools/list", era="modern", capabilities=DECLARED)
    assert found.server.methods == ["server/discover", "tools/list"]
    for message in found.server.heard:
        meta = message["params"]["_meta"]
        assert meta[VERSION] == "2026-07-28"
        assert meta["io.modelcontextprotocol/clientInfo"] == {"name": "c", "version": "1"}
        assert meta["io.modelcontextprotocol/clientCapabilities"] == DECLARED
    assert found.talk.introduction is not None
    assert found.talk.introduction.protocol_version == "2026-07-28"


def test_answers_to_other_ids_and_noise_are_counted_and_never_taken() -> None:
    def react(message: Message) -> list[bytes]:
        if "id" not in message:
            return []
        others = [result(str(message["id"]), "text"), result(99, "other"), result(0, "again"), b"a banner\n"]
        return [*others, b"{ a: 1 }\n", result(message["id"], "mine")]

    found = talked(react, "tools/list")
    assert [reply.result for reply in found.replies if isinstance(reply, Answer)] == ["mine"]
    session = found.talk.session
    assert (session.other_answers, session.later_answers, session.noise) == (2, 1, 1)


def test_a_refusal_is_told_with_its_number() -> None:
    error = {"code": -32603, "message": "no\x1b[2J"}
    (reply,) = talked(lambda m: [line({"jsonrpc": "2.0", "id": m["id"], "error": error})], "tools/list").replies
    assert isinstance(reply, Refusal)
    assert (reply.code, "\x1b" in control.inert(reply.message)) == (-32603, False)


def test_an_error_that_could_not_read_the_id_is_the_reply_to_what_was_asked() -> None:
    error = {"code": -32700, "message": "Parse error"}
    (reply,) = talked(lambda _: [line({"jsonrpc": "2.0", "id": None, "error": error})], "tools/list").replies
    assert isinstance(reply, Refusal)


def test_who_does_not_answer_is_told_that_nobody_waits_and_a_late_answer_is_counted() -> None:
    def react(message: Message) -> list[bytes]:
        if message.get("method") == "notifications/cancelled":
            return [result(message["params"]["requestId"], "late")]
        return answering(message) if message.get("method") == "second" else []

    found = talked(react, "first", "second")
    assert found.replies[0] == TimedOut(seconds=10.0)
    assert isinstance(found.replies[1], Answer)
    assert found.replies[1].result == {"of": "second"}
    assert found.talk.session.later_answers == 1


@pytest.mark.parametrize(
    ("said", "reply"),
    [
        ([None], Ended(why="exited")),
        ([b'{"jsonrpc":"2.0","id":1,"result":{]}\n'], Unreadable),
        ([b'{"jsonrpc":"2.0","id":1,"result":"' + b"x" * limits.FRAME_BYTES + b'"}\n'], Unreadable),
    ],
)
def test_what_is_no_answer_is_told_as_what_it_is(said: list[bytes | None], reply: Any) -> None:
    (found,) = talked(lambda _: said, "tools/list").replies
    assert found == reply or isinstance(found, reply)


def test_nothing_is_asked_of_who_has_left() -> None:
    found = talked(lambda _: [None], "first", "second")
    assert found.replies == [Ended(why="exited")] * 2
    assert "second" not in found.server.methods


def test_nothing_is_asked_of_who_closed_its_input() -> None:
    async def then(found: Talked) -> None:
        found.server.deaf = True
        first = await found.talk.request("first", seconds=10.0)
        found.replies += [first, await found.talk.request("second", seconds=10.0)]

    assert talked(answering, then=then).replies == [TimedOut(seconds=10.0), Ended(why="input_closed")]


def test_a_stream_over_its_bound_ends_the_conversation() -> None:
    large = line({"jsonrpc": "2.0", "method": "n", "params": {"x": "y" * (limits.FRAME_BYTES - 1000)}})
    found = talked(lambda _: [large] * 5, "first", "second")
    assert found.replies == [Ended(why="stream_too_large")] * 2


def test_several_who_ask_at_once_are_served_one_after_another() -> None:
    async def then(found: Talked) -> None:
        asked = [found.talk.request(f"m{number}", seconds=10.0) for number in range(5)]
        found.replies += await asyncio.gather(*asked)

    found = talked(answering, then=then)
    assert [reply.result for reply in found.replies if isinstance(reply, Answer)] == [
        {"of": f"m{number}"} for number in range(5)
    ]


def asks(*methods: str) -> Callable[[Message], list[bytes]]:
    def react(message: Message) -> list[bytes]:
        if "method" not in message:
            return []
        asked = [
            line({"jsonrpc": "2.0", "id": f"q{n}", "method": m, "params": {"n": n}}) for n, m in enumerate(methods)
        ]
        return [*asked, *answering(message)]

    return react


def test_what_is_asked_of_us_is_declined_as_a_client_that_offers_it_declines_and_recorded() -> None:
    methods = ("sampling/createMessage", "elicitation/create", "roots/list", "ping")
    found = talked(asks(*methods), "tools/call", capabilities=DECLARED)
    replies = {message["id"]: message for message in found.server.heard if "method" not in message}
    assert replies["q0"]["error"]["code"] == -1
    assert replies["q1"]["result"] == {"action": "decline"}
    assert replies["q2"]["error"]["code"] == -32601
    assert replies["q3"]["result"] == {}
    assert [control.inert(one.method) for one in found.talk.asked] == list(methods)
    assert [one.answer for one in found.talk.asked] == ["declined"] * 3 + ["answered"]
    assert {one.activity for one in found.talk.asked} == {"tools/call"}


def test_a_client_that_declares_nothing_knows_no_such_methods() -> None:
    found = talked(asks("sampling/createMessage", "elicitation/create"), "tools/call")
    replies = [message for message in found.server.heard if "method" not in message]
    assert [message["error"]["code"] for message in replies] == [-32601, -32601]


def test_a_flood_of_questions_is_counted_beyond_the_bound() -> None:
    found = talked(asks(*["roots/list"] * (limits.FRAMES_RECORDED + 7)), "tools/call")
    assert (len(found.talk.asked), found.talk.asked_lost) == (limits.FRAMES_RECORDED, 7)


@pytest.mark.parametrize("requests", [{"a": {"method": "elicitation/create", "params": {}}}, {"a": 7}, None, []])
def test_a_modern_result_that_requires_input_is_declined_and_ends_the_request(requests: object) -> None:
    value = {"resultType": "input_required", "inputRequests": requests}
    found = talked(lambda m: [result(m["id"], value)], "tools/call", era="modern")
    assert isinstance(found.replies[0], InputRequired)
    assert len(found.talk.asked) == (len(requests) if isinstance(requests, dict) else 0)


def test_a_modern_result_of_an_unknown_kind_is_no_answer() -> None:
    found = talked(lambda m: [result(m["id"], {"resultType": "task"})], "tools/call", era="modern")
    assert isinstance(found.replies[0], Unreadable)


def test_a_legacy_result_may_have_any_member() -> None:
    found = talked(lambda m: [result(m["id"], {"resultType": "task"})], "tools/call")
    assert isinstance(found.replies[0], Answer)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_handshake_that_is_never_answered_ends_at_its_deadline(era: Era) -> None:
    async def never(data: bytes) -> None:
        del data

    async def run() -> outcomes.Outcome | outcomes.NoAnswer:
        async with stdio.session(asyncio.Queue[bytes]().get, never) as opened:
            return await Conversation(opened, stdio.Client(name="c", version="1"), era).open(5.0)

    async def bounded() -> outcomes.Outcome | outcomes.NoAnswer:
        return await run()

    assert virtualtime.run(bounded()) == outcomes.NoAnswer()


FRAMES = st.one_of(
    st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"") + b"\n"),
    st.sampled_from(
        [
            result(1, {}),
            result("1", {}),
            result(2, {"tools": []}),
            line({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}}),
            line({"jsonrpc": "2.0", "method": "n"}),
            line({"jsonrpc": "2.0", "id": 5, "method": "roots/list"}),
            b'{"jsonrpc":\n',
        ]
    ),
)


@settings(max_examples=60)
@given(st.lists(st.one_of(FRAMES, st.none()), max_size=8), st.sampled_from(["legacy", "modern"]))
def test_whatever_a_server_says_each_question_ends_in_one_reply(said: list[bytes | None], era: Era) -> None:
    found = talked(lambda m: said if m.get("method") == "first" else [], "first", "second", era=era)
    kinds = (Answer, Refusal, InputRequired, Unreadable, TimedOut, Ended)
    assert [isinstance(reply, kinds) for reply in found.replies] == [True, True]


def test_the_revision_that_legacy_asks_with_is_the_reviewed_one() -> None:
    found = talked(answering)
    assert found.server.heard[0]["params"]["protocolVersion"] == revisions.REVIEWED


def test_a_deadline_that_fires_while_a_chunk_is_taken_in_loses_none_of_it() -> None:
    async def run() -> object:
        said = [result(1, "kept")]

        async def read() -> bytes:
            return said.pop() if said else b""

        async def write(data: bytes) -> None:
            del data

        async with stdio.session(read, write) as opened:
            hasty = asyncio.ensure_future(opened.receive())
            await asyncio.sleep(0)  # the chunk is read; the reader lets others have the loop
            hasty.cancel()
            await asyncio.gather(hasty, return_exceptions=True)
            assert hasty.cancelled()
            return await opened.receive()

    assert asyncio.run(run()) == frames.Response(id=1, result="kept")


@pytest.mark.threat("R6")
def test_a_flood_of_requests_that_waits_for_its_answers_keeps_no_question_from_being_asked() -> None:
    flood = [line({"jsonrpc": "2.0", "id": f"s{n}", "method": "ping"}) for n in range(4 * limits.REPLIES_QUEUED)]

    async def run() -> Reply:
        server, busy = Server(answering), asyncio.Event()

        async def write(data: bytes) -> None:
            if "tools/list" in server.methods:  # from then on it reads nothing for a while
                await busy.wait()
            await server.write(data)

        def react(message: Message) -> list[bytes]:
            if message.get("method") != "tools/list":
                return answering(message)
            asyncio.get_running_loop().call_later(1.0, busy.set)
            return [*flood, *answering(message)]

        server._react = react  # of this module's own fake
        async with stdio.session(server.read, write) as opened:
            talk = Conversation(opened, stdio.Client(name="c", version="1"), "legacy")
            await talk.open(10.0)
            await talk.request("tools/list", seconds=10.0)
            assert opened.replies_dropped > 0
            return await talk.request("prompts/list", seconds=10.0)

    assert isinstance(virtualtime.run(run()), Answer)
