"""A host over a pipe, byte for byte: what becomes of its work, of questions and of notices, in both eras."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fumehood.core import limits
from fumehood.core.jsonio import JsonObject
from fumehood.wire.hosting import CannotAskError, Changed, Question, Request
from fumehood.wire.published import LOCAL
from fumehood.wire.sdk.hosted import Hosted
from fumehood.wire.server_stdio import Ended
from loopback.hosting import LEGACY, MODERN, SECONDS, piped, until
from loopback.hosts import SCHEMA, FakeHost, text

ERAS = pytest.mark.parametrize("era", [LEGACY, MODERN])
FORMS: dict[str, Any] = {"elicitation": {}}
CANCELLED = "notifications/cancelled"


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(work(), SECONDS)

    asyncio.run(bounded())


@ERAS
def test_a_request_reaches_the_host_without_its_envelope(era: str) -> None:
    async def work() -> None:
        async with piped(era) as client:
            trace = {"traceparent": "00-1-2-3", "tracestate": "a=b", "baggage": 7, "other": "x"}
            client.ask("tools/call", name="echo", arguments={"a": 1}, odd=[2], _meta=trace)
            await client.hear()
            (request,) = client.host.seen
            assert request.params == {"name": "echo", "arguments": {"a": 1}, "odd": [2]}
            assert request.trace == {"traceparent": "00-1-2-3", "tracestate": "a=b"}
            assert (request.caller, request.progress, request.ask) == (LOCAL, None, None)
            assert request.era == ("legacy" if era == LEGACY else "modern")

    run(work)


@ERAS
def test_lists_say_how_long_and_by_whom_they_may_be_kept(era: str) -> None:
    async def work() -> None:
        async with piped(era) as client:
            found = {}
            for method in ("tools/list", "prompts/list", "resources/read"):
                client.ask(method, **({"uri": "test://one"} if method == "resources/read" else {}))
                result = (await client.hear())["result"]
                assert "private" not in result
                found[method] = (result.get("ttlMs"), result.get("cacheScope"))
            ttl = limits.HOST_TTL_MILLISECONDS
            modern = {"tools/list": (ttl, "public"), "prompts/list": (ttl, "private"), "resources/read": (0, "private")}
            assert found == (modern if era == MODERN else dict.fromkeys(found, (None, None)))

    run(work)


@ERAS
def test_nothing_is_offered_that_there_is_not(era: str) -> None:
    async def work() -> None:
        async with piped(era) as client:
            if era == MODERN:
                client.ask("server/discover")
                found = (await client.hear())["result"]["capabilities"]
                assert found["resources"] == {"subscribe": False, "listChanged": True}
                assert found["tools"] == {"listChanged": True}
                assert "logging" not in found
            for method, params in (
                ("logging/setLevel", {"level": "info"}),
                ("resources/subscribe", {"uri": "test://one"}),
            ):
                client.ask(method, **params)
                assert (await client.hear())["error"]["code"] == -32601

    run(work)


@ERAS
@pytest.mark.threat("G15")
def test_a_cancelled_call_ends_its_work_and_is_never_answered(era: str) -> None:
    async def work() -> None:
        async with piped(era) as client:
            client.call("wait", ident="w")
            await until(lambda: client.host.waiting == 1)
            client.say({"method": CANCELLED, "params": {"requestId": "x"}})
            client.say({"method": CANCELLED, "params": {"requestId": "w"}})
            await until(lambda: client.host.cancelled == 1)
            client.call("echo", ident=2)
            assert (await client.hear())["id"] == 2

    run(work)


@ERAS
@pytest.mark.threat("G15")
def test_a_client_that_disappears_in_a_call_has_cancelled_it(era: str) -> None:
    async def work() -> None:
        async with piped(era) as client:
            client.call("wait")
            await until(lambda: client.host.waiting == 1)
            client.reader._transport.close()  # type: ignore[attr-defined]  # nobody reads any more
            client.hang_up()
            assert await client.ended() is Ended.GONE
            assert client.host.cancelled == 1
            assert client.host.left_connections == [client.host.seen[0].connection]

    run(work)


@ERAS
@pytest.mark.threat("G15")
def test_half_a_line_and_broken_lines_change_nothing(era: str) -> None:
    async def work() -> None:
        async with piped(era) as client:
            client.raw(b'{"jsonrpc":\n\xff\n[]\n')
            assert [(await client.hear())["error"]["code"] for _ in range(3)] == [-32700, -32700, -32600]
            client.call("echo", ident=9, text="on")
            assert (await client.hear())["id"] == 9
            client.raw(b'{"jsonrpc":"2.0","id":1,"meth')
            client.hang_up()
            assert (await client.hear())["error"]["code"] == -32700  # and nothing of it was done
            assert await client.ended() is Ended.END_OF_INPUT
            assert len(client.host.seen) == 1

    run(work)


@pytest.mark.threat("G16")
def test_answers_count_once_and_only_to_what_was_asked() -> None:
    async def work() -> None:
        async with piped(LEGACY, **FORMS) as client:
            yes = {"action": "accept", "content": {"sure": True}}
            for ident in (0, 1, 2, "1", None):
                client.say({"id": ident, "result": yes})
            client.call("ask", ident=5)
            question = await client.hear()
            assert question["method"] == "elicitation/create"
            assert question["params"] == {"mode": "form", "message": "Really?", "requestedSchema": SCHEMA}
            client.say({"id": str(question["id"]), "result": yes})
            client.say({"id": question["id"], "result": {"action": "decline"}})
            client.say({"id": question["id"], "result": yes})
            answer = await client.hear()
            assert (answer["id"], answer["result"]["structuredContent"]) == (5, {"verdict": "decline"})

    run(work)


@pytest.mark.threat("G15")
def test_an_answer_over_its_bound_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ASK_SECONDS", 0.5)

    async def work() -> None:
        async with piped(LEGACY, **FORMS) as client:
            client.call("ask", ident=5)
            question = await client.hear()
            said = {"action": "accept", "content": {"sure": True, "why": "x" * limits.REQUEST_BYTES}}
            feeding = asyncio.to_thread(client.say, {"id": question["id"], "result": said})
            await feeding
            heard = [await client.hear() for _ in range(3)]
            assert heard[0]["error"]["code"] == -32700
            assert heard[1]["method"] == CANCELLED  # the question is taken back
            assert heard[2]["result"]["structuredContent"] == {"verdict": "cannot"}

    run(work)


@pytest.mark.threat("G15")
def test_a_question_at_the_end_of_input_is_answered_by_nobody() -> None:
    async def work() -> None:
        async with piped(LEGACY, **FORMS) as client:
            client.call("ask", ident=5)
            assert (await client.hear())["method"] == "elicitation/create"
            client.hang_up()
            assert (await client.hear())["result"]["structuredContent"] == {"verdict": "cannot"}
            assert await client.ended() is Ended.END_OF_INPUT

    run(work)


@pytest.mark.threat("G15")
def test_only_so_many_questions_are_open_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ASKED_BACK", 2)

    async def work() -> None:
        async with piped(LEGACY, **FORMS) as client:
            for ident in (11, 12, 13):
                client.call("ask", ident=ident)
            heard = [await client.hear() for _ in range(3)]
            assert [one.get("method") for one in heard].count("elicitation/create") == 2
            refused = next(one for one in heard if "result" in one)
            assert refused["result"]["structuredContent"] == {"verdict": "cannot"}
            client.hang_up()
            assert {(await client.hear())["id"] for _ in range(2)} | {refused["id"]} == {11, 12, 13}

    run(work)


@pytest.mark.parametrize("elicitation", [{}, {"form": {}}, {"form": {}, "url": {}}, {"url": {}}])
@ERAS
def test_forms_are_shown_to_who_shows_forms(era: str, elicitation: Any) -> None:
    async def work() -> None:
        async with piped(era, elicitation=elicitation) as client:
            client.call("ask", ident=5)
            heard = await client.hear()
            if elicitation == {"url": {}}:
                assert heard["result"]["structuredContent"] == {"verdict": "none"}
            else:
                assert "elicitation/create" in str(heard)

    run(work)


@pytest.mark.threat("G15")
def test_what_is_parked_ends_with_its_connection() -> None:
    async def work() -> None:
        async with piped(MODERN, **FORMS) as client:
            client.call("ask")
            assert (await client.hear())["result"]["resultType"] == "input_required"
            client.hang_up()
            assert await client.ended() is Ended.END_OF_INPUT
            await until(lambda: client.host.cancelled == 1)

    run(work)


@pytest.mark.threat("G15")
def test_who_comes_back_and_goes_has_cancelled_it() -> None:
    async def work() -> None:
        async with piped(MODERN, **FORMS) as client:
            client.call("ask_then_wait")
            asked = (await client.hear())["result"]
            said = {"question": {"action": "accept", "content": {"sure": True}}}
            ident = client.ask(
                "tools/call",
                name="ask_then_wait",
                arguments={},
                requestState=asked["requestState"],
                inputResponses=said,
                _meta={"progressToken": "p"},
            )
            await until(lambda: client.host.waiting == 1)
            client.say({"method": CANCELLED, "params": {"requestId": ident}})
            await until(lambda: client.host.cancelled == 1)

    run(work)


@ERAS
@pytest.mark.threat("G15")
def test_changes_at_once_are_one_notice_of_each_kind(era: str) -> None:
    async def work() -> None:
        async with piped(era) as client:
            if era == MODERN:
                wanted = {"toolsListChanged": True, "promptsListChanged": True}
                client.ask("subscriptions/listen", ident="mine", notifications=wanted)
                acknowledged = await client.hear()
                assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
                assert acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "mine"
            client.ask("ping" if era == LEGACY else "prompts/list")
            await client.hear()
            for _ in range(1000):
                client.host.change(Changed.TOOLS)
                client.host.change(Changed.PROMPTS)
                client.host.change(Changed.RESOURCES)
            wanted_kinds = ["tools", "prompts", "resources"][: 3 if era == LEGACY else 2]
            heard = [(await client.hear())["method"] for _ in wanted_kinds]
            assert heard == [f"notifications/{kind}/list_changed" for kind in wanted_kinds]
            client.call("echo", ident=77)
            assert (await client.hear())["id"] == 77

    run(work)


def test_a_connection_that_is_not_initialized_hears_of_nothing() -> None:
    async def work() -> None:
        async with piped(MODERN) as client:
            client.host.change()
            await asyncio.sleep(2 * limits.CHANGED_SECONDS)
            client.call("echo", ident=77)
            assert (await client.hear())["id"] == 77

    run(work)


def test_a_stream_of_changes_keeps_no_process_at_the_end_of_input() -> None:
    async def work() -> None:
        async with piped(MODERN) as client:
            client.ask("subscriptions/listen", notifications={"toolsListChanged": True})
            await client.hear()
            client.hang_up()
            assert await asyncio.wait_for(client.ended(), 10) is Ended.END_OF_INPUT

    run(work)


@ERAS
@pytest.mark.threat("G15")
def test_a_client_that_reads_nothing_is_told_no_more(era: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OUTPUT_PENDING_BYTES", 64 * limits.KIB)

    async def work() -> None:
        async with piped(era) as client:
            client.reader._transport.pause_reading()  # type: ignore[attr-defined]  # deaf for a while
            for ident in range(200):
                client.ask(
                    "tools/call", ident=ident, name="report", arguments={"times": 500}, _meta={"progressToken": ident}
                )
                await asyncio.sleep(0)
            await asyncio.sleep(0.2)
            client.reader._transport.resume_reading()  # type: ignore[attr-defined]  # as above
            client.call("echo", ident="last")
            with contextlib.suppress(StopAsyncIteration):
                while (heard := await client.hear()).get("id") != "last":
                    assert heard.get("method") in {None, "notifications/progress"}

    run(work)


class Odd(FakeHost):
    """Does what a host should not, or seldom does."""

    async def _tool_plain(self, request: Request) -> JsonObject:
        assert request.ask is not None
        asked = [request.ask(Question(message=f"{n}", schema=SCHEMA)) for n in range(2)]
        return text("both", structuredContent={"n": len(await asyncio.gather(*asked))})

    async def _tool_who(self, _: Request) -> JsonObject:
        raise asyncio.CancelledError


def odd(era: str, work: Callable[[Any], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopback.hosting.FakeHost", Odd)

    async def inside() -> None:
        async with piped(era, **FORMS) as client:
            await work(client)

    run(inside)


@ERAS
def test_work_that_cancels_itself_is_an_internal_error(era: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(client: Any) -> None:
        client.call("who")
        assert (await client.hear())["error"] == {"code": -32603, "message": "Internal error"}

    odd(era, work, monkeypatch)


def test_two_questions_at_once_are_asked_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(client: Any) -> None:
        client.call("plain")
        state: dict[str, Any] = {}
        for number in range(2):
            asked = (await client.hear())["result"]
            assert asked["inputRequests"]["question"]["params"]["message"] == f"{number}"
            state = {"requestState": asked["requestState"]}
            state["inputResponses"] = {"question": {"action": "decline"}}
            client.ask("tools/call", name="plain", arguments={}, **state)
        assert (await client.hear())["result"]["structuredContent"] == {"n": 2}

    odd(MODERN, work, monkeypatch)


def test_at_the_end_of_all_whatever_runs_is_cancelled() -> None:
    async def work() -> None:
        host = FakeHost()
        hosted = Hosted(host)
        request = Request(method="tools/call", params={"name": "wait"}, caller=LOCAL, connection="here", era="legacy")
        async with hosted.running():
            assert len(host.watchers) == 1
            running = asyncio.create_task(hosted._run(request))
            hosted._works.add(running)
            await until(lambda: host.waiting == 1)
        assert host.cancelled == 1
        assert host.watchers == []

    run(work)


def test_an_answer_to_nothing_does_nothing() -> None:
    async def work() -> None:
        from fumehood.wire.turns import Turns  # noqa: PLC0415 - its methods want a loop

        turns = Turns()
        turns.answer(CannotAskError("nobody"))
        turns.report({"progress": 1})
        turns.cancel()
        with pytest.raises(RuntimeError):
            turns.result()

    run(work)
    assert os.getpid()
