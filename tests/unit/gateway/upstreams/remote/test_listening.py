"""Streams of changes: in which a server tells by itself, ends, refuses, falls silent, or is gone."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fumehood.core import limits
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.upstreams import eras
from fumehood.gateway.upstreams.model import Introduction
from loopback.remotes import Asked, Reached, hostile, legacy

Run = Callable[[Coroutine[Any, Any, Any]], Any]
LISTENS: JsonObject = {"tools": {"listChanged": True}, "prompts": {"listChanged": True}}
LISTEN = "subscriptions/listen"
CHANGED: JsonObject = {"method": "notifications/tools/list_changed"}


async def modern(asked: Asked) -> bool:
    if asked.method != "server/discover":
        return False
    await asked.result({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": LISTENS})
    return True


def methods(asked: list[Asked]) -> list[str]:
    return [one.method for one in asked]


async def told(reached: Reached, count: int) -> set[str]:
    while len(reached.told) < count:
        reached.heard.clear()
        await reached.heard.wait()
    return {method for method, _ in reached.told}


def test_only_what_a_server_says_that_it_tells_is_listened_to() -> None:
    capabilities: JsonObject = {"tools": {"listChanged": True}, "prompts": {"listChanged": 1}, "resources": True}
    told = eras.changes(Introduction(era="modern", revision="x", capabilities=capabilities))
    assert told == {"toolsListChanged": "notifications/tools/list_changed"}


def test_a_modern_stream_is_asked_for_by_its_filter_and_again_once_it_ended(
    reach: Callable[[], Reached], run: Run
) -> None:
    async def handler(asked: Asked) -> None:
        if await modern(asked):
            return
        await asked.events()
        await asked.event({"method": "notifications/subscriptions/acknowledged", "params": {}})
        await asked.event(CHANGED)
        await asked.event({"method": "notifications/odd", "params": {}})
        await asked.event({"id": asked.message["id"], "result": {"resultType": "complete"}})
        asked.writer.close()

    async def test() -> tuple[set[str], list[Asked]]:
        reached = reach()
        async with hostile(handler) as served, reached(served.port):
            return await told(reached, 4), served.asked

    heard, asked = run(test())
    assert heard == {"notifications/tools/list_changed", "notifications/prompts/list_changed"}
    params = [one.message["params"] for one in asked if one.method == LISTEN]
    assert len(params) >= 2
    assert params[0]["notifications"] == {"toolsListChanged": True, "promptsListChanged": True}


@pytest.mark.parametrize("way", ["404", "in the stream", "as a result"])
def test_a_modern_server_without_a_stream_is_asked_for_it_once(
    way: str, reach: Callable[[], Reached], run: Run
) -> None:
    async def handler(asked: Asked) -> None:
        if await modern(asked):
            return
        if asked.method != LISTEN or way == "as a result":
            await asked.result({})
        elif way == "404":
            await asked.refuse("404 Not Found", -32601)
        else:
            await asked.events()
            await asked.event({"id": asked.message["id"], "error": {"code": -32601, "message": "no"}})
            asked.writer.close()

    async def test() -> list[str]:
        async with hostile(handler) as served, reach()(served.port) as connection:
            await served.until(lambda asked: LISTEN in methods(asked))
            for _ in range(5):
                await connection.ask("x", {}, seconds=30)
            return methods(served.asked)

    assert run(test()).count(LISTEN) == 1


def test_a_server_that_is_asked_too_often_is_asked_later(reach: Callable[[], Reached], run: Run) -> None:
    async def handler(asked: Asked) -> None:
        if not await modern(asked):
            await asked.refuse("429 Too Many Requests", -32000)

    async def test() -> None:
        async with hostile(handler) as served, reach()(served.port):
            await served.until(lambda asked: methods(asked).count(LISTEN) >= 3)

    run(test())


@pytest.mark.threat("G9")
def test_a_stream_that_fell_silent_is_asked_for_anew(
    reach: Callable[[], Reached], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fumehood.core.limits.REMOTE_SILENT_SECONDS", 0.05)

    async def handler(asked: Asked) -> None:
        if await modern(asked):
            return
        await asked.events()
        await asyncio.Event().wait()

    async def test() -> set[str]:
        reached = reach()
        async with hostile(handler) as served, reached(served.port):
            await served.until(lambda asked: methods(asked).count(LISTEN) >= 3)
            return await told(reached, 2)

    assert run(test()) == {"notifications/tools/list_changed", "notifications/prompts/list_changed"}


@pytest.mark.threat("G9")
def test_an_answer_in_a_stream_of_changes_ends_it_and_reaches_nobody(reach: Callable[[], Reached], run: Run) -> None:
    async def handler(asked: Asked) -> None:
        if await legacy(asked, "", LISTENS):
            return
        if asked.method == "GET":
            await asked.events()
            await asked.event({"id": limits.REMOTE_FIRST_ID + 1, "result": {"forged": True}})
            await asyncio.Event().wait()
        else:
            await asked.result({"forged": False})

    async def test() -> JsonObject:
        async with hostile(handler) as served, reach()(served.port) as connection:
            await served.until(lambda asked: methods(asked).count("GET") >= 2)
            found: JsonObject = await connection.ask("x", {}, seconds=30)
            return found

    assert run(test()) == {"forged": False}


def test_a_server_that_is_gone_is_lost_though_nobody_asks(reach: Callable[[], Reached], run: Run) -> None:
    async def handler(asked: Asked) -> None:
        if not await legacy(asked, "", LISTENS):
            await asked.events()
            asked.writer.close()

    async def test() -> str:
        async with hostile(handler) as served:
            entered = reach()(served.port)
            connection = await entered.__aenter__()
        try:
            return str(await connection.lost())
        finally:
            await entered.__aexit__(None, None, None)

    assert "not reached" in run(test())


def test_a_legacy_server_may_ask_in_the_stream_and_is_answered(reach: Callable[[], Reached], run: Run) -> None:
    async def handler(asked: Asked) -> None:
        if await legacy(asked, "", LISTENS):
            return
        if asked.method == "GET":
            await asked.events()
            await asked.event({"id": "r", "method": "roots/list"})
            await asyncio.Event().wait()
        await asked.answer("202 Accepted")

    async def test() -> JsonObject:
        async with hostile(handler) as served, reach()(served.port):
            await served.until(lambda asked: "answer" in methods(asked))
            return next(one.message for one in served.asked if one.method == "answer")

    assert run(test())["error"]["code"] == -32601
