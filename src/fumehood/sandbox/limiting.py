"""Set resource limits on a child that is blocked, from outside and without a program of their own.

prlimit(2) lets a process limit another one whose real, effective and saved ids all equal the caller's *real* ids, or
any at all with CAP_SYS_RESOURCE, which root in a container has not. So where the child has another uid, a thread takes
that uid as its real one, sets the limits and ends. The kernel keeps ids for each thread (credentials(7)); the C
library would change those of all, so the two system calls are made without it.

Invariants: the thread's effective and saved ids stay, so that it gains no right and, at most, who has the child's uid
may signal it: bubblewrap, blocked, is the only such process then. Real ids are never given back: they end with the
thread. A limit is set soft and hard, never above the present hard one. What could not be set is told, with the reason.
"""

import ctypes
import os
import resource
import struct
import threading
from typing import Final

from fumehood.sandbox.rlimits import Pairs

# setresgid and setresuid of <asm/unistd.h>, for those that our seccomp programs know; 64-bit programs only.
_CALLS: Final = {"x86_64": (119, 117), "aarch64": (149, 147)}
_KEEP: Final = -1
_POINTER_BITS: Final = 64


def limit(pid: int, uid: int, pairs: Pairs) -> dict[int, str]:
    """Limit `pid`, whose real uid and gid are `uid` as seen from here: RLIMIT number → why it could not be set."""
    if uid == os.getuid():
        return _set(pid, pairs)
    worker = _As(pid, uid, pairs)
    try:
        worker.start()
    except RuntimeError as error:  # the kernel has no thread for us
        return {number: str(error) for number, _ in pairs}
    worker.join()
    return worker.refused


class _As(threading.Thread):
    """One setting of limits, with another real uid and gid, which end with it."""

    def __init__(self, pid: int, uid: int, pairs: Pairs) -> None:
        super().__init__(name="limits", daemon=True)
        self._pid = pid
        self._uid = uid
        self._pairs = pairs
        self.refused = {number: "the thread ended" for number, _ in pairs}

    def run(self) -> None:
        try:
            take_real_ids(self._uid)
        except OSError as error:
            self.refused = {number: str(error) for number, _ in self._pairs}
        else:
            self.refused = _set(self._pid, self._pairs)


def take_real_ids(uid: int) -> None:
    """Make `uid` the real uid and gid of the calling thread alone; for good, as far as that thread goes."""
    calls = _CALLS.get(os.uname().machine)
    if calls is None or struct.calcsize("P") * 8 != _POINTER_BITS:
        raise OSError("the numbers of the system calls are not known here")
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.getresuid()
    for number in calls:
        if libc.syscall(ctypes.c_long(number), ctypes.c_long(uid), ctypes.c_long(_KEEP), ctypes.c_long(_KEEP)):
            why = ctypes.get_errno()
            raise OSError(why, f"the child's uid: {os.strerror(why)}")
    if (os.getresuid(), os.getgid()) != ((uid, *before[1:]), uid):
        raise OSError("the thread did not get the child's uid")


def _set(pid: int, pairs: Pairs) -> dict[int, str]:
    refused: dict[int, str] = {}
    for number, value in pairs:
        try:
            hard = resource.prlimit(pid, number)[1]
            most = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.prlimit(pid, number, (most, most))
        except (OSError, ValueError) as error:
            refused[number] = str(error)
    return refused
