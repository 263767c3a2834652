"""The only place that starts processes.

Invariants: an argument list with an absolute first word, never a shell line; an environment that is built, never
inherited; every descriptor closed but the named ones; a session of its own. Each process is held by a pidfd, so that
a signal can never reach another process that was given the same number.

It does not confine anything: that is what the arguments are for.
"""

import asyncio
import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, TypeAlias

from fumehood.core import limits
from fumehood.core.errors import HarnessError, LimitError

PIPE: Final = subprocess.PIPE
DEVNULL: Final = subprocess.DEVNULL
STDOUT: Final = subprocess.STDOUT
PROGRAMS: Final = Path(__file__).parent / "programs"

Stream: TypeAlias = int | IO[bytes]


class StartError(HarnessError):
    """A program could not be started: it is missing, or the kernel refused."""

    code = "start_failed"


class ToolTimeoutError(LimitError):
    """A tool that should answer at once did not."""

    code = "tool_timed_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """What a process has for its standard streams: a descriptor, a file, `PIPE` or `DEVNULL`."""

    stdin: Stream = DEVNULL
    stdout: Stream = DEVNULL
    stderr: Stream = DEVNULL


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """What a tool left: its status (128 + n for signal n) and its bounded output."""

    status: int
    stdout: bytes
    stderr: bytes


class Process:
    """A started process. Its owner ends and reaps it with `close()`, or awaits `wait()`."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        """Take over what `spawn` started."""
        self._popen = popen
        self.pid: Final = popen.pid
        self.pidfd = os.pidfd_open(popen.pid)  # -1 once closed

    @property
    def stdin(self) -> IO[bytes] | None:
        """Our end of the pipe, when one was asked for."""
        return self._popen.stdin

    @property
    def stdout(self) -> IO[bytes] | None:
        """Our end of the pipe, when one was asked for."""
        return self._popen.stdout

    @property
    def stderr(self) -> IO[bytes] | None:
        """Our end of the pipe, when one was asked for."""
        return self._popen.stderr

    @property
    def returncode(self) -> int | None:
        """The status as `subprocess` gives it (-n for signal n); None while it runs."""
        return self._popen.poll()

    def signal(self, number: int) -> None:
        """Send a signal; one to a process that has ended is dropped."""
        if self.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.signal(signal.SIGKILL)

    async def wait(self) -> int:
        """Wait until it has ended, without a thread; return its status as `subprocess` gives it."""
        if self.pidfd >= 0:
            await readable(self.pidfd)
        return self._popen.wait()

    def close(self) -> int:
        """Kill it if it still runs, reap it, close what we hold of it.

        One that a system call holds in the kernel is left to be reaped by whoever comes after us.
        """
        status = self._popen.poll()
        if status is None:
            self.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(limits.STOP_SECONDS)
            status = self._popen.returncode if self._popen.returncode is not None else -signal.SIGKILL
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        return status


async def readable(descriptor: int) -> None:
    """Wait until a descriptor can be read (a pidfd: until its process has ended). Any number of tasks may wait."""
    own = os.dup(descriptor)  # the loop keeps one callback for each descriptor
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def fire() -> None:
        if not done.done():
            done.set_result(None)

    loop.add_reader(own, fire)
    try:
        await done
    finally:
        loop.remove_reader(own)
        os.close(own)


def spawn(
    argv: Sequence[str],
    *,
    streams: Streams = Streams(),
    pass_fds: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
    cwd: str = "/",
) -> Process:
    """Start `argv`, whose first word is an absolute path. `pass_fds` keep their numbers; nothing else is open."""
    if not argv or not argv[0].startswith("/"):
        raise ValueError("argv[0] must be absolute")
    try:
        popen = subprocess.Popen(  # noqa: S603 - the one place that starts programs
            list(argv),
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            pass_fds=tuple(pass_fds),
            close_fds=True,
            start_new_session=True,
            env=dict(environment or {}),
            cwd=cwd,
            bufsize=0,
        )
    except OSError as error:
        raise StartError(f"cannot start {argv[0]}: {os.strerror(error.errno or 0)}") from error
    try:
        return Process(popen)
    except OSError as error:  # no descriptor is left to hold it by; nobody would end it
        _end_unheld(popen)
        raise StartError(f"cannot hold {argv[0]}: {os.strerror(error.errno or 0)}") from error


def _end_unheld(popen: "subprocess.Popen[bytes]") -> None:
    popen.kill()  # it is not reaped yet: the number is its own
    with contextlib.suppress(subprocess.TimeoutExpired):
        popen.wait(limits.STOP_SECONDS)
    for stream in (popen.stdin, popen.stdout, popen.stderr):
        if stream is not None:
            stream.close()


def start_program(name: str, *arguments: str, streams: Streams = Streams(), pass_fds: Sequence[int] = ()) -> Process:
    """Start `programs/NAME.py` with this interpreter, isolated from environment, user site and site packages."""
    file = PROGRAMS / f"{name}.py"
    if not name.isidentifier() or not file.is_file():
        raise ValueError(f"no such program: {name}")
    return spawn([sys.executable, "-I", "-S", str(file), *arguments], streams=streams, pass_fds=pass_fds)


def run_tool(
    argv: Sequence[str],
    *,
    timeout_seconds: float = limits.TOOL_SECONDS,
    output_bytes: int = limits.TOOL_OUTPUT_BYTES,
    pass_fds: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
) -> Completed:
    """Run a trusted tool to its end and return what it printed, cut at `output_bytes` for each stream.

    Raises `StartError`, and `ToolTimeoutError` after `timeout_seconds`; the tool is dead when this returns.
    """
    process = spawn(argv, streams=Streams(stdout=PIPE, stderr=PIPE), pass_fds=pass_fds, environment=environment)
    try:
        kept = _drain(process, time.monotonic() + timeout_seconds, output_bytes)
    finally:
        status = process.close()
    if kept is None:
        raise ToolTimeoutError(f"{argv[0]} did not end within {timeout_seconds:g} s")
    return Completed(status=128 - status if status < 0 else status, stdout=kept[0], stderr=kept[1])


def _drain(process: Process, deadline: float, output_bytes: int) -> tuple[bytes, bytes] | None:
    """Both streams of a process until it has ended; None when the deadline passed first."""
    kept = (bytearray(), bytearray())
    with selectors.DefaultSelector() as selector:
        for stream, into in zip((process.stdout, process.stderr), kept, strict=True):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, into)
        selector.register(process.pidfd, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            # A child that the tool left behind may hold the pipes: what counts is that the tool has ended.
            ended = all(key.fd == process.pidfd for key, _ in ready)
            for key, _ in ready:
                if key.fd != process.pidfd and not _take(key.fd, key.data, output_bytes):
                    selector.unregister(key.fileobj)
            if ended:
                break
    return bytes(kept[0]), bytes(kept[1])


def _take(descriptor: int, into: bytearray, output_bytes: int) -> bool:
    """Read one chunk, keep what fits; False at the end."""
    chunk = os.read(descriptor, 65536)
    into += chunk[: max(0, output_bytes - len(into))]
    return bool(chunk)


def fork() -> int:
    """Go on twice; 0 in the child. For process 1 only (`sandbox.init`), which has one thread and no loop."""
    return os.fork()


@contextlib.contextmanager
def closing(*descriptors: int) -> Iterator[None]:
    """Close descriptors on the way out, in whatever way."""
    try:
        yield
    finally:
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
