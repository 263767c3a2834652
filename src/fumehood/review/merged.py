"""Read a file as the target would see it, through a stack of layers that the target wrote.

Invariants: each layer is entered through the fence only, so no link leads out of it; a whiteout or an opaque folder of
an upper layer hides what lies below it; a link anywhere on the way is refused, not followed. Layers are read after
their namespace is dead. Not promised: anything about files that are not regular.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from fumehood.core.errors import FumehoodError
from fumehood.fence import openat2
from fumehood.fence.workspace import Workspace
from fumehood.review.states import ReviewEndedError, State

_LOOK = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC | os.O_NOFOLLOW
_OPAQUE = "user.overlay.opaque"  # with `userxattr`, and only the value "y", the kernel hides what lies below


def find(layers: Sequence[Path], path: str) -> Path | None:
    """The topmost layer that has `path` as a regular file; None when no layer has it. `layers`: bottom first.

    Ends the review as TARGET_FAILED when a link, a folder or a device stands where the file should be.
    """
    parts = os.fsencode(path).split(b"/")
    for layer in reversed(layers):
        with Workspace.open(layer) as root:
            seen = _seen(root.root_fd, parts)
        if seen is True:
            return layer
        if seen is False:
            return None
    return None


def read(layers: Sequence[Path], path: str, limit: int) -> bytes | None:
    """The content of `path`, at most `limit` bytes; None when no layer has it. Ends the review as `find` does."""
    layer = find(layers, path)
    if layer is None:
        return None
    try:
        with Workspace.open(layer) as root, root.contained(os.fsencode(path), hard_links=True) as file:
            return file.read(limit)
    except FumehoodError as error:
        raise ReviewEndedError(State.TARGET_FAILED, error.code, error.message) from error


def _seen(root_fd: int, parts: list[bytes]) -> bool | None:
    """True: here. False: hidden by this layer. None: a lower layer decides."""
    hidden = False
    for count in range(1, len(parts) + 1):
        prefix = b"/".join(parts[:count])
        try:
            fd = openat2.open_beneath(root_fd, prefix, _LOOK)
        except FileNotFoundError:
            return False if hidden else None
        except OSError as error:
            raise _leads_away(parts) from error
        try:
            mode = os.fstat(fd).st_mode
            whiteout = stat.S_ISCHR(mode) and os.fstat(fd).st_rdev == 0
        finally:
            os.close(fd)
        if whiteout:
            return False
        if count == len(parts) and stat.S_ISREG(mode):
            return True
        if count == len(parts) or not stat.S_ISDIR(mode):
            raise _leads_away(parts)
        hidden = hidden or _opaque(root_fd, prefix)
    return None


def _opaque(root_fd: int, folder: bytes) -> bool:
    try:
        fd = openat2.open_beneath(root_fd, folder, openat2.FOLDER)
    except OSError as error:
        raise _leads_away(folder.split(b"/")) from error
    try:
        return _OPAQUE in os.listxattr(fd) and os.getxattr(fd, _OPAQUE) == b"y"
    finally:
        os.close(fd)


def _leads_away(parts: list[bytes]) -> ReviewEndedError:
    shown = ascii(parts[-1][:100].decode("utf-8", "backslashreplace"))
    return ReviewEndedError(
        State.TARGET_FAILED, "not_a_file", f"{shown} is not a regular file inside the workspace, or lies behind a link"
    )
