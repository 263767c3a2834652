"""Process 1 of a container: a small process that stays behind while what was started goes on as its child.

Invariants: every orphan is reaped; a signal to end reaches the child; process 1 ends with the child's status (128 + n
for signal n), and not before the rest of what the child started has ended or had its time, so that whoever cleans up
after a killed child can. With process 1 the kernel ends everything in its namespace.

Why: the kernel gives every orphan to process 1, and drops signals there that have no handler. A supervisor that reaped
what it does not know would take the status of its own children from whoever waits for them.

Sources: pid_namespaces(7), signal(7), wait(2).
"""

import os
import signal
import sys
import time
from typing import Final

from fumehood.core import limits
from fumehood.sandbox import confine, launch

_FORWARDED: Final = frozenset(
    {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
)
_HEARD: Final = _FORWARDED | {signal.SIGCHLD}
_SIGNALLED: Final = 128


def stand_apart() -> None:
    """Go on in a child where this process is process 1, which never returns from here; else do nothing.

    To be called before any thread or loop exists. Raises `ThreadsError` where one does.
    """
    if os.getpid() != 1:
        return
    confine.require_one_thread()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # what waits in a buffer would be written twice
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    child = launch.fork()
    if child == 0:
        os.setsid()  # a terminal's Ctrl-C reaches process 1 alone, and the child through it
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # one that is ignored would leave no status
    os._exit(_serve(child))


def _serve(child: int) -> int:
    """Forward and reap until the child has ended, and give the others their time; its status."""
    status: int | None = None
    while status is None:
        number = signal.sigwaitinfo(_HEARD).si_signo
        if number == signal.SIGCHLD:
            status = _reap().get(child)
        else:
            os.kill(child, number)  # it is not reaped yet: the number is its own
    _outlast()
    return status


def _outlast() -> None:
    """Reap until nobody is left, the time has passed, or a signal says that it may end."""
    deadline = time.monotonic() + limits.INIT_SECONDS
    while _has_children():
        heard = signal.sigtimedwait(_HEARD, max(0.0, deadline - time.monotonic()))
        if heard is None or heard.si_signo != signal.SIGCHLD:
            return
        _reap()


def _reap() -> dict[int, int]:
    """Every child that has ended, and its status."""
    found: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        code = os.waitstatus_to_exitcode(status)
        found[pid] = _SIGNALLED - code if code < 0 else code


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
