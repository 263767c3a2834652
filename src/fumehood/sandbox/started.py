"""One program that the starter runs (`sandbox.starter`), as whoever asked for it sees it: its output, and its end.

Invariants: its output is read in chunks and bounded; every wait is a step of the call's budget; who lets go of it, or
leaves the block early, has it killed, and its descriptors closed once.
"""

import contextlib
import fcntl
import math
import os
import select
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

from fumehood.core import limits
from fumehood.core.budget import STEP_SECONDS, Budget
from fumehood.core.errors import BusyError, HarnessError, LimitError, UnsupportedError
from fumehood.sandbox import launch
from fumehood.sandbox.programs.starter import BUSY, ENDED, NOT_STARTED

_CHUNK_BYTES: Final = 256 * 1024
_SMALL_BYTES: Final = 64 * 1024  # a chunk of less is followed by a pause
_PAUSE_SECONDS: Final = 0.003  # which its end cuts short: a search writes 200 times in 70 ms
_PIPE_BYTES: Final = 1024 * 1024  # an ordinary user may have so much; a program then waits for us less often
_ANSWER_BYTES: Final = 64


class StarterGoneError(HarnessError):
    """The starter has died; what needs git or ripgrep cannot be answered until the server is started again."""

    code = "starter_gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a child ended: its status (128 + n for signal n), and the beginning of what it wrote to stderr."""

    status: int
    stderr: bytes


class Child:
    """One running program. Its output is read in chunks; who leaves the block early kills it."""

    def __init__(self, program: str, call: socket.socket, budget: Budget) -> None:
        """Take over our end of a call's socket; `pipes` comes next."""
        self._program = program
        self._call = call
        self._budget = budget
        self._out = self._err = -1
        self._stderr = bytearray()
        self._answer: bytes | None = None
        self._poll = select.poll()
        self._poll.register(call, select.POLLIN)
        self._end = select.poll()  # of the child alone
        self._end.register(call, select.POLLIN)
        self._got = False

    def pipes(self, held: contextlib.ExitStack) -> tuple[int, int]:
        """Make the pipes of stdout and stderr; their writing ends are closed with `held`."""
        writing = []
        for name in ("_out", "_err"):
            reading, end = os.pipe2(os.O_CLOEXEC)
            held.enter_context(launch.closing(end))
            setattr(self, name, reading)
            self._poll.register(reading, select.POLLIN)
            writing.append(end)
        with contextlib.suppress(OSError):  # the user's pipes hold as much as they may: the ordinary size will do
            fcntl.fcntl(self._out, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        return writing[0], writing[1]

    def chunks(self) -> Iterator[bytes]:
        """Its stdout until its end or `CHILD_OUTPUT_BYTES`, after which it is killed.

        Raises what the budget raises, after killing it; and when it could not be started at all.
        """
        left = limits.CHILD_OUTPUT_BYTES
        while self._out >= 0:
            for chunk in self._turn():
                yield chunk[:left]
                left -= len(chunk)
                if left <= 0:
                    self.kill()
        self._raise_unstarted()

    def wait(self) -> Ended:
        """Wait for its end within the budget; what is still unread is dropped."""
        while self._out >= 0 or self._err >= 0 or self._answer is None:
            self._turn()
        self._raise_unstarted()
        number = self._answer[1:]
        return Ended(status=int(number) if number.isdigit() else 128 + 9, stderr=bytes(self._stderr))

    def kill(self) -> None:
        """Let go of it: the starter kills it. It counts as ended by SIGKILL."""
        self._close(self._call.fileno())
        for descriptor in (self._out, self._err):
            self._close(descriptor)
        if self._answer is None:
            self._answer = ENDED + b"137"

    close = kill

    def __enter__(self) -> Self:
        """Own it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill it if it runs, and let go of it."""
        self.kill()

    def _turn(self) -> list[bytes]:
        """Wait for something, at most a step; return what came on stdout."""
        try:
            self._budget.check()
        except LimitError:
            self.kill()
            raise
        if self._got and self._call.fileno() >= 0:  # it writes little at a time, and each look takes its processor away
            self._end.poll(_PAUSE_SECONDS * 1000)
        self._got = False
        got: list[bytes] = []
        wait = min(STEP_SECONDS, self._budget.remaining_seconds())
        for descriptor, _ in self._poll.poll(math.ceil(wait * 1000)):
            if descriptor == self._call.fileno():
                self._take_answer()
                continue
            if descriptor not in {self._out, self._err}:
                continue  # closed by the answer, and perhaps somebody else's by now
            chunk = os.read(descriptor, _CHUNK_BYTES)
            self._got = 0 < len(chunk) < _SMALL_BYTES
            if not chunk:
                self._close(descriptor)
            elif descriptor == self._out:
                got.append(chunk)
            else:
                self._stderr += chunk[: max(0, limits.CHILD_STDERR_BYTES - len(self._stderr))]
        return got

    def _take_answer(self) -> None:
        try:
            self._answer = self._call.recv(_ANSWER_BYTES)
        except ConnectionError:
            self._answer = b""
        self._close(self._call.fileno())
        if self._answer[:1] != ENDED:  # nothing was started: nobody will write
            for descriptor in (self._out, self._err):
                self._close(descriptor)

    def _raise_unstarted(self) -> None:
        answer = self._answer
        if answer is None or answer.startswith(ENDED):
            return
        if answer.startswith(NOT_STARTED):
            why = os.strerror(int(answer[1:] or b"0"))
            raise UnsupportedError(f"{self._program} could not be started: {why}", remedy="see fumehood doctor")
        if answer.startswith(BUSY):
            raise BusyError("as many programs run as may", remedy="try again")
        raise StarterGoneError("the starter of git and ripgrep has died", remedy="start the server again")

    def _close(self, descriptor: int) -> None:
        """Close one of ours, once."""
        if descriptor < 0:
            return
        self._poll.unregister(descriptor)
        if descriptor == self._call.fileno():
            self._call.close()
            return
        if descriptor == self._out:
            self._out = -1
        else:
            self._err = -1
        os.close(descriptor)
