"""Give up the rights of root that a supervisor of sandboxes has no use for, and never get them back.

Invariants: what is left is what `needed` names and the process had; the bounding set is no larger, so that no program
which is started afterwards, set-uid or as root, has more; inheritable and ambient sets are empty. Nothing is given up
while a second thread runs, for each thread has sets of its own. What the kernel left is read back: more than was wanted
is an error.

Threats: a fault in the supervisor that a program or a client could use; it could still become any user and end any
process, so it is not a wall around the supervisor. Not promised: anything of an ordinary user, who has no such rights,
and whose bounding set cannot be made smaller (it counts for nothing without them).

Sources: capabilities(7), capset(2), prctl(2); which ones are needed was found by taking each away
(tests/escape/code/test_capabilities.py).
"""

import contextlib
import ctypes
import os
import stat
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fumehood.core import limits
from fumehood.core.errors import HarnessError
from fumehood.sandbox import confine, cradle
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.spec import Route

# Of capability.h: only those that are ever kept or told have names here.
NUMBERS: Final = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "SETPCAP": 8,
    "NET_ADMIN": 12,
    "SYS_PTRACE": 19,
    "SYS_ADMIN": 21,
}
_WORDS: Final = 2  # of 32 bits in each set
_VERSION: Final = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_CAPBSET_READ: Final = 23
_CAPBSET_DROP: Final = 24
_CAP_AMBIENT: Final = 47
_AMBIENT_CLEAR_ALL: Final = 4
_LOOK_SECONDS: Final = 0.001


class CapabilityError(HarnessError):
    """Rights could not be given up, or the kernel left more than was wanted."""

    code = "capabilities"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What decides about rights: the route, and what this host makes a supervisor do beyond it."""

    route: Route
    closed_cgroups: bool = False  # a folder of cgroups that not even its owner may write to
    counted: bool = True  # a cgroup counts memory; else what each process holds is looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is left. `bounded` is false where the bounding set could not be made smaller, for lack of rights."""

    names: tuple[str, ...]
    given_up: int
    bounded: bool

    def __str__(self) -> str:
        """One line for a log."""
        kept = ", ".join(self.names) or "none"
        return (
            f"capabilities kept: {kept}; given up: {self.given_up}{'' if self.bounded else '; bounding set as it was'}"
        )


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def needed(needs: Needs) -> frozenset[str]:
    """The rights that a supervisor uses once its sockets are bound. Pure.

    CHOWN: a run's folder gets the target's group. SETUID, SETGID, SETPCAP: the drop, which empties the bounding set.
    KILL: targets have other uids. DAC_OVERRIDE: the kernel's own cgroup folders have mode 0555. SYS_PTRACE: to see
    which files in memory another uid's process holds. SYS_ADMIN, NET_ADMIN: namespaces without a user namespace.
    """
    if needs.route is Route.USER:
        return frozenset()
    asked = {
        "DAC_OVERRIDE": needs.closed_cgroups,
        "SYS_PTRACE": not needs.counted,
        "SYS_ADMIN": needs.route is Route.ROOT,
        "NET_ADMIN": needs.route is Route.ROOT,
    }
    always = {"CHOWN", "KILL", "SETGID", "SETUID", "SETPCAP"}
    return frozenset(always | {name for name, wanted in asked.items() if wanted})


def needs(host: HostFacts) -> Needs:
    """What this host makes necessary, on the route that it would take."""
    roots = host.cgroups.roots
    return Needs(
        route=host.routes[0],
        closed_cgroups=any(_closed(root) for root in roots.values()),
        counted=bool({"memory", "unified"} & {*roots}),
    )


def keep(wanted: Iterable[str]) -> Kept:
    """Give up everything else, in the calling process, whose other threads are waited for. Raises `CapabilityError`."""
    cradle.rest()
    _wait_for_threads()
    confine.require_one_thread()
    before = _permitted()
    stay = {NUMBERS[name] for name in wanted} & before
    _prctl(_CAP_AMBIENT, _AMBIENT_CLEAR_ALL)
    bounded = NUMBERS["SETPCAP"] in before
    for number in _bounding() - stay if bounded else ():
        _prctl(_CAPBSET_DROP, number)
    _set(stay)
    left = _permitted()
    if left != stay or (bounded and not _bounding() <= stay):
        raise CapabilityError(f"the kernel left other rights than were wanted: {sorted(left ^ stay)}")
    names = tuple(name for name, number in NUMBERS.items() if number in stay)
    return Kept(names=names, given_up=len(before - stay), bounded=bounded)


def _closed(folder: Path) -> bool:
    """Whether its owner may not write to it, but by right of root, or it is somebody else's."""
    try:
        found = folder.stat()
    except OSError:
        return True
    return found.st_uid != os.geteuid() or not found.st_mode & stat.S_IWUSR


def _wait_for_threads() -> None:
    """For those of our own that end by themselves, like one that reads a file for its digest."""
    deadline = time.monotonic() + limits.THREADS_SECONDS
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(max(0.0, deadline - time.monotonic()))
    while time.monotonic() < deadline and threading.active_count() == 1 and _tasks() > 1:
        time.sleep(_LOOK_SECONDS)  # Python has let go of a thread that the kernel still has


def _tasks() -> int:
    with contextlib.suppress(OSError):  # `require_one_thread` tells it
        return len(os.listdir("/proc/self/task"))  # noqa: PTH208 - names are what is counted
    return 0


def _permitted() -> set[int]:
    sets = (_Sets * _WORDS)()
    _done(_libc().capget(ctypes.byref(_Header(_VERSION, 0)), ctypes.byref(sets)), "capget")
    return {32 * at + bit for at in range(_WORDS) for bit in range(32) if sets[at].permitted >> bit & 1}


def _set(numbers: set[int]) -> None:
    sets = (_Sets * _WORDS)()
    for at in range(_WORDS):
        word = sum(1 << number - 32 * at for number in numbers if 32 * at <= number < 32 * (at + 1))
        sets[at].effective = sets[at].permitted = word
    _done(_libc().capset(ctypes.byref(_Header(_VERSION, 0)), ctypes.byref(sets)), "capset")


def _bounding() -> set[int]:
    """Those in the bounding set; the kernel answers -1 beyond the last that it knows."""
    libc = _libc()
    return {number for number in range(32 * _WORDS) if libc.prctl(_CAPBSET_READ, *_words(number)) == 1}


def _prctl(number: int, argument: int) -> None:
    _done(_libc().prctl(number, *_words(argument)), f"prctl {number}")


def _words(argument: int) -> list[ctypes.c_ulong]:
    """Four whole words: prctl refuses rubbish in those that it does not use."""
    return [ctypes.c_ulong(argument), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)]


def _done(answer: int, what: str) -> None:
    if answer != 0:
        raise CapabilityError(f"{what}: {os.strerror(ctypes.get_errno())}")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
