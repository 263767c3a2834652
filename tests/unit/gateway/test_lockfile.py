"""The lock file says what was accepted, in one form, and is refused in any other."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.core.errors import HarnessError
from fumehood.gateway import lockfile, lockstore, pins
from fumehood.gateway.lockfile import Lock, LockError

TIME = "2026-11-30T00:00:00.000Z"
TOOLS = pins.pin([{"name": "read", "description": "Reads."}, {"name": "\x1bé", "title": "x"}])


def lock_of(tools: pins.Tools = TOOLS, server: str = "files") -> Lock:
    return lockfile.accepted(Lock(servers={}), server, tools, time=TIME, command="fumehood gateway accept files")


def test_a_lock_is_read_as_it_was_written() -> None:
    lock = lockfile.accepted(lock_of(), "web", {}, time=TIME, command="x")
    assert lockfile.read(lockfile.write(lock)) == lock
    assert sorted(lock.servers) == ["files", "web"]
    assert lock.servers["files"].digest == pins.digest(TOOLS)


def test_the_same_pins_give_the_same_bytes_in_any_order() -> None:
    turned = {name: dict(reversed(list(fields.items()))) for name, fields in reversed(list(TOOLS.items()))}
    assert lockfile.write(lock_of(turned)) == lockfile.write(lock_of())


def test_the_file_is_plain_text_for_a_person() -> None:
    data = lockfile.write(lock_of())
    assert data.isascii()
    assert b"\x1b" not in data
    assert data.endswith(b"}\n")
    assert len(data.splitlines()) > 15


@pytest.mark.threat("G4")
def test_a_lock_edited_at_one_place_is_refused_with_its_server() -> None:
    data = lockfile.write(lock_of())
    old = TOOLS["read"]["description"].encode()
    with pytest.raises(LockError, match="the digest of files is not that of its tools"):
        lockfile.read(data.replace(old, b"0" * 64))


@pytest.mark.threat("G4")
@pytest.mark.parametrize(
    "change",
    [
        lambda lock: lock | {"version": 2},
        lambda lock: lock | {"more": 1},
        lambda _: {"version": 1},
        lambda lock: {"servers": {"a/b": lock["servers"]["files"]}, "version": 1},
        lambda lock: {"servers": {"a": lock["servers"]["files"] | {"accepted": "today"}}, "version": 1},
        lambda lock: {"servers": {"a": lock["servers"]["files"] | {"command": "\x1b"}}, "version": 1},
        lambda lock: {"servers": {"a": lock["servers"]["files"] | {"tools": {"x": {}}}}, "version": 1},
        lambda lock: {"servers": {"a": lock["servers"]["files"] | {"tools": {"x": {"name": "ab"}}}}, "version": 1},
        lambda _: [],
    ],
)
def test_a_lock_of_another_shape_is_refused(change: Any) -> None:
    with pytest.raises(LockError):
        lockfile.read(json.dumps(change(json.loads(lockfile.write(lock_of())))).encode())


@given(st.binary(max_size=300))
def test_no_bytes_make_a_reader_fail_otherwise(data: bytes) -> None:
    with pytest.raises(LockError):
        lockfile.read(data)


def test_what_could_not_be_read_again_is_not_written() -> None:
    with pytest.raises(LockError):
        lockfile.write(lock_of(server="a b"))


def test_the_file_fits_its_schema() -> None:
    checker = jsonschema_rs.validator_for(lockfile.schema())
    assert checker.is_valid(json.loads(lockfile.write(lock_of())))
    assert not checker.is_valid({"servers": {}, "version": 2})


def test_a_lock_is_replaced_whole_with_mode_0644(tmp_path: Path) -> None:
    file = tmp_path / "fumehood.lock"
    assert lockstore.load(file) == Lock(servers={})
    old = os.umask(0o077)
    try:
        lockstore.save(file, lock_of())
        lockstore.save(file, lock_of(server="other"))
    finally:
        os.umask(old)
    assert list(lockstore.load(file).servers) == ["other"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [file]


def test_a_lock_that_cannot_be_written_leaves_the_old_one_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fumehood.lock"
    lockstore.save(file, lock_of())

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device", fd)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(HarnessError, match="No space left"):
            lockstore.save(file, lock_of(server="other"))
    assert list(lockstore.load(file).servers) == ["files"]
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(HarnessError, match="No such file"):
        lockstore.save(tmp_path / "missing" / "fumehood.lock", lock_of())


@pytest.mark.threat("G4")
def test_a_lock_that_others_may_write_or_that_is_no_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fumehood.lock"
    lockstore.save(file, lock_of())
    file.chmod(0o664)
    with pytest.raises(LockError, match="written by others"):
        lockstore.load(file)
    file.chmod(0o644)
    monkeypatch.setattr(limits, "LOCK_BYTES", 100)
    with pytest.raises(LockError):
        lockstore.load(file)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(LockError, match="no regular file"):
        lockstore.load(file)
    file.unlink()
    file.mkdir()
    with pytest.raises(LockError, match="no regular file"):
        lockstore.load(file)
    file.rmdir()
    file.touch()
    with pytest.raises(LockError, match="cannot be read: Not a directory"):
        lockstore.load(file / "x")
