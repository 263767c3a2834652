"""A fake peer that speaks the real protocol over two callables, as its script says."""

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from fumehood.wire import stdio
from fumehood.wire.outcomes import Outcome
from fumehood.wire.stdio import Client, Session

Reaction = Callable[[dict[str, Any]], Iterable[bytes]]

RESULT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "fake", "version": "1"},
}


def line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def answer(message: dict[str, Any], result: object = None) -> bytes:
    return line({"jsonrpc": "2.0", "id": message["id"], "result": RESULT if result is None else result})


class Peer:
    """Says `first`, then whatever `react` gives for each message that it reads; ends after the last if `exits`."""

    def __init__(self, react: Reaction, *, first: Iterable[bytes] = (), exits: bool = True) -> None:
        self.heard: list[dict[str, Any]] = []
        self.deaf = False
        self._react = react
        self._exits = exits
        self._out: asyncio.Queue[bytes] = asyncio.Queue()
        for chunk in first:
            self._out.put_nowait(chunk)

    async def read(self) -> bytes:
        if self._exits and self._out.empty() and (self.heard or self.deaf):
            return b""
        return await self._out.get()

    async def write(self, data: bytes) -> None:
        if self.deaf:
            raise BrokenPipeError
        for raw in data.splitlines():
            message = json.loads(raw)
            self.heard.append(message)
            for chunk in self._react(message):
                if chunk:
                    self._out.put_nowait(chunk)

    @property
    def methods(self) -> list[str]:
        return [message.get("method", "answer") for message in self.heard]


class Talk:
    """One handshake and what follows it, with the session as it was afterwards."""

    def __init__(self, peer: Peer, session: Session, outcome: Outcome | None) -> None:
        self.peer = peer
        self.session = session
        self.outcome = outcome


CLIENT = Client(name="client", version="1")


def converse(react: Reaction, *, first: Iterable[bytes] = (), exits: bool = True, client: Client = CLIENT) -> Talk:
    """Initialize and drain; where the peer falls silent, a virtual deadline ends it (the outcome is then None)."""

    async def run() -> Talk:
        peer = Peer(react, first=first, exits=exits)
        async with stdio.session(peer.read, peer.write) as session:
            outcome = None
            task = asyncio.create_task(stdio.initialize(session, client))
            await quiet(task)
            if not task.cancelled():
                outcome = task.result()
                rest = asyncio.create_task(stdio.drain(session))
                await quiet(rest)
            return Talk(peer, session, outcome)

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def handed_to_threads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is given to a thread is done at once, so that the virtual deadline waits for it; and it is listed."""
    handed: list[Any] = []

    async def at_once(function: Callable[..., Any], *arguments: Any) -> Any:
        handed.append(arguments)
        return function(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", at_once)
    return handed


async def quiet(task: asyncio.Task[Any]) -> None:
    """Let a task run until it is done, or until nothing moves any more; then cancel it."""
    for _ in range(200):
        if task.done():
            return
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def conversation() -> Callable[..., Talk]:
    return converse
