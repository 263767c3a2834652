"""Who has a uid of a slot: processes that run, not those that wait to be reaped."""

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fumehood.sandbox import slots

pytestmark = [pytest.mark.root]
UID = 10256 + 50 + os.getpid() % 1000  # beyond the range, and no other test's
TAKE = "import ctypes, os, sys, threading, time; os.setresgid(*[{0}] * 3); os.setresuid(*[{0}] * 3); "
# The first thread ends without the others: exit(2), not exit_group(2), by either number.
LEAD = "threading.Thread(target=time.sleep, args=(600,)).start(); print(1, flush=True)"
EXIT = f"; ctypes.CDLL(None).syscall({93 if os.uname().machine == 'aarch64' else 60}, 0)"


@contextlib.contextmanager
def process(program: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A Python that has the uid."""
    words = [sys.executable, "-I", "-S", "-c", TAKE.format(UID) + program]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as started:
        try:
            assert started.stdout is not None
            assert started.stdout.readline() == b"1\n"
            yield started
        finally:
            started.kill()


def test_a_process_that_runs_is_seen() -> None:
    with process(LEAD):
        assert slots.seen_running(UID)


def test_one_that_waits_to_be_reaped_is_not() -> None:
    with process("print(1, flush=True)") as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert not slots.seen_running(UID)


def test_one_whose_first_thread_has_ended_is() -> None:
    with process(LEAD + EXIT) as half:
        held = os.pidfd_open(half.pid)
        try:
            while _state(half.pid) != "Z":  # ends, or the test does by its own bound of time
                assert not select.select([held], [], [], 0.01)[0], "all of it has ended"
            assert slots.seen_running(UID)
            signal.pidfd_send_signal(held, signal.SIGKILL)
        finally:
            os.close(held)


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123 - one word of one line
        return file.read().rpartition(")")[2].split()[0]
