"""Count the lines of a file in an open folder, without following a link and without waiting for anybody.

Invariants: only a regular file with one name, of at most `limit` bytes, is read; a FIFO, a device or a socket is not
waited for. Nothing of the content comes back, only a number.
"""

import os
import stat

from fumehood.fence import openat2


def count(folder_fd: int, name: str, limit: int) -> tuple[int, int] | None:
    """Lines and bytes of a file; None for what is not read. A last line without its end counts."""
    try:
        fd = os.open(name, openat2.READ | os.O_NOFOLLOW, dir_fd=folder_fd)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or status.st_size > limit:
            return None
        data = os.read(fd, status.st_size)
    except OSError:
        return None
    finally:
        os.close(fd)
    return data.count(b"\n") + (data[-1:] not in (b"", b"\n")), len(data)
