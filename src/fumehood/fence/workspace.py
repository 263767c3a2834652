"""One folder and nothing outside it: files are opened beneath its descriptor, and what was opened is what is judged.

Invariants: a `ContainedFile` exists only for a regular file that was reached beneath the root's descriptor, without a
link unless `Links.follow`; its kind, size, number of names and name on disk come from the descriptor that will be
read, never from its name. No open and no read waits for another process. Not promised: that a file's content stays the
same while it is read; that a second name of a file in one of `Links.hard_folders` lies inside.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from fumehood.core import errors
from fumehood.fence import names, openat2


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells one state of a file from another: the file itself, its size, and its times in nanoseconds."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int


_SEAL = object()  # whoever holds it may make a ContainedFile; this module only


class ContainedFile:
    """A regular file inside the workspace, opened. Proof: only `Workspace.contained` makes one.

    `path` is as asked, `real` as it stands on disk (another one after a link, or where case does not count).
    """

    __slots__ = ("_fd", "links", "mode", "path", "real", "size")

    def __init__(self, seal: object, path: bytes, fd: int, status: os.stat_result, real: bytes = b"") -> None:
        """Refuse everybody but this module."""
        if seal is not _SEAL:
            raise TypeError("only Workspace.contained makes a ContainedFile")
        self._fd = fd
        self.path = path
        self.real = real or path
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
        try:
            while got < limit and (block := os.pread(self._fd, min(limit - got, 1 << 20), got)):
                blocks.append(block)
                got += len(block)
        except OSError:  # a file of /proc, a disk that fails
            raise errors.UnreadableError(f"{_shown(self.path)} cannot be read", remedy="ask for another file") from None
        return b"".join(blocks)

    def stamp(self) -> Stamp:
        """Its state now."""
        now = os.fstat(self._fd)
        return Stamp(now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """What the operator lets links do: follow those that stay inside, and read files with a second name in folders."""

    follow: bool = False
    hard_folders: tuple[bytes, ...] = ()  # relative to the root; `.` is all of it


class Workspace:
    """A folder that was opened once; every later name is taken beneath that descriptor."""

    __slots__ = ("_hard_folders", "_links", "root_fd", "roots")

    def __init__(self, root_fd: int, roots: tuple[bytes, ...], links: Links = Links()) -> None:
        """Use `Workspace.open`; `roots` are the spellings under which callers may name the root."""
        self.root_fd = root_fd
        self.roots = roots
        self._links = links
        self._hard_folders = tuple(_parts(folder) for folder in links.hard_folders)

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: Path, links: Links = Links()) -> Iterator[Self]:
        """Open the folder, and close it at the end. The operator named the root: links may lead to it."""
        spelled = os.fsencode(path.absolute())
        try:
            fd = os.open(spelled, openat2.FOLDER)
        except OSError as e:
            _refuse(e, os.fsencode(path))
        try:
            yield cls(fd, (spelled, os.path.realpath(spelled)), links)
        finally:
            os.close(fd)

    def relative(self, path: bytes) -> bytes:
        """An absolute path inside, made relative by either spelling of the root; a relative one as it is."""
        if b"\0" in path:
            raise errors.OutsideWorkspaceError(f"{_shown(path)} holds a NUL byte", remedy="ask for another path")
        relative = names.beneath(path, self.roots)
        if relative is None:
            raise _outside(path)
        return relative

    def contained(self, path: bytes, *, hard_links: bool = False) -> ContainedFile:
        """Open a regular file inside. One with a second name is refused, unless `hard_links` or its folder allow it."""
        fd = self._opened(path, openat2.READ)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                _refuse_kind(path)
            real = self.real(fd, path)
            if status.st_nlink > 1 and not hard_links and not self._may_have_two_names(real):
                _refuse_second_name(path)
            return ContainedFile(_SEAL, path, fd, status, real)
        except BaseException:
            os.close(fd)
            raise

    @contextlib.contextmanager
    def folder(self, path: bytes) -> Iterator[int]:
        """The descriptor of a folder inside, closed at the end."""
        fd = self._opened(path, openat2.FOLDER)
        try:
            yield fd
        finally:
            os.close(fd)

    def real(self, fd: int, path: bytes) -> bytes:
        """Where what was opened by `path` stands, relative to the root, as the kernel names it.

        That needs /proc. Without it, `path` itself is given, unless links are followed: then the file is refused.
        """
        try:
            root, real = _kernels_name(self.root_fd), _kernels_name(fd)
        except OSError:
            root, real = b"", b""
        if real == root != b"":
            return b"."
        beneath = root.rstrip(b"/") + b"/"
        if root and real.startswith(beneath) and os.fstat(fd).st_nlink:  # a deleted one's name is not its own
            return real[len(beneath) :]
        if self._links.follow:
            raise _missing(path)
        return self.relative(path)

    def _opened(self, path: bytes, flags: int) -> int:
        try:
            return openat2.open_beneath(self.root_fd, self.relative(path), flags, follow=self._links.follow)
        except OSError as e:
            _refuse(e, path)

    def _may_have_two_names(self, real: bytes) -> bool:
        parts = _parts(real)
        return any(parts[: len(folder)] == folder for folder in self._hard_folders)


def _parts(path: bytes) -> list[bytes]:
    return [part for part in path.split(b"/") if part not in (b"", b".")]


def _kernels_name(fd: int) -> bytes:
    return os.readlink(b"/proc/self/fd/%d" % fd)  # noqa: PTH115 - bytes, which a Path does not take


def _refuse_kind(path: bytes) -> NoReturn:
    raise errors.NotAFileError(f"{_shown(path)} is not a regular file", remedy="ask for a file, or list this folder")


def _refuse_second_name(path: bytes) -> NoReturn:
    raise errors.HardLinkError(
        f"{_shown(path)} has a second name (a hard link), which may lie outside",
        remedy="copy the file, or name its folder in workspace.hard_link_folders",
    )


def _refuse(error: OSError, path: bytes) -> NoReturn:
    """The refusal for an open that failed. All that leads out, links included, gives the same words: no oracle."""
    shown = _shown(path)
    match error.errno:
        case errno.EXDEV | errno.ELOOP | errno.EINVAL | errno.EAGAIN:
            raise _outside(path) from None
        case errno.ENOENT | errno.ENAMETOOLONG:
            raise _missing(path) from None
        case errno.ENOTDIR:
            raise errors.NotAFolderError(
                f"{shown} is not a folder, or lies below a file", remedy="list the folder above it"
            ) from None
        case errno.ENXIO | errno.EISDIR | errno.ENODEV:
            _refuse_kind(path)
        case errno.EACCES | errno.EPERM:
            raise errors.UnreadableError(f"{shown} may not be read", remedy="look at its permissions") from None
        case _:
            raise errors.HarnessError(f"{shown} could not be opened: {os.strerror(error.errno or 0)}") from error


def _outside(path: bytes) -> errors.OutsideWorkspaceError:
    message = f"{_shown(path)} leads out of the workspace or through a link"
    return errors.OutsideWorkspaceError(message, remedy="ask for a path inside")


def _missing(path: bytes) -> errors.NotFoundError:
    return errors.NotFoundError(f"{_shown(path)} does not exist", remedy="list the folder above it")


def _too_large(path: bytes, limit: int) -> errors.TooLargeError:
    return errors.TooLargeError(f"{_shown(path)} is larger than {limit} bytes", remedy="ask for a smaller file")


def _shown(path: bytes) -> str:
    """The path as asked, inert: bounded, ASCII, control characters escaped."""
    return ascii(path[:200].decode("utf-8", "backslashreplace"))
