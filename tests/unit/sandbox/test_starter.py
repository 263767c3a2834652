import array
import contextlib
import os
import select
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.core.budget import Budget
from fumehood.core.clock import SystemClock
from fumehood.core.errors import BusyError, CancelledError, LimitError, TimedOutError, UnsupportedError
from fumehood.sandbox import confine, landlock, started, starter
from fumehood.sandbox.containment import WallState
from fumehood.sandbox.programs import starter as program
from fumehood.sandbox.started import StarterGoneError
from fumehood.sandbox.starter import Starter
from fumehood.serve.programs import StarterPrograms

# Python 3.12 warns of a fork beside threads; the program itself has one thread, here it runs in one of several.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

SHELL = Path("/bin/sh").resolve()
words = st.lists(st.binary(max_size=8).filter(lambda w: b"\0" not in w), max_size=5)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Starter]:
    """A starter whose one program is a shell."""
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    one = starter.start(descriptor, {"sh": SHELL})
    os.close(descriptor)
    with one:
        one.ready()
        yield one


def sh(running: Starter, script: str, budget: Budget | None = None) -> started.Child:
    return running.start("sh", ["-c", script], {"WORD": "x"}, budget or Budget())


# --- requests


@given(st.binary(min_size=1, max_size=8).filter(lambda w: b"\0" not in w), words)
def test_a_request_is_read_as_it_was_written(name: bytes, arguments: list[bytes]) -> None:
    message = b"\0".join([name, str(len(arguments)).encode(), *arguments, b"A=1", b"B="])
    assert program.parse(message) == (name, arguments, {b"A": b"1", b"B": b""})


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"git",
        b"git\0",
        b"git\0x",
        b"git\0-1",
        b"git\x001",
        b"git\x00999999\0a",
        b"git\x000\0NOEQUALS",
        b"git\x000\0=value",
        b"git\x000\0A=1\0A=2",
        b"git\x000\0LD_PRELOAD=/w/evil.so",
        b"git\x000\0GLIBC_TUNABLES=x",
        b"git\0\xc2\xb2\0a\0b",
    ],
)
def test_what_no_client_sends_is_malformed(message: bytes) -> None:
    with pytest.raises(program.MalformedError):
        program.parse(message)


@given(st.binary(max_size=60))
def test_no_request_is_too_odd(message: bytes) -> None:
    with contextlib.suppress(program.MalformedError):
        _, arguments, environment = program.parse(message)
        assert not any(b"\0" in word for word in (*arguments, *environment))
        assert not any(name.startswith(b"LD_") for name in environment)


# --- the program that starts itself once


def interpreted(code: bytes, architecture: int, number: int, first: int) -> str:
    """Run the filter as the kernel would."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, first % 2**64, 0, 0, 0, 0, 0)
    steps = list(struct.iter_unpack("<HBBI", code))
    at = loaded = 0
    while True:
        operation, yes, no, value = steps[at]
        at += 1
        if operation == 0x20:
            loaded = struct.unpack_from("<I", data, value)[0]
        elif operation == 0x15:
            at += yes if loaded == value else no
        else:
            return {0x7FFF0000: "allow", 0x80000000: "kill"}[value]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@given(address=st.integers(0, 2**64 - 1), asked=st.integers(0, 2**64 - 1), number=st.integers(0, 500))
def test_a_program_is_started_from_one_address_only(machine: str, address: int, asked: int, number: int) -> None:
    code = program.once(machine, address)
    architecture, execve = program._EXECVE[machine]
    assert interpreted(code, architecture, execve, address) == "allow"
    for near in (asked, address ^ 1, address ^ 1 << 40):
        expected = "allow" if near == address else "kill"
        assert interpreted(code, architecture, execve, near) == expected
    if number != execve:
        assert interpreted(code, architecture, number, asked) == "allow"
    assert interpreted(code, architecture + 1, execve, asked) == "allow"  # the first program kills it


def test_an_unknown_machine_has_no_such_filter() -> None:
    assert program.once("m68k", 0) == b""


# --- calls


def test_a_program_answers_with_its_output_its_status_and_its_complaints(running: Starter) -> None:
    with sh(running, "echo $WORD; echo oh >&2; exit 3") as child:
        assert b"".join(child.chunks()) == b"x\n"
        assert child.wait() == started.Ended(status=3, stderr=b"oh\n")


def test_the_tools_get_the_same_in_the_words_of_a_call(running: Starter) -> None:
    with StarterPrograms(running).start("sh", ["-c", "echo a; exit 1"], {}, Budget()) as child:
        assert b"".join(child.chunks()) == b"a\n"
        ended = child.wait()
    assert (ended.status, ended.stderr, type(ended).__module__) == (1, b"", "fumehood.serve.context")


def test_a_signal_counts_as_128_and_more(running: Starter) -> None:
    with sh(running, "kill -TERM $$") as child:
        assert child.wait().status == 128 + signal.SIGTERM


def test_a_broken_pipe_ends_a_program_as_it_would_elsewhere(running: Starter) -> None:
    with sh(running, "trap '' USR1; kill -PIPE $$; echo still here") as child:
        assert b"".join(child.chunks()) == b""
        assert child.wait().status == 128 + signal.SIGPIPE


def test_what_is_not_read_is_dropped_and_complaints_are_cut(running: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHILD_STDERR_BYTES", 10_000)
    flood = "i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789 >&2; echo o; i=$((i+1)); done"
    with sh(running, flood) as child:
        ended = child.wait()
    assert ended.status == 0
    assert len(ended.stderr) == 10_000


def test_output_is_bounded_and_its_writer_killed(running: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHILD_OUTPUT_BYTES", 100_000)
    with sh(running, "while :; do echo 0123456789012345678901234567890123456789; done") as child:
        assert len(b"".join(child.chunks())) == 100_000
        assert child.wait().status == 128 + signal.SIGKILL


def forever(running: Starter, budget: Budget) -> tuple[started.Child, int]:
    """A child that does not end by itself, and a descriptor of it."""
    child = sh(running, "echo $$; while :; do :; done", budget)
    return child, os.pidfd_open(int(next(child.chunks())))


def is_dead(pidfd: int, seconds: float = 10) -> bool:
    return bool(select.select([pidfd], [], [], seconds)[0])


def test_a_deadline_kills(running: Starter) -> None:
    class Clock(SystemClock):
        later = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.later

    clock = Clock()
    child, pidfd = forever(running, Budget(100, clock=clock))
    assert not is_dead(pidfd, 0)
    clock.later = 200
    with child, pytest.raises(TimedOutError):
        list(child.chunks())
    assert is_dead(pidfd)
    os.close(pidfd)


def test_a_cancellation_kills(running: Starter) -> None:
    budget = Budget(100)
    child, pidfd = forever(running, budget)
    threading.Timer(0.01, budget.cancel).start()
    with child, pytest.raises(CancelledError):
        child.wait()
    assert is_dead(pidfd)
    os.close(pidfd)
    with pytest.raises(CancelledError):
        sh(running, "echo", budget)


def test_whoever_leaves_early_kills(running: Starter) -> None:
    child, pidfd = forever(running, Budget())
    with child:
        pass
    assert is_dead(pidfd)
    os.close(pidfd)


def test_many_calls_at_once_do_not_cross(running: Starter) -> None:
    answers: dict[int, bytes] = {}

    def call(number: int) -> None:
        with sh(running, f"echo {number}") as child:
            answers[number] = b"".join(child.chunks())

    threads = [threading.Thread(target=call, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: b"%d\n" % number for number in range(24)}


def test_a_flood_is_answered_busy_and_what_runs_ends_with_the_starter(running: Starter) -> None:
    held = [forever(running, Budget()) for _ in range(program.CHILDREN)]
    with sh(running, "echo") as child, pytest.raises(BusyError):
        list(child.chunks())
    held[0][0].close()
    assert is_dead(held[0][1])
    for _ in range(program.CHILDREN):  # the starter may not have reaped it yet
        with contextlib.suppress(BusyError), sh(running, "echo again") as child:
            assert b"".join(child.chunks()) == b"again\n"
            break
    else:
        pytest.fail("nothing can be started again")
    running.close()
    assert all(is_dead(pidfd) for _, pidfd in held)
    for child, pidfd in held:
        child.close()
        os.close(pidfd)


def test_a_program_that_was_not_found_is_named(running: Starter) -> None:
    with pytest.raises(UnsupportedError, match="rg was not found"):
        running.start("rg", [], {}, Budget())


def test_a_nul_never_begins_another_word(running: Starter) -> None:
    with pytest.raises(ValueError, match="NUL"):
        running.start("sh", ["a\0LD_PRELOAD=x"], {}, Budget())


def test_too_many_words_are_refused(running: Starter) -> None:
    with pytest.raises(LimitError):
        running.start("sh", ["x" * program.MESSAGE_BYTES], {}, Budget())


def test_a_variable_of_the_loader_is_refused_by_the_starter_itself(running: Starter) -> None:
    with running.start("sh", [], {"LD_PRELOAD": "x"}, Budget()) as child, pytest.raises(StarterGoneError):
        list(child.chunks())
    with sh(running, "echo on") as child:
        assert b"".join(child.chunks()) == b"on\n"


@pytest.mark.parametrize("count", [1, 2, 4, 5, 40])
def test_messages_that_nobody_sends_are_passed_over(running: Starter, count: int) -> None:
    reading, writing = os.pipe()
    rights = array.array("i", [reading, writing] * 20)[:count]
    for message in (b"sh\0001\0x", b"x" * program.MESSAGE_BYTES, b"sh\0009\0"):
        running._control.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        running._control.send(message)
    os.close(reading)
    os.close(writing)
    with sh(running, "echo on") as child:
        assert b"".join(child.chunks()) == b"on\n"


def test_a_message_into_a_calls_socket_gives_it_up(running: Starter) -> None:
    child, pidfd = forever(running, Budget())
    child._call.send(b"anything")
    assert is_dead(pidfd)
    with child, pytest.raises(StarterGoneError):
        child.wait()
    os.close(pidfd)


# --- starting it


def test_a_script_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\n")
    with pytest.raises(UnsupportedError, match=r"git: .* is not a program"):
        starter.ruleset(0, {"git": tmp_path / "git"})


def test_a_dynamic_program_may_start_its_loader_and_read_its_libraries() -> None:
    found = starter.ruleset(7, {"sh": SHELL})
    assert found.executable[0] == str(SHELL)
    assert len(found.executable) == 2
    assert {7, "/usr/lib"} <= set(found.readable)
    assert found.devices == ("/dev/null",)


def test_without_landlock_it_starts_only_when_the_operator_wants_it_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confine, "landlock_abi", lambda: 0)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(UnsupportedError, match="without the wall outside_reading: the kernel offers no Landlock"):
        starter.start(descriptor, {"sh": SHELL})
    with starter.start(descriptor, {"sh": SHELL}, unsafe_without_walls=True) as one:
        one.ready()
        states = {wall.name: wall.state for wall in one.containment.walls}
        assert states["writing"] is WallState.UNAVAILABLE
        assert states["seccomp"] is WallState.ENFORCED
        with sh(one, "echo on") as child:
            assert b"".join(child.chunks()) == b"on\n"
    os.close(descriptor)


def test_a_machine_without_a_filter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "m68k")
    with pytest.raises(UnsupportedError, match="without the wall seccomp: no seccomp program for m68k"):
        starter.start(0, {"sh": SHELL})


def test_a_program_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.write_bytes(SHELL.read_bytes())
    gone.chmod(0o755)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with starter.start(descriptor, {"sh": gone}) as one:
        one.ready()
        gone.unlink()
        with sh(one, "echo") as child, pytest.raises(UnsupportedError, match="could not be started: No such file"):
            list(child.chunks())
    os.close(descriptor)


def test_a_ruleset_that_cannot_be_taken_is_told_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine, "ruleset_descriptor", lambda *_: os.open("/dev/null", os.O_RDONLY))
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with starter.start(descriptor, {"sh": SHELL}) as one, pytest.raises(UnsupportedError, match="Landlock: File desc"):
        one.ready()
    os.close(descriptor)


def test_a_starter_that_says_nothing_is_not_waited_for(running: Starter) -> None:
    running._is_ready = False
    with pytest.raises(StarterGoneError, match="did not answer"):
        running.ready(0.01)
    running._is_ready = True
    running.ready()


# --- the program, in this process: what its parent half does


class Recorded:
    """A program.Starter whose children become nothing but what a test says."""

    def __init__(self, tmp_path: Path, **programs: str) -> None:
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.root = os.open(tmp_path, os.O_RDONLY)
        table = {os.fsencode(name): os.fsencode(path) for name, path in programs.items()}
        self.starter = program.Starter(theirs, self.root, b"", table)
        self.theirs = theirs
        self.thread = threading.Thread(target=self.starter.run)

    def request(self, message: bytes) -> tuple[socket.socket, int, int]:
        """Send a request; our end of its call, and the reading ends of its pipes."""
        call, given = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        out, to_out = os.pipe()
        err, to_err = os.pipe()
        rights = array.array("i", [given.fileno(), to_out, to_err])
        self.ours.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        given.close()
        os.close(to_out)
        os.close(to_err)
        return call, out, err


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Recorded]:
    one = Recorded(tmp_path, true="/usr/bin/true", sleep="/usr/bin/sleep", none=str(tmp_path / "none"))
    yield one
    one.ours.close()
    one.thread.join()
    one.theirs.close()
    os.close(one.root)
    os.close(one.starter._null)


@pytest.mark.parametrize(
    ("message", "answer"),
    [(b"true\x000", b"E0"), (b"none\x000", b"X2"), (b"other\x000", b"M"), (b"true", b"M")],
)
def test_each_request_has_one_answer(recorded: Recorded, message: bytes, answer: bytes) -> None:
    recorded.thread.start()
    call, out, err = recorded.request(message)
    with call:
        assert call.recv(64) == answer
        assert call.recv(64) in {b"", b"E127"}  # what could not be started has also ended
        assert call.recv(64) == b""
    for descriptor in (out, err):
        assert os.read(descriptor, 1) == b""
        os.close(descriptor)


def test_a_call_that_is_given_up_and_the_end_of_the_server_end_children(recorded: Recorded) -> None:
    recorded.thread.start()
    kept = [recorded.request(b"sleep\x001\x00600") for _ in range(2)]
    kept[0][0].close()
    assert os.read(kept[0][1], 1) == b""  # its writer is gone
    recorded.ours.close()
    recorded.thread.join()
    assert kept[1][0].recv(64) == b"E137"
    assert recorded.starter._pids == {}
    kept[1][0].close()
    for _, *ends in kept:
        for descriptor in ends:
            os.close(descriptor)


def test_a_server_that_is_killed_with_something_unread_is_gone(recorded: Recorded) -> None:
    recorded.theirs.send(program.READY)
    recorded.ours.close()
    recorded.thread.start()
    recorded.thread.join()
    assert recorded.starter._pids == {}


def test_more_than_the_bound_is_busy(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "CHILDREN", 0)
    recorded.thread.start()
    call, out, err = recorded.request(b"true\x000")
    with call:
        assert call.recv(64) == b"B"
    os.close(out)
    os.close(err)


def test_a_system_that_starts_no_more_is_told(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> int:
        raise BlockingIOError(11, "no more")

    monkeypatch.setattr(os, "fork", full)
    recorded.thread.start()
    call, out, err = recorded.request(b"true\x000")
    with call:
        assert call.recv(64) == b"X11"
    os.close(out)
    os.close(err)


def test_the_walls_of_a_child_are_told_in_one_order() -> None:
    walls = starter.foresee(landlock.NOTHING, 7)
    names: list[Any] = [wall.name for wall in walls]
    assert len(set(names)) == len(names)
    assert names[-1] == "seccomp"
