"""What reading a pipe costs and keeps."""

import asyncio
import os

from fumehood.sandbox.streams import Pipe, pump


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
