"""Limits set from outside: on a child of our own uid, and as root on one of another."""

import ctypes
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fumehood.sandbox import launch, limiting

FILES = resource.RLIMIT_NOFILE
UID = 10199


@pytest.fixture
def child() -> Iterator[launch.Process]:
    """A child that waits, with our uid."""
    process = launch.spawn(["/usr/bin/sleep", "600"])
    try:
        yield process
    finally:
        process.close()


@pytest.fixture
def other() -> Iterator[launch.Process]:
    """A child that waits, with another uid and gid, once it has them."""
    words = ["/usr/bin/setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "/usr/bin/cat"]
    process = launch.spawn(words, streams=launch.Streams(stdin=launch.PIPE, stdout=launch.PIPE))
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"x")
        assert process.stdout.read(1) == b"x"
        yield process
    finally:
        process.close()


@pytest.mark.threat("R10")
def test_a_child_of_ours_is_limited_soft_and_hard(child: launch.Process) -> None:
    assert limiting.limit(child.pid, os.getuid(), ((FILES, 77),)) == {}
    assert resource.prlimit(child.pid, FILES) == (77, 77)


def test_a_limit_is_never_raised_above_the_hard_one(child: launch.Process) -> None:
    resource.prlimit(child.pid, FILES, (50, 60))
    assert limiting.limit(child.pid, os.getuid(), ((FILES, 77),)) == {}
    assert resource.prlimit(child.pid, FILES) == (60, 60)


@pytest.mark.threat("R10")
def test_what_cannot_be_limited_is_told_with_the_reason(child: launch.Process) -> None:
    child.close()
    refused = limiting.limit(child.pid, os.getuid(), ((FILES, 77), (resource.RLIMIT_CORE, 0)))
    assert set(refused) == {FILES, resource.RLIMIT_CORE}
    assert "No such process" in refused[FILES]


@pytest.mark.root
@pytest.mark.threat("R10")
def test_root_limits_a_child_of_another_uid_and_stays_what_it_was(other: launch.Process) -> None:
    before = os.getresuid(), os.getresgid(), threading.active_count()
    assert limiting.limit(other.pid, UID, ((FILES, 77),)) == {}
    assert resource.prlimit(os.getpid(), FILES) != (77, 77)
    assert (os.getresuid(), os.getresgid(), threading.active_count()) == before
    assert limiting.limit(other.pid, UID, ((FILES, 78),)) == {}
    soft, hard = _limits_of(other.pid)
    assert (soft, hard) == ("77", "77")


@pytest.mark.root
def test_the_uid_of_somebody_else_does_not_limit_a_child(other: launch.Process) -> None:
    if _has_resource_right():
        assert limiting.limit(other.pid, UID + 1, ((FILES, 77),)) == {}
    else:
        assert "not permitted" in limiting.limit(other.pid, UID + 1, ((FILES, 77),))[FILES]


@pytest.mark.root
def test_only_real_ids_change_and_only_in_the_thread() -> None:
    seen: list[object] = []

    def act() -> None:
        limiting.take_real_ids(UID)
        seen.append((os.getresuid(), os.getresgid()))

    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
    assert seen == [((UID, 0, 0), (UID, 0, 0))]
    assert os.getuid() == 0


@pytest.mark.root
def test_many_at_once_mix_nothing_up() -> None:
    children = [launch.spawn([*_drop(UID + n), "/usr/bin/cat"], streams=_TALK) for n in range(6)]
    try:
        for process in children:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"x")
            process.stdout.read(1)
        threads = [
            threading.Thread(target=limiting.limit, args=(process.pid, UID + n, ((FILES, 70 + n),)))
            for n, process in enumerate(children)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [_limits_of(process.pid) for process in children] == [(str(70 + n),) * 2 for n in range(6)]
    finally:
        for process in children:
            process.close()


def test_a_machine_whose_calls_are_not_known_sets_nothing(
    child: launch.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiting, "_CALLS", {})
    assert "not known" in limiting.limit(child.pid, os.getuid() + 1, ((FILES, 77),))[FILES]


def test_a_call_that_changes_nothing_is_found_out(child: launch.Process, monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf:
        """A C library whose calls succeed and do nothing."""

        @staticmethod
        def syscall(*_: object) -> int:
            return 0

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Deaf)
    assert "did not get" in limiting.limit(child.pid, os.getuid() + 1, ((FILES, 77),))[FILES]
    assert resource.prlimit(child.pid, FILES) != (77, 77)


def test_a_call_that_is_refused_sets_nothing(child: launch.Process, monkeypatch: pytest.MonkeyPatch) -> None:
    class Strict:
        """A C library whose calls are refused."""

        @staticmethod
        def syscall(*_: object) -> int:
            ctypes.set_errno(1)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Strict)
    assert "not permitted" in limiting.limit(child.pid, os.getuid() + 1, ((FILES, 77),))[FILES]


def test_without_a_thread_nothing_is_set_and_that_is_told(
    child: launch.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert limiting.limit(child.pid, os.getuid() + 1, ((FILES, 77),)) == {FILES: "can't start new thread"}


_TALK = launch.Streams(stdin=launch.PIPE, stdout=launch.PIPE)


def _drop(uid: int) -> list[str]:
    return ["/usr/bin/setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


def _limits_of(pid: int) -> tuple[str, str]:
    """Soft and hard, as anybody may read them."""
    lines = Path(f"/proc/{pid}/limits").read_text(encoding="ascii").splitlines()
    words = next(line for line in lines if line.startswith("Max open files")).split()
    return words[3], words[4]


def _has_resource_right() -> bool:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    mask = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    return bool(mask >> 24 & 1)
