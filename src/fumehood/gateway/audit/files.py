"""The files of an audit log: the current one and, beside it, those that are full.

`FILE` is current; when it is full it is renamed to `NAME-<number of its first line, 16 digits>.SUFFIX`, so that names
sort as lines do, and a new one is begun.

Invariants of writing: the folder is reached through no link and is the owner's or root's, writable by nobody else; each
file is regular, ours, mode 0600 and has one name; one process at a time holds the lock (`FILE.lock`, flock(2)).
Reading checks none of it: who verifies a copy need not own it.

Not promised: anything against the owner or root, or on a file system whose flock(2) or fsync(2) does nothing.
"""

import contextlib
import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from fumehood.core import limits
from fumehood.fence import openat2
from fumehood.gateway.audit.faults import AuditHeldError, AuditPlaceError

_WRITE: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_DIGITS: Final = 16  # 2**53 has as many
_REMEDY: Final = "it takes a folder that is there, is yours, and has no link in its path"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """The folder of one log, open and locked. Made by `locked`."""

    fd: int
    name: str  # of the current file

    def current(self) -> int:
        """The current file, open for appending; made where there is none. Errors: `AuditPlaceError`."""
        with _refusing("its file cannot be opened"):
            try:
                return _checked(os.open(self.name, _WRITE, dir_fd=self.fd))
            except FileNotFoundError:
                return self.begin()

    def begin(self) -> int:
        """A new, empty current file, whose name is on the disk. OSError when it cannot be."""
        opened = os.open(self.name, _WRITE | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self.fd)
        os.fchmod(opened, 0o600)
        os.fsync(self.fd)
        return opened

    def put_aside(self, sequence: int) -> None:
        """Rename the current file, which is full and begins with that line. OSError when it cannot be."""
        name = aside(self.name, sequence)
        if _is_there(name, self.fd):  # a rename would replace it; nobody else writes here
            raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
        os.rename(self.name, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        os.fsync(self.fd)

    def full(self) -> int | None:
        """The last one of the full files, open; None where there is none. Errors: `AuditPlaceError`."""
        with _refusing("its last full file cannot be opened"):
            names = _full(self.fd, self.name)
            return _checked(os.open(names[-1], _WRITE, dir_fd=self.fd)) if names else None


def aside(name: str, sequence: int) -> str:
    """What a full file is called. Pure."""
    path = Path(name)
    return f"{path.stem}-{sequence:0{_DIGITS}d}{path.suffix}"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[Folder]:
    """The folder of the log whose current file is `path`, for one writer. Errors: `AuditPlaceError`."""
    with contextlib.ExitStack() as stack:
        with _refusing(f"its folder {ascii(str(path.parent))[1:-1]} cannot be opened"):
            folder = _folder(path)
            stack.callback(os.close, folder)
            lock = _checked(os.open(f"{path.name}.lock", _WRITE | os.O_CREAT, 0o600, dir_fd=folder))
            stack.callback(os.close, lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise AuditHeldError from None
        yield Folder(fd=folder, name=path.name)


def lines(path: Path) -> Iterator[tuple[str, Iterator[bytes]]]:
    """The name of each file of a log, oldest first, and its lines as the writer left them. OSError when unreadable.

    A line longer than any of ours comes as its beginning.
    """
    folder = os.open(path.parent, openat2.FOLDER)
    try:
        names = _full(folder, path.name)
        if not names or _is_there(path.name, folder):  # a crash may come between two files
            names.append(path.name)
        for name in names:
            with open(_regular(os.open(name, openat2.READ, dir_fd=folder)), "rb") as file:
                yield name, iter(partial(file.readline, limits.AUDIT_LINE_BYTES + 1), b"")
    finally:
        os.close(folder)


def _full(folder: int, name: str) -> list[str]:
    path = Path(name)
    form = re.compile(rf"{re.escape(path.stem)}-[0-9]{{{_DIGITS}}}{re.escape(path.suffix)}")
    with os.scandir(folder) as entries:
        names: list[str] = []
        for number, entry in enumerate(entries):
            if number >= limits.AUDIT_NAMES or len(names) >= limits.AUDIT_FILES:
                raise OSError(errno.E2BIG, "too many files in the folder")
            if form.fullmatch(entry.name):
                names.append(entry.name)
    return sorted(names)


def _folder(path: Path) -> int:
    if not path.is_absolute() or not path.name:
        _refuse("it is no absolute path of a file", "name one")
    root = os.open("/", openat2.FOLDER)
    try:
        folder = openat2.open_beneath(root, os.fsencode(path.parent)[1:], openat2.FOLDER)
    finally:
        os.close(root)
    found = os.fstat(folder)
    if found.st_uid not in {0, os.geteuid()} or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        os.close(folder)
        _refuse("others may write its folder", "chown the folder to you and chmod go-w")
    return folder


def _checked(opened: int) -> int:
    """A descriptor that may be written to, or none."""
    found = os.fstat(opened)
    problem, remedy = "", "give the log a folder of its own, mode 0700"
    if not stat.S_ISREG(found.st_mode):
        problem = "it is no regular file"
    elif found.st_uid != os.geteuid():
        problem = "it is somebody else's"
    elif found.st_mode & 0o077:
        problem, remedy = "others may read or write it", "chmod 600 it"
    elif found.st_nlink != 1:
        problem = "it has a second name"
    if problem:
        os.close(opened)
        _refuse(problem, remedy)
    return opened


def _regular(opened: int) -> int:
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError(errno.EINVAL, "no regular file")
    return opened


def _is_there(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


@contextlib.contextmanager
def _refusing(problem: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = "a link is in its path" if error.errno in {errno.ELOOP, errno.EXDEV} else error.strerror
        raise AuditPlaceError(f"the audit log is refused: {problem}: {why}", remedy=_REMEDY) from None


def _refuse(problem: str, remedy: str) -> NoReturn:
    raise AuditPlaceError(f"the audit log is refused: {problem}", remedy=remedy)
