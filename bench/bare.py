"""The peers: the same programs without walls and sensors, as an ordinary user, with an environment that is built.

Nothing foreign runs this way: /bin/true, Python, npm with install scripts off, and the demo server of this project.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from fumehood.sandbox import bubblewrap, launch, streams
from fumehood.sandbox.hostfacts import HostFacts

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
SECONDS = 300.0


def dropped(host: HostFacts, uid: int, argv: Sequence[str]) -> list[str]:
    """`argv` as the uid of a target; as it is where that is one's own."""
    if os.geteuid() == uid:
        return list(argv)
    return [*bubblewrap.drop_words(str(host.tools["setpriv"].path), uid), "--", *argv]


def run(argv: Sequence[str], environment: dict[str, str] = ENVIRONMENT, cwd: str = "/") -> None:
    """Run to the end; what a failed program wrote is in the error."""
    out = launch.Streams(stdout=launch.PIPE, stderr=launch.STDOUT)
    process = launch.spawn(argv, streams=out, environment=environment, cwd=cwd)
    assert process.stdout is not None
    said = process.stdout.read()
    with asyncio.Runner() as runner:
        status = runner.run(asyncio.wait_for(process.wait(), SECONDS))
    process.close()
    if status != 0:
        raise RuntimeError(f"{argv[0]} ended with {status}: {said[-2000:].decode(errors='replace')}")


class Talking:
    """A bare server with pipes, read and written as a sandbox is."""

    def __init__(self, reading: int, writing: int) -> None:
        """Our ends."""
        self._reading = reading
        self._writing = writing

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        return await streams.read_chunk(self._reading)

    async def write(self, data: bytes) -> None:
        """All of `data`: a request is smaller than a pipe."""
        os.write(self._writing, data)


@contextlib.asynccontextmanager
async def server(argv: Sequence[str], environment: dict[str, str], cwd: Path) -> AsyncIterator[Talking]:
    """A bare server until the block is left; then it is killed and reaped."""
    stdin, stdout = streams.Pipe(child_reads=True), streams.Pipe(child_reads=False)
    with contextlib.ExitStack() as stack:
        stack.callback(stdin.close)
        stack.callback(stdout.close)
        process = launch.spawn(
            argv,
            streams=launch.Streams(stdin=stdin.child, stdout=stdout.child),
            environment=environment,
            cwd=str(cwd),
        )
        stack.callback(process.close)
        stdin.started()
        stdout.started()
        yield Talking(stdout.ours, stdin.ours)
