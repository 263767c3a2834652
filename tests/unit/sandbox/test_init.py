"""What process 1 does with what it hears, with a kernel that is only pretended."""

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from fumehood.sandbox import confine, init, launch

CHILD = 2


@dataclass
class Kernel:
    """Signals in the order in which they come, and children that end with them: pid and status of wait(2)."""

    signals: list[int | None]
    ended: list[list[tuple[int, int]]] = field(default_factory=list)
    left: int = 0  # children that never end
    killed: list[tuple[int, int]] = field(default_factory=list)
    _ready: list[tuple[int, int]] = field(default_factory=list)

    def hear(self, *_: object) -> SimpleNamespace | None:
        number = self.signals.pop(0)
        if number == signal.SIGCHLD:
            self._ready += self.ended.pop(0)
        return None if number is None else SimpleNamespace(si_signo=number)

    def waitpid(self, pid: int, options: int) -> tuple[int, int]:
        assert (pid, options) == (-1, os.WNOHANG)
        if self._ready:
            return self._ready.pop(0)
        if not self.left and not any(self.ended):
            raise ChildProcessError
        return 0, 0

    def waitid(self, *_: object) -> None:
        if not self.left and not any(self.ended):
            raise ChildProcessError

    def kill(self, pid: int, number: int) -> None:
        self.killed.append((pid, number))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    fake = Kernel(signals=[])
    monkeypatch.setattr(os, "waitpid", fake.waitpid)
    monkeypatch.setattr(os, "waitid", fake.waitid)
    monkeypatch.setattr(os, "kill", fake.kill)
    monkeypatch.setattr(signal, "sigwaitinfo", fake.hear)
    monkeypatch.setattr(signal, "sigtimedwait", fake.hear)
    yield fake
    monkeypatch.undo()


def test_a_signal_is_forwarded_an_orphan_reaped_and_the_status_passed(kernel: Kernel) -> None:
    kernel.signals = [signal.SIGTERM, signal.SIGCHLD, signal.SIGCHLD]
    kernel.ended = [[(9, 0)], [(8, 0), (CHILD, 7 << 8)]]
    assert init._serve(CHILD) == 7
    assert kernel.killed == [(CHILD, signal.SIGTERM)]
    assert kernel.signals == []


def test_a_killed_child_is_told_as_a_shell_does(kernel: Kernel) -> None:
    kernel.signals, kernel.ended = [signal.SIGCHLD], [[(CHILD, signal.SIGKILL)]]
    assert init._serve(CHILD) == 128 + 9


def test_who_cleans_up_is_waited_for(kernel: Kernel) -> None:
    kernel.signals, kernel.ended = [signal.SIGCHLD] * 3, [[(CHILD, 0)], [(5, 0)], [(6, 0)]]
    assert init._serve(CHILD) == 0
    assert kernel.signals == []


@pytest.mark.parametrize("then", [None, signal.SIGTERM], ids=["time", "signal"])
def test_who_stays_is_not_waited_for_for_ever(kernel: Kernel, then: int | None) -> None:
    kernel.signals, kernel.ended, kernel.left = [signal.SIGCHLD, then], [[(CHILD, 0)]], 1
    assert init._serve(CHILD) == 0
    assert kernel.signals == []
    assert kernel.killed == []


def test_any_other_process_goes_on_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> int:
        raise AssertionError

    monkeypatch.setattr(launch, "fork", never)
    init.stand_apart()


def test_process_1_with_a_second_thread_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    try:
        with pytest.raises(confine.ThreadsError):
            init.stand_apart()
    finally:
        over.set()
        other.join()


@pytest.fixture
def first(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """This process as process 1, up to the fork; what it would do is kept."""
    done: list[object] = []

    def mask(how: int, signals: object) -> str:
        done.append((how, signals == init._HEARD))
        return "mask"

    def serve(child: int) -> int:
        done.append(child)
        return 5

    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(confine, "require_one_thread", lambda: None)
    monkeypatch.setattr(signal, "pthread_sigmask", mask)
    monkeypatch.setattr(os, "setsid", lambda: done.append("session"))
    monkeypatch.setattr(signal, "signal", lambda number, how: done.append((number, how)))
    monkeypatch.setattr(init, "_serve", serve)
    monkeypatch.setattr(os, "_exit", done.append)
    return done


def test_the_child_goes_on_with_the_signals_as_they_were(first: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "fork", lambda: 0)
    init.stand_apart()
    assert first == [(signal.SIG_BLOCK, True), "session", (signal.SIG_SETMASK, False)]


def test_process_1_serves_and_ends_with_the_childs_status(first: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "fork", lambda: CHILD)
    init.stand_apart()
    assert first == [(signal.SIG_BLOCK, True), (signal.SIGCHLD, signal.SIG_DFL), CHILD, 5]
