"""One server, many askers: each gets its own answer, and all are told when the stream breaks."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fumehood.core.errors import BusyError, TimedOutError
from fumehood.gateway.upstream import NotInitializedError, Upstream, UpstreamError, client, connected
from fumehood.wire.outcomes import Exited, WrongVersion

Message = dict[str, Any]
RESULT = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "fake", "version": "1"},
}


class Server:
    """Initializes, and then says what `react` gives for each further message; `None` closes its output."""

    def __init__(self, react: Callable[[Message], list[Any] | None], *, version: str = "2025-11-25") -> None:
        self.heard: list[Message] = []
        self.told = asyncio.Event()
        self._react = react
        self._version = version
        self._out: asyncio.Queue[bytes] = asyncio.Queue()

    async def read(self) -> bytes:
        return await self._out.get()

    async def write(self, data: bytes) -> None:
        message = json.loads(data)
        if message["method"] == "initialize":
            self.say({"jsonrpc": "2.0", "id": message["id"], "result": RESULT | {"protocolVersion": self._version}})
            return
        self.heard.append(message)
        self.told.set()
        reaction = self._react(message)
        if reaction is None:
            self._out.put_nowait(b"")
        for said in reaction or ():
            self.say(said)

    def say(self, message: Any) -> None:
        self._out.put_nowait((message if isinstance(message, str) else json.dumps(message)).encode() + b"\n")


def answer(message: Message, result: Any) -> Message:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def asked(server: Server, work: Callable[[Upstream], Coroutine[Any, Any, Any]]) -> Any:
    async def go() -> Any:
        async with connected(server.read, server.write, client("tests", "1"), calls=5) as upstream:
            return await work(upstream)

    return asyncio.run(go())


def test_each_asker_gets_its_own_answer_in_whatever_order_they_come() -> None:
    held: list[Message] = []

    def react(message: Message) -> list[Any]:
        if "id" not in message:
            return []
        held.append(message)
        return [answer(one, one["params"]) for one in reversed(held)] if len(held) == 3 else []

    async def three(upstream: Upstream) -> Any:
        return await asyncio.gather(*(upstream.ask("m", {"n": n}, seconds=60) for n in range(3)))

    assert asked(Server(react), three) == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert len({one["id"] for one in held}) == 3


def test_what_nobody_asked_for_is_dropped() -> None:
    def react(message: Message) -> list[Any]:
        strange = [{"jsonrpc": "2.0", "id": ident, "result": 0} for ident in (99, "1", -1)]
        told = {"jsonrpc": "2.0", "method": "notifications/message"}
        return [*strange, told, "a banner", answer(message, 1), answer(message, 2)] if "id" in message else []

    assert asked(Server(react), lambda upstream: upstream.ask("m", {}, seconds=60)) == 1


def test_a_refusal_of_the_server_is_an_error_with_inert_words() -> None:
    def react(message: Message) -> list[Any]:
        error = {"code": -32602, "message": "no \x1b[2J" + "x" * 1000}
        return [{"jsonrpc": "2.0", "id": message["id"], "error": error}] if "id" in message else []

    with pytest.raises(UpstreamError, match=r"-32602") as caught:
        asked(Server(react), lambda upstream: upstream.ask("m", {}, seconds=60))
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 400


@pytest.mark.parametrize("said", [None, ['{"jsonrpc": "2.0", "id"'], ["{" + "x" * 5 * 2**20]])
def test_a_stream_that_breaks_fails_who_waits_and_who_comes_later(said: Any) -> None:
    server = Server(lambda message: said if "id" in message else [])

    async def twice(upstream: Upstream) -> None:
        for _ in range(2):
            with pytest.raises(UpstreamError, match=r"closed its output|no message"):
                await upstream.ask("m", {}, seconds=60)

    asked(server, twice)


def test_after_its_deadline_a_request_is_cancelled_at_the_server() -> None:
    server = Server(lambda _: [])

    async def late(upstream: Upstream) -> None:
        with pytest.raises(TimedOutError):
            await upstream.ask("m", {}, seconds=0)
        while not any(one["method"] == "notifications/cancelled" for one in server.heard):
            server.told.clear()
            await server.told.wait()

    asked(server, late)
    request = next(one for one in server.heard if one["method"] == "m")
    cancelled = next(one for one in server.heard if one["method"] == "notifications/cancelled")
    assert cancelled["params"] == {"requestId": request["id"]}


def test_a_server_that_does_not_read_is_busy() -> None:
    async def stuck(data: bytes) -> None:
        await server.write(data)
        if json.loads(data)["method"] == "m":
            await asyncio.Event().wait()

    server = Server(lambda _: [])

    async def flood() -> list[Any]:
        async with connected(server.read, stuck, client("tests", "1"), calls=5) as upstream:
            tasks = [asyncio.create_task(upstream.ask("m", {}, seconds=60)) for _ in range(200)]
            done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            return [one.exception() for one in done]

    assert {type(one) for one in asyncio.run(flood())} == {BusyError}


@pytest.mark.parametrize("version", ["2026-07-28", "nonsense"])
def test_a_server_of_another_revision_is_not_taken(version: str) -> None:
    with pytest.raises(NotInitializedError) as caught:
        asked(Server(lambda _: [], version=version), lambda upstream: upstream.ask("m", {}, seconds=60))
    assert isinstance(caught.value.outcome, WrongVersion)


def test_a_server_that_ends_at_once_is_told() -> None:
    async def nothing() -> bytes:
        return b""

    async def into_the_void(data: bytes) -> None:
        del data

    async def go() -> None:
        async with connected(nothing, into_the_void, client("tests", "1"), calls=1):
            pass

    with pytest.raises(NotInitializedError) as caught:
        asyncio.run(go())
    assert isinstance(caught.value.outcome, Exited)
