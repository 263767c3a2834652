"""Walk a tree that somebody hostile made, and say what could not be walked.

Invariants: names are bytes; every folder is opened by the descriptor of the one above, with O_NOFOLLOW; no link is
followed, no FIFO, socket or device is opened; entries, depth and bytes hashed are bounded, and what a bound cost is
counted in `lost`. At most one descriptor per level is open. The order is the same each time: by name, a folder before
what it holds. Not promised: a consistent picture of a tree that still changes: read a layer after its namespace is
dead.

An overlay's own marks are read as facts: whiteouts (char device 0:0, or the xattr form of Linux 6.7) and xattrs. The
layers are mounted with `userxattr`, so only `user.overlay.*` is the kernel's word; what a process inside sets under
that name arrives as `user.overlay.overlay.*` (Linux 6.7; before, it is refused), and `trusted.overlay.*` means nothing
here: both are kept as marks, and make nothing opaque. See Documentation/filesystems/overlayfs.rst of the kernel.
"""

import contextlib
import enum
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NewType

from fumehood.core import limits
from fumehood.fence import locked, openat2

Sha256 = NewType("Sha256", str)  # 64 hex digits in lower case

_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_PREFIXES = ("user.overlay.", "trusted.overlay.")
# What the kernel itself writes on everything that it copies up: no word about deletion, and left out.
_ORDINARY = frozenset({"user.overlay.origin", "user.overlay.impure", "user.overlay.uuid", "user.overlay.nlink"})
_OPAQUE, _WHITEOUT = "user.overlay.opaque", "user.overlay.whiteout"
_FORCELESS = "=set by the target"  # an opaque mark where there is no overlay
_BLOCK = 512  # the unit of st_blocks, stat(2)


class EntryKind(enum.StrEnum):
    """What a name stands for."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    WHITEOUT = "whiteout"  # an overlay's word for "deleted", or a forged one
    OTHER = "other"  # FIFO, socket, device


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name in a tree, as lstat gives it."""

    path: bytes  # relative to the root, no leading slash
    kind: EntryKind
    mode: int  # permission bits, set-id bits included
    uid: int
    size: int
    blocks: int  # of 512 bytes
    nlink: int
    device: int
    inode: int
    link: bytes | None = None  # where a link points
    marks: tuple[str, ...] = ()  # the overlay xattrs that were found, by their full names

    @property
    def opaque(self) -> bool:
        """Whether an overlay hides what lower layers have in this folder (or whether somebody wrote so)."""
        return _OPAQUE in self.marks

    @property
    def sparse(self) -> bool:
        """Whether so much of the file is holes that hashing it would be a way to waste our time."""
        return self.size - self.blocks * _BLOCK > limits.HOLE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkLimits:
    """How much of a tree is looked at."""

    entries: int = limits.LAYER_ENTRIES
    depth: int = limits.LAYER_DEPTH
    hashed_bytes: int = limits.LAYER_BYTES


@dataclass(slots=True)
class _Level:
    """One folder that is open: names still to come, last first; a mode to put back when it was unlocked."""

    fd: int
    path: bytes  # with a slash at the end; empty for the root
    mode: int | None
    names: list[bytes]

    def close(self) -> None:
        if self.mode is not None:
            os.fchmod(self.fd, self.mode)
        os.close(self.fd)


class Walk:
    """One pass over a tree: iterate once, ask for digests, then read `lost`."""

    def __init__(
        self,
        root_fd: int,
        *,
        bounds: WalkLimits = WalkLimits(),
        prune: frozenset[bytes] = frozenset(),
        unlock: bool = False,
        plain: bool = False,
    ) -> None:
        """Walk below `root_fd`, which stays the caller's and has to stay open.

        `plain`: no overlay wrote here, so nothing is an overlay's word. On an ordinary folder a target may make the
        device 0:0 (Linux 5.8) and set `user.overlay.opaque`: the one is another kind, the other a mark without force.

        Folders with a name in `prune` are listed and not entered. `unlock` opens what its owner, us, has locked: for
        layers, which are ours; never for a folder that somebody named.
        """
        self._root_fd = root_fd
        self._bounds = bounds
        self._prune = prune
        self._unlock = unlock
        self._plain = plain
        self._left = bounds.entries
        self._hashed = 0
        self._digests: dict[bytes, Sha256 | None] = {}  # asked for once, counted once
        self.lost: dict[str, int] = {}  # reason → how many names, at least

    @property
    def truncated(self) -> bool:
        """Whether anything was lost."""
        return bool(self.lost)

    def __iter__(self) -> Iterator[Entry]:
        """Every entry below the root, in order."""
        levels = [self._level(os.open(b".", openat2.FOLDER, dir_fd=self._root_fd), b"", None)]
        try:
            while levels:
                level = levels[-1]
                if not level.names:
                    levels.pop().close()
                    continue
                entry = self._look(level, level.names.pop())
                if entry is None:
                    continue
                if entry.kind is not EntryKind.FOLDER:
                    yield entry
                    continue
                yield self._descend(levels, entry)
        finally:
            for level in levels:
                level.close()

    def digest(self, entry: Entry) -> Sha256 | None:
        """The SHA-256 of a regular file's content as hex; None for what is none, changed, or beyond the bounds."""
        if entry.kind is not EntryKind.FILE:
            return None
        if entry.path not in self._digests:
            self._digests[entry.path] = self._digest(entry)
        return self._digests[entry.path]

    def pieces(self, entry: Entry, size: int) -> Iterator[bytes]:
        """The content of a regular file in pieces of `size` bytes; fewer for what is none, changed, or has holes."""
        if entry.kind is not EntryKind.FILE or entry.sparse:
            return
        with contextlib.suppress(OSError), locked.opened(self._root_fd, entry.path, unlocking=self._unlock) as fd:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_ino != entry.inode:
                return
            left = entry.size
            while left > 0 and (piece := os.read(fd, min(size, left))):
                left -= len(piece)
                yield piece

    def _digest(self, entry: Entry) -> Sha256 | None:
        if entry.sparse:
            self._lose("sparse")
            return None
        if self._hashed + entry.size > self._bounds.hashed_bytes:
            self._lose("hashed_bytes")
            return None
        try:
            with locked.opened(self._root_fd, entry.path, unlocking=self._unlock) as fd:
                return self._hash(fd, entry)
        except OSError as e:
            self._lose(_reason(e))
            return None

    def _level(self, fd: int, path: bytes, mode: int | None) -> _Level:
        return _Level(fd, path, mode, self._names(fd))

    def _descend(self, levels: list[_Level], folder: Entry) -> Entry:
        """Make the folder the next level, unless it cannot be entered or lies too deep; the entry with its marks."""
        if folder.path.rpartition(b"/")[2] in self._prune:
            return folder
        below = self._enter(levels[-1], folder)
        if below is None:
            return folder
        fd, mode = below
        marks = _marks(fd)
        if self._plain:
            marks = tuple(f"{mark}{_FORCELESS}" if mark == _OPAQUE else mark for mark in marks)
        if len(levels) < self._bounds.depth:
            levels.append(self._level(fd, folder.path + b"/", mode))
        else:
            self._lose("depth")
            _Level(fd, b"", mode, []).close()
        return replace(folder, marks=marks)

    def _look(self, level: _Level, name: bytes) -> Entry | None:
        try:
            return self._entry(level.fd, name, level.path + name)
        except OSError as e:
            self._lose(_reason(e))
            return None

    def _entry(self, fd: int, name: bytes, path: bytes) -> Entry:
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        kind = _kind(status)
        if kind is EntryKind.LINK:
            return _made(path, kind, status, link=os.readlink(name, dir_fd=fd))
        if kind is EntryKind.FILE and status.st_size == 0:
            # Linux 6.7 can write a whiteout as an empty file with an xattr: user.overlay.whiteout.
            marks = self._file_marks(fd, name)
            if _WHITEOUT in marks and not self._plain:
                kind = EntryKind.WHITEOUT
            return _made(path, kind, status, marks=marks)
        if kind is EntryKind.WHITEOUT and self._plain:
            kind = EntryKind.OTHER
        return _made(path, kind, status)

    def _file_marks(self, fd: int, name: bytes) -> tuple[str, ...]:
        try:
            opened = os.open(name, _OPEN, dir_fd=fd)
        except OSError:
            return ()  # an empty file that cannot be opened is still an empty file
        try:
            return _marks(opened)
        finally:
            os.close(opened)

    def _enter(self, level: _Level, entry: Entry) -> tuple[int, int | None] | None:
        """Open a folder: its descriptor, and the mode to put back when it was locked and is ours."""
        try:
            return locked.enter(level.fd, entry.path[len(level.path) :], unlocking=self._unlock)
        except OSError as e:
            self._lose(_reason(e))
            return None

    def _names(self, fd: int) -> list[bytes]:
        """The names of an open folder in reverse order, as many as the bound leaves."""
        names: list[bytes] = []
        try:
            with os.scandir(fd) as found:
                for entry in found:
                    if self._left <= 0:
                        self._lose("entries")
                        break
                    self._left -= 1
                    names.append(os.fsencode(entry.name))
        except OSError as e:
            self._lose(_reason(e))
        names.sort(reverse=True)
        return names

    def _hash(self, fd: int, entry: Entry) -> Sha256 | None:
        status = os.fstat(fd)
        same = (status.st_dev, status.st_ino, status.st_size) == (entry.device, entry.inode, entry.size)
        if not same or not stat.S_ISREG(status.st_mode):  # a number is soon given to another inode
            self._lose("changed")
            return None
        digest = hashlib.sha256()
        left = entry.size + 1
        while left > 0 and (block := os.read(fd, min(limits.HASH_BLOCK_BYTES, left))):
            digest.update(block)
            left -= len(block)
        self._hashed += entry.size
        if left != 1:
            self._lose("changed")
            return None
        return Sha256(digest.hexdigest())

    def _lose(self, reason: str) -> None:
        self.lost[reason] = self.lost.get(reason, 0) + 1


@contextlib.contextmanager
def opened_layer(path: Path, *, bounds: WalkLimits = WalkLimits(), plain: bool = False) -> Iterator[Walk]:
    """A layer's folder, opened for a pass and for as many digests as are asked for before the block ends."""
    fd = os.open(path, openat2.FOLDER | os.O_NOFOLLOW)
    try:
        yield walk_layer(fd, bounds=bounds, plain=plain)
    finally:
        os.close(fd)


def walk_layer(root_fd: int, *, bounds: WalkLimits = WalkLimits(), plain: bool = False) -> Walk:
    """A pass over a layer of our own: what a target locked away from its owner is opened all the same."""
    return Walk(root_fd, bounds=bounds, unlock=True, plain=plain)


def _kind(status: os.stat_result) -> EntryKind:
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return EntryKind.FILE
    if stat.S_ISDIR(mode):
        return EntryKind.FOLDER
    if stat.S_ISLNK(mode):
        return EntryKind.LINK
    if stat.S_ISCHR(mode) and status.st_rdev == 0:
        return EntryKind.WHITEOUT
    return EntryKind.OTHER


def _made(
    path: bytes, kind: EntryKind, status: os.stat_result, *, link: bytes | None = None, marks: tuple[str, ...] = ()
) -> Entry:
    return Entry(
        path=path,
        kind=kind,
        mode=stat.S_IMODE(status.st_mode),
        uid=status.st_uid,
        size=status.st_size,
        blocks=status.st_blocks,
        nlink=status.st_nlink,
        device=status.st_dev,
        inode=status.st_ino,
        link=link,
        marks=marks,
    )


def _marks(fd: int) -> tuple[str, ...]:
    """The overlay's xattrs on an open file or folder, ordinary ones left out.

    An opaque folder says "y"; "x" says that xattr whiteouts may lie inside, and is kept as another word.
    """
    try:
        names = [n for n in os.listxattr(fd) if n.startswith(_PREFIXES) and n not in _ORDINARY]
        if _OPAQUE in names and os.getxattr(fd, _OPAQUE) != b"y":
            names[names.index(_OPAQUE)] = _OPAQUE + "=x"
    except (OSError, AttributeError):
        return ()  # a file system, or a system, without xattrs has no marks
    return tuple(sorted(names))


def _reason(error: OSError) -> str:
    """One word for why a name was lost."""
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return "unreadable"
        case errno.ENOENT | errno.ENOTDIR | errno.ELOOP | errno.EXDEV:
            return "changed"
        case errno.ENAMETOOLONG:
            return "name"
        case _:
            return "error"
