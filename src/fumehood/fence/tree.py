"""What lies in a folder and below it, seen through descriptors: no link is followed, nothing excluded is looked at.

Invariants: whether a name is excluded is decided by the name alone, before anything asks the file system about it; a
folder is entered beneath the descriptor of the one above it, without following a link; the order is that of the names,
files of a folder before the folders in it; entries, depth and time are bounded. Not promised: one moment for all of it;
what others add or remove meanwhile may be missing or not.

Names are text: UTF-8 with `surrogateescape`, whatever the locale says; `fence.names` spells them for others.
"""

import contextlib
import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from fumehood.core import limits
from fumehood.fence import openat2

Folder: TypeAlias = tuple[str, ...]  # names from where the walk began
_UTF_8 = sys.getfilesystemencoding() == "utf-8"
_CHECKED_EVERY = 1000  # entries between two looks at the budget


class Kind(Enum):
    """What an entry is, its link not followed."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"  # a FIFO, a socket, a device


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One entry, looked at: its size when it is a file, and what a reader of it would be told."""

    kind: Kind
    size: int | None = None
    flags: tuple[str, ...] = ()


def names(fd: int, *, excludes: Callable[[str], bool], check: Callable[[], None], bound: int) -> tuple[list[str], int]:
    """The names in an open folder in order, and how many were excluded; more than `bound` entries are not read."""
    kept: list[str] = []
    excluded = 0
    with os.scandir(fd) as found:
        for number, entry in enumerate(found):
            if number % _CHECKED_EVERY == 0:
                check()
            if number >= bound:
                break
            name = _text(entry.name)
            if excludes(name):
                excluded += 1
            else:
                kept.append(name)
    kept.sort()
    return kept, excluded


def look(fd: int, name: str) -> Look | None:
    """What a name in an open folder is; None when it is gone."""
    raw = name.encode("utf-8", "surrogateescape")
    try:
        status = os.stat(raw, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return None
    kind = _kind(status.st_mode)
    flags = []
    if kind in (Kind.FILE, Kind.FOLDER) and not os.access(raw, os.R_OK, dir_fd=fd, follow_symlinks=False):
        flags.append("unreadable")
    size = status.st_size if kind is Kind.FILE else None
    if kind is Kind.FILE and status.st_nlink > 1:
        flags.append("hard-linked")
        size = None  # of a file that may lie outside
    return Look(kind=kind, size=size, flags=tuple(flags))


@dataclass(slots=True, kw_only=True)
class Walk:
    """A pass over the files below a folder. After it `skipped` says what was passed over, and why, in counts.

    `denies` judges a name by the folder it is in and itself; `skips` says which folders are not entered, by their
    name; `enters` which may hold anything wanted.
    """

    denies: Callable[[str, str], bool]  # the folder relative to the root, the name
    skips: Callable[[str], bool]
    enters: Callable[[Folder], bool]
    check: Callable[[], None]
    bound: int = limits.WALKED_FILES
    entries: int = 0
    complete: bool = True
    here: int = -1  # the open folder of the file that was given last; only until the next one is asked for
    skipped: Counter[str] = field(default_factory=Counter)

    def files(self, fd: int, start: str) -> Iterator[tuple[Folder, str]]:
        """Every regular file below an open folder: the folders from there, and its name. `start` is where it lies."""
        yield from self._below(fd, start, ())

    def _below(self, fd: int, place: str, folder: Folder) -> Iterator[tuple[Folder, str]]:
        files, folders = self._sorted(fd, place)
        for name in files:
            self.here = fd
            yield folder, name
        for name in folders:
            inner = (*folder, name)
            if not self.enters(inner):
                continue
            if len(inner) > limits.WALKED_DEPTH:
                self.skipped["deep"] += 1
                continue
            opened = self._enter(fd, name)
            if opened is not None:
                try:
                    yield from self._below(opened, f"{place}/{name}" if place else name, inner)
                finally:
                    os.close(opened)

    def _sorted(self, fd: int, place: str) -> tuple[list[str], list[str]]:
        """Files and folders of one folder that are wanted."""
        self.check()
        files: list[str] = []
        folders: list[str] = []
        with os.scandir(fd) as found, self._unreadable():
            for entry in found:
                if self.entries >= self.bound:
                    self.complete = False
                    break
                self.entries += 1
                if self.entries % _CHECKED_EVERY == 0:
                    self.check()
                name = _text(entry.name)
                if self.denies(place, name):
                    self.skipped["denied"] += 1
                else:
                    self._sort(entry, name, files, folders)
        files.sort()
        folders.sort()
        return files, folders

    @contextlib.contextmanager
    def _unreadable(self) -> Iterator[None]:
        """A folder that opens may still not be read, or not to its end: what came so far counts."""
        try:
            yield
        except OSError:
            self.skipped["unreadable"] += 1

    def _sort(self, entry: "os.DirEntry[str]", name: str, files: list[str], folders: list[str]) -> None:
        if entry.is_symlink():
            self.skipped["links"] += 1
        elif entry.is_dir(follow_symlinks=False):
            if self.skips(name):
                self.skipped["generated"] += 1
            else:
                folders.append(name)
        elif entry.is_file(follow_symlinks=False):
            files.append(name)
        else:
            self.skipped["other"] += 1

    def _enter(self, fd: int, name: str) -> int | None:
        try:
            return os.open(name.encode("utf-8", "surrogateescape"), openat2.FOLDER | os.O_NOFOLLOW, dir_fd=fd)
        except OSError:
            self.skipped["unreadable"] += 1
            return None


def _text(name: str) -> str:
    return name if _UTF_8 else os.fsencode(name).decode("utf-8", "surrogateescape")


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return Kind.FILE
    if stat.S_ISDIR(mode):
        return Kind.FOLDER
    return Kind.LINK if stat.S_ISLNK(mode) else Kind.OTHER
