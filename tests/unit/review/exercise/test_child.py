"""review.exercise.child: a server is watched for the linger, and no longer than anything of it lives."""

import asyncio
import json
from typing import Any, cast

import pytest

import virtualtime
from fumehood.review.exercise.child import CLIENT, Live, converse_with
from fumehood.wire import stdio
from fumehood.wire.conversation import Conversation

LINGER = 30.0
RESULT = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}


class Child:
    """Shakes hands; then closes its output, and lives `seconds` more."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._said: asyncio.Queue[bytes] = asyncio.Queue()

    async def read(self) -> bytes:
        return await self._said.get()

    async def write(self, data: bytes) -> None:
        message = json.loads(data)
        if message.get("method") == "initialize":
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": RESULT}
            self._said.put_nowait(json.dumps(answer).encode() + b"\n")
            self._said.put_nowait(b"")

    async def wait(self) -> None:
        await asyncio.sleep(self._seconds)


async def _nothing(live: Live) -> None:
    del live


def watched(child: Child, seconds: float = 60.0) -> float:
    """How long it takes until nobody watches any more."""

    async def run() -> float:
        async with stdio.session(child.read, child.write) as opened:
            live = Live(Conversation(opened, CLIENT, "legacy"), seconds)
            await converse_with(cast("Any", child), live, LINGER, _nothing)
        return asyncio.get_running_loop().time()

    return virtualtime.run(run())


@pytest.mark.threat("R5")
@pytest.mark.parametrize(
    ("lives", "seconds", "watched_for"), [(0.0, 60.0, 0.0), (7.0, 60.0, 7.0), (99.0, 60.0, LINGER), (99.0, 12.0, 12.0)]
)
def test_who_closed_its_output_is_watched_while_it_lives_for_the_linger_or_its_time(
    lives: float, seconds: float, watched_for: float
) -> None:
    assert watched(Child(lives), seconds) == pytest.approx(watched_for)


def test_whoever_says_nothing_more_is_watched_for_the_linger() -> None:
    class Silent(Child):
        async def write(self, data: bytes) -> None:
            said: Any = json.loads(data)
            if said.get("method") == "initialize":
                await super().write(data)
                assert self._said.qsize() == 2
                answer = self._said.get_nowait()
                self._said.get_nowait()
                self._said.put_nowait(answer)

    assert watched(Silent(99.0)) == pytest.approx(LINGER)
