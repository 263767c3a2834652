"""The same over the real conversation, in both eras: lines over sockets; killed, told, flooded, given rubbish."""

import asyncio
from typing import Any

import pytest

import virtualtime
from fumehood.core import limits
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.upstreams.keepers import Keepers
from fumehood.gateway.upstreams.model import Down, ServerRefusedError, Up, UpstreamError, Withheld
from fumehood.wire.hosting import Era
from keptservers import READ, House, Piped, Server, never

ERAS: Any = pytest.mark.parametrize("era", ["legacy", "modern"])
pytestmark = [pytest.mark.threat("G8"), ERAS]


def server(era: Era) -> Server:
    made = Server(era=era)
    made.capabilities = {"tools": {"listChanged": True}}
    return made


async def call(keepers: Keepers, name: str = "files") -> JsonObject:
    return await keepers.ask(name, "tools/call", {"name": "read"}, seconds=60)


def test_it_is_listed_page_by_page_and_asked(house: House, era: Era) -> None:
    files = server(era)

    async def page(params: JsonObject) -> JsonObject:
        if "cursor" not in params:
            return {"tools": [READ], "nextCursor": "2"}
        return {"tools": [{**READ, "name": "more"}]}

    files.page = page

    async def work() -> None:
        async with house.of(files=Piped(files)) as keepers:
            await keepers.settled(60)
            assert [one["name"] for one in keepers.listed("files").shown] == ["more", "read"]
            standing = keepers.standing("files")
            assert isinstance(standing, Up)
            assert standing.introduction.era == era
            assert (await call(keepers))["called"] == "read"
            with pytest.raises(ServerRefusedError):
                await keepers.ask("files", "prompts/list", {}, seconds=60)

    virtualtime.run(work())
    assert files.lists == 2


def test_killed_in_the_middle_of_calls_each_is_answered_and_the_next_works(house: House, era: Era) -> None:
    files, other = server(era), server(era)
    piped = Piped(files)
    answering = files.called

    async def work() -> None:
        async with house.of(files=piped, other=Piped(other)) as keepers:
            await keepers.settled(60)
            for _ in range(5):
                files.called = refuse_to_answer
                asked = [asyncio.ensure_future(call(keepers)) for _ in range(40)]
                await asyncio.sleep(1)
                began = asyncio.get_running_loop().time()
                piped.kill()
                files.called = answering
                ended = await asyncio.gather(*asked, return_exceptions=True)
                assert asyncio.get_running_loop().time() - began < 1
                assert all(isinstance(one, UpstreamError) for one in ended)
                assert "files: it was killed" in {str(one) for one in ended}
                assert await call(keepers, "other")
                await asyncio.sleep(limits.UPSTREAM_WELL_SECONDS + 1)
                assert await call(keepers)

    virtualtime.run(work())
    assert files.starts == 6


@pytest.mark.threat("G4")
def test_a_rug_pull_on_the_open_connection_is_withheld(house: House, era: Era) -> None:
    files = server(era)
    piped = Piped(files)

    async def work() -> None:
        async with house.of(files=piped) as keepers:
            await keepers.settled(60)
            files.tools = [{**READ, "name": "read2"}]
            await piped.tell("notifications/tools/list_changed")
            await asyncio.sleep(0.05)
            with pytest.raises(UpstreamError, match="its tools are withheld"):
                await call(keepers)
            standing = keepers.standing("files")
            assert isinstance(standing, Withheld)
            assert "renamed 'read' to 'read2'" in standing.reason

    virtualtime.run(work())


def test_a_flood_of_changes_is_listed_now_and_then(house: House, era: Era) -> None:
    files = server(era)
    piped = Piped(files)

    async def work() -> None:
        async with house.of(files=piped, other=Piped(server(era))) as keepers:
            await keepers.settled(60)
            for _ in range(20):
                await piped.tell("notifications/tools/list_changed", 200)
                assert await call(keepers, "other")
                await asyncio.sleep(0.01)
            await asyncio.sleep(20)

    virtualtime.run(work())
    assert 2 <= files.lists <= 8


def test_who_waits_for_one_that_says_what_is_no_message_is_told_and_the_next_call_works(house: House, era: Era) -> None:
    files = server(era)
    piped = Piped(files)

    async def work() -> None:
        async with house.of(files=piped) as keepers:
            await keepers.settled(60)
            files.called = refuse_to_answer
            asked = asyncio.ensure_future(call(keepers))
            await asyncio.sleep(0.01)
            await piped.say(b'{"jsonrpc":"2.0","id":[\n')
            with pytest.raises(UpstreamError, match="files: the server sent a message that cannot be read"):
                await asked
            files.called = server(era).called
            await asyncio.sleep(1)
            assert await call(keepers)

    virtualtime.run(work())


async def refuse_to_answer(_: JsonObject) -> JsonObject:
    """Wait for what does not happen."""
    await never()
    return {}


def test_one_that_says_lines_without_end_is_down_and_started_again(house: House, era: Era) -> None:
    files = server(era)
    piped = Piped(files)

    async def work() -> None:
        async with house.of(files=piped) as keepers:
            await keepers.settled(60)
            for _ in range(20):
                if isinstance(keepers.standing("files"), Down):
                    break
                await piped.say(b"rubbish\n" * 10_000)
                await asyncio.sleep(0.001)
            assert "more than it is asked for" in str(keepers.standing("files"))
            await asyncio.sleep(1)
            assert await call(keepers)

    virtualtime.run(work())
