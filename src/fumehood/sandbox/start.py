"""Start one sandbox up to the moment before its command runs: descriptors, chain, cgroup, limits, listeners.

bubblewrap's child is blocked meanwhile, so nothing of the target runs before every wall stands.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from fumehood.core.errors import HarnessError, UnsupportedError
from fumehood.sandbox import bubblewrap, launch, seccomp, tracing
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.programs.janitor import GATE
from fumehood.sandbox.runs import Run
from fumehood.sandbox.spec import Route, SandboxSpec
from fumehood.sandbox.streams import Pipe, Sink, read_chunk

_STATUS_BYTES: Final = 64 * 1024  # bubblewrap says 300 bytes; a target cannot reach this pipe
_FIFO_BYTES: Final = 1 << 20  # the most an ordinary user may ask for; a tracer blocks when it is full
_ERROR_BYTES: Final = 2000


class SandboxStartError(HarnessError):
    """A sandbox could not be set up: no evidence about its target. The message has bubblewrap's own words."""

    code = "sandbox_start"


class RouteError(UnsupportedError):
    """The host cannot take the route, or lacks a program for it."""

    code = "no_route"


class Gate(Pipe):
    """What bubblewrap's child waits at until it is released by a byte.

    It is a FIFO that the child holds open for writing too, so that it never ends: at the end of a pipe bubblewrap goes
    on, and a harness that is killed before the release would leave a target that nobody supervises. Its name lies in
    the run's folder, by which the janitor finds and ends who still waits (`janitor.end_waiting`).
    """

    def __init__(self, private: Path) -> None:
        """Make it and open both ends, neither inheritable."""
        path = private / GATE
        os.mkfifo(path, 0o600)
        self.child = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self.ours = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            os.close(self.child)
            raise


class Pipes:
    """Every pipe between us and a sandbox. Ours are non-blocking; the child's are closed once it has them."""

    def __init__(self, private: Path) -> None:
        """Open them; `private` is a new folder of the run that no target can enter."""
        with contextlib.ExitStack() as stack:  # where the next one cannot be opened, those before it are closed
            self.stdin = _held(stack, Pipe(child_reads=True))
            self.stdout = _held(stack, Pipe(child_reads=False))
            self.stderr = _held(stack, Pipe(child_reads=False))
            self.status = _held(stack, Pipe(child_reads=False))
            self.block: Pipe = Gate(private)
            stack.pop_all()

    @property
    def all(self) -> tuple[Pipe, ...]:
        """All of them."""
        return self.stdin, self.stdout, self.stderr, self.status, self.block

    def started(self) -> None:
        """Close the child's ends."""
        for pipe in self.all:
            pipe.started()

    def close(self) -> None:
        """Close everything."""
        for pipe in self.all:
            pipe.close()


def _held(stack: contextlib.ExitStack, pipe: Pipe) -> Pipe:
    stack.callback(pipe.close)
    return pipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is started: decided before anything exists."""

    spec: SandboxSpec
    host: HostFacts
    run: Run
    route: Route


def decide(spec: SandboxSpec, host: HostFacts, run: Run, route: Route | None) -> Plan:
    """Take the route that was asked for, or the host's preferred one. Raises `RouteError`."""
    chosen = route or next(iter(host.routes), None)
    if chosen is None or chosen not in host.routes:
        wanted = "no route" if chosen is None else f"the route {chosen.value} does not"
        raise RouteError(f"{wanted} works here" if chosen is None else f"{wanted} work here", remedy="fumehood doctor")
    needed = ["bwrap", "setpriv", *(["strace"] if spec.trace else [])]
    missing = [name for name in needed if name not in host.tools]
    if missing:
        raise RouteError(f"missing: {', '.join(missing)}", remedy="fumehood doctor")
    if spec.identity.uid != run.uid:
        raise SandboxStartError("the spec's uid is not the run's")
    return Plan(spec=spec, host=host, run=run, route=chosen)


class Reshape(Protocol):
    """What may change the words of a start: to take a wall away shows that it was this wall that held."""

    def options(self, words: Sequence[str]) -> list[str]:
        """Bubblewrap's options."""
        ...

    def route(self, route: Route) -> Route:
        """The route by which chain and command are built."""
        ...

    def command(self, words: Sequence[str]) -> list[str]:
        """What bubblewrap starts: the target, perhaps behind its drop."""
        ...

    def chain(self, words: Sequence[str]) -> list[str]:
        """The whole chain."""
        ...


class AsItIs:
    """Changes nothing."""

    def options(self, words: Sequence[str]) -> list[str]:
        """The same options."""
        return list(words)

    def route(self, route: Route) -> Route:
        """The same route."""
        return route

    def command(self, words: Sequence[str]) -> list[str]:
        """The same command."""
        return list(words)

    def chain(self, words: Sequence[str]) -> list[str]:
        """The same chain."""
        return list(words)


class Fifo:
    """The tracer's way to us: mode 0600, in a folder that no target can enter."""

    def __init__(self, folder: Path) -> None:
        """Make it and hold both ends, so that it neither blocks nor ends before the tracer is there."""
        self.path: Final = folder / "trace"
        os.mkfifo(self.path, 0o600)
        self.reading = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._writing = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            os.close(self.reading)
            raise
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._writing, fcntl.F_SETPIPE_SZ, _FIFO_BYTES)

    def attached(self) -> None:
        """Let go of our writing end: from now on the end of the tracer is the end of the file."""
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1

    def close(self) -> None:
        """Close both ends."""
        self.attached()
        if self.reading >= 0:
            os.close(self.reading)
            self.reading = -1


def spawn_chain(plan: Plan, pipes: Pipes, fifo: Fifo | None, reshape: Reshape) -> launch.Process:
    """Start the chain; its child's ends of the pipes and every memfd are closed here afterwards."""
    spec, route, tools = plan.spec, plan.route, {name: tool.path for name, tool in plan.host.tools.items()}
    with contextlib.ExitStack() as stack:
        files = tuple(_memfd(stack, file.content) for file in bubblewrap.data_files(spec))
        descriptors = bubblewrap.Descriptors(
            files=files,
            seccomp=_memfd(stack, seccomp.program(spec.profile, plan.host.machine)),
            info=pipes.status.child,
            block=pipes.block.child,
        )
        limit = not plan.host.no_userns_limit
        options = bubblewrap.options(spec, route, descriptors, userns_limit=limit)
        words = _memfd(stack, bubblewrap.packed(reshape.options(options)))
        route = reshape.route(route)
        command = reshape.command(bubblewrap.command(spec, route, tools["setpriv"]))
        inner = [str(tools["bwrap"]), "--args", str(words), "--", *command]
        trace: list[str] = []
        if spec.trace is not None and fifo is not None:
            trace = tracing.words(tools["strace"], spec.trace, fifo.path)
        process = launch.spawn(
            reshape.chain(bubblewrap.chain(route, spec.identity.uid, tools, inner, trace)),
            streams=launch.Streams(stdin=pipes.stdin.child, stdout=pipes.stdout.child, stderr=pipes.stderr.child),
            pass_fds=[*files, descriptors.seccomp, descriptors.info, descriptors.block, words],
        )
    pipes.started()
    return process


def _memfd(stack: contextlib.ExitStack, data: bytes) -> int:
    descriptor = os.memfd_create("data", os.MFD_CLOEXEC)
    stack.callback(os.close, descriptor)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


class Status:
    """What bubblewrap says about its child: first the pid, at the end the exit status, if the command ever ran."""

    def __init__(self, descriptor: int) -> None:
        """Read from our end of the status pipe."""
        self._descriptor = descriptor
        self._data = b""
        self.exit_code: int | None = None

    async def child_pid(self) -> int | None:
        """The pid of its blocked child as we see it; None when bubblewrap ended instead."""
        while True:
            pid = self._find("child-pid")
            if pid is not None:
                return pid
            chunk = await read_chunk(self._descriptor)
            if not chunk or len(self._data) > _STATUS_BYTES:
                return None
            self._data += chunk

    def finish(self) -> None:
        """Read what came last, without waiting."""
        with contextlib.suppress(BlockingIOError):
            while (chunk := os.read(self._descriptor, _STATUS_BYTES)) and len(self._data) <= _STATUS_BYTES:
                self._data += chunk
        self.exit_code = self._find("exit-code")

    def _find(self, name: str) -> int | None:
        text, decoder = self._data.decode("ascii", "replace").lstrip(), json.JSONDecoder()
        with contextlib.suppress(ValueError):
            while text:
                document, end = decoder.raw_decode(text)
                if isinstance(document, dict) and isinstance(document.get(name), int):
                    return int(document[name])
                text = text[end:].lstrip()
        return None


def failed(stderr: Sink) -> SandboxStartError:
    """The error for a chain that ended before its command ran."""
    words = stderr.capture.data[-_ERROR_BYTES:].decode(errors="replace").strip()
    return SandboxStartError(f"the sandbox did not start: {words or 'it said nothing'}", remedy="fumehood doctor")
