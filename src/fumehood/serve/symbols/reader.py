"""Ask the child for definitions, and believe it only the shape of its answer.

Invariants: source bytes go to the child, never a path; a call has a worker of its own, which is killed when the call
has ended, is cancelled or out of time, or when one source takes too long; an answer that is none is no answer.
"""

import contextlib
import importlib.util
import os
import platform
import select
import socket
import struct
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, Self

import msgspec
from msgspec import Meta

from fumehood.core import limits
from fumehood.core.budget import STEP_SECONDS, Budget
from fumehood.core.errors import UnsupportedError
from fumehood.sandbox import confine, landlock, launch, seccomp
from fumehood.sandbox.containment import Containment, Wall, WallState
from fumehood.sandbox.spec import Profile
from fumehood.serve.context import Definition, Definitions

_REQUEST: Final = struct.Struct(">16sI")
_ANSWER: Final = struct.Struct(">BI")
_NONE, _WHOLE, _PARTLY = range(3)
_LATER_MILLISECONDS: Final = 1000  # nearly 200 ms of loading wait so long, so that the first reply need not
_PROGRAM: Final = f"""
import select, sys
asked = select.poll()
asked.register(int(sys.argv[1]), select.POLLIN)
if any(event & select.POLLHUP for _, event in asked.poll({_LATER_MILLISECONDS})):
    sys.exit()
sys.path[:0] = sys.argv[3:]
from fumehood.serve.symbols import child
child.main(int(sys.argv[1]), unsafe_without_walls=sys.argv[2] == 'without-walls')
"""
_READY_BYTES: Final = 16 * 1024
ROUTE: Final = "symbols"  # of the record of the walls
_KERNEL: Final = (
    ("no_new_privileges", "no_new_privs"),
    ("core_dumps", "RLIMIT_CORE and PR_SET_DUMPABLE"),
    ("memory", "RLIMIT_DATA"),
    ("cpu_time", "RLIMIT_CPU"),
    ("file_size", "RLIMIT_FSIZE"),
    ("open_files", "RLIMIT_NOFILE"),
    ("parent_death", "PR_SET_PDEATHSIG"),
)

_Text = Annotated[str, Meta(max_length=limits.SYMBOL_CHARACTERS)]
_Kind = Literal["function", "method", "class", "interface", "type", "enum", "constant", "variable", "module", "macro"]
_Line = Annotated[int, Meta(ge=1, le=limits.SEARCHED_FILE_BYTES + 1)]
_Row = tuple[_Text, _Kind, _Line, _Line, _Text]


class _Ready(msgspec.Struct, frozen=True):
    """What the child says once, before its first request."""

    refused: str = ""
    languages: tuple[str, ...] = ()


class _LostError(Exception):
    """A worker ended, took too long, or answered what is no answer."""


def start(*, unsafe_without_walls: bool = False) -> "SymbolReader":
    """Start the child; nothing waits for it before the first question. UnsupportedError without the grammars.

    It waits a while itself before it loads them, and ends at once when nobody is there any more.
    """
    if importlib.util.find_spec("tree_sitter") is None:
        raise UnsupportedError("no grammar is installed", remedy="pip install 'fumehood[serve]'")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    word = "without-walls" if unsafe_without_walls else "walls"
    places = [place for place in sys.path if Path(place).is_absolute()]
    argv = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(theirs.fileno()), word, *places]
    with theirs:
        try:
            process = launch.spawn(argv, pass_fds=[theirs.fileno()])
        except BaseException:
            ours.close()
            raise
    return SymbolReader(process, ours)


def walls() -> tuple[Wall, ...]:
    """The walls of a worker, as this host lets them stand."""
    machine = platform.machine()
    made = Wall(name="seccomp", state=WallState.ENFORCED, how=f"profile {Profile.WORKER}")
    if machine not in seccomp.MACHINES:
        why = f"no seccomp program for {machine}"
        made = Wall(name="seccomp", state=WallState.UNAVAILABLE, why=why, remedy="use x86_64 or aarch64")
    plain = tuple(Wall(name=name, state=WallState.ENFORCED, how=how) for name, how in _KERNEL)
    return (*plain, *landlock.walls(landlock.NOTHING, confine.landlock_abi()), made)


class SymbolReader:
    """The running child; it implements `serve.context.Symbols`. Any thread may ask; its owner closes it."""

    def __init__(self, process: launch.Process, control: socket.socket) -> None:
        """Take over what `start` started."""
        self.pid: Final = process.pid
        self.containment: Final = Containment(route=ROUTE, walls=walls())  # of each worker; else the child refuses
        self._process = process
        self._control = control
        self._ready: _Ready | None = None
        self._lock = threading.Lock()
        self._own = threading.local()  # budget and worker of the call that a thread is in

    def definitions(self, language: str, source: bytes, budget: Budget) -> Sequence[Definition] | None:
        """As `serve.context.Symbols` has it; a file of more than SEARCHED_FILE_BYTES does not parse."""
        if language not in self.ready(budget).languages:
            raise UnsupportedError(
                f"the grammar of {language} is not installed", remedy="pip install 'fumehood[serve]'"
            )
        if len(source) > limits.SEARCHED_FILE_BYTES:
            return None
        worker = self._worker(budget)
        try:
            return worker.ask(language, source, budget)
        except _LostError:
            self._drop()
            return None
        except BaseException:
            self._drop()
            raise

    def ready(self, budget: Budget) -> _Ready:
        """What the child said when its walls stood. UnsupportedError when it did not."""
        with self._lock:
            if self._ready is None:
                self._ready = self._hear(budget)
            ready = self._ready
        if ready.refused:
            raise UnsupportedError(f"symbols cannot be read: {ready.refused}", remedy="see fumehood doctor")
        return ready

    def close(self) -> None:
        """Let go of it: it ends every worker and itself. Signals from behind our own walls would not reach it."""
        self._drop()
        self._control.close()
        budget = Budget(limits.SYMBOLS_START_SECONDS)
        while self._process.returncode is None and budget.remaining_seconds():
            select.select([self._process.pidfd], [], [], STEP_SECONDS)
        with contextlib.suppress(PermissionError):
            self._process.close()

    def __enter__(self) -> Self:
        """Own it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of it."""
        self.close()

    def _said(self) -> bytes:
        """What the child said. One that ended with our word unread resets the socket once; its own is behind that."""
        try:
            return self._control.recv(_READY_BYTES)
        except ConnectionResetError:
            return self._control.recv(_READY_BYTES)

    def _hear(self, budget: Budget) -> _Ready:
        with contextlib.suppress(OSError):  # it has ended, or was told often enough
            self._control.send(b"w", socket.MSG_DONTWAIT)  # no request: only that it need not wait any longer
        waiting = Budget(limits.SYMBOLS_START_SECONDS)
        while not select.select([self._control], [], [], STEP_SECONDS)[0]:
            budget.check()
            if not waiting.remaining_seconds():
                return _Ready(refused="the child did not answer")
        try:
            return msgspec.json.decode(self._said(), type=_Ready)
        except (OSError, msgspec.MsgspecError):
            return _Ready(refused="the child has ended")

    def _worker(self, budget: Budget) -> "_Worker":
        """The worker of the call that this thread is in; that of the call before goes."""
        if getattr(self._own, "budget", None) is not budget:
            self._drop()
        if getattr(self._own, "worker", None) is None:
            self._own.budget, self._own.worker = budget, self._fork()
        worker: _Worker = self._own.worker
        return worker

    def _drop(self) -> None:
        worker: _Worker | None = getattr(self._own, "worker", None)
        self._own.worker = None
        if worker is not None:
            worker.close()

    def _fork(self) -> "_Worker":
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        reading, hold = os.pipe2(os.O_CLOEXEC)
        worker = _Worker(ours, hold)
        with theirs, launch.closing(reading):
            try:
                socket.send_fds(self._control, [b"f"], [theirs.fileno(), reading])
            except OSError:
                worker.close()
                raise UnsupportedError(
                    "the child that reads symbols has died", remedy="start the server again"
                ) from None
        return worker


class _Worker:
    """One process of the child's, for one call."""

    def __init__(self, channel: socket.socket, hold: int) -> None:
        """While `hold` is open it lives."""
        channel.settimeout(0.0)
        self._channel = channel
        self._hold = hold

    def close(self) -> None:
        """Have it killed; a second time does nothing."""
        self._channel.close()
        if self._hold >= 0:
            os.close(self._hold)
            self._hold = -1

    def __del__(self) -> None:
        """A thread that ends lets go of its worker."""
        self.close()

    def ask(self, language: str, source: bytes, budget: Budget) -> Sequence[Definition] | None:
        """Hand over a source and wait for what it defines. Errors: `_LostError`, what the budget raises."""
        until = Budget(limits.SYMBOLS_SECONDS)
        view = memoryview(_REQUEST.pack(language.encode(), len(source)) + source)
        while view:
            self._wait(until, budget, select.POLLOUT)
            with contextlib.suppress(BlockingIOError):
                view = view[self._send(view) :]
        state, size = _ANSWER.unpack(self._read(_ANSWER.size, until, budget))
        if state not in (_NONE, _WHOLE, _PARTLY) or size > limits.SYMBOLS_ANSWER_BYTES:
            raise _LostError
        return _believed(state, self._read(size, until, budget))

    def _send(self, view: memoryview) -> int:
        try:
            return self._channel.send(view)
        except ConnectionError:
            raise _LostError from None

    def _read(self, size: int, until: Budget, budget: Budget) -> bytes:
        got = bytearray()
        while len(got) < size:
            self._wait(until, budget, select.POLLIN)
            try:
                block = self._channel.recv(size - len(got))
            except ConnectionResetError:
                continue
            except ConnectionError:
                raise _LostError from None
            if not block:
                raise _LostError
            got += block
        return bytes(got)

    def _wait(self, until: Budget, budget: Budget, event: int) -> None:
        poll = select.poll()
        poll.register(self._channel, event)
        while not poll.poll(STEP_SECONDS * 1000):
            budget.check()
            if not until.remaining_seconds():
                raise _LostError
        budget.check()


def _believed(state: int, payload: bytes) -> Sequence[Definition] | None:
    try:
        rows = msgspec.json.decode(payload, type=list[_Row])
    except msgspec.MsgspecError:
        raise _LostError from None
    if state == _NONE:
        return None
    found = (
        Definition(name=name, kind=kind, first_line=first, last_line=max(first, last), container=container)
        for name, kind, first, last, container in rows
    )
    return Definitions(found) if state == _WHOLE else Definitions.partly(found)
