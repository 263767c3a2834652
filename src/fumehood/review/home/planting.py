"""Write a drawn home into the layer at the bottom of a review.

Invariants: files and folders belong to the target, have the modes that were drawn and times in the past; every name is
made beneath the layer's own folder, through real folders; nothing that is there is replaced.
"""

import os
import time
from pathlib import Path

from fumehood.fence import openat2
from fumehood.fence.writer import Writer, ours, write_all
from fumehood.review.home.model import Home, HomeFile

_PRIVATE_FOLDER, _FOLDER = 0o700, 0o755
_PRIVATE = frozenset({".ssh", ".config/gcloud", ".docker", ".claude", ".codex"})
_MADE_BEFORE_SECONDS = 3600  # that a folder was made before what lies in it was last written


def plant(home: Home, folder: Path, owner: int | None) -> None:
    """Write the files below `folder`, a home of the layer; `owner` is the target's uid, None keeps our own."""
    now = time.time()
    with ours():
        root_fd = os.open(folder, openat2.FOLDER | os.O_NOFOLLOW)
    writer = Writer(root_fd, owner)
    try:
        for path in sorted(_folders(home)):
            private = path in _PRIVATE
            writer.folder(path.encode(), _PRIVATE_FOLDER if private else _FOLDER, merge=True)
        for file in home.files:
            _write(writer, file)
        writer.close()
        _age(root_fd, home, now)
    finally:
        writer.close()
        os.close(root_fd)


def _folders(home: Home) -> set[str]:
    found: set[str] = set()
    for file in home.files:
        parts = file.path.split("/")[:-1]
        found |= {"/".join(parts[: count + 1]) for count in range(len(parts))}
    return found


def _write(writer: Writer, file: HomeFile) -> None:
    fd = writer.file(file.path.encode())
    try:
        write_all(fd, file.data)
    except BaseException:
        os.close(fd)
        raise
    writer.seal(fd, file.mode)


def _age(root_fd: int, home: Home, now: float) -> None:
    """Set times: of files as drawn, of folders those of what was written in them last, for writing set them to now."""
    lately: dict[str, int] = {}
    for file in home.files:
        _set_time(root_fd, file.path, now - file.age_seconds)
        parts = file.path.split("/")[:-1]
        for count in range(len(parts)):
            folder = "/".join(parts[: count + 1])
            lately[folder] = min(lately.get(folder, file.age_seconds), file.age_seconds)
    for folder, age in lately.items():
        _set_time(root_fd, folder, now - age - _MADE_BEFORE_SECONDS)


def _set_time(root_fd: int, path: str, moment: float) -> None:
    with ours():
        os.utime(path, (moment, moment), dir_fd=root_fd, follow_symlinks=False)
