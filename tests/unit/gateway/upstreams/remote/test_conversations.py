"""Sessions, cancellation, streams of changes, credentials, and when a conversation is lost."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from fumehood.core import limits
from fumehood.core.errors import RefusedError, TimedOutError, TooLargeError
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.topology.model import Server
from fumehood.gateway.upstreams.model import ServerRefusedError, UpstreamError
from fumehood.gateway.upstreams.remote.address import UnreachableError
from fumehood.gateway.upstreams.remote.dialing import Reach, remote
from loopback.remotes import Asked, Reached, hostile, legacy, modern, rpc

Run = Callable[[Coroutine[Any, Any, Any]], Any]
TOKEN = "t0ken" + "-of-a-test"
SESSION = "5e55-1d"
LISTENS: JsonObject = {"tools": {"listChanged": True}}


def methods(asked: list[Asked]) -> list[str]:
    return [one.method for one in asked]


def test_a_session_is_carried_and_ended(reach: Callable[[], Reached], run: Run) -> None:
    async def handler(asked: Asked) -> None:
        if not await legacy(asked, SESSION):
            await (asked.answer("405 No") if asked.method == "DELETE" else asked.result({}))

    async def test() -> list[Asked]:
        async with hostile(handler) as served:
            async with reach()(served.port) as connection:
                await connection.ask("tools/list", {}, seconds=30)
            return served.asked

    asked = run(test())
    assert methods(asked) == ["server/discover", "initialize", "notifications/initialized", "tools/list", "DELETE"]
    assert [one.headers.get("mcp-session-id") for one in asked] == [None, None, *[SESSION] * 3]
    revisions = [one.headers.get("mcp-protocol-version") for one in asked]
    assert revisions == ["2026-07-28", None, *["2025-11-25"] * 3]


def test_a_server_without_sessions_gets_no_delete(reach: Callable[[], Reached], run: Run) -> None:
    async def handler(asked: Asked) -> None:
        if not await legacy(asked):
            await asked.result({})

    async def test() -> list[Asked]:
        async with hostile(handler) as served:
            async with reach()(served.port) as connection:
                await connection.ask("tools/list", {}, seconds=30)
            return served.asked

    assert methods(run(test()))[-1] == "tools/list"


def test_a_session_that_is_over_loses_the_conversation(reach: Callable[[], Reached], run: Run) -> None:
    async def handler(asked: Asked) -> None:
        if not await legacy(asked, SESSION):
            await asked.refuse("404 Not Found", -32001)

    async def test() -> str:
        async with hostile(handler) as served, reach()(served.port) as connection:
            with pytest.raises(UpstreamError, match="ended the session"):
                await connection.ask("tools/list", {}, seconds=30)
            count = len(served.asked)
            with pytest.raises(UpstreamError, match="ended the session"):
                await connection.ask("tools/list", {}, seconds=30)
            assert len(served.asked) == count
            return str(await connection.lost())

    assert run(test()) == "the server ended the session"


def test_without_a_session_not_found_is_an_error_of_one_request(reach: Callable[[], Reached], run: Run) -> None:
    async def handler(asked: Asked) -> None:
        if not await modern(asked):
            await asked.refuse("404 Not Found", -32601)

    async def test() -> None:
        async with hostile(handler) as served, reach()(served.port) as connection:
            for _ in range(limits.REMOTE_FAILURES + 1):
                with pytest.raises(ServerRefusedError):
                    await connection.ask("tools/list", {}, seconds=30)

    run(test())


def test_a_server_that_is_not_reached_again_and_again_is_lost(reach: Callable[[], Reached], run: Run) -> None:
    async def handler(asked: Asked) -> None:
        await asked.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n")
        body = rpc(
            {
                "id": asked.message["id"],
                "result": {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete"},
            }
        )
        await asked.send(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        asked.writer.close()

    async def test() -> str:
        reached = reach()
        async with hostile(handler) as served:
            entered = reached(served.port)
            connection = await entered.__aenter__()
        lost = asyncio.create_task(connection.lost())
        for _ in range(limits.REMOTE_FAILURES):
            assert not lost.done()
            with pytest.raises(UnreachableError):
                await connection.ask("x", {}, seconds=30)
        await entered.__aexit__(None, None, None)
        return str(await lost)

    assert run(test()) == f"the server was not reached {limits.REMOTE_FAILURES} times in a row"


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_legacy_server_is_told_of_a_request_that_nobody_waits_for(
    cancelled: bool, reach: Callable[[], Reached], run: Run
) -> None:
    async def handler(asked: Asked) -> None:
        if await legacy(asked):
            return
        if asked.method == "notifications/cancelled":
            await asked.answer("202 Accepted")
        else:
            await asyncio.Event().wait()

    async def test() -> tuple[Any, Any]:
        async with hostile(handler) as served, reach()(served.port) as connection:
            call = asyncio.create_task(connection.ask("slow", {}, seconds=30 if cancelled else 0.2))
            await served.until(lambda asked: methods(asked)[-1] == "slow")
            if cancelled:
                call.cancel()
            with pytest.raises(asyncio.CancelledError if cancelled else TimedOutError):
                await call
            await served.until(lambda asked: methods(asked)[-1] == "notifications/cancelled")
            return served.asked[-2].message["id"], served.asked[-1].message["params"]

    ident, params = run(test())
    assert params == {"requestId": ident}


def test_a_modern_server_sees_the_stream_close(reach: Callable[[], Reached], run: Run) -> None:
    async def test() -> bytes:
        closed: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def handler(asked: Asked) -> None:
            if await modern(asked):
                return
            await asked.events()
            await asked.event({"method": "notifications/message", "params": {}})
            try:
                while True:
                    await asked.send(b":\n\n")
                    await asyncio.sleep(0)
            except ConnectionError:
                closed.set_result(b"closed")

        async with hostile(handler) as served, reach()(served.port) as connection:
            call = asyncio.create_task(connection.ask("slow", {}, seconds=30))
            await served.until(lambda asked: methods(asked)[-1] == "slow")
            call.cancel()
            found = await closed
            assert methods(served.asked) == ["server/discover", "slow"]
            return found

    assert run(test()) == b"closed"


def test_progress_of_another_request_reaches_nobody(reach: Callable[[], Reached], run: Run) -> None:
    async def handler(asked: Asked) -> None:
        if await modern(asked):
            return
        token = asked.message["params"]["_meta"].get("progressToken")
        await asked.events()
        odd: list[Any] = [7, "x", None, True, [token], str(token)]
        for one in odd:
            await asked.event({"method": "notifications/progress", "params": {"progressToken": one, "progress": 1}})
        for value in ("x", None, True):
            params = {"progressToken": token, "progress": value}
            await asked.event({"method": "notifications/progress", "params": params})
        params = {"progressToken": token, "progress": 0.5, "secret": 1}
        await asked.event({"method": "notifications/progress", "params": params})
        await asked.event({"id": asked.message["id"], "result": {}})
        asked.writer.close()

    async def test() -> tuple[list[JsonObject], list[JsonObject], Reached]:
        reached = reach()
        one: list[JsonObject] = []
        async with hostile(handler) as served, reached(served.port) as connection:
            await connection.ask("x", {}, seconds=30, progress=one.append)
            count = len(one)
            await connection.ask("x", {}, seconds=30)
            assert len(one) == count
        return one, [], reached

    one, _, reached = run(test())
    assert one == [{"progress": 0.5}]
    assert reached.told == []


def test_ping_is_answered_in_the_session(reach: Callable[[], Reached], run: Run) -> None:
    async def handler(asked: Asked) -> None:
        if await legacy(asked, SESSION):
            return
        if asked.method in {"answer", "DELETE"}:
            await asked.answer("202 Accepted")
            return
        await asked.events()
        await asked.event({"id": "p", "method": "ping"})
        await asked.event({"id": asked.message["id"], "result": {}})
        asked.writer.close()

    async def test() -> Asked:
        async with hostile(handler) as served, reach()(served.port) as connection:
            await connection.ask("x", {}, seconds=30)
            await served.until(lambda asked: "answer" in methods(asked))
            return next(one for one in served.asked if one.method == "answer")

    answer = run(test())
    assert answer.message == {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert answer.headers["mcp-session-id"] == SESSION


def test_a_legacy_stream_is_opened_again_and_what_was_missed_counts_as_changed(
    reach: Callable[[], Reached], run: Run
) -> None:
    async def handler(asked: Asked) -> None:
        if await legacy(asked, SESSION, LISTENS):
            return
        if asked.method == "DELETE":
            await asked.answer("200 OK")
            return
        await asked.events()
        await asked.send(b"retry: 99999999\n\n")
        await asked.event({"method": "notifications/tools/list_changed"})
        asked.writer.close()

    async def test() -> tuple[list[Asked], Reached]:
        reached = reach()
        async with hostile(handler) as served, reached(served.port):
            while len(reached.told) < 4:
                reached.heard.clear()
                await reached.heard.wait()
            return served.asked, reached

    asked, reached = run(test())
    gets = [one for one in asked if one.method == "GET"]
    assert len(gets) >= 2
    assert {one.headers["mcp-session-id"] for one in gets} == {SESSION}
    assert {one.headers["accept"] for one in gets} == {"text/event-stream"}
    assert set(map(str, reached.told)) == {str(("notifications/tools/list_changed", {}))}


@pytest.mark.parametrize("status", ["405 Method Not Allowed", "404 Not Found", "400 Bad Request", "302 Found"])
def test_a_server_without_a_stream_is_asked_for_it_once(status: str, reach: Callable[[], Reached], run: Run) -> None:
    async def handler(asked: Asked) -> None:
        if not await legacy(asked, SESSION, LISTENS):
            await (asked.answer(status) if asked.method in {"GET", "DELETE"} else asked.result({}))

    async def test() -> list[str]:
        async with hostile(handler) as served, reach()(served.port) as connection:
            await served.until(lambda asked: "GET" in methods(asked))
            for _ in range(5):
                await connection.ask("x", {}, seconds=30)
            return methods(served.asked)

    assert run(test()).count("GET") == 1


def test_a_stream_that_fails_is_asked_for_later_and_later(run: Run) -> None:
    pauses: list[float] = []

    async def handler(asked: Asked) -> None:
        if not await legacy(asked, "", LISTENS):
            await asked.answer("503 Not Now")

    async def test() -> None:
        async with hostile(handler) as served:
            done = asyncio.Event()

            async def pause(seconds: float) -> None:
                pauses.append(seconds)
                if len(pauses) == 9:
                    done.set()
                    await asyncio.Event().wait()

            server = Server(url=f"http://127.0.0.1:{served.port}/", allow_private=True)
            around = Reach(folder=Path(), environment={}, version="0", pause=pause)
            async with remote(server, around)(lambda *_: None):
                await done.wait()

    run(test())
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]


@pytest.mark.threat("G9")
def test_the_credential_goes_to_its_server_and_nothing_else_does(
    reach: Callable[[], Reached], run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(asked: Asked) -> None:
        if await legacy(asked, SESSION):
            return
        await asked.result({}, "Set-Cookie: a=b")

    async def test() -> list[Asked]:
        reached = reach()
        reached.environment = {"MINE": TOKEN, "OTHER": "of-the-caller"}
        async with hostile(handler) as served:
            async with reached(served.port, token_env="MINE") as connection:
                meta: JsonObject = {"traceparent": "00-1", "authorization": "of-the-caller"}
                for _ in range(3):
                    await connection.ask("tools/call", {"name": "x", "_meta": meta}, seconds=30)
            return served.asked

    with caplog.at_level("DEBUG"):
        asked = run(test())
    assert {one.headers.get("authorization") for one in asked} == {f"Bearer {TOKEN}"}
    known = {"host", "user-agent", "accept", "accept-encoding", "authorization", "content-type", "content-length"}
    known |= {"mcp-protocol-version", "mcp-session-id", "mcp-method", "mcp-name"}
    assert {name for one in asked for name in one.headers} <= known
    assert all("of-the-caller" not in str((one.line, one.headers, one.message)) for one in asked)
    assert TOKEN not in caplog.text
    assert SESSION not in "".join(
        r.getMessage() for r in caplog.records if r.name.startswith(("fumehood", "httpcore2"))
    )


def test_a_token_of_a_file_is_read_again_for_each_conversation(
    reach: Callable[[], Reached], run: Run, tmp_path: Path
) -> None:
    async def handler(asked: Asked) -> None:
        await modern(asked)

    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)

    async def test() -> list[str]:
        reached = reach()
        async with hostile(handler) as served:
            async with reached(served.port, token_file="token"):
                pass
            file.write_text("an" + "other\n")
            async with reached(served.port, token_file="token"):
                pass
            return [one.headers["authorization"] for one in served.asked]

    assert run(test()) == [f"Bearer {TOKEN}", "Bearer another"]


@pytest.mark.threat("G9")
def test_a_token_that_others_may_read_is_refused_at_the_start(reach: Callable[[], Reached], tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o644)
    for name, words in (("token", "others"), ("missing", "cannot be read"), (".", "no regular file")):
        with pytest.raises(RefusedError, match=words) as told:
            reach()(1, token_file=name)
        assert TOKEN not in str(told.value)


def test_a_server_without_a_url_is_not_ours(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="url"):
        remote(Server(command=("x",)), Reach(folder=tmp_path, environment={}, version="0"))


def test_a_request_that_is_too_large_is_not_sent(reach: Callable[[], Reached], run: Run) -> None:
    async def handler(asked: Asked) -> None:
        await modern(asked)

    async def test() -> int:
        async with hostile(handler) as served, reach()(served.port) as connection:
            with pytest.raises(TooLargeError):
                await connection.ask("x", {"a": "x" * limits.FRAME_BYTES}, seconds=30)
            return len(served.asked)

    assert run(test()) == 1


def test_arguments_that_fill_a_head_are_refused(reach: Callable[[], Reached], run: Run) -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}
    bad: JsonObject = {"type": "object", "x-mcp-header": "A"}

    async def handler(asked: Asked) -> None:
        if not await modern(asked):
            tools: list[Any] = [{"name": "t", "inputSchema": schema}, {"name": "bad", "inputSchema": bad}]
            await asked.result({"tools": tools, "ttlMs": 1})

    async def test() -> JsonObject:
        async with hostile(handler) as served, reach()(served.port) as connection:
            listed: JsonObject = await connection.ask("tools/list", {}, seconds=30)
            with pytest.raises(RefusedError, match="headers"):
                await connection.ask("tools/call", {"name": "t", "arguments": {"a": "x" * 9000}}, seconds=30)
            return listed

    assert run(test()) == {"tools": [{"name": "t", "inputSchema": schema}]}


@pytest.mark.parametrize(
    ("status", "number", "opened"),
    [
        ("200 OK", -32601, True),
        ("400 Bad Request", -32600, True),
        ("404 Not Found", -32601, True),
        ("400 Bad Request", -32022, False),
        ("400 Bad Request", -32020, False),
    ],
)
def test_the_legacy_era_is_tried_unless_the_refusal_is_a_modern_one(
    status: str, number: int, opened: bool, reach: Callable[[], Reached], run: Run
) -> None:
    async def handler(asked: Asked) -> None:
        if asked.method == "server/discover":
            await asked.refuse(status, number)
        else:
            await legacy(asked)

    async def test() -> bool:
        async with hostile(handler) as served:
            try:
                async with reach()(served.port) as connection:
                    return bool(connection.introduction.era == "legacy")
            except (UpstreamError, ServerRefusedError):
                assert methods(served.asked) == ["server/discover"]
                return False

    assert run(test()) is opened


@pytest.mark.parametrize("status", ["404 Not Found", "405 Method Not Allowed", "415 Unsupported", "501 No"])
def test_the_legacy_era_is_tried_after_a_bare_refusal(status: str, reach: Callable[[], Reached], run: Run) -> None:
    async def handler(asked: Asked) -> None:
        if asked.method == "server/discover":
            await asked.answer(status, b"", "Content-Type: text/plain")
        else:
            await legacy(asked)

    async def test() -> str:
        async with hostile(handler) as served, reach()(served.port) as connection:
            return str(connection.introduction.era)

    assert run(test()) == "legacy"


@pytest.mark.parametrize("bad", ["initialize", "notifications/initialized"])
def test_a_handshake_that_fails_is_an_error(bad: str, reach: Callable[[], Reached], run: Run) -> None:
    async def handler(asked: Asked) -> None:
        if asked.method == bad:
            await asked.refuse("500 Broken", -32603)
        else:
            await legacy(asked)

    async def test() -> None:
        async with hostile(handler) as served, reach()(served.port):
            pass

    with pytest.raises(UpstreamError, match="500"):
        run(test())
