"""One small file in the user's state folder: read only when it is ours alone, replaced whole or not at all.

Holds: what is read is a regular file with one name, of this user, that nobody else may read or write, in a folder of
this user that nobody else may write to; the file that was checked is the one that is read. What is written is written
beside, synced and renamed, mode 0600.

Threats: a record planted by another user, a link or a FIFO in its place, a torn write. Not promised: anything against
the same user, or against root.

Source of the place: the XDG base directory specification (a relative XDG_STATE_HOME is ignored).
"""

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fumehood.core import limits

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # NONBLOCK: a FIFO must not make us wait
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a file holds; `data` is None where nothing can be taken from it, and `why` says the reason."""

    data: bytes | None
    why: str = ""


def place(environ: Mapping[str, str], name: str) -> Path | None:
    """Where a file of this user's state lies; None when there is no home, which nobody makes here."""
    folder = environ.get("XDG_STATE_HOME", "")
    if folder.startswith("/"):
        return Path(folder) / "fumehood" / name
    home = environ.get("HOME", "")
    if not home.startswith("/") or not os.path.isdir(home):  # noqa: PTH112 - also of a path with a NUL
        return None
    return Path(home) / ".local" / "state" / "fumehood" / name


def read(file: Path) -> Content:
    """What the file holds. Never raises for what is there."""
    try:
        with _folder(file.parent) as folder:
            if why := _folder_problem(os.fstat(folder)):
                return Content(data=None, why=why)
            descriptor = os.open(file.name, _READ, dir_fd=folder)
        with os.fdopen(descriptor, "rb") as opened:
            if why := _file_problem(os.fstat(descriptor)):
                return Content(data=None, why=why)
            data = opened.read(limits.CODE_ATTESTATION_BYTES + 1)
    except FileNotFoundError:
        return Content(data=None, why="there is none")
    except (OSError, ValueError) as error:
        return Content(data=None, why=_words(error))
    if len(data) > limits.CODE_ATTESTATION_BYTES:
        return Content(data=None, why="it is too large")
    return Content(data=data)


def write(file: Path, data: bytes) -> str:
    """Replace the file, and make the folders above it where there are none; why that was not possible, or nothing."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _folder(file.parent) as folder:
            if why := _folder_problem(os.fstat(folder)):
                return why
            beside = f".{file.name}.{secrets.token_hex(8)}"
            try:
                with os.fdopen(os.open(beside, _WRITE, 0o600, dir_fd=folder), "wb") as opened:
                    opened.write(data)
                    opened.flush()
                    os.fsync(opened.fileno())
                os.rename(beside, file.name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(beside, dir_fd=folder)
                raise
    except (OSError, ValueError) as error:
        return _words(error)
    return ""


def forget(file: Path) -> str:
    """Take the file away; why that was not possible, or nothing (also where there is none)."""
    try:
        with _folder(file.parent) as folder:
            os.unlink(file.name, dir_fd=folder)
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        return _words(error)
    return ""


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[int]:
    descriptor = os.open(path, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _folder_problem(facts: os.stat_result) -> str:
    if facts.st_uid != os.geteuid():
        return "its folder belongs to another user"
    return "others may write to its folder" if facts.st_mode & _OTHERS_WRITE else ""


def _file_problem(facts: os.stat_result) -> str:
    if not stat.S_ISREG(facts.st_mode):
        return "it is not a file"
    if facts.st_uid != os.geteuid():
        return "it belongs to another user"
    if facts.st_mode & _OTHERS:
        return "others may read or write it"
    return "it has a second name" if facts.st_nlink != 1 else ""


def _words(error: OSError | ValueError) -> str:
    """The system's words, without a path."""
    return os.strerror(error.errno or 0) if isinstance(error, OSError) else "its path is not one"
