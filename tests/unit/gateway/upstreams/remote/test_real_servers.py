"""The SDK's own server, in both eras and in each way of answering."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fumehood.core.jsonio import JsonObject
from fumehood.gateway.upstreams.model import ServerRefusedError
from fumehood.gateway.upstreams.remote.conversation import Conversation
from loopback.remotes import Reached, Sdk

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def asked(reach: Callable[[], Reached], sdk: Sdk, does: Callable[[Conversation, Reached], Any], run: Run) -> Any:
    async def test() -> Any:
        reached = reach()
        async with reached(sdk.port) as connection:
            return await does(connection, reached)

    return run(test())


def test_a_server_says_who_it_is(reach: Callable[[], Reached], sdk: Sdk, run: Run) -> None:
    async def does(connection: Conversation, _: Reached) -> Any:
        return connection.introduction

    found = asked(reach, sdk, does, run)
    assert found.era == ("legacy" if "legacy" in sdk.kind else "modern")
    assert found.revision == ("2025-11-25" if "legacy" in sdk.kind else "2026-07-28")
    assert (found.server["name"], found.instructions) == ("sdk", "Be nice.")


def test_tools_are_listed_and_called_without_the_envelope(reach: Callable[[], Reached], sdk: Sdk, run: Run) -> None:
    async def does(connection: Conversation, _: Reached) -> tuple[JsonObject, JsonObject]:
        tools = await connection.ask("tools/list", {}, seconds=30)
        called = await connection.ask("tools/call", {"name": "echo", "arguments": {"a": 1}}, seconds=30)
        return tools, called

    tools, called = asked(reach, sdk, does, run)
    assert set(tools) == {"tools"}
    assert [tool["name"] for tool in tools["tools"]] == ["echo", "count", "hold", "region"]
    assert called == {"content": [{"type": "text", "text": '{"a": 1}'}], "isError": False}


def test_progress_reaches_who_asked_for_it(reach: Callable[[], Reached], sdk: Sdk, run: Run) -> None:
    async def does(connection: Conversation, _: Reached) -> list[JsonObject]:
        reported: list[JsonObject] = []
        call: JsonObject = {"name": "count", "arguments": {}}
        await connection.ask("tools/call", call, seconds=30, progress=reported.append)
        await connection.ask("tools/call", call, seconds=30)
        return reported

    expected = [{"progress": n, "total": 3, "message": f"step {n}"} for n in range(3)]
    assert asked(reach, sdk, does, run) == (expected if "sse" in sdk.kind else [])


def test_a_call_that_nobody_waits_for_is_cancelled_at_the_server(
    reach: Callable[[], Reached], sdk: Sdk, run: Run
) -> None:
    if sdk.kind in {"modern json", "legacy stateless sse"}:
        return  # the server does not look whether anybody waits; named in docs/limits/gateway.md

    async def does(connection: Conversation, _: Reached) -> bool:
        sdk.held.clear()
        sdk.cancelled.clear()
        call = asyncio.create_task(connection.ask("tools/call", {"name": "hold", "arguments": {}}, seconds=30))
        await asyncio.to_thread(sdk.held.wait, 30)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return await asyncio.to_thread(sdk.cancelled.wait, 30)

    assert asked(reach, sdk, does, run) is True


def test_fifty_askers_get_their_own_answers(reach: Callable[[], Reached], sdk: Sdk, run: Run) -> None:
    async def does(connection: Conversation, _: Reached) -> list[JsonObject]:
        calls: list[JsonObject] = [{"name": "echo", "arguments": {"n": n}} for n in range(50)]
        return await asyncio.gather(*(connection.ask("tools/call", one, seconds=30) for one in calls))

    answers = asked(reach, sdk, does, run)
    assert [one["content"][0]["text"] for one in answers] == [f'{{"n": {n}}}' for n in range(50)]


def test_what_a_server_does_not_know_is_its_refusal(reach: Callable[[], Reached], sdk: Sdk, run: Run) -> None:
    async def does(connection: Conversation, _: Reached) -> None:
        await connection.ask("prompts/list", {}, seconds=30)

    with pytest.raises(ServerRefusedError) as told:
        asked(reach, sdk, does, run)
    assert told.value.number == -32601


def test_arguments_are_mirrored_once_the_list_asked_for_it(reach: Callable[[], Reached], sdk: Sdk, run: Run) -> None:
    async def does(connection: Conversation, _: Reached) -> dict[str, str]:
        await connection.ask("tools/list", {}, seconds=30)
        await connection.ask("tools/call", {"name": "region", "arguments": {"region": "ä"}}, seconds=30)
        return dict(sdk.headers[-1])

    headers = asked(reach, sdk, does, run)
    assert headers.get("mcp-param-region") == (None if "legacy" in sdk.kind else "=?base64?w6Q=?=")


def test_a_list_that_changes_is_told(reach: Callable[[], Reached], sdk: Sdk, run: Run) -> None:
    if "legacy" in sdk.kind:
        return  # this server says of itself that it does not tell

    async def does(connection: Conversation, reached: Reached) -> list[tuple[str, JsonObject]]:
        while not reached.told:  # until the server knows that we listen
            await connection.ask("tools/call", {"name": "grow", "arguments": {}}, seconds=30)
        return list(reached.told)

    told = asked(reach, sdk, does, run)
    assert set(map(str, told)) == {str(("notifications/tools/list_changed", {}))}
