"""A Deno without any wall, for the negative controls of the self test. Dangerous: what it runs has the user's rights.

Only `code.selftest` may import this, and only with the programs that come with fumehood; a test in `tests/arch` counts
the importers. No job, setting or command can reach it with a program of somebody else's.
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from fumehood.code.backend import ToolBackend
from fumehood.code.bridge import Bridge
from fumehood.code.events import Call, Event, Ready, Send
from fumehood.code.job import Job, JobResult
from fumehood.code.outcome import Ending, Stop, conclude
from fumehood.code.requests import RunTool
from fumehood.core.clock import SystemClock
from fumehood.core.errors import HarnessError
from fumehood.sandbox import launch
from fumehood.sandbox.launch import PIPE, Process, Streams
from fumehood.sandbox.streams import read_chunk, unblocked, write_all

_WORDS: Final = ("run", "-A", "--quiet", "--no-lock", "--no-config", "--location=http://a.invalid/")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsafeGround:
    """What an unconfined child is made of: the program, a harness on disk, a folder to work in, a variable to find."""

    deno: Path
    harness: Path
    folder: Path
    mark: str


async def run_unconfined(job: Job, backend: ToolBackend, ground: UnsafeGround) -> JobResult:
    """Run one program of ours without walls; it is killed after the job's wall time."""
    bridge = Bridge(job, SystemClock())
    environment = {
        "DENO_DIR": str(ground.folder / "deno"),
        "HOME": str(ground.folder),
        "NO_COLOR": "1",
        "PATH": "/usr/bin:/bin",
        "FUMEHOOD_MARK": ground.mark,
    }
    process = launch.spawn(
        [str(ground.deno), *_WORDS, str(ground.harness)],
        streams=Streams(stdin=PIPE, stdout=PIPE),
        environment=environment,
        cwd=str(ground.folder),
    )
    ending = Ending()
    try:
        async with asyncio.timeout(job.limits.wall_seconds):
            await _converse(bridge, backend, process)
    except TimeoutError:
        ending = Ending(stop=Stop.WALL)
    finally:
        process.close()
    return conclude(job, bridge.account(), ending)


async def _converse(bridge: Bridge, backend: ToolBackend, process: Process) -> None:
    reading, writing = unblocked(process.stdout), unblocked(process.stdin)
    write = partial(write_all, writing)
    while bridge.terminal is None:
        data = await read_chunk(reading)
        waiting = list(bridge.feed(data) if data else bridge.closed())
        while waiting:
            match waiting.pop(0):
                case Ready():
                    await write(bridge.opening())
                case Send(data=line):
                    await write(line)
                case Call() as call:
                    waiting += await _answer(bridge, backend, call)
                case _:
                    pass


async def _answer(bridge: Bridge, backend: ToolBackend, call: Call) -> list[Event]:
    if not isinstance(call.request, RunTool):
        return bridge.refuse(call.id, HarnessError("the programs of the self test only call tools"))
    return bridge.answer(call.id, await backend.run(call.request.name, call.request.arguments))
