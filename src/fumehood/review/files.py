"""Reads a file that an operator names: regular, bounded, whole. Not for files of targets."""

import os
import stat
from pathlib import Path

from fumehood.core.errors import RefusedError


class UnreadableFileError(RefusedError):
    """A file that was named cannot be read. Names it as asked."""

    code = "unreadable_file"


def read(path: Path, *, size: int) -> bytes:
    """The bytes of a regular file of at most `size` bytes."""
    shown = ascii(str(path))
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a path"
        raise UnreadableFileError(f"{shown} cannot be read: {why}", remedy="name a file that exists") from None
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        data = _all(descriptor, size + 1) if regular else b""
    except OSError as error:
        raise UnreadableFileError(f"{shown} cannot be read: {error.strerror}", remedy="try again") from None
    finally:
        os.close(descriptor)
    if not regular:
        raise UnreadableFileError(f"{shown} is no regular file", remedy="name a file")
    if len(data) > size:
        raise UnreadableFileError(f"{shown} has more than {size} bytes", remedy="name a smaller file")
    return data


def _all(descriptor: int, size: int) -> bytes:
    """Up to `size` bytes; one read may give fewer than the file has."""
    parts = []
    while size > 0 and (part := os.read(descriptor, size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
