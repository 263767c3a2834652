"""Servers behind a keeper, without processes: each start does what the test says, and every end is counted."""

import asyncio
import contextlib
import datetime as dt
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fumehood.content.control import Controls
from fumehood.core.errors import TimedOutError
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.topology.model import Server as Entry
from fumehood.gateway.upstreams import envelope
from fumehood.gateway.upstreams.accepted import Pins, Who
from fumehood.gateway.upstreams.identity import identity
from fumehood.gateway.upstreams.keepers import Keepers, keeping
from fumehood.gateway.upstreams.model import Connection, Dial, Introduction, Notified, ServerRefusedError, UpstreamError
from fumehood.gateway.upstreams.session import Pipes, conversation
from fumehood.gateway.upstreams.shared import Shared, Upstream
from fumehood.wire.hosting import Era, ReportProgress

_Made = TypeVar("_Made")
READ: dict[str, Any] = {"name": "read", "description": "Reads.", "inputSchema": {"type": "object"}}


async def never() -> None:
    """Wait for what does not happen."""
    await asyncio.get_running_loop().create_future()


async def nothing() -> None:
    """Do nothing."""


class Server:
    """A `Dial`. What it does at a start, at a page of its list and at a call can be set at any time."""

    def __init__(self, tools: list[Any] | None = None, *, era: Era = "legacy") -> None:
        self.tools: list[Any] = [READ] if tools is None else tools
        self.era = era
        self.capabilities: JsonObject = {"tools": {}}
        self.starts = self.opened = self.ends = self.lists = self.pings = 0
        self.starting: Callable[[], Awaitable[None]] = nothing
        self.ending: Callable[[], Awaitable[None]] = nothing
        self.page: Callable[[JsonObject], Awaitable[JsonObject]] = self._page
        self.called: Callable[[JsonObject], Awaitable[JsonObject]] = self._called
        self.pinged: Callable[[], Awaitable[None]] = nothing
        self.link: Link | None = None

    @contextlib.asynccontextmanager
    async def __call__(self, notified: Notified) -> AsyncIterator["Link"]:
        self.starts += 1
        await self.starting()
        self.opened += 1
        self.link = link = Link(self, notified)
        try:
            yield link
        finally:
            link.lose("it was left")
            self.link = None
            await self.ending()
            self.ends += 1

    def tell(self, method: str) -> None:
        """Say something by itself."""
        assert self.link is not None
        self.link.notified(method, {})

    def die(self, why: str = "it ended with status 137") -> None:
        """End, as of a kill."""
        assert self.link is not None
        self.link.lose(why)

    async def answer(self, method: str, params: JsonObject) -> JsonObject:
        """What it says to a request. Errors: `ServerRefusedError`."""
        match method:
            case "tools/list":
                self.lists += 1
                return await self.page(params)
            case "tools/call":
                return await self.called(params)
            case "ping" | "server/discover":
                self.pings += 1
                await self.pinged()
                return {}
            case _:
                raise ServerRefusedError(-32601, "Method not found")

    async def _page(self, _: JsonObject) -> JsonObject:
        return {"tools": [*self.tools]}

    async def _called(self, params: JsonObject) -> JsonObject:
        return {"content": [], "called": params.get("name")}


class Link:
    """A `Connection` to a `Server`."""

    def __init__(self, server: Server, notified: Notified) -> None:
        self.notified = notified
        self._server = server
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def introduction(self) -> Introduction:
        server = self._server
        return Introduction(era=server.era, revision="2025-11-25", capabilities=server.capabilities)

    async def ask(
        self, method: str, params: JsonObject, *, seconds: float, progress: ReportProgress | None = None
    ) -> JsonObject:
        del progress
        answer = asyncio.ensure_future(self._answer(method, params))
        try:
            either: set[asyncio.Future[Any]] = {answer, self._lost}
            await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            answer.cancel()
        if self._lost.done():
            raise UpstreamError(self._lost.result())
        if not answer.done():
            raise TimedOutError("no answer")
        return answer.result()

    async def lost(self) -> str:
        return await asyncio.shield(self._lost)

    def lose(self, why: str) -> None:
        if not self._lost.done():
            self._lost.set_result(why)

    async def _answer(self, method: str, params: JsonObject) -> JsonObject:
        return await self._server.answer(method, params)


class Piped:
    """The same server over the real conversation: lines of JSON over a pair of sockets, in the server's era."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.opened = 0
        self.ends = 0
        self._theirs: socket.socket | None = None

    @contextlib.asynccontextmanager
    async def __call__(self, notified: Notified) -> AsyncIterator[Connection]:
        self.server.starts += 1
        await self.server.starting()
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.settimeout(0)
            theirs.settimeout(0)
            self._theirs = theirs
            self.opened += 1
            serving = asyncio.create_task(self._serve(theirs))
            pipes = Pipes(
                read=partial(loop.sock_recv, ours, 65_536), write=partial(loop.sock_sendall, ours), cause=self._cause
            )
            speaks = (envelope.legacy if self.server.era == "legacy" else envelope.modern)("tests", "1")
            try:
                async with conversation(pipes, speaks, notified) as made:
                    yield made
            finally:
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)
                self.ends += 1

    def kill(self) -> None:
        """End as of SIGKILL: whatever is under way stays without an answer."""
        assert self._theirs is not None
        self._theirs.shutdown(socket.SHUT_RDWR)

    async def say(self, data: bytes) -> None:
        """Write what nobody asked for."""
        assert self._theirs is not None
        await asyncio.get_running_loop().sock_sendall(self._theirs, data)

    async def tell(self, method: str, times: int = 1) -> None:
        """Say so many notifications at once."""
        await self.say((json.dumps({"jsonrpc": "2.0", "method": method}).encode() + b"\n") * times)

    async def _cause(self) -> str:
        return "it was killed"

    async def _serve(self, theirs: socket.socket) -> None:
        loop, held = asyncio.get_running_loop(), b""
        async with asyncio.TaskGroup() as answers:
            while data := await loop.sock_recv(theirs, 65_536):
                *lines, held = (held + data).split(b"\n")
                for line in lines:
                    message = json.loads(line)
                    if "id" in message and message["method"] != "subscriptions/listen":
                        answers.create_task(self._answer(theirs, message))
            raise ConnectionResetError

    async def _answer(self, theirs: socket.socket, message: dict[str, Any]) -> None:
        try:
            said: dict[str, Any] = {"result": await self._result(message["method"], message.get("params", {}))}
        except ServerRefusedError as error:
            said = {"error": {"code": error.number, "message": error.words}}
        line = json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}).encode() + b"\n"
        await asyncio.get_running_loop().sock_sendall(theirs, line)

    async def _result(self, method: str, params: JsonObject) -> JsonObject:
        server = self.server
        who: JsonObject = {"name": "fake", "version": "1"}
        match method:
            case "initialize":
                revision = params["protocolVersion"]
                return {"protocolVersion": revision, "serverInfo": who, "capabilities": server.capabilities}
            case "server/discover":
                await server.pinged()
                return {
                    "resultType": "complete",
                    "supportedVersions": [envelope.MODERN],
                    "capabilities": server.capabilities,
                    "_meta": {envelope.SERVER_KEY: who},
                }
            case _:
                return {"resultType": "complete", **await server.answer(method, params)}


class StillClock:
    """A clock that stands."""

    def monotonic(self) -> float:
        """Nought."""
        return 0.0

    def now(self) -> dt.datetime:
        """One day."""
        return dt.datetime(2026, 11, 30, tzinfo=dt.UTC)


async def at_once(do: Callable[[], _Made], /) -> _Made:
    """No thread: virtual time knows of none."""
    return do()


class House:
    """Servers under their names, and what was said and told of them."""

    def __init__(self, folder: Path) -> None:
        self.pins = Pins(folder / "fumehood.lock", StillClock())
        self.said: list[str] = []
        self.told: list[tuple[str, str]] = []

    @contextlib.asynccontextmanager
    async def of(self, **servers: Dial) -> AsyncIterator[Keepers]:
        """The servers, kept; nothing of them is left afterwards."""
        kept = [
            Upstream(who=Who(name=name, identity=identity(Entry(command=("node", name)), "/srv")), dial=server)
            for name, server in servers.items()
        ]
        around = Shared(
            pins=self.pins,
            controls=Controls(key=b"k" * 32),
            say=self.said.append,
            chance=lambda: 0.0,
            work=at_once,
        )
        async with keeping(kept, around) as keepers:
            keepers.watch(lambda server, what: self.told.append((server, what)))
            yield keepers
        assert all(getattr(server, "opened", 0) == getattr(server, "ends", 0) for server in servers.values())
        assert len(asyncio.all_tasks()) == 1 or "not ended" in self.said[-1]
