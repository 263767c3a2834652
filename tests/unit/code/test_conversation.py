"""code.conversation: a child that leaves its answers unread makes us keep no more of them than it may."""

import asyncio
import os
from collections.abc import Sequence
from typing import Any, cast

from fumehood.code.bridge import Bridge
from fumehood.code.conversation import Conversation
from fumehood.code.job import Job
from fumehood.core import limits
from fumehood.core.clock import SystemClock
from fumehood.core.jsonio import JsonValue
from fumehood.sandbox.streams import Pipe
from fumehood.sandbox.talk import Talk

CALLS = 60
BIG = "x" * (limits.CODE_ANSWER_BYTES // 2)


class Large:
    """A backend of large answers, which counts the calls that reach it."""

    def __init__(self) -> None:
        self.called = 0

    async def search(self, query: str, limit: int) -> JsonValue:
        return [query, limit]

    async def describe(self, names: Sequence[str]) -> JsonValue:
        return list(names)

    async def run(self, name: str, arguments: JsonValue) -> JsonValue:
        self.called += 1
        return [name, arguments, BIG]


def test_no_call_is_begun_while_answers_wait_to_be_read_and_all_are_once_they_were() -> None:
    async def run() -> tuple[int, int]:
        backend, job = Large(), Job(code="x", tools=("a",))
        out, into = Pipe(child_reads=False), Pipe(child_reads=True)
        os.set_blocking(into.child, False)
        held = Conversation(job, backend, Bridge(job, SystemClock()), cast("Any", None))
        with Talk(out.ours, into.ours, held, unread_bytes=limits.CODE_UNREAD_BYTES) as held._talk:
            os.write(out.child, b'{"type":"ready"}\n')
            for _ in range(5):  # until it is given its job
                await asyncio.sleep(0)
            line = b'{"type":"call","id":%d,"method":"run","args":["a",{}]}\n'
            os.write(out.child, b"".join(line % number for number in range(1, CALLS + 1)))
            for _ in range(200):
                await asyncio.sleep(0)
            unread, read = backend.called, 0
            while read < CALLS + 1:  # lines: the job comes first
                try:
                    read += os.read(into.child, limits.CODE_ANSWER_BYTES).count(b"\n")
                except BlockingIOError:
                    await asyncio.sleep(0)
        out.close()
        into.close()
        return unread, backend.called

    before, after = asyncio.run(asyncio.wait_for(run(), 60))
    assert 1 <= before <= limits.CODE_CALLS_IN_FLIGHT + 3
    assert after == CALLS
