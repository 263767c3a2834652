"""sandbox.talk: what a child writes is handed on, what it is told is written, and neither costs more than it may."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.sandbox.streams import CHUNK_BYTES, Pipe
from fumehood.sandbox.talk import Talk

UNREAD = 200_000  # more than a pipe's own buffer


@dataclass(slots=True)
class Heard:
    """Remembers what it is told."""

    chunks: list[bytes] = field(default_factory=list)
    drains: int = 0
    answer: Callable[[bytes], None] | None = None

    def heard(self, data: bytes) -> None:
        self.chunks.append(data)
        if self.answer is not None:
            self.answer(data)

    def drained(self) -> None:
        self.drains += 1


@dataclass(slots=True)
class Child:
    """The other ends, and what was heard of them."""

    out: Pipe
    into: Pipe
    hearer: Heard

    def write(self, data: bytes) -> None:
        os.write(self.out.child, data)

    def read(self) -> bytes:
        """What can be read now."""
        with contextlib.suppress(BlockingIOError):
            return os.read(self.into.child, 10 * UNREAD)
        return b""


@contextlib.contextmanager
def child() -> Iterator[Child]:
    out, into = Pipe(child_reads=False), Pipe(child_reads=True)
    os.set_blocking(into.child, False)
    try:
        yield Child(out=out, into=into, hearer=Heard())
    finally:
        out.close()
        into.close()


def talk(child: Child) -> Talk:
    return Talk(child.out.ours, child.into.ours, child.hearer, unread_bytes=UNREAD)


def descriptors() -> set[int]:
    """Those that are open."""
    return {number for number in range(200) if _is_open(number)}


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_what_a_child_writes_is_heard_in_order_and_its_end_once() -> None:
    async def run() -> list[bytes]:
        with child() as one, talk(one):
            for words in (b"a", b"b"):
                one.write(words)
                await turns()
            one.out.started()  # closes the child's end
            await turns(20)
            return one.hearer.chunks

    assert asyncio.run(run()) == [b"a", b"b", b""]


def test_a_flood_is_heard_one_chunk_a_turn() -> None:
    async def run() -> tuple[int, list[bytes]]:
        with child() as one, talk(one):
            one.write(b"x" * CHUNK_BYTES)
            seen = []

            def again(_: bytes) -> None:
                one.write(b"x" * CHUNK_BYTES)  # as fast as it is read
                asyncio.get_running_loop().call_soon(lambda: seen.append(len(one.hearer.chunks)))

            one.hearer.answer = again
            await turns(20)
            return len(seen), one.hearer.chunks

    turned, chunks = asyncio.run(run())
    assert len(chunks) >= 5
    assert turned >= len(chunks) - 1  # somebody else had a turn between any two
    assert {len(chunk) for chunk in chunks} == {CHUNK_BYTES}


def test_what_is_said_in_one_turn_is_written_at_once() -> None:
    async def run() -> tuple[bytes, bytes, bytes]:
        with child() as one, talk(one) as said:
            said.say(b"a")
            said.say(b"b")
            before = one.read()
            await turns(2)
            after = one.read()
            said.say(b"c")
            said.say(b"d", at_once=True)
            return before, after, one.read()

    assert asyncio.run(run()) == (b"", b"ab", b"cd")


def test_a_child_that_does_not_read_is_not_heard_until_it_does() -> None:
    async def run() -> None:
        with child() as one, talk(one) as said:
            said.say(b"x" * UNREAD, at_once=True)
            full = [said.is_full]  # the pipe holds a part of it
            one.write(b"heard")
            await turns()
            assert one.hearer.chunks == [b"heard"]
            said.say(b"y" * UNREAD)
            await turns()
            full.append(said.is_full)
            one.write(b"later")
            await turns(20)
            assert one.hearer.chunks == [b"heard"]
            read = b""
            while len(read) < 2 * UNREAD:
                read += one.read()
                await turns(2)
            assert read == b"x" * UNREAD + b"y" * UNREAD
            await turns()
            assert one.hearer.chunks == [b"heard", b"later"]
            assert one.hearer.drains == 1
            assert [*full, said.is_full] == [False, True, False]

    asyncio.run(run())


def test_a_child_that_reads_no_more_is_told_nothing_and_heard_to_its_end() -> None:
    async def run() -> None:
        with child() as one, talk(one) as said:
            said.say(b"x" * 3 * UNREAD, at_once=True)
            assert said.is_full
            one.write(b"last words")
            one.into.started()  # closes the child's end
            one.out.started()
            await turns(20)
            assert one.hearer.chunks == [b"last words", b""]
            assert one.hearer.drains == 1
            assert said.is_full  # nobody is there to be told anything
            said.say(b"more", at_once=True)
            await turns()
            assert one.hearer.chunks == [b"last words", b""]

    asyncio.run(run())


def test_a_pipe_that_broke_is_noticed_when_something_is_said() -> None:
    async def run() -> None:
        with child() as one, talk(one) as said:
            one.into.started()
            said.say(b"x", at_once=True)
            said.say(b"y")
            await turns()
            assert said.is_full

    asyncio.run(run())


def test_an_end_that_comes_while_nothing_is_heard_is_told_once() -> None:
    async def run() -> list[bytes]:
        with child() as one, talk(one) as said:
            one.out.started()
            await turns()
            said.say(b"x" * 3 * UNREAD, at_once=True)
            for _ in range(100):
                one.read()
                await turns(2)
            return one.hearer.chunks

    assert asyncio.run(run()) == [b""]


def test_after_the_block_nothing_is_heard_or_said_and_no_descriptor_is_left() -> None:
    async def run() -> None:
        with child() as one:
            before = descriptors()
            with talk(one) as said:
                said.say(b"never")
                one.write(b"a")
            said.say(b"nor this", at_once=True)
            await turns()
            assert one.hearer.chunks == []
            assert one.read() == b""
            assert descriptors() == before

    asyncio.run(run())


def test_a_descriptor_that_is_closed_leaves_nothing_behind() -> None:
    async def run() -> None:
        with child() as one:
            one.into.close()
            before = descriptors()
            with pytest.raises(OSError, match="Bad file descriptor"):
                talk(one)
            assert descriptors() == before

    asyncio.run(run())


def test_the_ends_may_be_closed_while_it_lasts() -> None:
    async def run() -> bytes:
        with child() as one, talk(one) as said:
            os.close(one.into.ours)
            one.into.ours = -1
            said.say(b"still there", at_once=True)
            return one.read()

    assert asyncio.run(run()) == b"still there"


_said = st.lists(st.tuples(st.binary(max_size=3 * CHUNK_BYTES // 2), st.booleans(), st.booleans()), max_size=8)


@given(_said)
def test_a_child_reads_all_that_is_said_in_order(words: list[tuple[bytes, bool, bool]]) -> None:
    async def run() -> bytes:
        with child() as one, talk(one) as said:
            read = b""
            for data, at_once, reads in words:
                said.say(data, at_once=at_once)
                await turns(1)
                read += one.read() if reads else b""
            while len(read) < sum(len(data) for data, _, _ in words):
                read += one.read()
                await turns(2)
            return read

    assert asyncio.run(run()) == b"".join(data for data, _, _ in words)
