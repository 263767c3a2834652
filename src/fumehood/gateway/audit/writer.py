"""Write an audit log: append, sync, rotate, and say no when that cannot be done.

Invariants: a record is appended in one write(2) before `record` returns, so that no end of this process takes it away;
what may write and every decision but `allowed` is synced as well, anything else within AUDIT_SYNC_SECONDS and the
time of one fsync(2), which many records share. Where a record cannot be appended, `record` raises and leaves
the chain as it was; where a sync fails nothing is known of the disk any more, and every later record is refused until
the log is opened again. What a crash tore is ended, kept, and stated by the next line.

Errors: `AuditPlaceError` while opening, `AuditError` afterwards.

Not promised: what was not synced when the machine itself goes down; that only its tail is looked at when a log is
opened, is left to `fumehood audit verify`.

Sources: write(2), fsync(2), and "Can applications recover from fsync failures?" (Rebello et al., USENIX ATC 2020): a
failed fsync is not to be tried again.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from fumehood.core import limits
from fumehood.core.clock import Clock, rfc3339
from fumehood.gateway.audit import chain, files, record, tail
from fumehood.gateway.audit.chain import Position
from fumehood.gateway.audit.faults import AuditError, AuditPlaceError
from fumehood.gateway.audit.files import Folder
from fumehood.gateway.audit.record import Event
from fumehood.gateway.audit.tail import Tail

_REMEDY = "nothing is done without a record: make room, or look at the disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """The calls to the system and the size of a file; tests pass others."""

    write: Callable[[int, bytes], int] = os.write
    sync: Callable[[int], None] = os.fsync
    file_bytes: int = limits.AUDIT_FILE_BYTES


@contextlib.asynccontextmanager
async def opened(path: Path, clock: Clock, wiring: Wiring | None = None) -> AsyncIterator["AuditLog"]:
    """The log whose current file is `path`, for this process alone; synced when it is left."""
    with files.locked(path) as folder:
        log = AuditLog(folder, clock, wiring or Wiring())
        flusher = asyncio.create_task(log.flush())
        try:
            yield log
        finally:
            try:
                log.stop()
                await asyncio.wait([flusher], timeout=limits.AUDIT_WAIT_SECONDS)
            finally:
                flusher.cancel()
                log.close()


def named(path: str | None, clock: Clock) -> contextlib.AbstractAsyncContextManager["AuditLog | None"]:
    """The log of this name; none where none is named."""
    return contextlib.nullcontext() if path is None else opened(Path(path), clock)


class AuditLog:
    """One log that is being written. Made by `opened`."""

    def __init__(self, folder: Folder, clock: Clock, wiring: Wiring) -> None:
        """Go on where the log ends, and state what is torn there."""
        self._folder = folder
        self._clock = clock
        self._wiring = wiring
        self._turn = asyncio.Lock()  # whoever syncs, or changes the file
        self._written = asyncio.Event()  # something is not synced
        self._wanted = asyncio.Event()  # and somebody waits for it
        self._waiting: list[asyncio.Future[None]] = []
        self._failure = ""
        self._stopping = False
        self._fd = folder.current()
        try:
            self._size = os.fstat(self._fd).st_size
            found = _tail(self._fd, self._size)
            self._position = found.position or _before(folder)
            self._first = _first(self._fd) if found.position else self._position.sequence + 1  # of this file
            self._recover(found)
            self._synced = self._position
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def position(self) -> Position:
        """The last line that was written."""
        return self._position

    @property
    def folder(self) -> int:
        """The descriptor of the folder that it writes in."""
        return self._folder.fd

    async def record(self, event: Event) -> None:
        """Append an event; for one that `record.is_durable`, return when it is synced. Errors: `AuditError`."""
        if self._is_full():
            async with self._turn:
                self._rotate()
        self._append(event)
        self._written.set()
        if record.is_durable(event):
            done = asyncio.get_running_loop().create_future()
            self._waiting.append(done)
            self._wanted.set()
            await _in_time(done)

    async def flush(self) -> None:
        """Sync what is written, until `stop`: at once where somebody waits, else after AUDIT_SYNC_SECONDS."""
        while not (self._stopping and self._synced == self._position):
            await self._written.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limits.AUDIT_SYNC_SECONDS):
                    await self._wanted.wait()
            async with self._turn:
                await self._sync()

    def stop(self) -> None:
        """Let `flush` end, once everything is synced."""
        self._stopping = True
        self._written.set()
        self._wanted.set()

    def close(self) -> None:
        """Let go. `AuditError` when something could not be synced."""
        os.close(self._fd)
        if self._synced != self._position and not self._failure:
            self._failure = "it was not synced in time"
        failure, self._failure = self._failure, self._failure or "it is closed"
        self._tell(self._waiting)
        if failure:
            raise _error(failure)

    async def _sync(self) -> None:
        self._written.clear()
        self._wanted.clear()
        position, waiting, self._waiting = self._position, self._waiting, []
        try:
            await asyncio.to_thread(self._wiring.sync, self._fd)
        except OSError as error:
            self._failure = self._failure or f"it could not be synced: {error.strerror}"
        except RuntimeError:  # no thread could be started
            self._failure = self._failure or "it could not be synced: no thread is left for it"
        self._synced = position
        self._tell(waiting)

    def _tell(self, waiting: "list[asyncio.Future[None]]") -> None:
        """Let those who waited go on, or fail."""
        for one in waiting:
            if one.done():  # who waited does not any more
                continue
            if self._failure:
                one.set_exception(_error(self._failure))
            else:
                one.set_result(None)

    def _append(self, event: Event) -> None:
        if self._failure:
            raise _error(self._failure)
        line, position = chain.written(event, self._position, rfc3339(self._clock.now()))
        self._put(line)
        self._position = position

    def _put(self, data: bytes) -> None:
        """Append bytes whole, or not at all."""
        try:
            count = self._wiring.write(self._fd, data)
        except OSError as error:
            raise _error(f"it cannot be written: {error.strerror}") from None
        if count != len(data):
            self._take_back()
            raise _error("it cannot be written: no space is left for a whole line")
        self._size += count

    def _take_back(self) -> None:
        """Cut a line that was written in part: no answer was given on it."""
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            self._failure = "a line was written in part"

    def _recover(self, found: Tail) -> None:
        if found.ending:
            self._put(found.ending)
        if found.torn is not None:
            self._append(found.torn)
        if found.ending or found.torn is not None:
            self._sync_now()

    def _sync_now(self) -> None:
        if self._failure:
            return
        try:
            self._wiring.sync(self._fd)
        except OSError as error:
            self._failure = f"it could not be synced: {error.strerror}"
            raise _error(self._failure) from None

    def _is_full(self) -> bool:
        return self._size >= self._wiring.file_bytes and not self._failure

    def _rotate(self) -> None:
        """Put a full file aside and begin the next one."""
        if not self._is_full():
            return
        self._sync_now()
        try:
            self._folder.put_aside(self._first)
            begun = self._folder.begin()
        except OSError as error:
            self._failure = f"its next file could not be begun: {error.strerror}"
            raise _error(self._failure) from None
        os.close(self._fd)
        self._fd, self._size, self._first = begun, 0, self._position.sequence + 1


async def _in_time(done: "asyncio.Future[None]") -> None:
    try:
        async with asyncio.timeout(limits.AUDIT_WAIT_SECONDS):
            await done
    except TimeoutError:
        raise _error(f"it was not synced within {limits.AUDIT_WAIT_SECONDS:g} s") from None


def _before(folder: Folder) -> Position:
    """Where the chain stands in the full files."""
    full = folder.full()
    if full is None:
        return Position()
    try:
        found = _tail(full, os.fstat(full).st_size)
    finally:
        os.close(full)
    if found.position is None or found.ending or found.torn is not None:
        raise AuditPlaceError("the audit log is refused: its last full file does not end with a line", remedy=_REMEDY)
    return found.position


def _tail(fd: int, size: int) -> Tail:
    begin = max(0, size - limits.AUDIT_TAIL_BYTES)
    return tail.look(os.pread(fd, limits.AUDIT_TAIL_BYTES, begin), whole=begin == 0)


def _first(fd: int) -> int:
    """The number of a file's first line."""
    data = os.pread(fd, limits.AUDIT_TAIL_BYTES, 0)
    for piece in data.split(b"\n"):
        if not isinstance(found := chain.read(piece + b"\n"), chain.NoLine):
            return found.sequence
    raise AuditPlaceError("the audit log is refused: it does not begin with a line", remedy=_REMEDY)


def _error(reason: str) -> AuditError:
    return AuditError(f"the audit log failed: {reason}", remedy=_REMEDY)
