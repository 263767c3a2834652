"""One folder and nothing outside it: files are opened beneath its descriptor, and what was opened is what is judged.

Invariants: a `ContainedFile` exists only for a regular file that was reached without a link from the root's
descriptor; its kind, size and number of names come from the descriptor that will be read, never from its name. No
open and no read waits for another process. Not promised: that a file's content stays the same while it is read.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from fumehood.core import errors
from fumehood.fence import openat2

_SEAL = object()  # whoever holds it may make a ContainedFile; this module only


class ContainedFile:
    """A regular file inside the workspace, opened. Proof: only `Workspace.contained` makes one."""

    __slots__ = ("_fd", "links", "mode", "path", "size")

    def __init__(self, seal: object, path: bytes, fd: int, status: os.stat_result) -> None:
        """Refuse everybody but this module."""
        if seal is not _SEAL:
            raise TypeError("only Workspace.contained makes a ContainedFile")
        self._fd = fd
        self.path = path
        self.size = status.st_size
        self.mode = stat.S_IMODE(status.st_mode)
        self.links = status.st_nlink

    def read(self, limit: int) -> bytes:
        """The whole content, from the beginning; TooLargeError when there is more than `limit`, also when it grew."""
        if self.size > limit:
            raise _too_large(self.path, limit)
        content = self.head(limit + 1)
        if len(content) > limit:
            raise _too_large(self.path, limit)
        return content

    def head(self, limit: int) -> bytes:
        """At most `limit` bytes from the beginning."""
        blocks: list[bytes] = []
        got = 0
        while got < limit and (block := os.pread(self._fd, min(limit - got, 1 << 20), got)):
            blocks.append(block)
            got += len(block)
        return b"".join(blocks)

    def fileno(self) -> int:
        """The descriptor; it stays this file's."""
        return self._fd

    def close(self) -> None:
        """Close it; a second time does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


class Workspace:
    """A folder that was opened once; every later name is taken beneath that descriptor."""

    __slots__ = ("_roots", "root_fd")

    def __init__(self, root_fd: int, roots: tuple[bytes, ...]) -> None:
        """Use `Workspace.open`; `roots` are the spellings under which callers may name the root."""
        self.root_fd = root_fd
        self._roots = roots

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: Path) -> Iterator[Self]:
        """Open the folder, and close it at the end. The operator named the root: links may lead to it."""
        spelled = os.fsencode(path.absolute())
        try:
            fd = os.open(spelled, openat2.FOLDER)
        except OSError as e:
            _refuse(e, os.fsencode(path))
        try:
            yield cls(fd, (spelled, os.path.realpath(spelled)))
        finally:
            os.close(fd)

    def relative(self, path: bytes) -> bytes:
        """An absolute path inside, made relative by either spelling of the root; a relative one as it is."""
        if b"\0" in path:
            raise errors.OutsideWorkspaceError(f"{_shown(path)} holds a NUL byte", remedy="ask for another path")
        if not path.startswith(b"/"):
            return path
        for root in self._roots:
            if path == root or path.startswith(root.rstrip(b"/") + b"/"):
                return path[len(root) :].lstrip(b"/") or b"."
        raise _outside(path)

    def contained(self, path: bytes, *, hard_links: bool = False) -> ContainedFile:
        """Open a regular file inside. One with a second name is refused, unless `hard_links` allows it."""
        try:
            fd = openat2.open_beneath(self.root_fd, self.relative(path))
        except OSError as e:
            _refuse(e, path)
        try:
            status = _judged(os.fstat(fd), path, hard_links=hard_links)
            return ContainedFile(_SEAL, path, fd, status)
        except BaseException:
            os.close(fd)
            raise

    @contextlib.contextmanager
    def folder(self, path: bytes) -> Iterator[int]:
        """The descriptor of a folder inside, closed at the end."""
        try:
            fd = openat2.open_beneath(self.root_fd, self.relative(path), openat2.FOLDER)
        except OSError as e:
            _refuse(e, path)
        try:
            yield fd
        finally:
            os.close(fd)


def _judged(status: os.stat_result, path: bytes, *, hard_links: bool) -> os.stat_result:
    if not stat.S_ISREG(status.st_mode):
        raise errors.NotAFileError(f"{_shown(path)} is not a regular file", remedy="ask for a file")
    if status.st_nlink > 1 and not hard_links:
        raise errors.HardLinkError(f"{_shown(path)} has a second name", remedy="copy the file")
    return status


def _refuse(error: OSError, path: bytes) -> NoReturn:
    """The refusal for an open that failed. All that leads out, links included, gives the same words: no oracle."""
    shown = _shown(path)
    match error.errno:
        case errno.EXDEV | errno.ELOOP | errno.EINVAL | errno.EAGAIN:
            raise _outside(path) from None
        case errno.ENOENT | errno.ENAMETOOLONG:
            raise errors.NotFoundError(f"{shown} does not exist", remedy="list the folder above it") from None
        case errno.ENOTDIR:
            raise errors.NotAFolderError(f"{shown} is not a folder", remedy="ask for a folder") from None
        case errno.ENXIO | errno.EISDIR | errno.ENODEV:
            raise errors.NotAFileError(f"{shown} is not a regular file", remedy="ask for a file") from None
        case errno.EACCES | errno.EPERM:
            raise errors.UnreadableError(f"{shown} may not be read", remedy="look at its permissions") from None
        case _:
            raise errors.HarnessError(f"{shown} could not be opened: {os.strerror(error.errno or 0)}") from error


def _outside(path: bytes) -> errors.OutsideWorkspaceError:
    message = f"{_shown(path)} leads out of the workspace or through a link"
    return errors.OutsideWorkspaceError(message, remedy="ask for a path inside")


def _too_large(path: bytes, limit: int) -> errors.TooLargeError:
    return errors.TooLargeError(f"{_shown(path)} is larger than {limit} bytes", remedy="ask for a smaller file")


def _shown(path: bytes) -> str:
    """The path as asked, inert: bounded, ASCII, control characters escaped."""
    return ascii(path[:200].decode("utf-8", "backslashreplace"))
