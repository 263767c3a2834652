"""Have an audit log written by a process of its own, for a process that may open and write no file any more.

The writer (`gateway.audit.writing`) is started before the walls of whoever asks; a record goes to it over a socket that
was opened then, and is answered when it is kept. So the asking process needs no right to any file, and one that has
been taken over can add records, but neither change nor remove one.

Invariants: each record is one message, each answer names the record that it is for; every wait is bounded; what gets
no answer in time is not kept. The writer ends when the last socket is closed, by whatever, with everything synced.

Not promised: that the records of a process that has been taken over are true.
"""

import contextlib
import queue
import select
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Final, Self

import msgspec

from fumehood.core import limits
from fumehood.gateway.audit.faults import AuditError, AuditPlaceError
from fumehood.gateway.audit.record import Call
from fumehood.gateway.audit.saying import ANSWER, KEPT, NUMBER, READY_BYTES, Said
from fumehood.sandbox import launch
from fumehood.sandbox.containment import Containment

_PROGRAM: Final = """
import sys
sys.path[:0] = sys.argv[3:]
from fumehood.gateway.audit import writing
sys.exit(writing.main(sys.argv[1], [int(word) for word in sys.argv[2].split(",")]))
"""
ROUTE: Final = "audit"  # of the record of its walls
_STDERR: Final = 2
_REMEDY: Final = "nothing is done without a record: look at the disk, and start again"


def start(file: Path, *, askers: int) -> "Scribe":
    """Start the writer of a log for so many threads that ask at once. It may be asked once `ready` has returned."""
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(askers)]
    ours, theirs = [one for one, _ in pairs], [one for _, one in pairs]
    places = [place for place in sys.path if Path(place).is_absolute()]
    numbers = [one.fileno() for one in theirs]
    argv = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(file), ",".join(map(str, numbers)), *places]
    with contextlib.ExitStack() as held:
        for one in theirs:
            held.enter_context(one)
        failing = held.enter_context(contextlib.ExitStack())
        for one in ours:
            failing.enter_context(one)
        process = launch.spawn(argv, streams=launch.Streams(stderr=_STDERR), pass_fds=numbers)
        failing.pop_all()
    return Scribe(process, ours)


class Scribe:
    """The running writer. Any thread may ask; its owner closes it."""

    def __init__(self, process: launch.Process, sockets: list[socket.socket]) -> None:
        """Take over what `start` started."""
        self.pid: Final = process.pid
        self.containments: tuple[Containment, ...] = ()  # once it is ready
        self._process = process
        self._sockets = sockets
        self._free: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()
        self._numbers = 0
        self._counting = threading.Lock()
        for one in sockets:
            self._free.put(one)

    @property
    def is_alive(self) -> bool:
        """Whether the writer still runs."""
        return self._process.returncode is None

    def ready(self) -> None:
        """Wait until the log is open. Errors: `AuditPlaceError`, `AuditError`."""
        answer = self._hear(self._sockets[0], READY_BYTES, time.monotonic() + limits.AUDIT_START_SECONDS)
        try:
            said = msgspec.json.decode(answer, type=Said)
        except msgspec.DecodeError:
            raise _failed("it was not opened") from None
        if said.words:
            raise (AuditPlaceError if said.refused else AuditError)(said.words, remedy=said.remedy)
        self.containments = (Containment(route=ROUTE, walls=said.walls),)

    def keep(self, event: Call) -> None:
        """Return when a record is kept, and on the disk where it is durable. Errors: `AuditError`."""
        deadline = time.monotonic() + limits.AUDIT_ANSWER_SECONDS
        with self._counting:
            self._numbers += 1
            number = self._numbers
        try:
            one = self._free.get(timeout=limits.AUDIT_ANSWER_SECONDS)
        except queue.Empty:
            raise _failed("too many wait for it") from None
        try:
            self._ask(one, number, event, deadline)
        finally:
            self._free.put(one)

    def close(self) -> None:
        """Let go of it, and wait until everything is synced. Errors: `AuditError` when it did not end so."""
        for one in self._sockets:
            one.close()
        select.select([self._process.pidfd], [], [], limits.AUDIT_ANSWER_SECONDS)
        status = self._process.returncode
        with contextlib.suppress(PermissionError):  # no signal of ours leaves the walls
            self._process.close()
        if status != 0:
            raise _failed("its writer did not end well")

    def __enter__(self) -> Self:
        """Own it."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Let go of it; where something went wrong already, that is what is told."""
        try:
            self.close()
        except AuditError:
            if kind is None:
                raise

    def _ask(self, one: socket.socket, number: int, event: Call, deadline: float) -> None:
        try:
            one.send(NUMBER.pack(number) + msgspec.json.encode(event), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:  # it has died, or does not read
            raise _failed("its writer does not take a record") from None
        while True:
            answer = self._hear(one, limits.AUDIT_LINE_BYTES, deadline)
            if len(answer) < ANSWER.size:
                raise _failed("its writer has ended")
            heard, kept = ANSWER.unpack_from(answer)
            if heard == number:  # an earlier one was for a record that nobody waits for any more
                break
        if kept != KEPT:
            raise AuditError(answer[ANSWER.size :].decode("utf-8", "replace"), remedy=_REMEDY)

    def _hear(self, one: socket.socket, size: int, deadline: float) -> bytes:
        """One message; empty where the writer has ended. `AuditError` where none comes in time."""
        ready, _, _ = select.select([one], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise _failed("its writer does not answer")
        try:
            return one.recv(size)
        except OSError:
            return b""


def _failed(reason: str) -> AuditError:
    return AuditError(f"the audit log failed: {reason}", remedy=_REMEDY)
