"""One server, many askers: each gets its own answer, and all are told when the conversation breaks."""

import asyncio
import json
import logging
import tracemalloc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.core.errors import BusyError, TimedOutError
from fumehood.gateway.upstreams import envelope
from fumehood.gateway.upstreams.eras import OtherEraError
from fumehood.gateway.upstreams.model import Introduction, ServerRefusedError, UpstreamError
from fumehood.gateway.upstreams.session import Conversation, Pipes, conversation

pytestmark = pytest.mark.threat("G6")

Message = dict[str, Any]
React = Callable[[Message], list[Any] | None]
INFO: Message = {"name": "fake", "version": "1"}
LISTS = {"tools": {"listChanged": True}, "prompts": {"listChanged": False}, "resources": {"listChanged": "yes"}}
PATIENT = 60.0


class Server:
    """Introduces itself in its era, and then says what `react` gives for each message; `None` closes its output."""

    def __init__(self, react: React = lambda _: [], *, opening: Any = None, capabilities: Any = None) -> None:
        self.heard: list[Message] = []
        self.told = asyncio.Event()
        self.cause = "it is gone"
        self._react = react
        self._opening = opening
        self._capabilities = {"tools": {}} if capabilities is None else capabilities
        self._out: asyncio.Queue[bytes] = asyncio.Queue()

    async def read(self) -> bytes:
        return await self._out.get()

    async def write(self, data: bytes) -> None:
        message = json.loads(data)
        self.heard.append(message)
        self.told.set()
        reaction = self._open(message) if message["method"] in {"initialize", "server/discover"} else None
        if reaction is None:
            reaction = self._react(message)
        if reaction is None:
            self._out.put_nowait(b"")
        for said in reaction or ():
            self.say(said)

    async def why(self) -> str:
        return self.cause

    def say(self, message: Any) -> None:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self._out.put_nowait(data + b"\n")

    def _open(self, message: Message) -> list[Any]:
        if self._opening is not None:
            return [{"jsonrpc": "2.0", "id": message["id"], **self._opening}]
        if message["method"] == "initialize":
            revision = message["params"]["protocolVersion"]
            result = {"protocolVersion": revision, "serverInfo": INFO, "capabilities": self._capabilities}
        else:
            result = {
                "resultType": "complete",
                "supportedVersions": [envelope.MODERN],
                "capabilities": self._capabilities,
                "instructions": "ask",
                "_meta": {envelope.SERVER_KEY: INFO},
            }
        return [answer(message, result)]

    async def heard_of(self, method: str) -> Message:
        """The first message of a method, once it has come."""
        while not (found := [one for one in self.heard if one["method"] == method]):
            self.told.clear()
            await self.told.wait()
        return found[0]


def answer(message: Message, result: Any) -> Message:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def answering(result: Any) -> React:
    return lambda message: [answer(message, result)] if "id" in message else []


def asked(
    server: Server, work: Callable[[Conversation], Coroutine[Any, Any, Any]], *, era: str = "legacy", **more: Any
) -> Any:
    """What work gives with a conversation."""
    speaks = envelope.legacy("tests", "1") if era == "legacy" else envelope.modern("tests", "1")
    notified = more.pop("notified", lambda *_: None)
    pipes = Pipes(read=more.pop("read", server.read), write=more.pop("write", server.write), cause=server.why)

    async def go() -> Any:
        async with conversation(pipes, speaks, notified) as made:
            return await work(made)

    return asyncio.run(asyncio.wait_for(go(), PATIENT))


def once(method: str = "m", **params: Any) -> Callable[[Conversation], Coroutine[Any, Any, Any]]:
    return lambda made: made.ask(method, params, seconds=PATIENT)


def reverse_of(count: int) -> React:
    """Answer so many requests with their own params at once, the last one first."""
    held: list[Message] = []

    def react(message: Message) -> list[Any]:
        if "id" not in message:
            return []
        held.append(message)
        return [answer(one, {"n": one["params"]["n"]}) for one in reversed(held)] if len(held) == count else []

    return react


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_each_asker_gets_its_own_answer_in_whatever_order_they_come(era: str) -> None:
    async def many(made: Conversation) -> Any:
        return await asyncio.gather(*(made.ask("m", {"n": n}, seconds=PATIENT) for n in range(50)))

    server = Server(reverse_of(50))
    assert asked(server, many, era=era) == [{"n": n} for n in range(50)]
    assert len({one["id"] for one in server.heard if "id" in one}) == 51


async def _introduction(made: Conversation) -> Introduction:
    return made.introduction


def test_a_legacy_server_is_opened_and_told_so() -> None:
    server = Server()

    async def opened(made: Conversation) -> Introduction:
        await server.heard_of("notifications/initialized")
        return made.introduction

    assert asked(server, opened) == Introduction(
        era="legacy", revision="2025-11-25", server=INFO, capabilities={"tools": {}}
    )
    assert server.heard[0]["params"]["clientInfo"] == {"name": "tests", "version": "1"}


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_any_legacy_revision_is_taken(revision: str) -> None:
    result = {"protocolVersion": revision, "serverInfo": INFO, "capabilities": {}}
    assert asked(Server(opening={"result": result}), _introduction).revision == revision


def test_a_modern_server_is_discovered_and_each_request_has_the_envelope() -> None:
    server = Server(answering({"resultType": "complete", "ttlMs": 1, "cacheScope": "private", "x": 1}))
    trace = {"traceparent": "00-1", "io.modelcontextprotocol/clientInfo": {"name": "forged"}}
    assert asked(server, once(_meta=trace), era="modern") == {"x": 1}
    for message in server.heard:
        meta = message["params"]["_meta"]
        assert meta[envelope.VERSION_KEY] == "2026-07-28"
        assert meta[envelope.CLIENT_KEY] == {"name": "tests", "version": "1"}
        assert meta[envelope.CAPABILITIES_KEY] == {}
    assert server.heard[1]["params"]["_meta"]["traceparent"] == "00-1"
    introduction = asked(Server(), _introduction, era="modern")
    assert (introduction.era, introduction.server, introduction.instructions) == ("modern", INFO, "ask")


def _error(code: int) -> Any:
    return {"error": {"code": code, "message": "\x1b[2J no"}}


def _offers(version: Any) -> Any:
    return {"result": {"protocolVersion": version, "capabilities": {}, "serverInfo": INFO}}


@pytest.mark.parametrize("opening", [*map(_error, (-32601, -32021, -32022, -32600, -32602)), _offers("2026-07-28")])
def test_a_legacy_opening_that_is_answered_as_the_modern_era_does_says_so(opening: Any) -> None:
    with pytest.raises(OtherEraError) as caught:
        asked(Server(opening=opening), _introduction)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("opening", [_error(-32601), {"result": {"supportedVersions": ["2025-11-25"]}}])
def test_a_modern_opening_that_is_answered_as_the_legacy_era_does_says_so(opening: Any) -> None:
    with pytest.raises(OtherEraError):
        asked(Server(opening=opening), _introduction, era="modern")


@pytest.mark.parametrize("opening", [_error(-32603), _offers(None), _offers(7), {"result": None}, {"result": {}}])
def test_an_opening_that_is_answered_as_in_no_era_is_an_error(opening: Any) -> None:
    with pytest.raises(UpstreamError) as caught:
        asked(Server(opening=opening), _introduction)
    assert not isinstance(caught.value, OtherEraError)


def test_a_server_that_says_no_message_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UPSTREAM_OPEN_SECONDS", 0.05)
    server = Server()

    async def banner(_: bytes) -> None:
        server.say(b"Server running on stdio")

    with pytest.raises(TimedOutError, match=r"did not introduce itself.*1 lines of it are no messages"):
        asked(server, _introduction, write=banner)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"resultType": "input_required", "inputRequests": {}}, "asks for input"),
        ({"resultType": "task"}, "of a kind"),
        ([1], "no object"),
    ],
)
def test_a_modern_result_that_is_not_complete_is_an_error(result: Any, said: str) -> None:
    with pytest.raises(UpstreamError, match=said):
        asked(Server(answering(result)), once(), era="modern")


def test_a_legacy_result_is_given_as_it_is() -> None:
    assert asked(Server(answering({"resultType": "x", "ttlMs": 1})), once()) == {"resultType": "x", "ttlMs": 1}


def test_a_refusal_has_its_number_and_the_words_apart() -> None:
    def react(message: Message) -> list[Any]:
        return [{"jsonrpc": "2.0", "id": message["id"], **_error(-32602)}] if "id" in message else []

    with pytest.raises(ServerRefusedError) as caught:
        asked(Server(react), once())
    assert (caught.value.number, caught.value.words) == (-32602, "\x1b[2J no")
    assert caught.value.message.isprintable()


def test_progress_goes_to_who_asked_with_the_token_of_its_request() -> None:
    def react(message: Message) -> list[Any]:
        token = message.get("params", {}).get("_meta", {}).get("progressToken")
        if token is None:
            return [answer(message, {})] if message["method"] == "m" else []
        said = {"jsonrpc": "2.0", "method": "notifications/progress"}
        mine, other = ({"progressToken": one, "progress": 1, "x": 2} for one in (token, token + 1))
        return [{**said, "params": mine}, {**said, "params": other}, answer(message, {}), {**said, "params": mine}]

    seen: list[Any] = []

    async def both(made: Conversation) -> None:
        await made.ask("m", {}, seconds=PATIENT, progress=seen.append)
        await made.ask("m", {}, seconds=PATIENT)

    asked(Server(react), both)
    assert seen == [{"progress": 1}]


def test_a_notification_is_handed_on() -> None:
    told: list[Any] = []
    said = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    server = Server(lambda message: [said, answer(message, {})] if "id" in message else [])
    asked(server, once(), notified=lambda *one: told.append(one))
    assert told == [("notifications/tools/list_changed", {})]


def test_what_the_server_asks_is_answered() -> None:
    def react(message: Message) -> list[Any]:
        ask = {"jsonrpc": "2.0", "id": "s1", "method": "sampling/createMessage"}
        return [ask, answer(message, {})] if message.get("method") == "m" else []

    replies: asyncio.Queue[Any] = asyncio.Queue()
    server = Server(react)

    async def write(data: bytes) -> None:
        message = json.loads(data)
        if "method" in message:
            await server.write(data)
        else:
            replies.put_nowait(message)

    async def until(made: Conversation) -> Any:
        await made.ask("m", {}, seconds=PATIENT)
        return await replies.get()

    assert asked(server, until, write=write)["error"]["code"] == -32601


def test_after_its_deadline_a_request_is_cancelled_at_the_server_and_its_answer_dropped() -> None:
    server = Server(lambda message: [answer(message, {"n": 2})] if message["method"] == "second" else [])

    async def late(made: Conversation) -> Any:
        with pytest.raises(TimedOutError):
            await made.ask("first", {}, seconds=0)
        cancelled = await server.heard_of("notifications/cancelled")
        server.say(answer({"id": cancelled["params"]["requestId"]}, {"n": 1}))
        return await made.ask("second", {}, seconds=PATIENT), made.unasked

    assert asked(server, late) == ({"n": 2}, 1)


def test_an_asker_that_is_cancelled_cancels_its_request_and_no_other() -> None:
    server = Server(lambda message: [answer(message, {})] if message["method"] == "other" else [])

    async def leave(made: Conversation) -> Any:
        task = asyncio.create_task(made.ask("m", {}, seconds=PATIENT))
        request = await server.heard_of("m")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        cancelled = await server.heard_of("notifications/cancelled")
        assert cancelled["params"] == {"requestId": request["id"]}
        return await made.ask("other", {}, seconds=PATIENT)

    assert asked(server, leave) == {}


def test_when_the_output_ends_who_waits_and_who_comes_later_are_told_why() -> None:
    server = Server(lambda message: None if "id" in message else [])
    server.cause = "the server ended with 7"

    async def all_of(made: Conversation) -> Any:
        waiting = [made.ask("m", {}, seconds=PATIENT) for _ in range(3)]
        failed = await asyncio.gather(*waiting, return_exceptions=True)
        with pytest.raises(UpstreamError, match="ended with 7"):
            await made.ask("m", {}, seconds=PATIENT)
        return [str(one) for one in failed], await made.lost()

    assert asked(server, all_of) == (["the server ended with 7"] * 3, "the server ended with 7")


def test_a_server_whose_input_is_closed_is_lost() -> None:
    server = Server()

    async def write(data: bytes) -> None:
        if json.loads(data)["method"] == "m":
            raise BrokenPipeError
        await server.write(data)

    with pytest.raises(UpstreamError, match="it is gone"):
        asked(server, once(), write=write)


def _holding(server: Server) -> Callable[[bytes], Coroutine[Any, Any, None]]:
    async def stuck(data: bytes) -> None:
        if b'"m"' in data:
            await asyncio.Event().wait()
        await server.write(data)

    return stuck


def test_a_server_that_does_not_read_is_busy_once_so_many_lines_wait() -> None:
    server = Server()

    async def flood(made: Conversation) -> Any:
        large: Message = {"x": "y" * limits.REQUEST_BYTES}
        tasks = [asyncio.create_task(made.ask("m", large, seconds=PATIENT)) for _ in range(50)]
        done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return {type(one.exception()) for one in done}, len(waiting)

    kinds, held = asked(server, flood, write=_holding(server))
    assert kinds == {BusyError}
    assert held <= limits.UPSTREAM_UNWRITTEN_BYTES // limits.REQUEST_BYTES + 2


def test_no_more_than_so_many_requests_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UPSTREAM_IN_FLIGHT", 3)

    async def flood(made: Conversation) -> Any:
        tasks = [asyncio.create_task(made.ask("m", {}, seconds=PATIENT)) for _ in range(4)]
        done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return [type(one.exception()) for one in done]

    assert asked(Server(), flood) == [BusyError]


def test_a_server_that_reads_nothing_for_too_long_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()

    async def wait(made: Conversation) -> None:
        await server.heard_of("notifications/initialized")
        monkeypatch.setattr(limits, "STALLED_SECONDS", 0.0)
        await made.ask("m", {}, seconds=PATIENT)

    with pytest.raises(UpstreamError, match="takes nothing"):
        asked(server, wait, write=_holding(server))


@pytest.mark.parametrize(
    "noise", [b"a banner", b'{"level": "info"}', b"[1]", b"{ not: 'json' }", b'{"jsonrpc":"2.0","id":"1","result":{}}']
)
def test_noise_is_counted_and_goes_by(noise: bytes) -> None:
    server = Server(lambda message: [*[noise] * 1000, answer(message, {})] if message["method"] == "m" else [])

    async def count(made: Conversation) -> Any:
        return await made.ask("m", {}, seconds=PATIENT), made.unasked

    assert asked(server, count) == ({}, 1000)


def test_a_flood_of_what_nobody_asked_for_ends_the_conversation() -> None:
    said = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}).encode()
    flood = b"\n".join([said] * 200_000)
    server = Server(lambda message: [flood, answer(message, {})] if message["method"] == "m" else [])
    with pytest.raises(UpstreamError, match="more than it is asked for"):
        asked(server, once())


def test_an_answer_over_its_bound_fails_its_request_and_the_next_one_is_answered() -> None:
    def react(message: Message) -> list[Any]:
        start = b'{"jsonrpc":"2.0","id":%d,"result":' % message.get("id", 0)
        match message["method"]:
            case "huge":
                return [start + b'"' + b"x" * (60 * 2**20) + b'"}']
            case "deep":
                return [start + b"[" * 10_000 + b"]" * 10_000 + b"}"]
            case _:
                return [answer(message, {})] if "id" in message else []

    async def two(made: Conversation) -> Any:
        for method, said in (("huge", "a line over its bound"), ("deep", "nested deeper")):
            with pytest.raises(UpstreamError, match=said):
                await made.ask(method, {}, seconds=PATIENT)
        return await made.ask("m", {}, seconds=PATIENT)

    assert asked(Server(react), two) == {}


def test_a_line_without_end_costs_no_memory() -> None:
    chunk = b"x" * 2**16

    async def flood(made: Conversation) -> int:
        tracemalloc.start()
        try:
            with pytest.raises(UpstreamError, match="more than it is asked for"):
                await made.ask("endless", {}, seconds=PATIENT)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    server = Server(lambda message: [b"a banner"] if message["method"] == "endless" else [])

    async def read() -> bytes:
        return await server.read() if not any(one["method"] == "endless" for one in server.heard) else chunk

    assert asked(server, flood, read=read) < 4 * limits.FRAME_BYTES


def test_a_large_answer_is_read_whole() -> None:
    large = {"text": "x" * (2 * 2**20)}
    assert asked(Server(answering(large)), once()) == large


def test_an_answer_that_nobody_can_attribute_ends_the_conversation() -> None:
    server = Server(lambda message: [b'{"jsonrpc": "2.0", "id"'] if message["method"] == "m" else [])
    with pytest.raises(UpstreamError, match="cannot be read"):
        asked(server, once())


def test_a_fault_of_ours_is_told_to_who_waits_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fault(_: str, __: Message) -> None:
        raise LookupError("ours")

    said = {"jsonrpc": "2.0", "method": "notifications/message"}
    server = Server(lambda message: [said] if message["method"] == "m" else [])
    with pytest.raises(UpstreamError, match="the gateway failed"):
        asked(server, once(), notified=fault)
    assert "LookupError" in caplog.text


def test_a_modern_server_is_asked_for_changes_where_it_has_any() -> None:
    told: asyncio.Queue[Any] = asyncio.Queue()
    server = Server(capabilities=LISTS)

    async def listen(_: Conversation) -> Any:
        request = await server.heard_of("subscriptions/listen")
        server.say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": {"a": 1}}})
        return request["params"]["notifications"], await told.get()

    assert asked(server, listen, era="modern", notified=lambda *one: told.put_nowait(one)) == (
        {"toolsListChanged": True},
        ("notifications/tools/list_changed", {}),
    )
    legacy = Server(answering({}), capabilities=LISTS)
    asked(legacy, once())
    assert "subscriptions/listen" not in {one["method"] for one in legacy.heard}


@pytest.mark.parametrize(("refused", "again"), [(False, True), (True, False)])
def test_a_stream_of_changes_that_ends_is_told_and_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, refused: bool, again: bool
) -> None:
    monkeypatch.setattr(limits, "UPSTREAM_LISTEN_SECONDS", 0.0)
    told: list[Any] = []

    def react(message: Message) -> list[Any]:
        if message["method"] != "subscriptions/listen":
            return [answer(message, {})] if "id" in message else []
        first = sum(one["method"] == "subscriptions/listen" for one in server.heard) == 1
        ended = {"jsonrpc": "2.0", "id": message["id"], **_error(-32601)} if refused else answer(message, {})
        return [ended] if first else []

    server = Server(react, capabilities=LISTS)

    async def wait(made: Conversation) -> Any:
        await server.heard_of("subscriptions/listen")
        for _ in range(10):
            await made.ask("m", {}, seconds=PATIENT)
        return sum(one["method"] == "subscriptions/listen" for one in server.heard)

    assert asked(server, wait, era="modern", notified=lambda *one: told.append(one)) == (2 if again else 1)
    assert told == ([("notifications/tools/list_changed", {})] if again else [])


@given(st.lists(st.binary(max_size=80), max_size=20))
def test_whatever_a_server_says_an_asker_is_answered_or_told(chunks: list[bytes]) -> None:
    def react(message: Message) -> list[Any]:
        return [b"".join(chunks), answer(message, {"n": 1})] if message["method"] == "m" else []

    async def ask(made: Conversation) -> Any:
        try:
            return await made.ask("m", {}, seconds=PATIENT)
        except (UpstreamError, ServerRefusedError):
            return None

    assert asked(Server(react), ask) in ({"n": 1}, None)


def test_an_answer_to_an_asker_that_is_cancelled_in_the_same_moment_leaves_no_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server()

    async def leave(made: Conversation) -> None:
        task = asyncio.create_task(made.ask("m", {}, seconds=PATIENT))
        await server.heard_of("m")
        made.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with caplog.at_level(logging.ERROR):
        asked(server, leave)
    assert not caplog.records
