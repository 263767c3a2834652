"""One task for each server: whatever one does, it starts again within bounds, and no other one waits for it."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import virtualtime
from fumehood.core import limits
from fumehood.core.errors import BusyError, HarnessError, RefusedError, TimedOutError, UnsupportedError
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.upstreams.keepers import Keepers
from fumehood.gateway.upstreams.model import Down, ServerRefusedError, Starting, Up, UpstreamError, Withheld
from keptservers import READ, House, Server, never

pytestmark = pytest.mark.threat("G8")


async def call(keepers: Keepers, server: str = "files", *, seconds: float = 60.0, name: str = "read") -> JsonObject:
    return await keepers.ask(server, "tools/call", {"name": name}, seconds=seconds)


def now() -> float:
    return asyncio.get_running_loop().time()


def up(keepers: Keepers, server: str = "files") -> Up:
    standing = keepers.standing(server)
    assert isinstance(standing, Up), standing
    return standing


def down(keepers: Keepers, server: str = "files") -> Down:
    standing = keepers.standing(server)
    assert isinstance(standing, Down), standing
    return standing


def test_a_server_that_starts_is_listed_pinned_and_asked(house: House) -> None:
    async def work() -> None:
        async with house.of(files=Server()) as keepers:
            assert keepers.servers == ("files",)
            assert keepers.standing("files") == Starting()
            with pytest.raises(UpstreamError, match="files: is being started"):
                await call(keepers)
            await keepers.settled(60)
            assert now() < 1
            assert up(keepers).introduction.era == "legacy"
            listed = keepers.listed("files")
            assert listed.tools == (READ,)
            assert [one["name"] for one in listed.shown] == ["read"]
            assert (await call(keepers))["called"] == "read"
        with pytest.raises(KeyError):
            keepers.standing("none")

    virtualtime.run(work())
    assert house.said[0].startswith("fumehood: files: its 1 tool is pinned from now on")
    assert house.said[1] == "fumehood: files: is up, with 1 tool"
    assert house.told == [("files", "tools"), ("files", "standing")]


def fails(error: Exception) -> Callable[[], Awaitable[None]]:
    async def start() -> None:
        raise error

    return start


def test_a_dead_a_slow_and_a_hanging_server_hold_up_no_other_one(house: House) -> None:
    dead, hanging, endless, good = Server(), Server(), Server(), Server()
    dead.starting = fails(UpstreamError("it ended with status 1"))
    hanging.starting = never

    async def page(_: JsonObject) -> JsonObject:
        await never()
        return {}

    endless.page = page

    async def work() -> None:
        async with house.of(dead=dead, hanging=hanging, endless=endless, good=good) as keepers:
            assert keepers.servers == ("dead", "endless", "good", "hanging")
            await asyncio.sleep(0.1)
            assert (await call(keepers, "good"))["called"] == "read"
            assert down(keepers, "dead").reason == "it ended with status 1"
            with pytest.raises(
                UpstreamError, match=r"dead: is down: it ended with status 1; it is tried again in 0\.\d s"
            ):
                await call(keepers, "dead")
            await keepers.settled(1)
            await keepers.settled(1)  # counted from the start: who asks later does not wait as long again
            assert now() == pytest.approx(1)
            await keepers.settled(600)
            assert now() == pytest.approx(limits.UPSTREAM_DIAL_SECONDS)
            assert down(keepers, "hanging").reason == "it was not there within 120 s"
            assert "endless: is down: its tools were not listed within 30 s; it is tried again in 0.2 s" in str(
                house.said
            )
            up(keepers, "good")
        assert good.starts == 1

    virtualtime.run(work())


def test_a_server_that_fails_is_started_again_with_growing_waits_that_have_an_end(house: House) -> None:
    at: list[float] = []

    async def start() -> None:
        at.append(now())
        raise HarnessError("no", remedy="look")

    server = Server()
    server.starting = start

    async def work() -> None:
        async with house.of(files=server) as keepers:
            await asyncio.sleep(1000)
            assert down(keepers).reason == "no (look)"
            assert 0 <= (down(keepers).again_seconds or -1) <= 60

    virtualtime.run(work())
    waits = [round(after - before, 3) for before, after in itertools.pairwise(at)]
    assert waits[:5] == [0.25, 0.5, 1.0, 2.0, 4.0]
    assert set(waits[9:]) == {60.0}


def test_a_server_that_starts_and_dies_at_once_is_not_started_without_end(house: House) -> None:
    server = Server()

    async def page(_: JsonObject) -> JsonObject:
        asyncio.get_running_loop().call_soon(server.die)
        return {"tools": [READ]}

    server.page = page

    async def work() -> None:
        async with house.of(files=server):
            await asyncio.sleep(600)

    virtualtime.run(work())
    assert 8 <= server.starts <= 20


@pytest.mark.parametrize("error", [RefusedError("not so"), UnsupportedError("not here")])
def test_what_this_host_or_its_configuration_refuses_is_not_tried_again(house: House, error: Exception) -> None:
    server = Server()
    server.starting = fails(error)

    async def work() -> None:
        async with house.of(files=server) as keepers:
            await asyncio.sleep(1000)
            assert down(keepers) == Down(reason=str(error))
            with pytest.raises(UpstreamError, match="it is not tried again before the gateway is started again"):
                await call(keepers)

    virtualtime.run(work())
    assert server.starts == 1


@pytest.mark.parametrize(
    ("error", "words", "logged"),
    [
        (ValueError("x"), "an error of fumehood's own; the log has the traceback", 1),
        (OSError(2, "No such file or directory"), "the system refused: No such file or directory", 0),
        (TimeoutError(), "it was not there within 120 s", 0),
    ],
)
def test_an_error_of_ours_ends_one_life_and_is_logged(
    house: House, caplog: pytest.LogCaptureFixture, error: Exception, words: str, logged: int
) -> None:
    server = Server()
    server.starting = fails(error)

    async def work() -> None:
        async with house.of(files=server, other=Server()) as keepers:
            await asyncio.sleep(0.1)
            assert down(keepers).reason == words
            up(keepers, "other")
            server.starting = Server().starting
            await asyncio.sleep(1)
            up(keepers)

    with caplog.at_level(logging.ERROR):
        virtualtime.run(work())
    assert len(caplog.records) == logged


def test_a_call_in_flight_when_it_dies_is_told_at_once_and_the_next_works(house: House) -> None:
    server = Server()

    async def called(_: JsonObject) -> JsonObject:
        await never()
        return {}

    answering, server.called = server.called, called

    async def work() -> None:
        async with house.of(files=server) as keepers:
            await keepers.settled(60)
            asked = asyncio.ensure_future(call(keepers))
            await asyncio.sleep(1)
            server.called = answering
            server.die()
            with pytest.raises(UpstreamError, match="files: it ended with status 137"):
                await asked
            assert now() < 1.1
            assert down(keepers).reason == "it ended with status 137"
            assert down(keepers).again_seconds == pytest.approx(0.25)
            assert keepers.listed("files").shown == ()
            await asyncio.sleep(0.3)
            assert (await call(keepers))["called"] == "read"

    virtualtime.run(work())
    assert server.starts == 2
    assert [what for _, what in house.told] == ["tools", "standing"] * 2 + ["standing", "tools", "standing"]


def test_who_asks_again_at_once_keeps_nobody_from_seeing_that_it_is_lost(house: House) -> None:
    server = Server()
    hangs(server)

    async def work() -> None:
        async with house.of(files=server) as keepers:
            await keepers.settled(60)
            asked = [asyncio.ensure_future(call(keepers)) for _ in range(limits.UPSTREAM_FAILURES)]
            await asyncio.sleep(1)
            server.die()
            for _ in range(100):
                with pytest.raises(UpstreamError) as refused:
                    await call(keepers)
                if "is down: it ended with status 137" in refused.value.message:
                    break
            else:
                raise AssertionError("the loss was never seen")
            await asyncio.gather(*asked, return_exceptions=True)

    virtualtime.run(work())


def test_it_is_down_while_what_was_started_is_still_being_ended(house: House) -> None:
    server = Server()

    async def ending() -> None:
        await asyncio.sleep(5)

    server.ending = ending

    async def work() -> None:
        async with house.of(files=server) as keepers:
            await keepers.settled(60)
            server.die()
            await asyncio.sleep(0.1)
            assert down(keepers).reason == "it ended with status 137"
            await asyncio.sleep(4)
            assert server.starts == 1
            await asyncio.sleep(2)
            up(keepers)

    virtualtime.run(work())


def test_a_time_of_being_well_makes_the_next_start_quick_again(house: House) -> None:
    server = Server()

    async def work() -> None:
        async with house.of(files=server) as keepers:
            for _ in range(20):
                await asyncio.sleep(limits.UPSTREAM_WELL_SECONDS + 1)
                up(keepers)
                server.die()
                await asyncio.sleep(0)
            assert server.starts == 20

    virtualtime.run(work())


@pytest.mark.threat("G4")
@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ([{**READ, "description": "Reads!"}], "changed 'read'"),
        ([{**READ, "description": "Reads.\u2064"}], "changed 'read'"),
        ([{**READ, "name": "reads"}], "renamed 'read' to 'reads'"),
        ([], "removed 'read'"),
    ],
)
def test_a_list_that_changes_on_an_open_connection_is_withheld_until_it_is_accepted(
    house: House, tools: list[Any], said: str
) -> None:
    server = Server()

    async def work() -> None:
        async with house.of(files=server) as keepers:
            await keepers.settled(60)
            server.tools = tools
            server.tell("notifications/tools/list_changed")
            with pytest.raises(UpstreamError, match="its tools are withheld: ") as refused:
                await call(keepers)
            standing = keepers.standing("files")
            assert isinstance(standing, Withheld)
            assert said in standing.reason
            assert "'" not in str(refused.value)  # names of tools that nobody accepted are the operator's to read
            assert keepers.listed("files").tools == ()
            assert any(f"fumehood: files: | {standing.difference[0]}" == line for line in house.said)
            house.pins.accept(house.pins.proposal("files"))
            await asyncio.sleep(limits.LOCK_LOOK_SECONDS + 0.1)
            up(keepers)
            assert keepers.listed("files").tools == tuple(tools)

    virtualtime.run(work())
    assert (server.starts, server.lists) == (1, 2)


@pytest.mark.threat("G4")
def test_tools_that_differ_between_two_starts_are_withheld(house: House) -> None:
    server = Server()

    async def first() -> None:
        async with house.of(files=server) as keepers:
            await keepers.settled(60)
            up(keepers)

    async def second() -> None:
        async with house.of(files=server, other=Server()) as keepers:
            await keepers.settled(60)
            assert isinstance(keepers.standing("files"), Withheld)
            up(keepers, "other")
            server.tools = [READ]
            server.tell("notifications/tools/list_changed")
            await asyncio.sleep(1)
            up(keepers)

    virtualtime.run(first())
    server.tools = [{**READ, "title": "Read"}]
    virtualtime.run(second())
    assert house.pins.waiting() == ()


def test_a_lock_that_cannot_be_read_withholds_and_is_looked_at_again(house: House, tmp_path: Path) -> None:
    async def work() -> None:
        async with house.of(files=Server()) as keepers:
            await keepers.settled(60)
            good = (tmp_path / "fumehood.lock").read_bytes()
            (tmp_path / "fumehood.lock").write_bytes(b"{}")
            await asyncio.sleep(1.1)
            standing = keepers.standing("files")
            assert isinstance(standing, Withheld)
            assert standing.reason.startswith("they cannot be held against their pin: fumehood.lock")
            (tmp_path / "fumehood.lock").write_bytes(good)
            await asyncio.sleep(1.1)
            up(keepers)

    virtualtime.run(work())


def test_a_server_that_says_all_the_time_that_its_list_changed_is_listed_now_and_then(house: House) -> None:
    server = Server()

    async def flood() -> None:
        while True:
            for what in ("tools", "prompts", "resources", "something"):
                server.tell(f"notifications/{what}/list_changed")
            await asyncio.sleep(0.01)

    async def work() -> None:
        async with house.of(files=server) as keepers:
            await keepers.settled(60)
            flooding = asyncio.ensure_future(flood())
            await asyncio.sleep(300)
            began = now()
            assert (await call(keepers))["called"] == "read"  # it is judged again before
            assert now() - began <= 2 * limits.UPSTREAM_RELIST_MOST_SECONDS
            flooding.cancel()

    virtualtime.run(work())
    assert 30 <= server.lists <= 50
    assert 30 <= house.told.count(("files", "prompts")) == house.told.count(("files", "resources")) <= 50
    assert house.told.count(("files", "tools")) == 1


def test_a_list_that_is_another_one_each_time_has_no_end_or_is_none_starts_nothing(house: House) -> None:
    changing, endless, wrong, refusing, looping = Server(), Server(), Server(), Server(), Server()
    pages: list[JsonObject] = []

    async def change(_: JsonObject) -> JsonObject:
        changing.tools = [{**READ, "description": str(changing.lists)}]
        changing.tell("notifications/tools/list_changed")
        return {"tools": changing.tools}

    async def more(params: JsonObject) -> JsonObject:
        pages.append(params)
        return {"tools": [], "nextCursor": str(len(pages))}

    async def none(_: JsonObject) -> JsonObject:
        return {"tools": "all"}

    async def refuse(_: JsonObject) -> JsonObject:
        raise ServerRefusedError(-32601, "\x1b[2J")

    async def loop(_: JsonObject) -> JsonObject:
        return {"tools": [], "nextCursor": "1"}

    changing.page, endless.page, wrong.page, refusing.page, looping.page = change, more, none, refuse, loop

    async def work() -> None:
        servers = {"a": changing, "b": endless, "c": wrong, "d": refusing, "e": looping}
        async with house.of(**servers) as keepers:
            await asyncio.sleep(0.2)
            assert down(keepers, "b").reason == "its list of tools has more than 100 pages or 4194304 bytes"
            assert down(keepers, "c").reason == "its list of tools is none"
            assert down(keepers, "d").reason == "it refuses to list its tools (-32601)"
            assert down(keepers, "e").reason == "its list of tools has no end"
            await asyncio.sleep(100)
            assert isinstance(keepers.standing("a"), Withheld)
        assert changing.lists <= 25

    virtualtime.run(work())


def test_a_tool_whose_schema_cannot_be_held_is_left_out_and_said(house: House) -> None:
    deep: Any = {"type": "object"}
    for _ in range(limits.SCHEMA_DEPTH):
        deep = {"type": "object", "properties": {"x": deep}}
    tools = [
        {"name": "z", "inputSchema": {"type": "object"}, "outputSchema": deep},
        {"name": "y", "inputSchema": {"$ref": "https://schema.example/x"}},
        {"name": "x"},
        READ,
        {"name": "a", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}},
        {"name": "not a name", "inputSchema": {"type": "object"}},
    ]

    async def work() -> None:
        async with house.of(files=Server(tools)) as keepers:
            await keepers.settled(60)
            listed = keepers.listed("files")
            assert [one["name"] for one in listed.shown] == ["a", "read"]
            assert [one["name"] for one in listed.tools] == ["a", "not a name", "read", "x", "y", "z"]

    virtualtime.run(work())
    said = "\n".join(house.said)
    assert "the tool x is left out: its inputSchema is no schema of an object" in said
    assert "the tool y is left out: its inputSchema cannot be held: a reference that is no pointer" in said
    assert "the tool z is left out: its outputSchema cannot be held: nested deeper" in said
    assert "is up, with 2 tools" in said


def test_a_server_that_says_it_has_no_tools_is_not_asked_for_them_and_pinned_so(house: House) -> None:
    server = Server()
    server.capabilities = {"prompts": {}}

    async def work() -> None:
        async with house.of(files=server) as keepers:
            await keepers.settled(60)
            up(keepers)
            assert keepers.listed("files").tools == ()
            assert server.lists == 0
            with pytest.raises(ServerRefusedError):
                await keepers.ask("files", "prompts/list", {}, seconds=60)
            server.capabilities = {"tools": {}}
            server.die()
            await asyncio.sleep(1)
            assert isinstance(keepers.standing("files"), Withheld)

    virtualtime.run(work())


def test_of_one_server_so_many_calls_run_so_many_wait_and_the_next_is_refused(house: House) -> None:
    files, other = Server(), Server()
    running = 0
    go = asyncio.Event()

    async def called(_: JsonObject) -> JsonObject:
        nonlocal running
        running += 1
        await go.wait()
        return {}

    files.called = called
    most = limits.UPSTREAM_RUNNING + limits.UPSTREAM_QUEUED

    async def work() -> None:
        async with house.of(files=files, other=other) as keepers:
            await keepers.settled(60)
            asked = [asyncio.ensure_future(call(keepers)) for _ in range(most)]
            await asyncio.sleep(0.1)
            assert running == limits.UPSTREAM_RUNNING
            with pytest.raises(BusyError, match="files: 32 calls run and 224 wait"):
                await call(keepers)
            await call(keepers, "other")
            for one in asked[:10]:
                one.cancel()
            await asyncio.sleep(0.1)
            assert running == limits.UPSTREAM_RUNNING + 10
            go.set()
            assert await asyncio.gather(*asked[10:]) == [{}] * (most - 10)
            assert await call(keepers) == {}

    virtualtime.run(work())


def hangs(server: Server) -> None:
    async def called(_: JsonObject) -> JsonObject:
        await never()
        return {}

    server.called = called


def test_calls_without_answers_are_refused_at_once_until_one_has_an_answer(house: House) -> None:
    server = Server()
    answering = server.called
    hangs(server)

    async def work() -> None:
        async with house.of(files=server) as keepers:
            await keepers.settled(60)
            for _ in range(limits.UPSTREAM_FAILURES):
                with pytest.raises(TimedOutError, match="files: no answer within 5 s"):
                    await call(keepers, seconds=5)
            began = now()
            words = r"files: not asked: its last calls had no answer: no answer within 5 s; one call may try in 2\.0 s"
            with pytest.raises(UpstreamError, match=words):
                await call(keepers, seconds=5)
            assert now() == began
            await asyncio.sleep(2)
            assert server.pings == 1  # it lives: it is not started again
            probe = asyncio.ensure_future(call(keepers, seconds=5))
            await asyncio.sleep(1)
            with pytest.raises(UpstreamError, match="not asked"):
                await call(keepers, seconds=5)
            with pytest.raises(TimedOutError):
                await probe
            await asyncio.sleep(4)
            server.called = answering
            assert await call(keepers)
            assert await call(keepers)

    virtualtime.run(work())
    assert server.starts == 1


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_server_that_answers_nothing_any_more_is_started_again(house: House, era: Any) -> None:
    server = Server(era=era)
    answering = server.called
    hangs(server)
    server.pinged = never

    async def work() -> None:
        async with house.of(files=server) as keepers:
            await keepers.settled(60)
            for _ in range(limits.UPSTREAM_FAILURES):
                with pytest.raises(TimedOutError):
                    await call(keepers, seconds=5)
            server.called = answering
            await asyncio.sleep(limits.UPSTREAM_PING_SECONDS + 0.1)
            assert down(keepers).reason.startswith("it answers nothing any more, ")
            await asyncio.sleep(1)
            assert await call(keepers)

    virtualtime.run(work())
    assert server.starts == 2


def test_a_refusal_of_the_server_and_a_client_that_left_are_no_failures(house: House) -> None:
    server = Server()

    async def refuse(_: JsonObject) -> JsonObject:
        raise ServerRefusedError(-32602, "no")

    async def work() -> None:
        async with house.of(files=server) as keepers:
            await keepers.settled(60)
            hangs(server)
            for _ in range(2 * limits.UPSTREAM_FAILURES):
                asked = asyncio.ensure_future(call(keepers))
                await asyncio.sleep(1)
                asked.cancel()
            server.called = refuse
            for _ in range(2 * limits.UPSTREAM_FAILURES):
                with pytest.raises(ServerRefusedError):
                    await call(keepers)
            assert server.pings == 0

    virtualtime.run(work())


def test_all_end_at_once(house: House) -> None:
    servers = {"a": Server(), "b": Server(), "c": Server()}

    async def ending() -> None:
        await asyncio.sleep(5)

    for server in servers.values():
        server.ending = ending

    async def work() -> None:
        async with house.of(**servers) as keepers:
            await keepers.settled(60)
            asked = asyncio.ensure_future(call(keepers, "a"))
            began = now()
        assert now() - began == pytest.approx(5)
        await asyncio.gather(asked, return_exceptions=True)

    virtualtime.run(work())


def test_one_that_does_not_end_is_named_and_waited_for_no_longer(house: House) -> None:
    stuck = Server()

    async def ending() -> None:
        until = now() + 3 * limits.UPSTREAM_STOP_SECONDS
        while now() < until:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(until - now())

    stuck.ending = ending

    async def work() -> None:
        async with house.of(stuck=stuck, good=Server()) as keepers:
            await keepers.settled(60)
            stuck.opened = 0  # it is not ended
            began = now()
        assert now() - began == pytest.approx(limits.UPSTREAM_STOP_SECONDS)

    virtualtime.run(work())
    assert house.said[-1] == "fumehood: not ended in time: stuck"


def test_what_watches_no_longer_is_not_told(house: House) -> None:
    seen: list[tuple[str, str]] = []

    async def work() -> None:
        async with house.of(files=Server()) as keepers:
            end = keepers.watch(lambda server, what: seen.append((server, what)))
            end()
            end()
            await keepers.settled(60)

    virtualtime.run(work())
    assert (seen, len(house.told)) == ([], 2)
