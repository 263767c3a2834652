"""cli.interrupt: a signal to end a command is a cancellation that has time to clean up."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from fumehood.cli import interrupt

EVERY = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """None is ignored, whoever started this; what other tests find afterwards is what was there before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@EVERY
def test_a_signal_while_nothing_waits_is_an_interrupt(number: signal.Signals) -> None:
    with interrupt.interruptible(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


@EVERY
def test_a_signal_while_work_waits_lets_it_clean_up_undisturbed(number: signal.Signals) -> None:
    cleaned: list[str] = []

    async def work() -> None:
        asyncio.get_running_loop().call_soon(signal.raise_signal, number)
        try:
            await asyncio.Event().wait()
        finally:
            if number is not signal.SIGINT:  # asyncio takes a second Ctrl-C as a wish for haste
                signal.raise_signal(number)
            await asyncio.sleep(0)
            cleaned.append("done")

    with interrupt.interruptible(), pytest.raises(KeyboardInterrupt):
        interrupt.run(work())
    assert cleaned == ["done"]


def test_work_that_ends_gives_its_answer_and_the_handlers_are_as_before() -> None:
    async def work() -> int:
        return 7

    before = signal.getsignal(signal.SIGTERM)
    with interrupt.interruptible():
        within = signal.getsignal(signal.SIGTERM)
        assert interrupt.run(work()) == 7
        assert signal.getsignal(signal.SIGTERM) is within
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_error_of_the_work_is_passed_on() -> None:
    async def work() -> None:
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        interrupt.run(work())


def test_a_signal_that_was_to_be_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interrupt.interruptible():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_command_that_is_tethered_ends_when_its_standard_input_closes() -> None:
    text = (
        "import time\n"
        "from fumehood.cli import interrupt\n"
        "try:\n"
        "    with interrupt.interruptible():\n"
        "        interrupt.tether()\n"
        "        time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    raise SystemExit(42)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], input=b"ignored", timeout=60, check=False)
    assert done.returncode == 42


def test_the_tether_signals_the_main_thread_only_once_its_input_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [b"x", b""]
    told = threading.Event()
    monkeypatch.setattr("os.read", lambda *_: parts.pop(0))
    monkeypatch.setattr("signal.pthread_kill", lambda *_: told.set())
    interrupt.tether()
    assert told.wait(30)
    assert parts == []
