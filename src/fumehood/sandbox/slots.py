"""Uids for targets: as root each run has one of its own, from a slot that is locked for as long as it is used.

Invariants: a slot is taken by one owner at a time, and given up by the last who holds its descriptor (the janitor
holds it as well); a uid that the system knows, or that runs a process, is never taken.

Source: proc(5): /proc/PID has the effective uid of its process, also of one that is not dumpable.
"""

import contextlib
import errno
import fcntl
import os
import pwd
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fumehood.core import limits
from fumehood.core.errors import UnsupportedError

_SLOTS: Final = "slots"
_ENDED: Final = ("Z", "X")
_THREADS: Final = 17  # num_threads, counted behind the command's name; proc_pid_stat(5)


class NoSlotError(UnsupportedError):
    """Every uid for targets is taken or known to the system."""

    code = "no_uid_slot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One uid, and the descriptor whose lock keeps it."""

    uid: int
    lock: int


@contextlib.contextmanager
def taken(root: Path, count: int) -> Iterator[tuple[Slot, ...]]:
    """So many slots until the block is left, all or none. Raises `NoSlotError` and `OSError`."""
    folder = root / _SLOTS
    folder.mkdir(mode=0o700, exist_ok=True)
    with contextlib.ExitStack() as stack:
        slots: list[Slot] = []
        for uid in _order():
            if len(slots) == count:
                break
            lock = None if _known(uid) else try_lock(folder / str(uid), os.O_RDWR | os.O_CREAT)
            if lock is None:
                continue
            with contextlib.ExitStack() as held:
                held.callback(os.close, lock)
                if not seen_running(uid):
                    stack.push(held.pop_all())
                    slots.append(Slot(uid=uid, lock=lock))
        if len(slots) < count:
            last = limits.FIRST_UID + limits.UID_SLOTS - 1
            missing = "no free uid" if count == 1 else f"{len(slots)} free uids, not {count},"
            raise NoSlotError(
                f"{missing} from {limits.FIRST_UID} to {last}", remedy="end other runs, or free uids of that range"
            )
        yield tuple(slots)


def _order() -> list[int]:
    """All uids, from a random one on: owners with different folders, who see no locks of each other, seldom meet."""
    first = secrets.randbelow(limits.UID_SLOTS)
    return [limits.FIRST_UID + (first + step) % limits.UID_SLOTS for step in range(limits.UID_SLOTS)]


def try_lock(path: Path, flags: int = os.O_RDONLY | os.O_DIRECTORY, mode: int = 0o600) -> int | None:
    """Lock a file or folder without waiting; None when somebody has it, or when it is gone."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            return None
        raise
    return descriptor


def seen_running(uid: int) -> bool:
    """Whether any process has this uid; its owner could signal a target, and count against its limits.

    One that has ended and waits to be reaped does neither: bubblewrap may leave its pid 1 to the host's, which is slow
    on a busy machine.
    """
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == uid and not _has_ended(entry.name):
                        return True
    return False


def _has_ended(pid: str) -> bool:
    """Whether it is a zombie, all of it: a first thread may end before the others."""
    fields = Path("/proc", pid, "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    return fields[0] in _ENDED and int(fields[_THREADS]) <= 1


def _known(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
