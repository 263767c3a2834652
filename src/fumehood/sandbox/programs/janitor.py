"""Remove a run's cgroups and folder once its harness is gone, in whatever way that happened.

As a program: `janitor.py PIPE NAME FOLDER ROOT…`. It reads PIPE, whose other end only the harness holds: end of file
means that the harness has ended without cleaning up, a byte that it could not. It uses the same functions itself.

What is removed was written by a hostile child: folders of mode 000, nesting deeper than any path may be long, links.
Every step is relative to an open folder, nothing is followed, and rights are changed through a descriptor of the very
folder, so that a child that still runs cannot turn a step towards another file.
"""

import _signal as signal  # type: ignore[import-not-found]  # the built-in part: `signal` loads enum, half of a start
import errno
import os
import sys
import time

PRIVATE = "private-"  # begins the names of a run's folders that no target can enter
GATE = "gate"  # the name of the FIFO at which bubblewrap's child waits for its release
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_EMPTY_SECONDS = 5.0  # a killed process leaves its cgroup within milliseconds, one in a slow system call later
_PAUSE_SECONDS = 0.002
_AT_ONCE = 10_000  # names of folders kept from one look
_ROUNDS = 50  # a child that still writes while its folder is removed makes work; it is being killed


class _Passing:
    """Pass over errors of some kinds, as `contextlib.suppress` does: this program is started for every run.

    Without contextlib and what that loads, it starts in 7 ms of CPU time instead of 11.
    """

    def __init__(self, *kinds: type[BaseException]) -> None:
        """Remember the kinds."""
        self._kinds = kinds

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        """Whether this error is one of them."""
        return kind is not None and issubclass(kind, self._kinds)


def empty_cgroup(folder: str) -> bool:
    """Kill every process in a cgroup, wait until none is left, remove it; False when it stayed busy."""
    deadline = time.monotonic() + _EMPTY_SECONDS
    while True:
        try:
            os.rmdir(folder)  # noqa: PTH106  # pathlib takes longer to import than all the rest
        except FileNotFoundError:
            return True
        except OSError:
            if time.monotonic() > deadline:
                return False
            _kill_all(folder)
            time.sleep(_PAUSE_SECONDS)
        else:
            return True


def _kill_all(folder: str) -> None:
    with _Passing(OSError):  # version 2, since 5.14: race-free
        with open(f"{folder}/cgroup.kill", "w", encoding="ascii") as file:  # noqa: PTH123  # no pathlib here
            file.write("1")
        return
    with _Passing(OSError):
        with open(f"{folder}/cgroup.procs", encoding="ascii") as file:  # noqa: PTH123  # no pathlib here
            pids = [int(word) for word in file.read().split()]
        for pid in pids:
            if pid in {0, os.getpid()}:  # of a namespace above; a thread of ours that starts something there
                continue
            with _Passing(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def remove_cgroups(roots: list[str], name: str) -> None:
    """Remove every cgroup below `roots` whose name is `name` or begins with it and a dash; first end all that run."""
    found: list[str] = []
    for root in roots:
        with _Passing(OSError):
            entries = os.listdir(root)  # noqa: PTH208  # names are what is wanted
            found += [f"{root}/{entry}" for entry in entries if entry == name or entry.startswith(f"{name}-")]
    for folder in found:
        try:
            os.rmdir(folder)  # noqa: PTH106  # as above
        except OSError:
            _kill_all(folder)
    for folder in found:
        empty_cgroup(folder)


def end_waiting(folder: str) -> None:
    """Kill every process that still waits at a gate of this run, or has yet to start: it holds the gate open.

    Nothing of a target has run there. One that is being started while we look is found by the next look. To look at
    every process of a host takes long, so a gate is asked first whether anybody has it open.
    """
    for _ in range(_ROUNDS):
        if not _is_held(folder):
            return
        _kill_waiting(f"{folder}/", f"/{GATE}")  # none, where it holds a gate and cannot be looked into yet
        time.sleep(_PAUSE_SECONDS)


def _is_held(folder: str) -> bool:
    """Whether anybody may read at one of the gates here: a FIFO without a reader refuses a writer (fifo(7)).

    Gates lie in the private folders of a run, and of each run of a station, whose folder's name is a number.
    """
    runs = [folder, *(f"{folder}/{name}" for name in _names(folder) if name.isdecimal())]
    return any(_is_read(f"{run}/{name}/{GATE}") for run in runs for name in _names(run) if name.startswith(PRIVATE))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208  # names are what is wanted
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_read(gate: str) -> bool:
    try:
        os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))
    except OSError as error:
        return error.errno not in {errno.ENXIO, errno.ENOENT}
    return True


def _kill_waiting(prefix: str, suffix: str) -> int:
    """Kill who has a file open whose path begins and ends so, ourselves excepted; return how many."""
    killed = 0
    for entry in os.listdir("/proc"):  # noqa: PTH208  # names are what is wanted
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        with _Passing(OSError):  # it has ended, or is another user's
            held = os.pidfd_open(int(entry))
            try:
                names = os.listdir(f"/proc/{entry}/fd")  # noqa: PTH208 - a start without pathlib
                links = [os.readlink(f"/proc/{entry}/fd/{name}") for name in names]  # noqa: PTH115 - the same
                if any(link.startswith(prefix) and link.endswith(suffix) for link in links):
                    signal.pidfd_send_signal(held, signal.SIGKILL)
                    killed += 1
            finally:
                os.close(held)
    return killed


def purge(folder: str) -> bool:
    """Remove a folder with everything in it; False when something stayed."""
    above, _, name = folder.rpartition("/")
    for _ in range(_ROUNDS):
        try:
            parent = os.open(above or "/", _OPEN)
        except FileNotFoundError:
            return True
        try:
            with _Passing(OSError):
                _remove_tree(parent, name)
            if not _is_there(parent, name):
                return True
            time.sleep(_PAUSE_SECONDS)
        finally:
            os.close(parent)
    return False


def _is_there(parent: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)  # relative to an open folder
    except FileNotFoundError:
        return False
    return True


def _remove_tree(parent: int, name: str) -> None:
    """Walk down and up with one open folder at a time: the depth is the child's choice, our descriptors are not.

    What is found in one look is emptied before the next look: to look again after each would be quadratic.
    """
    here = _enter(parent, name)
    trail: list[tuple[str, tuple[int, int]]] = [(name, _identity(parent))]
    below: list[list[str]] = [_clear(here)]  # for each folder of the trail, what is to be emptied in it still
    try:
        while trail:
            if not below[-1]:
                below[-1] = _clear(here)
            if below[-1]:
                following = below[-1].pop()
                entered = _enter(here, following)
                trail.append((following, _identity(here)))
                os.close(here)
                here = entered
                below.append([])
                continue
            below.pop()
            last, identity = trail.pop()
            above = os.open("..", _OPEN, dir_fd=here) if trail else os.dup(parent)
            os.close(here)
            here = above
            if _identity(here) != identity:
                raise OSError("a folder was moved while it was removed")
            os.rmdir(last, dir_fd=here)
    finally:
        os.close(here)


def _enter(parent: int, name: str) -> int:
    """Open a folder and take every right on it, whatever its mode; never through a link."""
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        with _Passing(OSError):  # another uid's, when we are not root: opening it will say so
            os.chmod(f"/proc/self/fd/{handle}", 0o700)  # noqa: PTH101  # the folder itself: O_PATH has no fchmod
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(handle)


def _clear(here: int) -> list[str]:
    """Unlink what is no folder; return folders that have to be emptied first, not more at once than are bounded."""
    full: list[str] = []
    with os.scandir(here) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=here)  # relative to an open folder
                continue
            try:
                os.rmdir(entry.name, dir_fd=here)  # relative to an open folder
            except OSError:
                full.append(entry.name)
                if len(full) == _AT_ONCE:
                    break
    return full


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def main(arguments: list[str]) -> int:
    """Wait for the harness to go, then clean up after it."""
    pipe, name, folder, *roots = arguments
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.read(int(pipe), 64)
    remove_cgroups(roots, name)
    end_waiting(folder)
    return 0 if purge(folder) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
