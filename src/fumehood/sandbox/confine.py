"""Put the calling process behind walls that it cannot take down again: Landlock, a seccomp program, rights and limits.

Invariants: Landlock is not put up while more than one thread runs (it counts for the calling thread and for what that
starts; a second thread would stand outside), and a seccomp program counts for every thread or for none; a ruleset is
complete before it is taken; `no_new_privs` is set first. What the kernel does not have is told in the walls, never
passed over. `sandbox.landlock` and `sandbox.seccomp` decide what is refused.
"""

import contextlib
import ctypes
import errno
import os
import platform
import resource
import signal
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from fumehood.core.errors import HarnessError, UnsupportedError
from fumehood.sandbox import landlock, seccomp
from fumehood.sandbox.containment import Wall, WallState
from fumehood.sandbox.seccomp_tables import SECCOMP
from fumehood.sandbox.spec import Profile

# The same numbers on every architecture.
_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_VERSION: Final = 1  # LANDLOCK_CREATE_RULESET_VERSION
_PATH_BENEATH: Final = 1  # LANDLOCK_RULE_PATH_BENEATH
_PDEATHSIG: Final = 1  # PR_SET_PDEATHSIG
_SET_DUMPABLE: Final = 4  # PR_SET_DUMPABLE
_SET_MODE_FILTER: Final = 1  # SECCOMP_SET_MODE_FILTER
_TSYNC: Final = 1  # SECCOMP_FILTER_FLAG_TSYNC: for every thread, or for none
_NO_NEW_PRIVS: Final = 38  # PR_SET_NO_NEW_PRIVS
_TASKS: Final = "/proc/self/task"


class ThreadsError(HarnessError):
    """Walls were to be put up while more than one thread ran."""

    code = "threads"


class WallError(HarnessError):
    """The kernel has a wall and did not let it be put up."""

    code = "wall"


class _Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """What a process puts up for itself."""

    ruleset: landlock.Ruleset
    profile: Profile
    limits: tuple[tuple[int, int], ...] = ()  # (resource, value): soft and hard alike


def landlock_abi() -> int:
    """The version of Landlock that the kernel offers; 0 for none (landlock(7))."""
    if platform.system() != "Linux":
        return 0
    return max(0, int(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, _VERSION)))


def require_one_thread(tasks: str = _TASKS) -> None:
    """Refuse while more than one thread runs, or where nobody can say how many do."""
    try:
        running = len(os.listdir(tasks))  # noqa: PTH208 - names are what is counted
    except OSError as error:
        raise UnsupportedError(
            f"{tasks}: {os.strerror(error.errno or 0)}: nobody can say how many threads run", remedy="mount /proc"
        ) from error
    if running != 1:
        raise ThreadsError(f"{running} threads run; walls are put up while there is one")


def ruleset_descriptor(ruleset: landlock.Ruleset, abi: int) -> int:
    """Make a ruleset in the kernel; the caller closes it. It binds nobody until it is taken.

    A readable place that is missing is left out: there is nothing to read. Errors: `WallError`.
    """
    words = landlock.attributes(ruleset, abi)
    made = _call(_CREATE_RULESET, words, ctypes.c_size_t(len(words)), 0)
    try:
        for place, rights in landlock.rules(ruleset):
            with _opened(place) as descriptor:
                if descriptor is not None:
                    folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
                    granted = landlock.allowed(rights, abi, folder=folder)
                    _call(_ADD_RULE, made, _PATH_BENEATH, landlock.beneath(granted, descriptor), 0)
    except BaseException:
        os.close(made)
        raise
    return made


def no_new_privileges() -> None:
    """Set no_new_privs: without it an ordinary user may take neither a ruleset nor a seccomp program."""
    _prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)


def restrict(ruleset: landlock.Ruleset) -> tuple[Wall, ...]:
    """Put the calling process under Landlock for good; say which walls stand. no_new_privs is set."""
    require_one_thread()
    abi = landlock_abi()
    if abi:
        no_new_privileges()
        made = ruleset_descriptor(ruleset, abi)
        try:
            _call(_RESTRICT_SELF, made, 0)
        finally:
            os.close(made)
    return landlock.walls(ruleset, abi)


def filter_calls(profile: Profile) -> Wall:
    """Put every thread of the process behind the seccomp program of a profile for good; say whether it stands."""
    try:
        code = seccomp.program(profile, platform.machine())
    except seccomp.UnknownMachineError as error:
        return Wall(name="seccomp", state=WallState.UNAVAILABLE, why=error.message, remedy=error.remedy)
    no_new_privileges()
    try:
        number = SECCOMP[seccomp.MACHINES.index(platform.machine())]
        _call(number or 0, _SET_MODE_FILTER, _TSYNC, ctypes.byref(_Program(len(code) // 8, code)))
    except WallError as error:
        return Wall(
            name="seccomp", state=WallState.UNAVAILABLE, why=error.message, remedy="use a kernel with seccomp filters"
        )
    return Wall(name="seccomp", state=WallState.ENFORCED, how=f"profile {profile}")


def allow_files(count: int) -> int:
    """Let this process open so many files, if it may: the soft limit is raised, never lowered. How many it may now.

    What it starts inherits that; each target gets a limit of its own (`rlimits`).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    now = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return count if now == resource.RLIM_INFINITY else now


def limit(pairs: Sequence[tuple[int, int]]) -> None:
    """Lower limits of the calling process, soft and hard alike; one that is lower already stays."""
    for number, value in pairs:
        hard = resource.getrlimit(number)[1]
        least = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (least, least))


def die_with_parent(parent: int) -> None:
    """Be killed when the process `parent`, which forked this one, ends (PR_SET_PDEATHSIG); at once if it has."""
    _prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def no_core_dumps() -> None:
    """No core file, and no process of the same user reads this one's memory (PR_SET_DUMPABLE)."""
    limit([(resource.RLIMIT_CORE, 0)])
    _prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def confine(wanted: Walls) -> tuple[Wall, ...]:
    """Put all of it up around the calling process, which has one thread; say what stands and what does not."""
    require_one_thread()
    limit(wanted.limits)
    no_core_dumps()
    no_new_privileges()
    stood = restrict(wanted.ruleset)
    return (
        Wall(name="no_new_privileges", state=WallState.ENFORCED, how="no_new_privs"),
        Wall(name="core_dumps", state=WallState.ENFORCED, how="RLIMIT_CORE and PR_SET_DUMPABLE"),
        *stood,
        filter_calls(wanted.profile),
    )


@contextlib.contextmanager
def _opened(place: landlock.Place) -> Iterator[int | None]:
    if isinstance(place, int):
        yield place
        return
    try:
        descriptor = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _call(number: int, *arguments: object) -> int:
    """One raw system call. Errors: `WallError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    answer = int(libc.syscall(ctypes.c_long(number), *_words(arguments)))
    if answer < 0:
        raise _refused(f"call {number}")
    return answer


def _prctl(number: int, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(number, *_words(arguments)) != 0:
        raise _refused(f"prctl {number}")


def _words(arguments: Sequence[object]) -> list[object]:
    """Whole words: what a variadic call leaves in the upper half of one is not ours."""
    return [ctypes.c_ulong(one) if isinstance(one, int) else one for one in arguments]


def _refused(what: str) -> WallError:
    number = ctypes.get_errno()
    return WallError(f"{what}: {os.strerror(number)} ({errno.errorcode.get(number, number)})")
