"""Servers behind a keeper, without processes: each start does what the test says, and every end is counted."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from fumehood.core.errors import TimedOutError
from fumehood.gateway.upstreams.model import Introduction, Members, Notified, ServerRefusedError, UpstreamError
from fumehood.wire.hosting import Era, ReportProgress

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
        self.capabilities: Members = {"tools": {}}
        self.starts = self.opened = self.ends = self.lists = self.pings = 0
        self.starting: Callable[[], Awaitable[None]] = nothing
        self.ending: Callable[[], Awaitable[None]] = nothing
        self.page: Callable[[Members], Awaitable[Members]] = self._page
        self.called: Callable[[Members], Awaitable[Members]] = self._called
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

    async def _page(self, _: Members) -> Members:
        return {"tools": [*self.tools]}

    async def _called(self, params: Members) -> Members:
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
        self, method: str, params: Members, *, seconds: float, progress: ReportProgress | None = None
    ) -> Members:
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

    async def _answer(self, method: str, params: Members) -> Members:
        server = self._server
        match method:
            case "tools/list":
                server.lists += 1
                return await server.page(params)
            case "tools/call":
                return await server.called(params)
            case "ping" | "server/discover":
                server.pings += 1
                await server.pinged()
                return {}
            case _:
                raise ServerRefusedError(-32601, "Method not found")
