"""Whether what git read in the work tree is what the fence had looked at: git opens files by their names.

Invariants: a file whose mark was taken before git ran, and again after it had ended, was not replaced in between: a
rename sets the time at which an inode changed, and nobody can set that back. Where there was no file, only a deletion
may be told. Not promised: that the content of the same file stays the same; clocks tick in steps of the kernel's.
"""

import os
from dataclasses import dataclass

from fumehood.core.errors import FumehoodError
from fumehood.fence.git.names import Change
from fumehood.fence.names import spelled
from fumehood.serve.context import Context


@dataclass(frozen=True, slots=True)
class Mark:
    """Which file it is, and when it or one of its names last changed."""

    device: int
    inode: int
    size: int
    changed_ns: int


def mark(path: bytes, context: Context) -> Mark | None:
    """The mark of a file that may be served; None where there is none."""
    try:
        with context.access.open(spelled(path)) as file:
            status = os.fstat(file.fileno())
    except FumehoodError:
        return None
    return Mark(status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)


def is_unchanged(change: Change, before: Mark | None, context: Context) -> bool:
    """Whether what git tells of a name is of the file that was looked at, or of none."""
    return change.status == "D" or (before is not None and mark(change.path, context) == before)
