"""Events, chains and broken disks for tests of the audit log."""

import datetime as dt
import errno
import os
from typing import Any

from fumehood.gateway.audit import chain
from fumehood.gateway.audit.chain import Position
from fumehood.gateway.audit.record import Call, Event

TIME = "2026-11-30T00:00:00.000Z"


class Moments:
    """A `Clock` that stands still."""

    def monotonic(self) -> float:
        return 0.0

    def now(self) -> dt.datetime:
        return dt.datetime(2026, 11, 30, tzinfo=dt.UTC)


def call(**more: Any) -> Call:
    """A call that was allowed and went well, but for what is said otherwise."""
    usual: dict[str, Any] = {
        "source": "code",
        "who": "uid:1000",
        "run": "0123456789abcdef",
        "call": 1,
        "tool": "fake.echo",
        "writes": False,
        "decision": "allowed",
        "outcome": "ok",
        "error": "",
        "arguments_sha256": "ab" * 32,
        "arguments_bytes": 18,
        "answer_bytes": 40,
        "microseconds": 1200,
    }
    return Call(**usual | more)


def chained(*events: Event, after: Position | None = None) -> list[bytes]:
    """The lines of these events, one after the other."""
    lines, position = [], after or Position()
    for event in events:
        line, position = chain.written(event, position, TIME)
        lines.append(line)
    return lines


class Disk:
    """What the system does; `room` bytes can be written, `broken` makes each sync fail; syncs are counted."""

    def __init__(self, room: int = 1 << 40) -> None:
        self.room = room
        self.broken = False
        self.syncs = 0

    def write(self, fd: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = os.write(fd, data[: self.room])
        self.room -= count
        return count

    def sync(self, fd: int) -> None:
        self.syncs += 1
        if self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fsync(fd)
