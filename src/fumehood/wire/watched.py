"""A small file that decides who may enter, read again whenever it changes.

Invariants: a file that is missing, broken, empty, too large, or that others may write has no value at all, never an
older or a wider one: whoever is judged by it is refused until it is right again. At the start of the process such a
file stops the start. What a file holds is never logged.

A change is seen by inode, size and both times; write a new file beside it and rename it over the old one, so that no
half of it is ever read.
"""

import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from fumehood.core import limits
from fumehood.core.settings import SettingsError

_log = logging.getLogger(__name__)
Value = TypeVar("Value")
Stamp = tuple[int, int, int, int, int]


class BrokenFileError(ValueError):
    """A file does not hold what it should; the message names the line, never its content."""


class WatchedFile(Generic[Value]):
    """The value of one file."""

    def __init__(self, path: Path, parse: Callable[[bytes], Value]) -> None:
        """Read the file for the first time. Errors: `SettingsError`, which stops a start."""
        self.path = path
        self._parse = parse
        self._stamp: Stamp | None = None
        self._value: Value | None = None
        try:
            self._stamp, self._value = self._read()
        except BrokenFileError as error:
            raise SettingsError(str(error), source=ascii(str(path))[1:-1], remedy="correct the file") from None

    def value(self) -> Value | None:
        """What the file holds now; None while it holds nothing usable."""
        try:
            if self._stamp is None or _stamp(self.path.stat()) != self._stamp:
                self._stamp, self._value = self._read()
                _log.warning("a file of credentials was read again", extra={"file": self.path.name})
        except (BrokenFileError, OSError) as error:
            if self._value is not None:
                why = str(error) if isinstance(error, BrokenFileError) else "cannot be read"
                _log.error(
                    "nobody is let in until a file of credentials is mended: %s", why, extra={"file": self.path.name}
                )
            self._stamp = self._value = None
        return self._value

    def _read(self) -> tuple[Stamp, Value]:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        except (OSError, ValueError):
            raise BrokenFileError("cannot be read") from None
        try:
            found = os.fstat(descriptor)
            _check(found)
            data = os.read(descriptor, limits.HTTP_FILE_BYTES + 1)
        finally:
            os.close(descriptor)
        if len(data) > limits.HTTP_FILE_BYTES:
            raise BrokenFileError(f"is larger than {limits.HTTP_FILE_BYTES} bytes")
        return _stamp(found), self._parse(data)


def _check(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise BrokenFileError("is no regular file")
    if found.st_uid not in {0, os.geteuid()} or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BrokenFileError("may be written by others: chown it to you and chmod go-w")


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
