"""What reading a pipe costs and keeps."""

import asyncio
import os
from pathlib import Path

import pytest

import virtualtime
from fumehood.sandbox.streams import CHUNK_BYTES, Pipe, pump


def pumped(pieces: list[bytes], pause_seconds: float) -> list[bytes]:
    """What `pump` hands on of pieces that are written one by one, each when it may wait for the next."""
    pipe, chunks = Pipe(child_reads=False), list[bytes]()

    async def write() -> None:
        for piece in pieces:
            os.write(pipe.child, piece)
            for _ in range(10):  # the reader sees each piece before the next, unless it pauses
                await asyncio.sleep(0)
        pipe.started()

    async def both() -> None:
        await asyncio.gather(pump(pipe.ours, chunks.append, pause_seconds=pause_seconds), write())

    asyncio.run(both())
    pipe.close()
    return chunks


def test_a_pause_gathers_short_lines_and_loses_none() -> None:
    lines = [b"%d\n" % number for number in range(200)]
    gathered = pumped(lines, 0.05)
    assert b"".join(gathered) == b"".join(lines)
    assert len(gathered) < len(pumped(lines, 0.0))


@pytest.mark.parametrize("full_seconds", [0.0, 0.5])
def test_whoever_writes_without_end_waits_after_each_full_chunk(tmp_path: Path, full_seconds: float) -> None:
    endless = tmp_path / "endless"
    endless.write_bytes(b"x" * (10 * CHUNK_BYTES + 1))
    chunks: list[bytes] = []

    async def read() -> float:
        with endless.open("rb") as file:
            began = asyncio.get_running_loop().time()
            await pump(file.fileno(), chunks.append, full_seconds=full_seconds)
            return asyncio.get_running_loop().time() - began

    assert virtualtime.run(read()) == pytest.approx(10 * full_seconds, abs=0.01)
    assert b"".join(chunks) == endless.read_bytes()
