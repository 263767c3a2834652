"""A process's relatives and their memory, from /proc (proc(5)). Nothing here is evidence: it steers the supervisor."""

import contextlib
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_TICK_SECONDS: Final = 1 / os.sysconf("SC_CLK_TCK")
_CPU_FIELDS: Final = slice(11, 15)  # utime, stime, cutime, cstime, counted behind the command's name
_PAGE: Final = os.sysconf("SC_PAGESIZE")
_IN_MEMORY: Final = ("/memfd:", "/dev/shm/", "/dev/zero", "/SYSV")  # bounded as memory  # noqa: S108 - names, opened by nobody
_FIRST_INNER_PID: Final = "2"  # bubblewrap's pid 1 forks the command before anything else can exist


def parent(pid: int) -> int | None:
    """The parent of a process; None when it is gone."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(_read(f"/proc/{pid}/stat").rpartition(")")[2].split()[1])
    return None


def children(pid: int) -> list[int]:
    """The children of a process, of all its threads."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  # names only, often
            with contextlib.suppress(OSError):
                found += [int(word) for word in _read(f"/proc/{pid}/task/{thread}/children").split()]
    return found


def tree(pid: int) -> Iterator[int]:
    """A process and everything below it, as far as it holds still."""
    queue, seen = [pid], {pid}
    while queue:
        one = queue.pop()
        yield one
        fresh = [child for child in children(one) if child not in seen]
        seen.update(fresh)
        queue += fresh


def first_child(init: int) -> int | None:
    """The command's own process below pid 1 of its namespace; None before it starts and after it has ended."""
    for child in children(init):
        with contextlib.suppress(OSError):
            for line in _read(f"/proc/{child}/status").splitlines():
                if line.startswith("NSpid:") and line.split()[-1] == _FIRST_INNER_PID:
                    return child
    return None


def signal_first_child(init: int, number: int) -> bool:
    """Send a signal to the command below pid 1 of its namespace; whether it was there.

    Who has the number while its descriptor is open is asked once more: the number may have been given again.
    """
    found = first_child(init)
    if found is None:
        return False
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(found)
        try:
            if parent(found) == init:
                signal.pidfd_send_signal(descriptor, number)
                return True
        finally:
            os.close(descriptor)
    return False


def private_memory_bytes(pid: int) -> int:
    """Memory of a tree that no file can give back: private resident pages, and the memory files that it holds open.

    Pages shared after a fork count for each process; System V segments are not seen.
    """
    total = 0
    for one in tree(pid):
        with contextlib.suppress(OSError, IndexError, ValueError):
            words = _read(f"/proc/{one}/statm").split()
            total += (int(words[1]) - int(words[2])) * _PAGE
    return total + _nameless_bytes(pid, in_memory=True)


def cpu_seconds(pid: int) -> float:
    """CPU time of a tree, that of ended children which were waited for included."""
    ticks = 0
    for one in tree(pid):
        with contextlib.suppress(OSError, IndexError, ValueError):
            ticks += sum(map(int, _read(f"/proc/{one}/stat").rpartition(")")[2].split()[_CPU_FIELDS]))
    return ticks * _TICK_SECONDS


def deleted_bytes(pid: int) -> int:
    """Blocks of files on disk that a tree holds open without a name: no walk of a layer finds those."""
    return _nameless_bytes(pid, in_memory=False)


def _nameless_bytes(pid: int, *, in_memory: bool) -> int:
    """Blocks of the nameless files that a tree holds open, each once: in memory, or on disk."""
    seen: dict[tuple[int, int], int] = {}
    for one in tree(pid):
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{one}/fd"):  # noqa: PTH208  # names only, often
                with contextlib.suppress(OSError):
                    link = f"/proc/{one}/fd/{name}"
                    if os.readlink(link).startswith(_IN_MEMORY) is not in_memory:  # noqa: PTH115  # the kernel's word
                        continue
                    status = os.stat(link)  # noqa: PTH116  # the open file itself
                    if status.st_nlink == 0 and stat.S_ISREG(status.st_mode):
                        seen[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(seen.values())


def _read(path: str) -> str:
    return Path(path).read_text(encoding="ascii", errors="replace")
