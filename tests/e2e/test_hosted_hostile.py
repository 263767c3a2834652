"""Hostile and unlucky clients of a host over real HTTP: what they may not have, and what becomes of their calls."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fumehood.core import limits
from fumehood.wire.admission import Bounds
from loopback.hosting import LEGACY, MODERN, SECONDS, Caller, Hosting, hosting, until
from loopback.hosts import FakeHost

ERAS = pytest.mark.parametrize("era", [LEGACY, MODERN])
FORMS: dict[str, Any] = {"elicitation": {}}


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, str]:
    """Three people's tokens, and the file that knows them: eve's is good for one role only."""
    made = {name: f"{name}-token" for name in ("ada", "bob", "eve")}
    digests = [hashlib.sha256(token.encode()).hexdigest() for token in made.values()]
    file = tmp_path / "tokens"
    file.write_text(f"{digests[0]}\n{digests[1]}\n{digests[2]} role:reader tool:echo\n")
    file.chmod(0o600)
    return {**made, "file": str(file)}


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(work(), SECONDS)

    asyncio.run(bounded())


@asynccontextmanager
async def everybody(tokens: dict[str, str], era: str, **more: Any) -> AsyncIterator[tuple[Hosting, Caller, Caller]]:
    """A host with two clients that may be asked."""
    async with hosting(token_file=tokens["file"], **more) as up:
        callers = [Caller(up, era, tokens[name], dict(FORMS)) for name in ("ada", "bob")]
        for caller in callers:
            if era == LEGACY:
                assert (await caller.open()).status == 200
        yield up, callers[0], callers[1]


def structured(reply: Any) -> Any:
    return reply.json["result"]["structuredContent"]


def answer(state: str, *, key: str = "question", action: str = "accept", **content: Any) -> dict[str, Any]:
    return {"requestState": state, "inputResponses": {key: {"action": action, "content": content}}}


@ERAS
@pytest.mark.threat("G16")
def test_two_principals_with_the_same_ids_get_each_their_own(tokens: dict[str, str], era: str) -> None:
    async def work() -> None:
        async with everybody(tokens, era) as (_, ada, bob):
            calls = [one.call("echo", ident=n, text=f"{one.token} {n}") for n in range(1, 15) for one in (ada, bob)]
            found = await asyncio.gather(*calls)
            wanted = [(n, f"{one.token} {n}") for n in range(1, 15) for one in (ada, bob)]
            assert [(reply.json["id"], structured(reply)["text"]) for reply in found] == wanted
            for caller in (ada, bob):
                counts = [structured(await caller.call("who"))["calls"] for _ in range(2)]
                assert counts == [15, 16]  # what one connection shares, the other does not see

    run(work)


@pytest.mark.threat("G16")
def test_a_session_is_good_for_its_principal_alone(tokens: dict[str, str]) -> None:
    async def work() -> None:
        async with everybody(tokens, LEGACY) as (up, ada, bob):
            thief = Caller(up, LEGACY, tokens["bob"], session=ada.session)
            refused = await thief.call("echo", text="x")
            assert refused.status == 404
            thief.session = "no such session"
            assert (await thief.call("echo")).body == refused.body  # which it is nobody learns
            thief.session = ada.session
            for method in ("GET", "DELETE"):
                assert (await up.ask(method, headers=thief.headers())).status == 404
            assert structured(await ada.call("echo", text="mine")) == {"text": "mine"}
            missing = Caller(up, LEGACY, tokens["ada"])
            assert (await missing.call("echo")).status == 400
            assert [request.caller.principal for request in up.host.seen] != []
            assert len(up.host.seen) == 1
            assert (await up.ask("DELETE", headers=bob.headers())).status == 204
            assert (await bob.call("echo")).status == 404
            await until(lambda: len(up.host.left_connections) == 1)

    run(work)


@ERAS
@pytest.mark.threat("G15")
def test_a_client_that_goes_away_in_a_call_has_cancelled_it(tokens: dict[str, str], era: str) -> None:
    async def work() -> None:
        async with everybody(tokens, era) as (up, ada, bob):
            message = ada.message("tools/call", name="wait", arguments={})
            async with up.request("POST", message, headers=ada.headers("tools/call", "wait")):
                staying = asyncio.create_task(bob.call("wait"))
                await until(lambda: up.host.waiting == 2)
            await until(lambda: up.host.cancelled == 1)
            up.host.release.set()
            assert (await staying).json["result"]["content"][0]["text"] == "waited"
            assert up.host.cancelled == 1

    run(work)


@pytest.mark.threat("G15")
def test_a_call_that_is_cancelled_by_notice_is_told_so_on_its_stream(tokens: dict[str, str]) -> None:
    async def work() -> None:
        async with everybody(tokens, LEGACY) as (up, ada, bob):
            calling = asyncio.create_task(ada.call("wait", ident="a"))
            await until(lambda: up.host.waiting == 1)
            cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "a"}}
            assert (await bob.post(cancelled)).status == 202  # another's id
            assert up.host.cancelled == 0
            assert (await ada.post(cancelled)).status == 202
            assert (await calling).json["error"] == {"code": -32800, "message": "Request cancelled"}
            assert up.host.cancelled == 1

    run(work)


@pytest.mark.threat("G15")
def test_a_session_that_is_ended_in_a_call_cancels_it(tokens: dict[str, str]) -> None:
    async def work() -> None:
        async with everybody(tokens, LEGACY) as (up, ada, _):
            calling = asyncio.create_task(ada.call("wait"))
            await until(lambda: up.host.waiting == 1)
            assert (await up.ask("DELETE", headers=ada.headers())).status == 204
            assert (await calling).json["error"]["message"] == "the session has ended"
            await until(lambda: up.host.cancelled == 1)

    run(work)


@pytest.mark.threat("G16")
def test_a_state_is_good_once_for_one_caller_and_one_request(tokens: dict[str, str]) -> None:
    async def work() -> None:
        async with everybody(tokens, MODERN) as (up, ada, bob):
            asked = (await ada.call("ask")).json["result"]
            assert asked["resultType"] == "input_required"
            assert asked["inputRequests"]["question"]["params"]["message"] == "Really?"
            state = asked["requestState"]
            right = answer(state, sure=True)
            wrong = [
                bob.ask("tools/call", name="ask", arguments={}, **right),
                ada.ask("tools/call", name="ask", arguments={"other": 1}, **right),
                ada.ask("tools/call", name="ask_twice", arguments={}, **right),
                ada.ask("tools/call", name="ask", arguments={}, **answer(state[::-1], sure=True)),
                ada.ask("tools/call", name="ask", arguments={}, **answer(state, key="other", sure=True)),
                ada.ask("tools/call", name="ask", arguments={}, **answer(state, sure="yes")),
                ada.ask("tools/call", name="ask", arguments={}, requestState=state),
                ada.ask("tools/call", name="ask", arguments={}, inputResponses=right["inputResponses"]),
            ]
            for one in wrong:
                assert (await one).json["error"]["code"] == -32602
            assert structured(await ada.ask("tools/call", name="ask", arguments={}, **right))["verdict"] == "accept"
            again = (await ada.ask("tools/call", name="ask", arguments={}, **right)).json
            assert again["error"]["code"] == -32602
            assert sum(request.method == "tools/call" for request in up.host.seen) == 1

    run(work)


@pytest.mark.threat("G15")
def test_questions_that_wait_are_bounded_and_end_at_their_deadline(
    tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PARKED_SECONDS", 1.0)

    async def work() -> None:
        async with everybody(tokens, MODERN, bounds=Bounds(calls_a_minute=100_000)) as (up, ada, bob):
            found = [(await ada.call("ask", number=n)).json["result"] for n in range(limits.PARKED_EACH + 20)]
            parked = [one for one in found if one["resultType"] == "input_required"]
            assert 0 < len(parked) <= limits.PARKED_EACH
            assert {structured_of(one)["verdict"] for one in found if one not in parked} == {"cannot"}
            assert (await bob.call("ask")).json["result"]["resultType"] == "input_required"
            await until(lambda: up.host.cancelled == len(parked) + 1)
            late = answer(parked[0]["requestState"], sure=True)
            refused = await ada.ask("tools/call", name="ask", arguments={"number": 0}, **late)
            assert refused.json["error"]["code"] == -32602

    run(work)


def structured_of(result: dict[str, Any]) -> Any:
    return result["structuredContent"]


@pytest.mark.threat("G16")
def test_an_answer_counts_once_and_only_where_it_was_asked(tokens: dict[str, str]) -> None:
    async def work() -> None:
        async with everybody(tokens, LEGACY) as (up, ada, bob):
            forged = {"jsonrpc": "2.0", "id": 1, "result": {"action": "accept", "content": {"sure": True}}}
            assert (await ada.post(forged)).status == 202  # nobody asked
            message = ada.message("tools/call", ident=9, name="ask_twice", arguments={})
            async with up.request("POST", message, headers=ada.headers()) as incoming:
                assert (await incoming.head())[0] == 200
                question = await incoming.event()
                assert question["method"] == "elicitation/create"
                for ident in (question["id"] + 1, f"{question['id']}", None):
                    await ada.post({**forged, "id": ident})
                await bob.post({**forged, "id": question["id"]})
                said = {**forged, "id": question["id"]}
                said["result"] = {"action": "decline"}
                await ada.post(said)
                await ada.post({**forged, "id": question["id"]})  # too late
                second = await incoming.event()
                await ada.post({"jsonrpc": "2.0", "id": second["id"], "error": {"code": -1, "message": "no"}})
                last = await incoming.event()
                assert last["id"] == 9
                both = last["result"]["structuredContent"]
                assert both["first"]["structuredContent"] == {"verdict": "decline"}
                assert both["second"]["structuredContent"] == {"verdict": "cannot"}

    run(work)


@pytest.mark.threat("G16")
@pytest.mark.parametrize(
    "result", [{"action": "accept", "content": {"sure": 7}}, {"action": "accept"}, {"x": 1}, [], "yes", None]
)
def test_an_answer_that_is_none_is_none(tokens: dict[str, str], result: Any) -> None:
    async def work() -> None:
        async with everybody(tokens, LEGACY) as (up, ada, _):
            message = ada.message("tools/call", name="ask", arguments={})
            async with up.request("POST", message, headers=ada.headers()) as incoming:
                await incoming.head()
                question = await incoming.event()
                await ada.post({"jsonrpc": "2.0", "id": question["id"], "result": result})
                last = await incoming.event()
                assert last["result"]["structuredContent"] == {"verdict": "cannot"}

    run(work)


@pytest.mark.threat("G15")
def test_a_client_that_takes_no_stream_is_not_asked(tokens: dict[str, str]) -> None:
    async def work() -> None:
        async with everybody(tokens, LEGACY) as (up, ada, _):
            headers = ada.headers() | {"accept": "application/json"}
            reply = await up.ask("POST", ada.message("tools/call", name="ask", arguments={}), headers=headers)
            assert structured(reply) == {"verdict": "none"}
            message = ada.message("tools/call", name="report", arguments={}, _meta={"progressToken": 1})
            assert (await up.ask("POST", message, headers=headers)).json["result"]["content"][0]["text"] == "done"
            assert (await up.ask("GET", headers=headers)).status == 406

    run(work)


@ERAS
@pytest.mark.threat("G15")
def test_who_asks_for_more_than_it_may_is_told_busy(tokens: dict[str, str], era: str) -> None:
    async def work() -> None:
        async with everybody(tokens, era, bounds=Bounds(running=1, queued=1)) as (up, ada, bob):
            waiting = [asyncio.create_task(ada.call("wait")) for _ in range(2)]
            await until(lambda: up.host.waiting == 2)
            assert structured(await ada.call("echo"))["error"] == "busy"
            assert (await ada.ask("prompts/list")).json["error"]["code"] == -32000
            assert structured(await bob.call("echo", text="on")) == {"text": "on"}
            up.host.release.set()
            await asyncio.gather(*waiting)

    run(work)


@pytest.mark.threat("G15")
def test_a_principal_has_only_so_many_sessions(tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SESSIONS_EACH", 2)
    monkeypatch.setattr(limits, "SESSIONS", 3)

    async def work() -> None:
        async with everybody(tokens, LEGACY) as (up, ada, bob):
            busy = asyncio.create_task(ada.call("wait"))
            await until(lambda: up.host.waiting == 1)
            more = [Caller(up, LEGACY, tokens["ada"]) for _ in range(3)]
            for caller in more:
                assert (await caller.open()).status == 200
            assert [(await caller.call("echo")).status for caller in more] == [404, 404, 200]
            assert structured(await bob.call("echo", text="on")) == {"text": "on"}
            assert (await Caller(up, LEGACY, tokens["eve"]).open()).status == 503
            up.host.release.set()
            assert (await busy).status == 200

    run(work)


@pytest.mark.threat("G15")
def test_a_session_that_nobody_uses_ends(tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SESSION_SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(limits, "SESSION_IDLE_SECONDS", 0.2)

    async def work() -> None:
        async with everybody(tokens, LEGACY) as (up, ada, _):
            async with up.request("GET", headers=ada.headers()) as standing:
                assert (await standing.head())[0] == 200
                await until(lambda: len(up.host.left_connections) == 1)  # bob's
                assert structured(await ada.call("echo", text="on")) == {"text": "on"}
            await until(lambda: len(up.host.left_connections) == 2)
            assert (await ada.call("echo")).status == 404

    run(work)


@pytest.mark.threat("G15")
def test_who_does_not_read_its_notices_costs_nothing(tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHANGED_SECONDS", 0.0)

    async def work() -> None:
        async with (
            everybody(tokens, LEGACY) as (up, ada, bob),
            up.request("GET", headers=ada.headers()) as deaf,
            up.request("GET", headers=bob.headers()) as standing,
        ):
            assert (await deaf.head())[0] == (await standing.head())[0] == 200
            assert (await up.ask("GET", headers=ada.headers())).status == 409  # one is enough
            for _ in range(2000):
                up.host.change()
                await asyncio.sleep(0)
            told = await standing.event()
            assert told == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
            assert structured(await ada.call("echo", text="on")) == {"text": "on"}

    run(work)


@pytest.mark.threat("G15")
def test_a_modern_stream_tells_what_was_asked_for_and_each_principal_has_few(tokens: dict[str, str]) -> None:
    async def work() -> None:
        async with everybody(tokens, MODERN) as (up, ada, bob):
            wanted = {"toolsListChanged": True, "resourceSubscriptions": ["test://one"]}
            message = ada.message("subscriptions/listen", ident="mine", notifications=wanted)
            async with up.request("POST", message, headers=ada.headers("subscriptions/listen")) as incoming:
                assert (await incoming.head())[0] == 200
                acknowledged = await incoming.event()
                assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
                assert acknowledged["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "mine"}
                for what in ("prompts", "resources", "tools"):
                    await bob.call("change", what=what)
                assert (await incoming.event())["method"] == "notifications/tools/list_changed"
                opened = [await open_stream(up, ada) for _ in range(limits.LISTENERS_EACH - 1)]
                refused = await ada.ask("subscriptions/listen", notifications=wanted)
                assert refused.json["error"]["code"] == -32000
                for stream in opened:
                    await stream.__aexit__(None, None, None)

    run(work)


async def open_stream(up: Hosting, caller: Caller) -> Any:
    message = caller.message("subscriptions/listen", notifications={"toolsListChanged": True})
    stream = up.request("POST", message, headers=caller.headers("subscriptions/listen"))
    incoming = await stream.__aenter__()
    await incoming.head()
    return stream


@ERAS
@pytest.mark.threat("G15")
def test_a_flood_leaves_the_others_alone(tokens: dict[str, str], era: str) -> None:
    async def work() -> None:
        async with everybody(tokens, era, bounds=Bounds(calls_a_minute=60)) as (_, ada, bob):
            found = await asyncio.gather(*(ada.call("echo", text="x") for _ in range(200)))
            fine = sum(reply.status == 200 and "error" not in structured(reply) for reply in found)
            assert fine <= 61
            assert {reply.status for reply in found} <= {200, 429, 503}
            assert structured(await bob.call("echo", text="on")) == {"text": "on"}

    run(work)


@pytest.mark.threat("G15")
def test_half_a_request_and_bad_ones_are_refused_and_change_nothing(tokens: dict[str, str]) -> None:
    async def work() -> None:
        async with everybody(tokens, LEGACY) as (up, ada, _):
            headers = ada.headers()
            reader, writer = await asyncio.open_connection("127.0.0.1", up.port)
            lines = [
                f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{up.port}",
                *(f"{k.replace('_', '-')}: {v}" for k, v in headers.items()),
            ]
            lines += ["content-type: application/json", "content-length: 100", "", '{"jsonrpc":']
            writer.write("\r\n".join(lines).encode())
            for body in (
                b"{}",
                b"[]",
                b'{"jsonrpc":"2.0","id":1}',
                b'{"jsonrpc":"2.0","id":[],"method":"ping"}',
                b"\xff",
            ):
                assert (await up.ask("POST", body, headers=headers)).status == 400
            calling = asyncio.create_task(ada.call("wait", ident=5))
            await until(lambda: up.host.waiting == 1)
            assert (await ada.call("echo", ident=5)).status == 400  # its id is in flight
            writer.close()
            del reader
            up.host.release.set()
            assert (await calling).json["id"] == 5
            headers["mcp_session_id"] = f"{ada.session}\r\nmcp-session-id: {ada.session}"
            assert (await up.ask("POST", ada.message("ping"), headers=headers)).status == 404

    run(work)


@pytest.mark.threat("G15")
def test_an_opening_that_fails_or_is_left_opens_nothing(tokens: dict[str, str]) -> None:
    async def work() -> None:
        async with everybody(tokens, LEGACY) as (up, ada, _):
            bad = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 7}})
            headers = Caller(up, LEGACY, tokens["ada"]).headers()
            refused = await up.ask("POST", bad.encode(), headers=headers)
            assert refused.json["error"]["code"] == -32602
            await until(lambda: len(up.host.left_connections) == 1)
            assert structured(await ada.call("echo", text="on")) == {"text": "on"}

    run(work)


@pytest.mark.threat("G16")
def test_tools_are_judged_by_the_host_and_not_by_the_guard(tokens: dict[str, str]) -> None:
    async def work() -> None:
        async with hosting(token_file=tokens["file"]) as up:
            eve = Caller(up, MODERN, tokens["eve"])
            assert structured(await eve.call("who"))["calls"] == 1
            assert up.host.seen[-1].caller.scopes == frozenset({"role:reader", "tool:echo"})
            assert (await Caller(up, MODERN, "nobody's").call("who")).status == 401

    run(work)


@ERAS
@pytest.mark.threat("G15")
def test_a_failure_says_nothing_and_a_refusal_says_why(
    tokens: dict[str, str], era: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with everybody(tokens, era) as (_, ada, _):
            assert (await ada.call("fail")).json["error"] == {"code": -32603, "message": "Internal error"}
            assert (await ada.call("refuse")).json["error"] == {
                "code": -32000,
                "message": "not today (try tomorrow)",
            }

    run(work)
    assert "/secret/path" in caplog.text


@ERAS
def test_an_end_finishes_streams_at_once(tokens: dict[str, str], era: str) -> None:
    async def work() -> None:
        async with everybody(tokens, era, host=FakeHost()) as (up, ada, _):
            if era == LEGACY:
                stream = up.request("GET", headers=ada.headers())
            else:
                message = ada.message("subscriptions/listen", notifications={"toolsListChanged": True})
                stream = up.request("POST", message, headers=ada.headers("subscriptions/listen"))
            async with stream as incoming:
                assert (await incoming.head())[0] == 200
                if era == MODERN:
                    await incoming.event()
                up.serving.stop.set()
                last = await incoming.event()
                assert (last is None) is (era == LEGACY)
                assert await asyncio.wait_for(asyncio.shield(up.task), 5) == 0

    run(work)
