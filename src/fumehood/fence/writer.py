"""Write a tree below a folder of ours, name by name.

Invariants: every name is made beneath the folder's descriptor, through real folders only; a file is new, or replaces
nothing but a file or a link that this tree has; owner comes first, mode then, for chown(2) takes bits away. Not
promised: anything when somebody else writes there meanwhile.
"""

import contextlib
import os
from collections.abc import Iterator

from fumehood.core import errors, limits
from fumehood.fence import openat2

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class Writer:
    """One tree that grows. Every error is ours: `HarnessError`."""

    def __init__(self, root_fd: int, owner: int | None) -> None:
        """Write below `root_fd`, which stays the caller's. `owner` is the uid and gid; None keeps our own."""
        self._root_fd = root_fd
        self._owner = owner
        self._last: tuple[bytes, int] | None = None  # the folder that the last name went to, still open

    def folder(self, path: bytes, mode: int, *, merge: bool = False) -> None:
        """Make a folder; with `merge` one that is there is taken."""
        with ours():
            above, name = self._above(path)
            try:
                os.mkdir(name, mode, dir_fd=above)
            except FileExistsError:
                if not merge:
                    raise
            self.seal(os.open(name, openat2.FOLDER | os.O_NOFOLLOW, dir_fd=above), mode)

    def link(self, path: bytes, text: bytes, *, merge: bool = False) -> None:
        """Make a link; its text is not looked at."""
        with ours():
            above, name = self._above(path)
            if merge:
                _take_away(above, name)
            os.symlink(text, name, dir_fd=above)
            if self._owner is not None:
                os.chown(name, self._owner, self._owner, dir_fd=above, follow_symlinks=False)

    def file(self, path: bytes, *, merge: bool = False) -> int:
        """A new, empty file, open for writing; `seal` it."""
        with ours():
            above, name = self._above(path)
            if merge:
                _take_away(above, name)
            return os.open(name, _NEW, 0o600, dir_fd=above)

    def seal(self, fd: int, mode: int) -> None:
        """Give what was made its owner and mode. Closes the descriptor."""
        try:
            with ours():
                if self._owner is not None:
                    os.fchown(fd, self._owner, self._owner)
                os.fchmod(fd, mode)
        finally:
            os.close(fd)

    def chmod(self, path: bytes, mode: int) -> None:
        """Give a folder that was made its last mode."""
        with ours():
            self.close()
            fd = openat2.open_beneath(self._root_fd, path, openat2.FOLDER)
            try:
                os.fchmod(fd, mode)
            finally:
                os.close(fd)

    def close(self) -> None:
        """Let go of the last folder."""
        if self._last is not None:
            os.close(self._last[1])
            self._last = None

    def _above(self, path: bytes) -> tuple[int, bytes]:
        """The folder for `path`, and its last name; files come one after the other, so the folder stays open."""
        folder, _, name = path.rpartition(b"/")
        if self._last is None or self._last[0] != folder:
            self.close()
            self._last = (folder, openat2.open_beneath(self._root_fd, folder, openat2.FOLDER))
        return self._last[1], name


@contextlib.contextmanager
def ours() -> Iterator[None]:
    """What fails in here failed on our side of a copy."""
    try:
        yield
    except OSError as e:
        message = f"a tree could not be copied: {os.strerror(e.errno or 0)}"
        raise errors.HarnessError(message, remedy="look at the space and rights of the run folder") from e


def read_block(fd: int, most: int = limits.HASH_BLOCK_BYTES) -> bytes:
    """The next block, of at most `most` bytes."""
    with ours():
        return os.read(fd, min(most, limits.HASH_BLOCK_BYTES))


def write_all(fd: int, block: bytes) -> None:
    """The whole block."""
    view = memoryview(block)
    with ours():
        while view:
            view = view[os.write(fd, view) :]


def _take_away(above: int, name: bytes) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=above)
