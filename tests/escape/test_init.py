"""Process 1 of a namespace: orphans are reaped, signals reach the command, its status passes."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fumehood.sandbox import launch
from fumehood.sandbox.hostfacts import HostFacts

pytestmark = pytest.mark.sandbox
BOUND_SECONDS = 30
# A supervisor: makes an orphan that ends, looks for its zombie, then does as it is told.
SCRIPT = """
import os, pathlib, signal, subprocess, sys, time
sys.path.insert(0, {source!r})
from fumehood.core import limits
from fumehood.sandbox import init
told, apart = sys.argv[1], sys.argv[2] == "apart"
limits.INIT_SECONDS = {{"stays": 0.2, "hurried": 300.0}}.get(told, limits.INIT_SECONDS)
print("before", os.getpid())
if apart:
    init.stand_apart()
else:
    sys.stdout.flush()
orphan = "sleep 0.05 & echo $!"
pid = int(subprocess.run(["/bin/sh", "-c", orphan], stdout=subprocess.PIPE).stdout.split()[0])
def state():
    try:
        return pathlib.Path(f"/proc/{{pid}}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:  # gone before it was opened, or while it was read
        return "gone"
while (now := state()) not in {{"Z", "gone"}}:
    time.sleep(0.01)
deadline = time.monotonic() + (20 if apart else 0.3)
while now == "Z" and time.monotonic() < deadline:
    time.sleep(0.01)
    now = state()
print(f"pid {{os.getpid()}} orphan {{now}}", flush=True)
if told == "leaves":
    subprocess.Popen(["/bin/sh", "-c", "sleep 0.3; echo cleaned"], start_new_session=True)
    os.kill(os.getpid(), signal.SIGKILL)
if told == "term":
    signal.signal(signal.SIGTERM, lambda *_: (print("drained"), sys.exit(7)))
    print("ready", flush=True)
    while True:
        signal.pause()
if told in {{"stays", "hurried"}}:
    subprocess.Popen(["/bin/sleep", "600"], start_new_session=True)
    print("leaving", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(int(told))
"""
Started = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def started(tmp_path: Path, host: HostFacts) -> Iterator[Started]:
    """Start the script as process 1 of a namespace of its own."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(source=str(Path(launch.__file__).parents[2])))
    with contextlib.ExitStack() as stack:

        def one(told: str, apart: str = "apart") -> "subprocess.Popen[bytes]":
            own = ["--unshare-user"] * (os.geteuid() != 0)
            words = [
                *own,
                "--unshare-pid",
                "--as-pid-1",
                "--die-with-parent",
                "--dev-bind",
                "/",
                "/",
                "--proc",
                "/proc",
            ]
            process = subprocess.Popen(
                [host.tools["bwrap"].path, *words, "--", sys.executable, "-B", script, told, apart],
                stdout=subprocess.PIPE,
                env={"PATH": "/usr/bin:/bin"},
            )
            stack.callback(process.wait, BOUND_SECONDS)
            stack.callback(process.kill)
            assert process.stdout is not None
            stack.callback(process.stdout.close)
            return process

        yield one


def below(parent: int) -> dict[int, bytes]:
    """The children of a process and their command lines, which those have lost that nobody has reaped."""
    try:
        words = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return {int(word): Path(f"/proc/{word}/cmdline").read_bytes() for word in words}
    except OSError:  # one of them went meanwhile
        return {parent: b""}


def running(parent: int) -> list[int]:
    """The children of a process that run the script."""
    return [pid for pid, line in below(parent).items() if b"script.py" in line]


def said(process: "subprocess.Popen[bytes]") -> list[str]:
    """Everything that it said, once it has ended."""
    out, _ = process.communicate(timeout=BOUND_SECONDS)
    return out.decode().splitlines()


@pytest.mark.parametrize("status", ["0", "3", "255"])
def test_orphans_are_reaped_and_the_status_passes(started: Started, status: str) -> None:
    process = started(status)
    assert said(process) == ["before 1", "pid 2 orphan gone"]
    assert process.returncode == int(status)


def test_without_it_an_orphan_stays_a_zombie(started: Started) -> None:
    assert said(started("0", "together")) == ["before 1", "pid 1 orphan Z"]


def test_a_signal_to_end_reaches_the_command(started: Started) -> None:
    process = started("term")
    assert process.stdout is not None
    while b"ready" not in process.stdout.readline():
        assert process.poll() is None
    (first,) = running(process.pid)
    os.kill(first, signal.SIGTERM)
    assert said(process) == ["drained"]
    assert process.returncode == 7


def test_a_killed_command_ends_process_1_once_the_others_have_cleaned_up(started: Started) -> None:
    process = started("leaves")
    assert said(process) == ["before 1", "pid 2 orphan gone", "cleaned"]
    assert process.returncode == 128 + signal.SIGKILL


@pytest.mark.parametrize("told", ["stays", "hurried"])
def test_who_stays_is_given_a_bounded_time_that_a_signal_ends(started: Started, told: str) -> None:
    process = started(told)
    assert process.stdout is not None
    while (line := process.stdout.readline()) != b"leaving\n":
        assert line
    if told == "hurried":
        (first,) = running(process.pid)
        while not all(b"sleep" in line for line in below(first).values()):  # the command is there, or not yet reaped
            pass
        os.kill(first, signal.SIGTERM)
    assert said(process) == []  # the pipe is closed: the kernel took along whoever stayed
    assert process.returncode in {128 + signal.SIGKILL, 128 + signal.SIGTERM}
