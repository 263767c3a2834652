"""Stage a folder that somebody named into a fresh layer: what the copy holds is what the digest says.

Invariants: the source is read through the walk and through opens beneath its descriptor, so nothing outside it is
copied, whatever it holds or turns into meanwhile; the copy has regular files, folders, and links that stay inside;
no set-id bit, no xattr, no foreign owner survives. A tree over the bounds is refused whole: half a target would be
another target. Left out and counted: `.git` (history is no part of what runs), `node_modules` (INSTALL makes it),
FIFOs, sockets, devices, links that lead out, and what could not be read.

The digest is SHA-256 over one record per entry, in the order of the walk:
`kind NUL path NUL mode NUL value NUL`, the mode being "644", "755" or empty, the value the SHA-256 of a file's bytes
in hex, the text of a link, or empty. Two folders with the same digest are the same target.
"""

import contextlib
import hashlib
import os
import stat
from dataclasses import dataclass, field

from fumehood.core import errors, limits
from fumehood.fence import openat2
from fumehood.fence.walk import Entry, EntryKind, Sha256, Walk, WalkLimits
from fumehood.fence.writer import Writer, read_block, write_all

LEFT_OUT = frozenset({b".git", b"node_modules"})
_FOLDER_MODE, _FILE_MODE, _PROGRAM_MODE = 0o755, 0o644, 0o755
_EXECUTABLE = 0o111
_WHOLE = ("entries", "depth", "bytes")  # losing one of these refuses the target


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLimits:
    """How large a target may be."""

    entries: int = limits.LAYER_ENTRIES
    depth: int = limits.LAYER_DEPTH
    total_bytes: int = limits.LAYER_BYTES


@dataclass(slots=True, kw_only=True)
class Staged:
    """What was copied, and what was left out by kind."""

    files: int = 0
    folders: int = 0
    links: int = 0
    total_bytes: int = 0
    left_out: dict[str, int] = field(default_factory=dict)  # ".git", "node_modules", "other", "link outside", …
    sha256: Sha256 = Sha256("")


def stage(source_fd: int, target_fd: int, *, owner: int | None, bounds: StageLimits = StageLimits()) -> Staged:
    """Copy what lies below `source_fd` to below `target_fd`, an empty folder that nobody else can write.

    `owner` is the uid and gid that the copy gets; None keeps our own. Raises TooLargeError when the tree is over the
    bounds, HarnessError when the copy cannot be written (a full disk).
    """
    copier = _Copier(source_fd, target_fd, owner, bounds)
    pass_ = Walk(source_fd, bounds=WalkLimits(entries=bounds.entries, depth=bounds.depth), prune=LEFT_OUT)
    with contextlib.closing(copier):
        for entry in pass_:
            copier.take(entry)
    over = [reason for reason in _WHOLE if reason in pass_.lost]
    if over:
        raise _too_large(over[0])
    for reason, count in pass_.lost.items():
        copier.leave(reason, count)
    return copier.done()


class _Copier:
    def __init__(self, source_fd: int, target_fd: int, owner: int | None, bounds: StageLimits) -> None:
        self._source_fd = source_fd
        self._writer = Writer(target_fd, owner)
        self._bounds = bounds
        self._report = Staged()
        self._digest = hashlib.sha256()

    def take(self, entry: Entry) -> None:
        name = entry.path.rpartition(b"/")[2]
        if name in LEFT_OUT:
            self.leave(name.decode())
            return
        match entry.kind:
            case EntryKind.FOLDER:
                self._make_folder(entry)
            case EntryKind.FILE:
                self._copy_file(entry)
            case EntryKind.LINK if entry.link is not None and stays_inside(entry.path, entry.link):
                self._make_link(entry, entry.link)
            case EntryKind.LINK:
                self.leave("link outside")
            case _:
                self.leave("other")

    def leave(self, why: str, count: int = 1) -> None:
        self._report.left_out[why] = self._report.left_out.get(why, 0) + count

    def done(self) -> Staged:
        self._report.sha256 = Sha256(self._digest.hexdigest())
        return self._report

    def close(self) -> None:
        self._writer.close()

    def _make_folder(self, entry: Entry) -> None:
        self._writer.folder(entry.path, _FOLDER_MODE)
        self._report.folders += 1
        self._record(entry, "", b"")

    def _make_link(self, entry: Entry, link: bytes) -> None:
        self._writer.link(entry.path, link)
        self._report.links += 1
        self._record(entry, "", link)

    def _copy_file(self, entry: Entry) -> None:
        try:
            source = openat2.open_beneath(self._source_fd, entry.path)
        except OSError:
            self.leave("unreadable")
            return
        mode = _PROGRAM_MODE if entry.mode & _EXECUTABLE else _FILE_MODE
        try:
            status = os.fstat(source)
            same = (status.st_dev, status.st_ino) == (entry.device, entry.inode)
            if not same or not stat.S_ISREG(status.st_mode):  # a number is soon given to another inode
                self.leave("changed")
                return
            content = self._pour(source, self._writer.file(entry.path), mode)
        finally:
            os.close(source)
        self._report.files += 1
        self._record(entry, f"{mode:o}", content.encode())

    def _pour(self, source: int, target: int, mode: int) -> str:
        digest = hashlib.sha256()
        try:
            while block := read_block(source):
                self._count(len(block))
                digest.update(block)
                write_all(target, block)
        except BaseException:
            os.close(target)
            raise
        self._writer.seal(target, mode)
        return digest.hexdigest()

    def _count(self, size: int) -> None:
        self._report.total_bytes += size
        if self._report.total_bytes > self._bounds.total_bytes:
            raise _too_large("bytes")

    def _record(self, entry: Entry, mode: str, value: bytes) -> None:
        for part in (entry.kind.encode(), entry.path, mode.encode(), value):
            self._digest.update(part + b"\0")


def stays_inside(path: bytes, link: bytes) -> bool:
    """Whether a link at `path` cannot lead out of the tree: relative, and `..` only at its beginning, and few of them.

    A `..` behind a name could climb from wherever that name, itself a link, leads to.
    """
    if link.startswith(b"/") or not link:
        return False
    parts = [p for p in link.split(b"/") if p not in (b"", b".")]
    climbs = next((n for n, p in enumerate(parts) if p != b".."), len(parts))
    return b".." not in parts[climbs:] and climbs <= path.count(b"/")


def _too_large(what: str) -> errors.TooLargeError:
    return errors.TooLargeError(f"the folder has more {what} than a target may have", remedy="name a smaller folder")
