"""Open a name below a folder's descriptor, following no link, and never one outside.

Invariants: what comes back was reached from `root_fd` through real folders only, at the moment of the open (not checked
first and opened afterwards); neither a link, nor `..`, nor an absolute path, nor a magic link of /proc leads out, also
where the caller wants links that stay inside followed; no open waits for the other end of a FIFO. Not promised: that
the file has no second name outside (hard links), or that a mount below the root is of the same file system.

Linux 5.6 and newer does it in one call (openat2(2)); where that call is missing (ENOSYS) or a container's filter
refuses it (EPERM), and on macOS, each component is opened by `dir_fd` with O_NOFOLLOW.

Errors are OSError: EXDEV leads outside, ELOOP a link, EINVAL a NUL byte, ENAMETOOLONG over the limit, ENXIO a socket.
"""

import ctypes
import errno
import functools
import os
import stat
import struct
import sys
from collections.abc import Callable

from fumehood.core import limits

READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
# A folder that is only passed through: no right to list it is needed. macOS has no O_PATH.
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW

_SYS_OPENAT2 = 437  # the same number on every architecture that Linux added it to
_RESOLVE = 0x02 | 0x04 | 0x08  # NO_MAGICLINKS | NO_SYMLINKS | BENEATH, linux/openat2.h
_FOLLOW = 0x02 | 0x08  # links that stay beneath; never one of /proc
_CHUNK_BYTES = 4000  # one call takes less than PATH_MAX (4,096) bytes
_ATTEMPTS = 8  # EAGAIN: a rename raced with `..`; openat2(2) says to try again

Opener = Callable[[int, bytes, int], int]


def open_beneath(
    root_fd: int, path: bytes, flags: int = READ, *, opener: Opener | None = None, follow: bool = False
) -> int:
    """Open `path`, relative to `root_fd`, and give its descriptor, which the caller closes.

    An empty path is the root itself. `opener` forces one mechanism, for tests: `by_openat2` or `by_walk`. `follow`
    lets links lead to other places beneath the root; where only the walk can be used, links stay refused.
    """
    _check(path)
    wanted = path or b"."
    if opener is not None:
        return opener(root_fd, wanted, flags)
    if sys.platform == "linux":
        try:
            return (by_following if follow else by_openat2)(root_fd, wanted, flags)
        except OSError as e:
            if e.errno not in (errno.ENOSYS, errno.EPERM):
                raise
    return by_walk(root_fd, wanted, flags)


def by_openat2(root_fd: int, path: bytes, flags: int) -> int:
    """Open through openat2(2); a path longer than PATH_MAX is taken in pieces, each beneath the one before."""
    return _by_openat2(root_fd, path, flags, _RESOLVE)


def by_following(root_fd: int, path: bytes, flags: int) -> int:
    """The same where links may lead to other places beneath the root."""
    return _by_openat2(root_fd, path, flags, _FOLLOW)


def _by_openat2(root_fd: int, path: bytes, flags: int, resolve: int) -> int:
    pieces = _pieces(path)
    fd = os.dup(root_fd) if len(pieces) > 1 else root_fd
    for piece in pieces[:-1]:
        try:
            step = _openat2(fd, piece, _STEP & ~os.O_NOFOLLOW, resolve)
        finally:
            os.close(fd)
        fd = step
    try:
        return _openat2(fd, pieces[-1], flags, resolve)
    finally:
        if fd != root_fd:
            os.close(fd)


def by_walk(root_fd: int, path: bytes, flags: int) -> int:
    """Open one component after the other, none of them a link. `..` goes back to the folder that was really passed."""
    names = [n for n in path.split(b"/") if n not in (b"", b".")]
    if path.rpartition(b"/")[2] in (b"", b"."):  # a name before it has to be a folder
        flags |= os.O_DIRECTORY
    climbs = b".." in names
    passed = [root_fd]
    try:
        for name in names[:-1]:
            _step(passed, name, keep=climbs)
        if not names or names[-1] == b"..":
            _step(passed, b".." if names else b".", keep=climbs)
            return os.open(b".", flags, dir_fd=passed[-1])
        return os.open(names[-1], flags | os.O_NOFOLLOW, dir_fd=passed[-1])
    finally:
        for fd in passed[1:]:
            os.close(fd)


def _check(path: bytes) -> None:
    if b"\0" in path:
        raise OSError(errno.EINVAL, "a path holds a NUL byte")
    if path.startswith(b"/"):
        raise OSError(errno.EXDEV, "a path is absolute")
    if len(path) > limits.PATH_BYTES:
        raise OSError(errno.ENAMETOOLONG, "a path is too long")


def _pieces(path: bytes) -> list[bytes]:
    pieces = [b""]
    for name in path.split(b"/"):
        if pieces[-1] and len(pieces[-1]) + 1 + len(name) > _CHUNK_BYTES:
            pieces.append(name)
        else:
            pieces[-1] = pieces[-1] + b"/" + name if pieces[-1] else name
    return pieces


def _step(passed: list[int], name: bytes, *, keep: bool) -> None:
    """Go into `name`, or back. Folders passed before stay open only where `..` may ask for them."""
    if name == b".":
        return
    if name == b"..":
        if len(passed) == 1:
            raise OSError(errno.EXDEV, "a path leads outside")
        os.close(passed.pop())
        return
    try:
        fd = os.open(name, _STEP, dir_fd=passed[-1])
    except NotADirectoryError:
        # The kernel says ENOTDIR for a link here; openat2 says ELOOP, and so do we.
        if stat.S_ISLNK(os.stat(name, dir_fd=passed[-1], follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, "a path leads through a link") from None
        raise
    passed.append(fd)
    if not keep and len(passed) > 2:  # noqa: PLR2004 - the root and the present one
        os.close(passed.pop(1))


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _openat2(fd: int, path: bytes, flags: int, resolve: int) -> int:
    how = struct.pack("QQQ", flags, 0, resolve)
    for _ in range(_ATTEMPTS):
        opened = _libc().syscall(
            ctypes.c_long(_SYS_OPENAT2), ctypes.c_int(fd), ctypes.c_char_p(path), how, ctypes.c_size_t(len(how))
        )
        if opened >= 0:
            return int(opened)
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code))
