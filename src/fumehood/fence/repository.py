"""Whether the repository of a workspace lies wholly inside it, looked at before git runs.

Invariants: a `Repository` exists only when `.git` is a real folder of the root; none of its administrative files and
no folder of its objects is a link or has a second name; it has no `commondir`; its store of objects borrows from none
outside; its configuration is understood, names no work tree but this one, and includes no file outside. Everything is
opened beneath the root's descriptor. A refusal says which of these it was, and never names what lies outside.

Threats: a repository that somebody hostile made (a subfolder of another repository, `core.worktree`, alternates,
includes, links). Not promised: that nothing changes until git reads it; git's own walls are for that.
"""

import os
import posixpath
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NoReturn, final

from fumehood.core import limits
from fumehood.core.errors import NotARepositoryError
from fumehood.fence import openat2
from fumehood.fence.git import configuration
from fumehood.fence.git.configuration import ConfigurationError, Setting

_SEAL: Final = object()
_CONFIGURATIONS = (b".git/config", b".git/config.worktree")
_REMEDY = "serve the top folder of a repository that needs nothing outside it"


@final
class Repository:
    """A repository of which every part lies inside. Proof: only `examine` makes one."""

    __slots__ = ("branch", "closing")

    def __init__(self, seal: object, closing: tuple[bytes, ...], branch: bytes | None) -> None:
        """Refuse everybody but this module."""
        if seal is not _SEAL:
            raise TypeError("only fence.repository makes a Repository")
        self.closing: Final = closing  # the arguments that blank its configuration
        self.branch: Final = branch  # the name of the branch that is checked out, foreign text; None: a commit is


@dataclass(frozen=True, slots=True)
class _Mark:
    """What changes when a file or a folder does. The time of the inode's change cannot be set back."""

    device: int
    inode: int
    size: int
    changed_ns: int
    modified_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "_Mark":
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns, status.st_mtime_ns)


class Examiner:
    """Examines one root, and looks again only at what has changed since."""

    def __init__(self, root_fd: int) -> None:
        """The descriptor stays the caller's and has to stay open."""
        self._root_fd = root_fd
        self._folders: dict[bytes, tuple[_Mark, tuple[bytes, ...]]] = {}  # without a link, and the folders in each
        self._configured: tuple[dict[bytes, _Mark | None], tuple[bytes, ...]] | None = None

    def examine(self) -> Repository:
        """The proof; NotARepositoryError with the cause."""
        status = self._status(b".git")
        if status is None:
            _refuse("the workspace is not the top folder of a repository")
        if not stat.S_ISDIR(status.st_mode):
            _refuse("its `.git` is not a folder of its own")
        if self._status(b".git/commondir") is not None:
            _refuse("its `.git` has a `commondir`")
        self._no_links(b".git")
        self._no_links(b".git/info")
        closing = self._configuration()
        self._tree(b".git/refs", limits.GIT_REFS_DEPTH)
        self._objects(b".git/objects", limits.GIT_ALTERNATES)
        return Repository(_SEAL, closing, self._branch())

    def _branch(self) -> bytes | None:
        line = self._content(b".git/HEAD", limits.GIT_HEAD_BYTES).strip()
        return line.removeprefix(b"ref:").strip().removeprefix(b"refs/heads/") if line.startswith(b"ref:") else None

    def _configuration(self) -> tuple[bytes, ...]:
        if self._configured is not None:
            marks, closing = self._configured
            if all(self._mark(path) == mark for path, mark in marks.items()):
                return closing
        marks = {path: self._mark(path) for path in _CONFIGURATIONS}
        try:
            closing = configuration.closing({setting.key for setting in self._settings(marks)})
        except ConfigurationError as e:
            _refuse(str(e))
        self._configured = (marks, closing)
        return closing

    def _settings(self, marks: dict[bytes, "_Mark | None"]) -> Iterator[Setting]:
        """Every setting, those of included files too, whatever the condition; adds what it read to `marks`."""
        waiting = [path for path, mark in marks.items() if mark is not None]
        while waiting:
            path = waiting.pop()
            for setting in configuration.parse(self._content(path, limits.GIT_CONFIGURATION_BYTES)):
                yield setting
                if setting.key == b"core.worktree":
                    self._own_tree(setting.value)
                if setting.includes:
                    included = _inside(posixpath.dirname(path), setting.value)
                    if included is None:
                        _refuse("its configuration includes a file outside")
                    if included not in marks and (mark := self._mark(included)) is not None:
                        marks[included] = mark
                        waiting.append(included)
            if len(marks) > len(_CONFIGURATIONS) + limits.GIT_INCLUDES:
                _refuse("its configuration includes too many files")

    def _own_tree(self, value: bytes | None) -> None:
        if _inside(b".git", value) != b"":
            _refuse("its `core.worktree` is not the workspace")

    def _objects(self, folder: bytes, left: int) -> None:
        """A store of objects: no links in it, and none outside that it borrows from."""
        if left == 0:
            _refuse("its `objects/info/alternates` go too deep")
        self._tree(folder, 1)
        alternates = folder + b"/info/alternates"
        if self._status(alternates) is None:
            return
        for line in self._content(alternates, limits.GIT_CONFIGURATION_BYTES).split(b"\n"):
            if not line or line.startswith(b"#"):
                continue
            other = None if line.startswith(b'"') else _inside(folder, line)
            if other is None:
                _refuse("its `objects/info/alternates` lead outside")
            self._objects(other, left - 1)

    def _tree(self, folder: bytes, depth: int) -> None:
        """Refuse links in a folder, and in those below it."""
        for name in self._no_links(folder):
            if depth == 0:
                _refuse("its `.git` has folders in each other, too deep")
            self._tree(folder + b"/" + name, depth - 1)

    def _no_links(self, folder: bytes) -> tuple[bytes, ...]:
        """Refuse links in a folder; the folders in it. One that has not changed since is not read again."""
        status = self._status(folder)
        if status is None:
            return ()
        if not stat.S_ISDIR(status.st_mode):
            _refuse("a part of its `.git` is a link")
        mark = _Mark.of(status)
        known = self._folders.get(folder)
        if known is not None and known[0] == mark:
            return known[1]
        folders: list[bytes] = []
        fd = self._open(folder, openat2.FOLDER)
        try:
            with os.scandir(fd) as found:
                for count, entry in enumerate(found):
                    if count > limits.GIT_STORE_ENTRIES:
                        _refuse("its `.git` has too many files in one folder")
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(os.fsencode(entry.name))
                    elif not entry.is_file(follow_symlinks=False):
                        self._refuse_odd(folder + b"/" + os.fsencode(entry.name))
        finally:
            os.close(fd)
        self._folders[folder] = (mark, tuple(folders))
        return tuple(folders)

    def _refuse_odd(self, path: bytes) -> None:
        """Refuse a link, and what git would wait for; git's own monitor leaves a socket, which nobody opens."""
        status = self._status(path)
        if status is None or stat.S_ISSOCK(status.st_mode):
            return
        _refuse(f"a part of its `.git` is {'a link' if stat.S_ISLNK(status.st_mode) else 'no file'}")

    def _content(self, path: bytes, limit: int) -> bytes:
        fd = self._open(path, openat2.READ)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or status.st_size > limit:
                _refuse("a part of its `.git` is not a file of its own")
            return os.pread(fd, limit, 0)
        finally:
            os.close(fd)

    def _open(self, path: bytes, flags: int) -> int:
        try:
            return openat2.open_beneath(self._root_fd, path, flags)
        except OSError:
            _refuse("a part of its `.git` cannot be read or is a link")

    def _mark(self, path: bytes) -> "_Mark | None":
        status = self._status(path)
        return None if status is None else _Mark.of(status)

    def _status(self, path: bytes) -> os.stat_result | None:
        """What is there, a link as a link. The folders above it are judged before what they hold."""
        try:
            return os.stat(path, dir_fd=self._root_fd, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            _refuse("a part of its `.git` cannot be read")


def _inside(folder: bytes, value: bytes | None) -> bytes | None:
    """A path as git takes it from a file in `folder`, relative to the root; empty for the root, None for outside.

    Without looking at the disk: a link on the way is refused when the path is opened. An absolute path is outside,
    whatever it names: this module does not know where the root lies.
    """
    if not value or value.startswith((b"/", b"~")) or b"\t" in value:
        return None
    clean = posixpath.normpath(posixpath.join(folder, value))
    if clean == b"..":
        return None
    if clean.startswith(b"../"):
        return None
    return b"" if clean == b"." else clean


def _refuse(cause: str) -> NoReturn:
    raise NotARepositoryError(f"not a repository that is read here: {cause}", remedy=_REMEDY)
