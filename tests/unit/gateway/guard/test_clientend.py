"""The client's end over pipes: nothing waits in it, and who is gone is noticed."""

import asyncio
import os
from collections.abc import Iterator

import pytest

from fumehood.gateway.guard.clientend import ClientEnd
from fumehood.sandbox.launch import readable
from fumehood.wire.descriptors import Wire


class Pipes:
    """Both pipes of a client."""

    def __init__(self) -> None:
        reading, self.asks = os.pipe()
        self.answers, writing = os.pipe()
        self.end = ClientEnd(Wire(reading=reading, writing=writing))

    def close(self) -> None:
        self.end.close()
        for descriptor in (self.asks, self.answers):
            if descriptor >= 0:
                os.close(descriptor)


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    made = Pipes()
    yield made
    made.close()


def test_what_comes_is_read_and_its_end_is_empty(pipes: Pipes) -> None:
    async def read() -> list[bytes]:
        waiting = asyncio.ensure_future(pipes.end.read())
        await asyncio.sleep(0)
        os.write(pipes.asks, b"one")
        found = [await waiting]
        os.close(pipes.asks)
        pipes.asks = -1
        return [*found, await pipes.end.read()]

    assert asyncio.run(read()) == [b"one", b""]


def test_a_writer_waits_for_its_reader(pipes: Pipes) -> None:
    data = bytes(range(256)) * 4096

    async def write() -> bytes:
        writing = asyncio.ensure_future(pipes.end.write(data))
        await asyncio.sleep(0)
        assert not writing.done()
        got = b""
        while len(got) < len(data):
            await readable(pipes.answers)
            got += os.read(pipes.answers, 1 << 16)
        await writing
        return got

    assert asyncio.run(write()) == data


@pytest.mark.threat("G3")
def test_who_reads_no_more_is_gone(pipes: Pipes) -> None:
    async def leave() -> None:
        writing = asyncio.ensure_future(pipes.end.write(b"x" * (1 << 20)))
        gone = asyncio.ensure_future(pipes.end.gone())
        await asyncio.sleep(0)
        assert not pipes.end.is_gone()
        os.close(pipes.answers)
        pipes.answers = -1
        await gone
        assert pipes.end.is_gone()
        with pytest.raises(BrokenPipeError):
            await writing
        with pytest.raises(BrokenPipeError):
            await pipes.end.write(b"x")

    asyncio.run(leave())


def test_a_closed_end_is_at_its_end() -> None:
    made = Pipes()
    made.close()
    made = Pipes()
    reading = made.end
    os.close(made.asks)
    made.asks = -1
    assert asyncio.run(reading.read()) == b""
    made.close()
