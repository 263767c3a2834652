"""`fumehood.lock` on the disk: read whole, replaced whole or not at all, mode 0644.

Invariants: what is read is a regular file of a bounded size that only its owner (or root) writes; what is written is
written beside, synced and renamed.

Not promised: that two commands which accept at the same time are both kept; the later wins.
"""

import contextlib
import os
import secrets
import stat
from pathlib import Path

from fumehood.core import limits
from fumehood.core.errors import HarnessError
from fumehood.gateway import lockfile
from fumehood.gateway.lockfile import Lock, LockError

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


def load(path: Path) -> Lock:
    """The lock; one without servers where there is no file. Errors: `LockError`."""
    try:
        opened = os.open(path, _READ)
    except FileNotFoundError:
        return Lock(servers={})
    except (OSError, ValueError) as error:
        raise _unreadable(error) from None
    with os.fdopen(opened, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise LockError(f"{lockfile.NAME} is no regular file", remedy="look at what is there")
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
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        try:
            with os.fdopen(os.open(beside, _NEW, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
            beside.rename(path)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else "not a path"
        raise HarnessError(f"{lockfile.NAME} cannot be written: {words}", remedy="look at its folder") from None


def _unreadable(error: OSError | ValueError) -> LockError:
    words = error.strerror if isinstance(error, OSError) else "not a path"
    return LockError(f"{lockfile.NAME} cannot be read: {words}", remedy="name a file that can be")
