"""One attempt: `fumehood review run` as a child process, watched until it has ended. What a worker does.

Invariants: the child's standard input is a pipe that only this process holds, and the child ends as if interrupted
when that closes: however the worker dies, its reviews take their processes and mounts away. No wait is without a
deadline. What is returned is plain and bounded: numbers, and bytes.

Not promised: that a child which was itself killed has ended everything at once: its janitor needs some milliseconds.
"""

import contextlib
import os
import secrets
import selectors
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fumehood.core import limits
from fumehood.review import files
from fumehood.review.batch.place import REQUEST
from fumehood.review.folder import EVENTS, REPORT, RESULT
from fumehood.sandbox import launch, slots

Stop = Callable[[], bool]
_SCRATCH = "fumehood-batch-"
RETURNED = (RESULT, REPORT, EVENTS)  # the order in which they may take the room of BATCH_RETURNED_BYTES
_SIZES = {RESULT: limits.JSON_RESULT_BYTES, REPORT: limits.JSON_RESULT_BYTES, EVENTS: limits.EVENTS_BYTES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a worker is given: one request, and where a `dir` target's path begins. Travels between processes."""

    digest: str
    request: bytes
    beside: str
    harness: str  # the version that asks: another one does not answer
    out: str | None = None  # the attempt's folder, its request beside it; None: the files come back
    settings: str | None = None  # a settings file of this host; None: the worker's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an attempt ended. Travels between processes."""

    token: str  # of this execution: a task that is run again has another
    status: int  # of the child; 128 + n for signal n
    words: bytes = b""  # the end of what it wrote to stderr
    files: tuple[tuple[str, bytes], ...] = ()  # compressed
    dropped: tuple[str, ...] = ()  # files that were too large to come back
    where: str = ""


def perform(task: Task, *, stop: Stop, token: str | None = None) -> Outcome:
    """Run one attempt to its end; `stop` says that nobody wants it any more."""
    token = token or secrets.token_hex(8)
    if task.out is not None:
        out = Path(task.out)
        status, words = child(_argv(task, out.parent / REQUEST, out), stop=stop, environment=os.environ)
        return Outcome(token=token, status=status, words=words)
    with scratch(Path(tempfile.gettempdir())) as folder:
        request, out = folder / REQUEST, folder / "attempt"
        request.write_bytes(task.request)
        status, words = child(_argv(task, request, out), stop=stop, environment=os.environ)
        packed, dropped = pack(out)
        where = os.uname().nodename
        return Outcome(token=token, status=status, words=words, files=packed, dropped=dropped, where=where)


@contextlib.contextmanager
def scratch(place: Path) -> Iterator[Path]:
    """A folder until the block is left. What workers that were killed left of theirs goes as well."""
    for left in place.glob(f"{_SCRATCH}*"):
        _remove_unheld(left)
    folder = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=place))
    held = slots.try_lock(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            os.close(held)


def _remove_unheld(folder: Path) -> None:
    """Remove a folder of ours that nobody holds."""
    with contextlib.suppress(OSError):
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid() or _is_fresh(folder):
            return
        held = slots.try_lock(folder)
        if held is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(held)


def _is_fresh(folder: Path) -> bool:
    """Whether it may have been made a moment ago, and not be locked yet."""
    return time.time() - folder.stat().st_mtime < limits.BATCH_TASK_SECONDS


def child(
    argv: list[str],
    *,
    stop: Stop,
    environment: Mapping[str, str],
    seconds: float = limits.BATCH_TASK_SECONDS,
    end_seconds: float = limits.BATCH_END_SECONDS,
) -> tuple[int, bytes]:
    """Run a program that ends when its standard input closes; its status, and the end of its stderr.

    When `stop` says so, or after `seconds`, its input is closed; `end_seconds` later it is killed.
    """
    process = launch.spawn(
        argv,
        streams=launch.Streams(stdin=launch.PIPE, stderr=launch.PIPE),
        environment=environment,
        cwd=os.getcwd(),  # noqa: PTH109 - as the settings' relative paths are meant
    )
    words = bytearray()
    deadline = time.monotonic() + seconds
    told = False
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.pidfd, selectors.EVENT_READ)
            if process.stderr is not None:
                os.set_blocking(process.stderr.fileno(), False)
                selector.register(process.stderr, selectors.EVENT_READ)
            while process.returncode is None:
                now = time.monotonic()
                if not told and (now > deadline or stop()):
                    told, deadline = True, now + end_seconds
                    _let_go(process)
                elif told and now > deadline:
                    break
                selector.select(limits.BATCH_LOOK_SECONDS)
                if not _read(process, words) and process.stderr is not None and process.stderr in _mapped(selector):
                    selector.unregister(process.stderr)
            _read(process, words)
    finally:
        status = process.close()
    return (128 - status if status < 0 else status), bytes(words)


def pack(out: Path) -> tuple[tuple[tuple[str, bytes], ...], tuple[str, ...]]:
    """The files of an attempt, compressed, as far as they fit; nothing without a result. And which did not fit."""
    if not (out / RESULT).is_file():
        return (), ()
    packed: list[tuple[str, bytes]] = []
    dropped = []
    left = limits.BATCH_RETURNED_BYTES
    for name in RETURNED:
        try:
            small = zlib.compress(files.read(out / name, size=_SIZES[name]))
        except files.UnreadableFileError:
            if (out / name).exists():
                dropped.append(name)
            continue
        if len(small) > left:
            dropped.append(name)
            continue
        left -= len(small)
        packed.append((name, small))
    return tuple(packed), tuple(dropped)


def _argv(task: Task, request: Path, out: Path) -> list[str]:
    """`-P`: nothing of the current folder is imported."""
    named = ["--settings", task.settings] if task.settings else []
    own = ["--tethered", "--relative-to", task.beside]
    return [sys.executable, "-P", "-m", "fumehood", *named, "review", "run", str(request), "--out", str(out), *own]


def _let_go(process: launch.Process) -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()


def _read(process: launch.Process, words: bytearray) -> bool:
    """Take what the child wrote; False at the end of it."""
    if process.stderr is None:
        return False
    with contextlib.suppress(BlockingIOError):
        while chunk := os.read(process.stderr.fileno(), 65536):
            words += chunk
            del words[: -limits.BATCH_STDERR_BYTES]
        return False
    return True


def _mapped(selector: selectors.BaseSelector) -> set[object]:
    return {key.fileobj for key in selector.get_map().values()}
