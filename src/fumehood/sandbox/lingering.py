"""Let what a command left behind live on for a while, without adding anything inside.

bubblewrap's monitor, outside, ends the namespace as soon as the command's own process has ended; pid 1, inside, would
wait for everybody. So the supervisor stops the monitor (SIGSTOP) before the release, and continues it when the time is
over: it then reports the first process's status, as ever, and takes the namespace along (ADR 12).
"""

import asyncio
import contextlib
import os
from typing import Final

from fumehood.sandbox import launch, lineage

_FIRST_POLL_SECONDS: Final = 0.01  # bubblewrap needs 5 ms from its release to its command


async def outlast(init: int, init_fd: int, seconds: float) -> None:
    """Wait for the command's process, then `seconds` more; no longer than anybody in the namespace lives.

    `init` is pid 1 of the namespace as we see it, `init_fd` its pidfd.
    """
    alone = asyncio.ensure_future(launch.readable(init_fd))
    try:
        first = await _first(init, alone)
        if first is not None:
            await _ended(first, alone)
        await asyncio.wait([alone], timeout=seconds)
    finally:
        alone.cancel()
        await asyncio.gather(alone, return_exceptions=True)


async def _first(init: int, alone: asyncio.Future[None]) -> int | None:
    """The command's process; None when it has ended already (then pid 1 has only orphans, or is gone)."""
    while not alone.done():
        if lineage.children(init):
            return lineage.first_child(init)
        await asyncio.sleep(_FIRST_POLL_SECONDS)
    return None


async def _ended(first: int, alone: asyncio.Future[None]) -> None:
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(first)
        ended = asyncio.ensure_future(launch.readable(descriptor))
        try:
            await asyncio.wait([ended, alone], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            await asyncio.gather(ended, return_exceptions=True)
            os.close(descriptor)
