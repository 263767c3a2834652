"""Start git and ripgrep through a small process that stands behind walls of its own (`programs/starter.py`).

Invariants: who calls `start` starts nothing itself; a child of the starter reads the workspace and its own libraries,
writes nowhere, reaches nobody, starts nothing, and ends when its call lets go of it, when its call's time is up, when
the server ends or when the starter does. Every wait is bounded by the call's budget.

Threats: a repository whose configuration names programs (the dynamic loader among them, which runs any file), a
pattern or a repository that makes a program run long or eat memory. Not promised: that git withstands the bytes it
reads; its walls bound what follows.
"""

import contextlib
import os
import platform
import select
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from fumehood.core import limits
from fumehood.core.budget import STEP_SECONDS, Budget
from fumehood.core.errors import LimitError, UnsupportedError
from fumehood.sandbox import confine, elf, landlock, launch, seccomp
from fumehood.sandbox.containment import Containment, Wall, WallState
from fumehood.sandbox.programs.starter import MESSAGE_BYTES, READY
from fumehood.sandbox.spec import Profile
from fumehood.sandbox.started import Child, StarterGoneError

ROUTE: Final = "programs"  # of the record of these walls
_LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
_CLOCK: Final = ("/etc/localtime", "/usr/share/zoneinfo")  # git shows times in the reader's zone
_NUL: Final = b"\0"


def ruleset(root: int, programs: Mapping[str, Path]) -> landlock.Ruleset:
    """What the starter and its children may do: read the workspace and libraries, start these programs.

    Raises `UnsupportedError` for a program that is a script, or made for another machine.
    """
    executable: list[str] = []
    libraries: list[str] = []
    for name, path in programs.items():
        with path.open("rb") as file:
            program = elf.read(file.read(elf.HEAD_BYTES))
        if program is None:
            raise UnsupportedError(f"{name}: {path} is not a program of this machine", remedy="name another program")
        executable.append(str(path))
        if program.loader:
            executable.append(program.loader)
            libraries.append(str(path.resolve().parent.parent / "lib"))
    known = tuple(dict.fromkeys((*_LIBRARIES, *libraries, *_CLOCK))) if libraries else ()
    return landlock.Ruleset(
        readable=(root, *known), executable=tuple(dict.fromkeys(executable)), devices=("/dev/null",)
    )


def start(root: int, programs: Mapping[str, Path], *, unsafe_without_walls: bool = False) -> "Starter":
    """Start the starter for the folder of a descriptor. It may be used once `Starter.ready` has returned.

    `programs` are absolute paths whose owners were checked. Raises `UnsupportedError` when a wall that contains files
    or processes cannot stand, unless the operator wants it so.
    """
    abi = confine.landlock_abi()
    walls = foresee(wanted := ruleset(root, programs), abi)
    _require(walls, unsafe_without_walls=unsafe_without_walls)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with contextlib.ExitStack() as held:
        held.enter_context(theirs)
        rules = confine.ruleset_descriptor(wanted, abi) if abi else -1
        code = _filter() if walls[-1].state is WallState.ENFORCED else -1
        passed = [theirs.fileno(), root, rules, code]
        held.enter_context(launch.closing(*(one for one in (rules, code) if one >= 0)))
        named = [f"{name}={path}" for name, path in programs.items()]
        try:
            process = launch.start_program(
                "starter", *map(str, passed), *named, pass_fds=[one for one in passed if one >= 0]
            )
        except BaseException:
            ours.close()
            raise
    return Starter(process, ours, Containment(route=ROUTE, walls=walls), tuple(programs))


def foresee(wanted: landlock.Ruleset, abi: int) -> tuple[Wall, ...]:
    """The walls of every child under a ruleset and a version of Landlock; the seccomp program is the last."""
    made = Wall(name="seccomp", state=WallState.ENFORCED, how=f"profile {Profile.GIT}, and execve once")
    if platform.machine() not in seccomp.MACHINES:
        why = f"no seccomp program for {platform.machine()}"
        made = Wall(name="seccomp", state=WallState.UNAVAILABLE, why=why, remedy="use x86_64 or aarch64")
    kernel = [("no_new_privileges", "no_new_privs"), ("memory", "RLIMIT_DATA"), ("cpu_time", "RLIMIT_CPU")]
    kernel += [("file_size", "RLIMIT_FSIZE"), ("open_files", "RLIMIT_NOFILE"), ("core_dumps", "RLIMIT_CORE")]
    kernel += [("parent_death", "PR_SET_PDEATHSIG")]
    plain = tuple(Wall(name=name, state=WallState.ENFORCED, how=how) for name, how in kernel)
    return (*plain, *landlock.walls(wanted, abi), made)


def _require(walls: Sequence[Wall], *, unsafe_without_walls: bool) -> None:
    needed = {*landlock.FILE_WALLS, "seccomp"}
    missing = [wall for wall in walls if wall.name in needed and wall.state is WallState.UNAVAILABLE]
    if missing and not unsafe_without_walls:
        raise UnsupportedError(
            f"git and ripgrep would run without the wall {missing[0].name}: {missing[0].why}", remedy=missing[0].remedy
        )


def _filter() -> int:
    """The seccomp program of a child, in a file of its own in memory."""
    code = seccomp.program(Profile.GIT, platform.machine())
    descriptor = os.memfd_create("filter")
    os.pwrite(descriptor, code, 0)
    return descriptor


class Starter:
    """The running starter. Any thread may start programs through it; its owner closes it."""

    def __init__(
        self, process: launch.Process, control: socket.socket, containment: Containment, programs: tuple[str, ...]
    ) -> None:
        """Take over what `start` started."""
        self.pid: Final = process.pid
        self.containment: Final = containment  # of each child
        self.programs: Final = programs
        self._process = process
        self._control = control
        self._is_ready = False

    def ready(self, seconds: float = limits.STARTER_SECONDS) -> None:
        """Wait until its walls stand. Raises `UnsupportedError` when they do not."""
        if self._is_ready:
            return
        self._control.settimeout(seconds)
        try:
            answer = self._control.recv(limits.TEXT_BYTES)
        except OSError as error:
            raise StarterGoneError(f"the starter of git and ripgrep did not answer within {seconds:g} s") from error
        finally:
            self._control.settimeout(None)
        if answer != READY:
            words = answer.decode("utf-8", "replace") or "the starter of git and ripgrep ended"
            raise UnsupportedError(words, remedy=landlock.REMEDY)
        self._is_ready = True

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._process.returncode is None

    def start(
        self, program: str, arguments: Sequence[str | bytes], environment: Mapping[str, str], budget: Budget
    ) -> Child:
        """Start a program in the root of the workspace, with exactly this environment.

        Raises `UnsupportedError` for a program that this host has not, `BusyError`, `StarterGoneError`, and what the
        budget raises. A NUL inside a word is a ValueError: it would begin another word.
        """
        budget.check()
        if program not in self.programs:
            raise UnsupportedError(f"{program} was not found on this host", remedy=f"install {program}")
        words = [os.fsencode(program), str(len(arguments)).encode(), *map(os.fsencode, arguments)]
        words += [os.fsencode(f"{name}={value}") for name, value in environment.items()]
        if any(_NUL in word for word in words):
            raise ValueError("a NUL in an argument")
        message = _NUL.join(words)
        if len(message) > MESSAGE_BYTES:
            raise LimitError("the arguments of a program are too long", remedy="ask for less at once")
        with contextlib.ExitStack() as held:
            call, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            held.enter_context(theirs)
            child = Child(program, call, budget)
            failing = held.enter_context(contextlib.ExitStack())
            failing.callback(child.close)
            out, err = child.pipes(held)
            self._send(message, (theirs.fileno(), out, err), budget)
            failing.pop_all()
        return child

    def _send(self, message: bytes, descriptors: tuple[int, int, int], budget: Budget) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("3i", *descriptors))]
        while True:
            budget.check()
            try:
                self._control.sendmsg([message], rights, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                select.select([], [self._control], [], min(STEP_SECONDS, budget.remaining_seconds()))
            except OSError as error:
                raise StarterGoneError(
                    "the starter of git and ripgrep has died", remedy="start the server again"
                ) from error
            else:
                return

    def close(self) -> None:
        """Let go of it: it kills what runs, and ends. Signals from behind our own walls would not reach it."""
        self._control.close()
        deadline = time.monotonic() + limits.STARTER_SECONDS
        while self._process.returncode is None and time.monotonic() < deadline:
            select.select([self._process.pidfd], [], [], STEP_SECONDS)
        with contextlib.suppress(PermissionError):
            self._process.close()

    def __enter__(self) -> Self:
        """Own it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of it."""
        self.close()
