"""Copy trees that somebody hostile made into a fresh folder: what a step starts from where no overlay can be mounted.

Invariants: sources are read through the walk and through opens beneath their descriptors, so nothing outside them is
copied; no link is followed; what an owner, us, has locked is opened and locked again. The copy has regular files with
their modes, holes and times, folders, and links with whatever text they have; FIFOs, sockets, devices and what could
not be read are left out, by name. A later source lies on top of an earlier one. Trees over the bounds are refused.

Not kept: extended attributes, and that two names were one file.
"""

import contextlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field

from fumehood.core import errors, limits
from fumehood.fence import locked
from fumehood.fence.walk import Entry, EntryKind, WalkLimits, walk_layer
from fumehood.fence.writer import Writer, ours, read_block, write_all

_BUILDING = 0o700  # of a folder until everything in it is there
_BLOCK = 512  # the unit of st_blocks, stat(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyLimits:
    """How much is copied. A tree that a step wrote was bounded while it ran; the sum of trees is bounded here."""

    entries: int = 2 * limits.LAYER_ENTRIES
    depth: int = limits.LAYER_DEPTH
    total_bytes: int = 2 * limits.LAYER_BYTES


@dataclass(slots=True, kw_only=True)
class Copied:
    """What became of the trees."""

    entries: int = 0
    disk_bytes: int = 0  # that the copies' sources take on the disk
    left_out: dict[bytes, str] = field(default_factory=dict)  # path → "other", "unreadable", "changed"
    lost: dict[str, int] = field(default_factory=dict)  # what the walk could not list, by reason


def copy_trees(
    source_fds: Sequence[int], target_fd: int, *, owner: int | None, bounds: CopyLimits = CopyLimits()
) -> Copied:
    """Copy what lies below each of `source_fds`, the first at the bottom, to below `target_fd`, an empty folder.

    `owner` is the uid and gid that the copy gets; None keeps our own. Raises TooLargeError when the trees are over the
    bounds, HarnessError when the copy cannot be written.
    """
    copier = _Copier(target_fd, owner, bounds)
    with contextlib.closing(copier):
        for fd in source_fds:
            copier.add(fd)
        copier.finish()
    return copier.report


class _Copier:
    def __init__(self, target_fd: int, owner: int | None, bounds: CopyLimits) -> None:
        self._writer = Writer(target_fd, owner)
        self._bounds = bounds
        self._bytes = 0
        self._modes: dict[bytes, int] = {}  # of the folders, for the end: in a locked one nothing can be made
        self.report = Copied()

    def close(self) -> None:
        self._writer.close()

    def add(self, source_fd: int) -> None:
        bounds = WalkLimits(entries=self._bounds.entries, depth=self._bounds.depth)
        walk = walk_layer(source_fd, bounds=bounds, plain=True)
        for entry in walk:
            self._take(source_fd, entry)
        if "entries" in walk.lost:
            raise _too_large("entries")
        for reason, count in walk.lost.items():
            self.report.lost[reason] = self.report.lost.get(reason, 0) + count

    def finish(self) -> None:
        for path in sorted(self._modes, key=lambda p: p.count(b"/"), reverse=True):
            if self._modes[path] != _BUILDING:
                self._writer.chmod(path, self._modes[path])

    def _take(self, source_fd: int, entry: Entry) -> None:
        self.report.entries += 1
        if self.report.entries > self._bounds.entries:
            raise _too_large("entries")
        self.report.disk_bytes += entry.blocks * _BLOCK
        self.report.left_out.pop(entry.path, None)
        match entry.kind:
            case EntryKind.FOLDER:
                self._writer.folder(entry.path, _BUILDING, merge=True)
                self._modes[entry.path] = entry.mode
            case EntryKind.FILE:
                self._copy_file(source_fd, entry)
            case EntryKind.LINK if entry.link:
                self._writer.link(entry.path, entry.link, merge=True)
            case _:
                self.report.left_out[entry.path] = "other"

    def _copy_file(self, source_fd: int, entry: Entry) -> None:
        with contextlib.ExitStack() as stack:
            try:
                source = stack.enter_context(locked.opened(source_fd, entry.path, unlocking=True))
            except OSError:
                self.report.left_out[entry.path] = "unreadable"
                return
            status = os.fstat(source)
            same = (status.st_dev, status.st_ino) == (entry.device, entry.inode)
            if not same or not stat.S_ISREG(status.st_mode):  # a number is soon given to another inode
                self.report.left_out[entry.path] = "changed"
                return
            target = self._writer.file(entry.path, merge=True)
            try:
                self._pour(source, target, status.st_size)
                with ours():
                    os.utime(target, ns=(status.st_mtime_ns, status.st_mtime_ns))
            except BaseException:
                os.close(target)
                raise
            self._writer.seal(target, entry.mode)

    def _pour(self, source: int, target: int, size: int) -> None:
        """The bytes at their places; a hole stays one (lseek(2), SEEK_DATA)."""
        at = 0
        with ours():
            while at < size:
                try:
                    start = os.lseek(source, at, os.SEEK_DATA)
                except OSError:  # ENXIO: nothing but a hole up to the end
                    break
                end = min(size, os.lseek(source, start, os.SEEK_HOLE))
                os.lseek(source, start, os.SEEK_SET)
                os.lseek(target, start, os.SEEK_SET)
                at = self._pour_data(source, target, (start, end))
            os.ftruncate(target, size)

    def _pour_data(self, source: int, target: int, span: tuple[int, int]) -> int:
        at, end = span
        while at < end and (block := read_block(source, end - at)):
            self._bytes += len(block)
            if self._bytes > self._bounds.total_bytes:
                raise _too_large("bytes")
            write_all(target, block)
            at += len(block)
        return max(at, end)


def _too_large(what: str) -> errors.TooLargeError:
    return errors.TooLargeError(
        f"the tree has more {what} than can be copied for the next step", remedy="review on a host that mounts overlays"
    )
