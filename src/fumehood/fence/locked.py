"""Open what its owner has locked, when the owner is us: a mode of 000 hides nothing from whoever may change the mode.

An ordinary user who runs a target under his own uid owns what it wrote. A target that takes the read right from its
files would otherwise hide them from the evidence. The mode is put back with the descriptor that was opened.
Nothing is changed that belongs to somebody else, and no link is followed: the name is opened with O_PATH first, and
the right is given to exactly that inode through /proc/self/fd (proc(5)). Without /proc nothing is unlocked.
"""

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from fumehood.fence import openat2


def unlock(folder_fd: int, name: bytes, flags: int) -> tuple[int, int]:
    """Open `name` after giving its owner, us, the right to read; returns the descriptor and the mode to put back.

    Raises PermissionError when it is not ours.
    """
    if sys.platform != "linux":
        raise PermissionError("only Linux can unlock through a descriptor")
    held = os.open(name, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder_fd)
    try:
        status = os.fstat(held)
        ours = status.st_uid == os.geteuid() and (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode))
        if not ours:
            raise PermissionError("it is not ours to unlock")
        mode = stat.S_IMODE(status.st_mode)
        door = Path(f"/proc/self/fd/{held}")
        door.chmod(mode | stat.S_IRUSR | (stat.S_IXUSR if stat.S_ISDIR(status.st_mode) else 0))
        try:
            return os.open(door, flags & ~os.O_NOFOLLOW), mode
        except BaseException:
            door.chmod(mode)
            raise
    finally:
        os.close(held)


@contextlib.contextmanager
def opened(root_fd: int, path: bytes, *, unlocking: bool) -> Iterator[int]:
    """A file below `root_fd` for reading, unlocking on the way what is ours, and locking it again at the end."""
    try:
        fd = openat2.open_beneath(root_fd, path)
    except PermissionError:
        if not unlocking:
            raise
        with contextlib.ExitStack() as undo:
            yield _unlocked(root_fd, path, undo)
        return
    try:
        yield fd
    finally:
        os.close(fd)


def enter(folder_fd: int, name: bytes, *, unlocking: bool) -> tuple[int, int | None]:
    """Open a folder so that it can be listed and passed: its descriptor, and the mode to put back, if any."""
    try:
        fd = os.open(name, openat2.FOLDER | os.O_NOFOLLOW, dir_fd=folder_fd)
    except PermissionError:
        if not unlocking:
            raise
        return unlock(folder_fd, name, openat2.FOLDER)
    # Readable is not enough: without the search right every name below it would be refused.
    if not unlocking or os.access(b".", os.X_OK, dir_fd=fd, effective_ids=True):
        return fd, None
    os.close(fd)
    return unlock(folder_fd, name, openat2.FOLDER)


def _unlocked(root_fd: int, path: bytes, undo: contextlib.ExitStack) -> int:
    names = path.split(b"/")
    fd = root_fd
    for name in names[:-1]:
        fd = _owed(enter(fd, name, unlocking=True), undo)
    try:
        return _owed((os.open(names[-1], openat2.READ | os.O_NOFOLLOW, dir_fd=fd), None), undo)
    except PermissionError:
        return _owed(unlock(fd, names[-1], openat2.READ), undo)


def _owed(entered: tuple[int, int | None], undo: contextlib.ExitStack) -> int:
    fd, mode = entered
    undo.callback(os.close, fd)
    if mode is not None:
        undo.callback(os.fchmod, fd, mode)
    return fd
