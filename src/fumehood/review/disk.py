"""Whether the disk below the run folders is full: then what a step did is no evidence about the target."""

import errno
import os
from pathlib import Path

from fumehood.core import limits

FULL = "the disk that holds the run folders is full: no evidence about the target"


def has_room(path: Path) -> bool:
    """Whether a few more files can be written below `path`."""
    status = os.statvfs(path)
    blocks = status.f_bfree if os.geteuid() == 0 else status.f_bavail
    inodes = status.f_ffree if status.f_files else 1  # some file systems do not count them
    return blocks * status.f_frsize >= limits.DISK_ROOM_BYTES and inodes > 0


def is_cause_of(error: BaseException) -> bool:
    """Whether a full disk, or a full quota, is what an error comes from."""
    seen: BaseException | None = error
    for _ in range(limits.CAUSES):
        if seen is None:
            return False
        if isinstance(seen, OSError) and seen.errno in {errno.ENOSPC, errno.EDQUOT}:
            return True
        seen = seen.__cause__ or seen.__context__
    return False
