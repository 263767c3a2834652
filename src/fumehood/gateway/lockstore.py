"""`fumehood.lock` on the disk: read whole, replaced whole or not at all, mode 0644.

Invariants: what is read is a regular file of a bounded size that only its owner (or root) writes; what is written is
written beside, synced and renamed. Of those that read, change and write it within `held`, one does at a time.

Not promised: that two which write it outside of `held` at the same time are both kept; the later wins.
"""

import contextlib
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fumehood.core import limits
from fumehood.core.errors import HarnessError
from fumehood.gateway import lockfile
from fumehood.gateway.lockfile import Lock, LockError

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_HELD = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_PAUSE_SECONDS: Final = 0.02
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


def load(path: Path) -> Lock:
    """The lock; one without servers where there is no file. Errors: `LockError`."""
    try:
        opened = os.open(path, _READ)
    except FileNotFoundError:
        return Lock(servers={})
    except (OSError, ValueError) as error:
        raise _unreadable(error) from None
    found = os.fstat(opened)
    if not stat.S_ISREG(found.st_mode):  # a folder would not become a file object
        os.close(opened)
        raise LockError(f"{lockfile.NAME} is no regular file", remedy="look at what is there")
    with os.fdopen(opened, "rb") as file:
        if found.st_uid not in {0, os.geteuid()} or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise LockError(f"{lockfile.NAME} may be written by others", remedy="chown it to you and chmod go-w")
        try:
            data = file.read(limits.LOCK_BYTES + 1)
        except OSError as error:
            raise _unreadable(error) from None
    return lockfile.read(data)


def save(path: Path, lock: Lock) -> None:
    """Replace the file. Errors: `LockError` for what could not be read again, else `HarnessError`."""
    data = lockfile.write(lock)
    made = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        try:
            with os.fdopen(os.open(made, _NEW, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
            made.rename(path)
        except BaseException:
            with contextlib.suppress(OSError):
                made.unlink()
            raise
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else "not a path"
        raise HarnessError(f"{lockfile.NAME} cannot be written: {words}", remedy="look at its folder") from None


def beside(path: Path) -> Path:
    """What is held instead of the lock, which is another file after each change."""
    return path.with_name(f".{path.name}.held")


@contextlib.contextmanager
def held(path: Path, *, seconds: float = limits.LOCK_WAIT_SECONDS) -> Iterator[None]:
    """The file is nobody else's to change meanwhile. Waits so long, and blocks its thread. Errors: `HarnessError`."""
    with contextlib.ExitStack() as stack:
        try:
            opened = os.open(beside(path), _HELD, 0o600)
            stack.callback(os.close, opened)
            _owned_as_its_folder(opened, path.parent)
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) else "not a path"
            raise HarnessError(f"{lockfile.NAME} cannot be held: {words}", remedy="look at its folder") from None
        _hold(opened, seconds)
        yield


def _hold(opened: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() >= until:
            remedy = "another process changes it all this time: find and end that"
            raise HarnessError(f"{lockfile.NAME} was held for {seconds:g} s", remedy=remedy)
        time.sleep(_PAUSE_SECONDS)


def _owned_as_its_folder(opened: int, folder: Path) -> None:
    """Of what root leaves behind, the folder's own user can hold it afterwards."""
    if os.geteuid() == 0 and os.fstat(opened).st_uid == 0:
        os.fchown(opened, folder.stat().st_uid, -1)


def _unreadable(error: OSError | ValueError) -> LockError:
    words = error.strerror if isinstance(error, OSError) else "not a path"
    return LockError(f"{lockfile.NAME} cannot be read: {words}", remedy="name a file that can be")
