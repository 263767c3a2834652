"""The folder of a batch: one folder for each request's digest, in it one for each attempt, numbered.

::

    DIR/.fumehood-batch             the lock, and the sign that the folder is a batch's
    DIR/summary.json, summary.md    written at the end, and again by each pass
    DIR/<digest>/request.json       what was asked
    DIR/<digest>/attempt-0001/      result.json, events.ndjson …; without result.json: half an attempt

Invariants: one batch at a time has the folder; a number is given once, whatever becomes of its attempt; no file of an
attempt that has a result is touched again; every file of ours is written whole or not at all. An attempt counts when
its `result.json` reads as one: `review.folder` renames that file last.

Threats: a killed batch, a killed child, a full disk, a loss of power in between: what is there tells what is left.
"""

import contextlib
import errno
import fcntl
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from fumehood.core import limits
from fumehood.core.errors import RefusedError
from fumehood.review import files
from fumehood.review.batch import facts
from fumehood.review.batch.facts import Facts, UnreadableResultError
from fumehood.review.folder import RESULT, DiskError, OutputFolderError

MARK = ".fumehood-batch"
REQUEST = "request.json"
WORDS = "stderr.txt"  # a child's last words, beside or instead of a result
_ATTEMPT = re.compile(r"attempt-([0-9]{4})")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class AttemptsError(RefusedError):
    """A request has had as many attempts as can be numbered."""

    code = "attempts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a request's folder holds: how many attempts began, and the last that has a result."""

    attempts: int = 0
    last: str | None = None  # the name of that attempt's folder
    facts: Facts | None = None
    words: str = ""  # of the last attempt, when it has no result


class Place:
    """`with Place(path) as place`. The folder stays, whatever happens."""

    def __init__(self, path: Path) -> None:
        """Make the folder, or take one of a batch; `OutputFolderError` when it is neither or in use."""
        self.path = path
        _make(path)
        self._lock = _locked(path)

    def __enter__(self) -> Self:
        """The folder itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let others have it."""
        os.close(self._lock)

    def digests(self) -> list[str]:
        """The digests that have a folder, sorted."""
        return sorted(entry.name for entry in os.scandir(self.path) if _DIGEST.fullmatch(entry.name))

    def standing(self, digest: str) -> Standing:
        """What there is of a request: the newest attempt whose result reads counts."""
        names = self._attempts(digest)
        words = ""
        for place, name in enumerate(reversed(names)):
            with contextlib.suppress(UnreadableResultError, files.UnreadableFileError):
                data = files.read(self.path / digest / name / RESULT, size=limits.JSON_RESULT_BYTES)
                return Standing(attempts=len(names), last=name, facts=facts.read(data), words=words)
            if place == 0:
                words = self._words(digest, name)
        return Standing(attempts=len(names), words=words)

    def begin(self, digest: str, request: bytes) -> Path:
        """The empty folder of the next attempt, absolute. Its request lies beside it."""
        folder = self.path / digest
        with _disk(str(folder)):
            folder.mkdir(mode=0o755, exist_ok=True)
        if not (folder / REQUEST).exists():
            write(folder, REQUEST, (request,))
        names = self._attempts(digest)
        number = int(_number(names[-1])) + 1 if names else 1
        if number > limits.BATCH_ATTEMPTS:
            raise AttemptsError(
                f"{digest[:12]}… has {limits.BATCH_ATTEMPTS} attempts", remedy="remove its folder to begin again"
            )
        attempt = folder / f"attempt-{number:04d}"
        with _disk(str(attempt)):
            attempt.mkdir(mode=0o755)
            _synchronise(folder)
        return attempt.absolute()

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the batch's own whole, in the place of the one before."""
        write(self.path, name, (data,))

    def _attempts(self, digest: str) -> list[str]:
        """The names of a request's attempts in order."""
        try:
            with os.scandir(self.path / digest) as entries:
                return sorted(entry.name for entry in entries if _ATTEMPT.fullmatch(entry.name))
        except FileNotFoundError:
            return []

    def _words(self, digest: str, name: str) -> str:
        with contextlib.suppress(files.UnreadableFileError):
            data = files.read(self.path / digest / name / WORDS, size=limits.BATCH_STDERR_BYTES)
            return last_line(data)
        return ""


def last_line(data: bytes) -> str:
    """The last line of a child's words; printable ASCII only, whatever it wrote."""
    lines = data.decode("ascii", "backslashreplace").strip().splitlines()
    return "".join(c if c.isprintable() else "?" for c in lines[-1])[:400] if lines else ""


def keep(attempt: Path, returned: tuple[tuple[str, bytes], ...]) -> None:
    """Write files that came back compressed, `result.json` last. Errors: `DiskError`, `UnreadableResultError`."""
    for name, packed in sorted(returned, key=lambda one: one[0] == RESULT):
        write(attempt, name, _unpacked(name, packed))


def write(folder: Path, name: str, pieces: Iterable[bytes]) -> None:
    """Write one file whole, synchronised, under its name; nothing is left of one that could not be."""
    partial = folder / f".{name}.partial"
    with _disk(name):
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
            partial.rename(folder / name)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise
        _synchronise(folder)


def _unpacked(name: str, packed: bytes) -> Iterator[bytes]:
    """A file that came back, in bounded pieces."""
    left = limits.JSON_RESULT_BYTES if name == RESULT else limits.EVENTS_BYTES
    unpacker = zlib.decompressobj()
    try:
        while packed and not unpacker.eof:
            piece = unpacker.decompress(packed, limits.HASH_BLOCK_BYTES)
            left -= len(piece)
            if left < 0:
                raise UnreadableResultError(f"{name} came back larger than it may be", remedy="see the worker")
            yield piece
            packed = unpacker.unconsumed_tail
    except zlib.error:
        raise UnreadableResultError(f"{name} came back broken", remedy="see the worker") from None


def _make(path: Path) -> None:
    try:
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
        names = set(os.listdir(path))  # noqa: PTH208 - names only
    except (OSError, ValueError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "not a path"
        raise OutputFolderError(
            f"{str(path)!a} cannot be used: {why}", remedy="name a folder that you may write"
        ) from None
    if names and MARK not in names:
        raise OutputFolderError(
            f"{str(path)!a} is not empty and no batch's", remedy="name a new folder, or that of an earlier batch"
        )


def _locked(path: Path) -> int:
    with _disk(MARK):
        descriptor = os.open(path / MARK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        busy = error.errno in {errno.EWOULDBLOCK, errno.EACCES}
        why = "is being written by another batch" if busy else "lies on a file system without locks"
        raise OutputFolderError(f"{str(path)!a} {why}", remedy="wait for it, or name another folder") from None
    return descriptor


def _number(name: str) -> str:
    return name.rpartition("-")[2]


def _synchronise(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _disk(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        remedy = "make room and run the same command again" if full else "see whether the folder can be written"
        why = os.strerror(error.errno) if error.errno else str(error)
        raise DiskError(f"{name} could not be written: {why}", remedy=remedy) from error
