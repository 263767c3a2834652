"""The one way from a path that somebody asked for to bytes: denylist, fence, what was opened, and what it holds.

Invariants: no other module of `serve` opens a path; a denied name is refused before anything is opened or looked at,
and once more by the name on disk of what was opened; a refusal names the path as asked and the workspace by its base
name.
"""

import contextlib
from collections.abc import Iterator

from fumehood.core.errors import DeniedPathError
from fumehood.fence.denylist import Denylist
from fumehood.fence.workspace import ContainedFile, Workspace


class Access:
    """One workspace behind its denylist."""

    __slots__ = ("_denylist", "_workspace", "name")

    def __init__(self, workspace: Workspace, denylist: Denylist, *, name: str) -> None:
        """`name` is the base name of the workspace: all that a message may say of where it lies."""
        self._workspace = workspace
        self._denylist = denylist
        self.name = name

    @property
    def root_fd(self) -> int:
        """The descriptor of the root, for who walks beneath it or starts a program in it."""
        return self._workspace.root_fd

    @property
    def denylist(self) -> Denylist:
        """What is denied, for who hands the policy to a program."""
        return self._denylist

    def relative(self, path: str) -> bytes:
        """A path as asked, made relative to the root and clean (no `.`, no empty part; `..` is refused); not opened.

        Errors: `OutsideWorkspaceError`, `DeniedPathError`.
        """
        asked = self._workspace.relative(path.encode("utf-8", "surrogateescape"))
        if self._denylist.denies(asked):
            raise DeniedPathError(f"{path!a} is not served", remedy="ask for another file")
        return asked

    def denies(self, path: bytes) -> bool:
        """Whether a path relative to the root, as it stands on disk, is never served."""
        return self._denylist.denies(path)

    def open(self, path: str) -> ContainedFile:
        """A regular file that may be served, opened. Errors: those of `relative` and of `Workspace.contained`."""
        return self._workspace.contained(self.relative(path))

    def read(self, path: str, limit_bytes: int) -> bytes:
        """All of a file whose content may be served too. Errors: those of `open`, `TooLargeError`."""
        with self.open(path) as file:
            return file.read(limit_bytes)

    @contextlib.contextmanager
    def folder(self, path: str) -> Iterator[int]:
        """The descriptor of a folder that may be served; an empty path and `.` are the root."""
        with self._workspace.folder(self.relative(path or ".")) as descriptor:
            yield descriptor
