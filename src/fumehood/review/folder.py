"""The folder of a result: new or empty, its files written whole or not at all.

Invariants: every file is written under another name beside its own, synchronised, and renamed; `result.json` comes
last, so that where it exists everything else does. What ends early leaves no partial file, and no folder that it made;
what a killed review left is removed by the next one that is given the same folder. The folder is locked while it is
written, opened once and never again by path.

Threats: a link planted under a name of ours (nothing is opened but what was created here), a disk that fills.
"""

import contextlib
import errno
import fcntl
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from fumehood.core import limits
from fumehood.core.errors import HarnessError, RefusedError

RESULT = "result.json"
EVENTS = "events.ndjson"
REPORT = "report.html"
_PARTIALS = frozenset(f".fumehood-{name}.partial" for name in (RESULT, EVENTS, REPORT))
_LEFTOVERS = len(_PARTIALS) + 1  # enough names to know that one of them is not a leftover
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class OutputFolderError(RefusedError):
    """The folder of a result cannot be used. Names it as asked."""

    code = "output_folder"


class DiskError(HarnessError):
    """A file of the result could not be written."""

    code = "disk"


class Events:
    """`events.ndjson` while it grows: bounded in lines and bytes, buffered."""

    def __init__(self, descriptor: int) -> None:
        """Own the descriptor."""
        self._file = os.fdopen(descriptor, "wb", buffering=256 * limits.KIB)
        self._lines = 0
        self._bytes = 0

    def write(self, line: bytes) -> bool:
        """Append one line; False when the file is full."""
        if self._lines >= limits.EVENTS or self._bytes + len(line) > limits.EVENTS_BYTES:
            return False
        with _disk(EVENTS):
            self._file.write(line)
        self._lines += 1
        self._bytes += len(line)
        return True

    def sync(self) -> None:
        """Bring what was written to the disk, and close; a second time nothing is left to do."""
        if self._file.closed:
            return
        with _disk(EVENTS):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def abandon(self) -> None:
        """Close without caring for what is still in the buffer."""
        with contextlib.suppress(OSError):
            self._file.close()


class OutputFolder:
    """A context: `with OutputFolder(path) as folder`. Leaving it without `finish` takes everything away again."""

    def __init__(self, path: Path) -> None:
        """Make the folder, or take an empty one; `OutputFolderError` when it is neither."""
        self._path = path
        self._ours: set[str] = set()  # names that this object created, and may therefore remove
        self._finished = False
        self._made = _make(path)
        self._descriptor = _open(path)
        try:
            _refuse_filled(self._descriptor, path, locked=_lock(self._descriptor, path))
            self.events = Events(self._create(EVENTS))
        except BaseException:
            self._remove()
            raise

    def __enter__(self) -> Self:
        """The folder itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take away what is not finished."""
        if self._finished:
            os.close(self._descriptor)
        else:
            self.events.abandon()
            self._remove()

    def write(self, name: str, data: bytes) -> None:
        """Write one file whole, synchronised, under its name."""
        with _disk(name):
            descriptor = self._create(name)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            self._rename(name)

    def lines(self) -> Iterator[bytes]:
        """The events as they were written, one line at a time; nothing can be added to them any more."""
        self.events.sync()
        with _disk(EVENTS):
            descriptor = os.open(_partial(EVENTS), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._descriptor)
            with os.fdopen(descriptor, "rb") as file:
                yield from file

    def finish(self, result: bytes) -> None:
        """Give the events their name, then write `result.json`: after this the folder stays."""
        self.events.sync()
        with _disk(EVENTS):
            self._rename(EVENTS)
        self.write(RESULT, result)
        with _disk(RESULT):
            os.fsync(self._descriptor)
        self._finished = True

    def _create(self, name: str) -> int:
        with _disk(name):
            descriptor = os.open(_partial(name), _CREATE, 0o644, dir_fd=self._descriptor)
        self._ours.add(_partial(name))
        return descriptor

    def _rename(self, name: str) -> None:
        os.rename(_partial(name), name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        self._ours.add(name)

    def _remove(self) -> None:
        """Remove what this object created, and the folder when it made that and nothing else lies in it."""
        for name in self._ours:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self._descriptor)
        os.close(self._descriptor)
        if self._made:
            with contextlib.suppress(OSError):
                self._path.rmdir()


def _partial(name: str) -> str:
    return f".fumehood-{name}.partial"


def _make(path: Path) -> bool:
    """Make the folder with its parents; False when it was there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o755)
    except FileExistsError:
        return False
    except (OSError, ValueError) as error:
        raise OutputFolderError(
            f"{str(path)!a} cannot be made: {_why(error)}", remedy="name a folder that you may write"
        ) from None
    return True


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise OutputFolderError(
            f"{str(path)!a} is no folder that can be read: {_why(error)}", remedy="name a new folder"
        ) from None


def _lock(descriptor: int, path: Path) -> bool:
    """Lock the folder; False on a file system that has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OutputFolderError(
            f"{str(path)!a} is being written by another review", remedy="name another folder"
        ) from None
    except OSError:
        return False
    return True


def _refuse_filled(descriptor: int, path: Path, *, locked: bool) -> None:
    """Refuse a folder with anything in it; under the lock partial files are nobody's any more, and are removed."""
    with os.scandir(descriptor) as entries:
        names = list(itertools.islice((entry.name for entry in entries), _LEFTOVERS))
    if any(name not in _PARTIALS or not locked for name in names):
        raise OutputFolderError(
            f"{str(path)!a} is not empty", remedy="name a new folder: a result never mixes with another"
        )
    for name in names:
        with _disk(name):
            os.unlink(name, dir_fd=descriptor)


@contextlib.contextmanager
def _disk(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        remedy = "make room and run the review again" if full else "see whether the folder can be written"
        raise DiskError(f"{name} could not be written: {_why(error)}; no result is left", remedy=remedy) from error


def _why(error: OSError | ValueError) -> str:
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "not a path"
