"""What is recorded is on the disk in time, or the caller is told that it is not."""

import asyncio
import json
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from audited import Disk, Moments, call
from fumehood.core import limits
from fumehood.gateway.audit import files, writer
from fumehood.gateway.audit.chain import Verified, verify
from fumehood.gateway.audit.faults import AuditError, AuditPlaceError
from fumehood.gateway.audit.record import Call
from fumehood.gateway.audit.writer import AuditLog, Wiring

T = TypeVar("T")
Work = Callable[[AuditLog], Awaitable[T]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path / "audit.jsonl"


def during(path: Path, work: Work[T], wiring: Wiring | None = None) -> T:
    """Open the log, do something with it, and leave it."""

    async def whole() -> T:
        async with writer.opened(path, Moments(), wiring) as log:
            return await work(log)

    return asyncio.run(whole())


async def two(log: AuditLog) -> None:
    await log.record(call())
    await log.record(call(call=2, writes=True))


def held(path: Path) -> Verified:
    verdict = verify(line for _, lines in files.lines(path) for line in lines)
    assert isinstance(verdict, Verified)
    return verdict


def count_of(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def wired(disk: Disk, file_bytes: int = limits.AUDIT_FILE_BYTES) -> Wiring:
    return Wiring(write=disk.write, sync=disk.sync, file_bytes=file_bytes)


def test_records_are_chained_over_several_openings(path: Path) -> None:
    during(path, two)
    during(path, two)
    found = held(path)
    assert (found.lines, found.recovered) == (4, 0)
    assert found.last is not None
    assert isinstance(found.last.event, Call)
    assert found.last.time == "2026-11-30T00:00:00.000Z"


def test_an_opening_without_a_record_leaves_no_line(path: Path) -> None:
    async def nothing(log: AuditLog) -> None:
        del log

    during(path, nothing)
    assert held(path).lines == 0


def test_each_record_is_in_the_file_before_it_returns(path: Path) -> None:
    async def counted(log: AuditLog) -> list[int]:
        counts = []
        for number in range(1, 6):
            await log.record(call(call=number))
            counts.append(count_of(path))
        return counts

    assert during(path, counted) == [1, 2, 3, 4, 5]


@pytest.mark.threat("G1")
@pytest.mark.parametrize("more", [{"writes": True}, {"decision": "scope"}, {"decision": "approved"}])
def test_what_writes_and_what_is_denied_or_approved_is_synced_before_it_returns(
    path: Path, more: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "AUDIT_SYNC_SECONDS", 3600)  # whoever only waits for that waits for ever
    disk = Disk()

    async def counted(log: AuditLog) -> tuple[int, int]:
        await log.record(call())
        before = disk.syncs
        await log.record(call(**more))
        return before, disk.syncs

    assert during(path, counted, wired(disk)) == (0, 1)


def test_an_ordinary_call_does_not_wait_and_is_synced_soon(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "AUDIT_SYNC_SECONDS", 0.001)
    disk, synced = Disk(), threading.Event()

    def sync(fd: int) -> None:
        disk.sync(fd)
        synced.set()

    async def waited(log: AuditLog) -> bool:
        await log.record(call())
        return await asyncio.to_thread(synced.wait, 20)

    assert limits.AUDIT_SYNC_SECONDS <= 0.2
    assert during(path, waited, Wiring(write=disk.write, sync=sync))


def test_many_that_wait_share_a_sync(path: Path) -> None:
    disk = Disk()

    async def many(log: AuditLog) -> None:
        await asyncio.gather(*(log.record(call(call=number, writes=True)) for number in range(1, 201)))

    during(path, many, wired(disk))
    assert held(path).lines == 200
    assert 1 <= disk.syncs < 20


@pytest.mark.threat("G1")
@pytest.mark.parametrize("room", [0, 1, 300])
def test_a_full_disk_refuses_the_call_and_leaves_the_chain_whole(path: Path, room: int) -> None:
    disk = Disk()

    async def full(log: AuditLog) -> str:
        await log.record(call())
        disk.room = room
        with pytest.raises(AuditError) as caught:
            await log.record(call(call=2))
        assert count_of(path) == 1
        disk.room = 1 << 20
        await log.record(call(call=3))
        return str(caught.value)

    assert "nothing is done without a record" in during(path, full, wired(disk))
    found = held(path)
    assert (found.lines, found.torn_bytes) == (2, 0)


@pytest.mark.threat("G1")
def test_a_sync_that_fails_refuses_this_and_every_later_record(path: Path) -> None:
    disk = Disk()

    async def broken(log: AuditLog) -> None:
        await log.record(call())
        disk.broken = True
        with pytest.raises(AuditError, match="could not be synced"):
            await log.record(call(writes=True))
        disk.broken = False
        with pytest.raises(AuditError, match="could not be synced"):
            await log.record(call())

    with pytest.raises(AuditError, match="could not be synced"):
        during(path, broken, wired(disk))
    during(path, two)
    assert held(path).lines == 4


@pytest.mark.threat("G1")
def test_a_last_sync_that_fails_is_told_when_the_log_is_left(path: Path) -> None:
    disk = Disk()
    disk.broken = True

    async def one(log: AuditLog) -> None:
        await log.record(call())

    with pytest.raises(AuditError, match="could not be synced"):
        during(path, one, wired(disk))


def test_a_sync_that_does_not_end_is_told_when_the_log_is_left(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "AUDIT_WAIT_SECONDS", 0.01)
    going_on = threading.Event()

    def sync(fd: int) -> None:
        del fd
        going_on.wait(20)

    async def whole() -> None:
        try:
            with pytest.raises(AuditError, match="not synced in time"):
                async with writer.opened(path, Moments(), Wiring(sync=sync)) as log:
                    await log.record(call())
        finally:
            going_on.set()

    asyncio.run(whole())


@pytest.mark.threat("G1")
def test_a_sync_that_takes_too_long_refuses_the_call(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    going_on = threading.Event()

    def sync(fd: int) -> None:
        del fd
        going_on.wait(20)

    async def slow(log: AuditLog) -> None:
        monkeypatch.setattr(limits, "AUDIT_WAIT_SECONDS", 0.01)
        with pytest.raises(AuditError, match="not synced within"):
            await log.record(call(writes=True))
        monkeypatch.undo()
        going_on.set()

    during(path, slow, Wiring(sync=sync))


@pytest.mark.threat("G1")
def test_where_no_thread_can_be_started_for_a_sync_the_call_is_refused(path: Path) -> None:
    def sync(fd: int) -> None:
        raise RuntimeError(fd)

    async def without(log: AuditLog) -> None:
        with pytest.raises(AuditError, match="no thread is left"):
            await log.record(call(writes=True))

    with pytest.raises(AuditError, match="no thread is left"):
        during(path, without, Wiring(sync=sync))


def test_who_stops_waiting_disturbs_nobody(path: Path) -> None:
    async def cancelled(log: AuditLog) -> None:
        first = asyncio.create_task(log.record(call(writes=True)))
        second = asyncio.create_task(log.record(call(call=2, writes=True)))
        await asyncio.sleep(0)
        first.cancel()
        await second
        assert first.cancelled()

    during(path, cancelled)
    assert held(path).lines == 2


def test_a_log_that_was_left_takes_no_more(path: Path) -> None:
    async def kept(log: AuditLog) -> AuditLog:
        return log

    log = during(path, kept)
    with pytest.raises(AuditError, match="it is closed"):
        asyncio.run(log.record(call()))


@pytest.mark.threat("G1")
@pytest.mark.parametrize("cut", [1, 2, 100, 400])
def test_a_torn_last_line_is_kept_and_stated(path: Path, cut: int) -> None:
    during(path, two)
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    during(path, two)
    found = held(path)
    assert path.read_bytes().startswith(data[:-cut])  # nothing is taken away
    assert found.recovered == (0 if cut == 1 else 1)  # a whole line that only lacks its end is one
    assert found.lines == 4


def test_a_recovery_is_synced_before_anything_else_is_written(path: Path) -> None:
    during(path, two)
    path.write_bytes(path.read_bytes()[:-9])
    disk = Disk()

    async def synced(log: AuditLog) -> int:
        del log
        return disk.syncs

    assert during(path, synced, wired(disk)) == 1
    disk.broken = True
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(AuditError, match="could not be synced"):
        during(path, synced, wired(disk))


@pytest.mark.threat("G1")
def test_a_log_whose_last_line_was_changed_is_not_gone_on_with(path: Path) -> None:
    during(path, two)
    data = path.read_bytes().replace(b'"call":2', b'"call":7')
    path.write_bytes(data)
    with pytest.raises(AuditPlaceError, match="its digest is not that of its bytes"):
        during(path, two)
    assert path.read_bytes() == data


def test_a_full_file_is_put_aside_and_the_chain_goes_on_in_the_next(path: Path) -> None:
    async def many(log: AuditLog) -> None:
        for number in range(1, 21):
            await log.record(call(call=number, writes=number % 2 == 0))

    during(path, many, wired(Disk(), file_bytes=2000))
    during(path, many, wired(Disk(), file_bytes=2000))
    names = [name for name, _ in files.lines(path)]
    assert len(names) > 4
    firsts = [json.loads(next(lines))["sequence"] for _, lines in files.lines(path)]
    assert [files.aside(path.name, first) for first in firsts[:-1]] == names[:-1]
    assert held(path).lines == 40
    assert {(path.parent / name).stat().st_mode & 0o777 for name in names} == {0o600}


def test_many_that_meet_a_full_file_begin_one_file(path: Path) -> None:
    async def many(log: AuditLog) -> None:
        await log.record(call())
        await asyncio.gather(*(log.record(call(call=number, writes=True)) for number in range(2, 12)))

    during(path, many, wired(Disk(), file_bytes=600))
    found = held(path)
    assert found.lines == 11
    assert len(list(files.lines(path))) <= 11


@pytest.mark.parametrize("left", ["nothing", "empty", "torn"])
def test_a_crash_between_two_files_is_gone_on_from(path: Path, left: str) -> None:
    during(path, two)
    path.rename(path.parent / files.aside(path.name, 1))
    if left != "nothing":
        path.touch(mode=0o600)
        path.write_bytes(b"" if left == "empty" else b'{"digest":"ab')
    during(path, two)
    found = held(path)
    assert (found.lines, found.recovered) == ((5, 1) if left == "torn" else (4, 0))


def test_a_next_file_that_cannot_be_begun_refuses_what_comes(path: Path) -> None:
    async def blocked(log: AuditLog) -> None:
        await log.record(call())
        (path.parent / files.aside(path.name, 1)).mkdir()
        for _ in range(2):
            with pytest.raises(AuditError, match="next file could not be begun: File exists"):
                await log.record(call())

    with pytest.raises(AuditError, match="next file"):
        during(path, blocked, wired(Disk(), file_bytes=10))


@pytest.mark.threat("G1")
def test_a_full_file_that_does_not_end_with_a_line_is_not_gone_on_from(path: Path) -> None:
    during(path, two)
    full = path.parent / files.aside(path.name, 1)
    path.rename(full)
    full.write_bytes(full.read_bytes()[:-5])
    with pytest.raises(AuditPlaceError, match="last full file does not end with a line"):
        during(path, two)


def test_a_long_log_is_gone_on_with_from_its_end(path: Path) -> None:
    async def many(log: AuditLog) -> None:
        for number in range(1, 201):
            await log.record(call(call=number))

    during(path, many)
    assert path.stat().st_size > limits.AUDIT_TAIL_BYTES
    during(path, two, wired(Disk(), file_bytes=1))
    assert held(path).lines == 202


def test_a_statement_is_an_event_like_any_other(path: Path) -> None:
    during(path, two)
    path.write_bytes(path.read_bytes()[:-100])
    during(path, two)
    assert kinds_of(path) == ["call", "", "recovered", "call", "call"]


def kinds_of(path: Path) -> list[str]:
    kinds = []
    for line in path.read_bytes().splitlines():
        try:
            kinds.append(json.loads(line)["event"]["kind"])
        except ValueError:
            kinds.append("")
    return kinds


def test_a_line_written_in_part_that_cannot_be_cut_ends_the_writing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk()

    def refused(fd: int, size: int) -> None:
        raise PermissionError(fd, size)

    async def partly(log: AuditLog) -> None:
        await log.record(call())
        disk.room = 100
        with monkeypatch.context() as patched:
            patched.setattr(os, "ftruncate", refused)
            with pytest.raises(AuditError, match="no space is left"):
                await log.record(call(call=2))
        disk.room = 1 << 20
        with pytest.raises(AuditError, match="written in part"):
            await log.record(call(call=3))

    with pytest.raises(AuditError, match="written in part"):
        during(path, partly, wired(disk))
    during(path, two)
    assert held(path).recovered == 1
