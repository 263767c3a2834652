"""Start a process inside a cgroup, instead of moving it there.

The kernel moves another process only when it has waited for every reader of a lock (an RCU grace period, 5 ms and
more); a thread that moves *itself*, and only itself, waits for nobody: `0` written to `tasks` (cgroups(7);
`cgroup_procs_write_start` in kernel/cgroup/cgroup.c). So one thread of ours goes into the child's cgroup, starts the
process there, and comes home. For version 1: in version 2 a thread leaves its process only in a cgroup without memory.

Invariants: the thread is home again when `start` returns or raises; a process that it started before it failed to come
home is ended. It tries the way home before it goes. It is one for the life of our process, because a parent-death
signal comes when the *thread* that forked ends (prctl(2)). It is never the first thread, to whose cgroup our own memory
is charged (and which the out-of-memory killer would look for).
"""

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fumehood.core import limits
from fumehood.core.errors import HarnessError
from fumehood.sandbox.launch import Process

_NAME: Final = "cradle"
_TASKS: Final = "tasks"
_MYSELF: Final = b"0"


class CradleError(HarnessError):
    """The thread that starts processes inside their cgroup did not do it in time, or did not come back."""

    code = "cradle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Born:
    """A process, and the cgroups that it is not in: name → why."""

    process: Process
    refused: Mapping[str, str]


def born_in(folders: Mapping[str, Path], start: Callable[[], Process]) -> Born:
    """Call `start` in a thread that is in these cgroups (name → folder); their parents are its home.

    A folder that cannot be entered, or come home from, is passed over and told. Raises what `start` raises, and
    `CradleError`.
    """
    order = _thread().submit(_inside, folders, start)
    try:
        finished, _ = wait([order], limits.CRADLE_SECONDS)
    except BaseException:
        order.add_done_callback(_end)
        raise
    if not finished:
        order.add_done_callback(_end)
        raise CradleError(f"no process within {limits.CRADLE_SECONDS:g} s", remedy="look at the load of this host")
    return order.result()


def rest() -> None:
    """End the thread, for who needs a process without a second one; the next start makes another.

    What it started and still lives ends with it.
    """
    with _making:
        for owner, executor in _one:
            if owner == os.getpid():
                executor.shutdown()
        _one.clear()


_one: list[tuple[int, ThreadPoolExecutor]] = []  # the process that it serves, and the thread
_making: Final = threading.Lock()


def _thread() -> ThreadPoolExecutor:
    """The one thread, made when it is first needed; a process that was forked from ours needs one of its own."""
    with _making:
        if not _one or _one[0][0] != os.getpid():
            _one[:] = [(os.getpid(), ThreadPoolExecutor(max_workers=1, thread_name_prefix=_NAME))]
        return _one[0][1]


def _end(order: Future[Born]) -> None:
    """Nobody waits any more: what was started is ended."""
    if not order.cancelled() and order.exception() is None:
        order.result().process.close()


def _inside(folders: Mapping[str, Path], start: Callable[[], Process]) -> Born:
    homes: list[int] = []
    refused: dict[str, str] = {}
    with contextlib.ExitStack() as held:
        for name, folder in folders.items():
            try:
                home = _open(held, folder.parent)
                os.write(home, _MYSELF)  # the way back, before it is needed
                os.write(_open(held, folder), _MYSELF)
            except OSError as error:
                refused[name] = f"{folder}/{_TASKS}: {os.strerror(error.errno or 0)}"
            else:
                homes.append(home)
        try:
            process = start()
        except BaseException:
            _return(homes)
            raise
        try:
            _return(homes)
        except CradleError:
            process.close()
            raise
    return Born(process=process, refused=refused)


def _open(held: contextlib.ExitStack, folder: Path) -> int:
    descriptor = os.open(folder / _TASKS, os.O_WRONLY | os.O_CLOEXEC)
    held.callback(os.close, descriptor)
    return descriptor


def _return(homes: list[int]) -> None:
    lost: OSError | None = None
    for home in homes:
        try:
            os.write(home, _MYSELF)
        except OSError as error:  # the others are still to be left
            lost = error
    if lost is not None:
        raise CradleError(f"a thread could not leave the cgroup of a sandbox: {lost.strerror}") from lost
