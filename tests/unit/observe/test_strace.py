"""From what strace writes to events."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.observe.strace import Call, Ended, Event, Signalled, TraceParser


def parse(data: bytes) -> tuple[list[Event], TraceParser]:
    parser = TraceParser()
    events = parser.feed(data)
    return events + parser.finish(), parser


def one(line: bytes) -> Call:
    events, parser = parse(line + b"\n")
    assert parser.lost == {}
    (call,) = events
    assert isinstance(call, Call)
    return call


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'7  unlink("a")                    = 0', Call(7, "unlink", b'"a"', 0, None, None, None)),
        (
            b'12345 openat(AT_FDCWD</w>, "f", O_RDONLY) = 3</w/f>',
            Call(12345, "openat", b'AT_FDCWD</w>, "f", O_RDONLY', 3, None, b"/w/f", None),
        ),
        (
            b'1 openat(AT_FDCWD</w>, "f", O_RDONLY) = -1 ENOENT (No such file or directory)',
            Call(1, "openat", b'AT_FDCWD</w>, "f", O_RDONLY', -1, "ENOENT", None, None),
        ),
        (b"1 fork() = 2 /* 99 in strace's PID NS */", Call(1, "fork", b"", 2, None, None, 99)),
        (b"1 exit_group(0) = ?", Call(1, "exit_group", b"0", None, None, None, None)),
        (b"1 brk(NULL) = 0x55d0c0de", Call(1, "brk", b"NULL", 0x55D0C0DE, None, None, None)),
        (
            b"1 read(0, 0x7ffe, 1) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)",
            Call(1, "read", b"0, 0x7ffe, 1", None, "ERESTARTSYS", None, None),
        ),
        (b'1 open("f", O_RDONLY) = 3</w/f>(deleted)', Call(1, "open", b'"f", O_RDONLY', 3, None, b"/w/f", None)),
        (b"1 poll([], 0, 0) = 0 (Timeout)", Call(1, "poll", b"[], 0, 0", 0, None, None, None)),
        (
            b"1 mount() = -1 EPERM (Operation not permitted) (INJECTED)",
            Call(1, "mount", b"", -1, "EPERM", None, None),
        ),
        (b"1 syscall_0x1c3(0x1, 0x2) = -1 ENOSYS (x)", Call(1, "syscall_0x1c3", b"0x1, 0x2", -1, "ENOSYS", None, None)),
    ],
)
def test_each_form_of_a_finished_call_is_read(line: bytes, expected: Call) -> None:
    assert one(line) == expected


@pytest.mark.threat("R4")
@pytest.mark.parametrize(
    "name",
    [
        b"x) = -1 ENOENT (No such file or directory)",
        b"x) = 5\\74/fake\\76",
        b"x) = 0",
        b" = 0",
        b"a\\74b\\76) = ? = = ) = 7 (",
    ],
)
def test_a_file_name_cannot_pretend_to_be_a_result(name: bytes) -> None:
    quoted = name.replace(b"\\74", b"<").replace(b"\\76", b">")
    call = one(b"1 openat(AT_FDCWD</w/" + name + b'>, "' + quoted + b'", O_RDONLY) = 3</w/' + name + b">")
    assert (call.result, call.error, call.path) == (3, None, b"/w/" + name)
    failed = one(b'1 openat(AT_FDCWD</w>, "' + quoted + b'", O_RDONLY) = -1 EACCES (Permission denied)')
    assert (failed.result, failed.error, failed.path) == (-1, "EACCES", None)


def test_halves_are_joined_by_pid() -> None:
    events, parser = parse(
        b'5 openat(AT_FDCWD</w>, "a", O_RDONLY <unfinished ...>\n'
        b"6 vfork( <unfinished ...>\n"
        b"5 <... openat resumed>)             = 3</w/a>\n"
        b"6 <... vfork resumed> ) = 7\n"
        b"6 wait4(-1,  <unfinished ...>\n"
        b"6 <... wait4 resumed> <unfinished ...>\n"
        b"6 <... wait4 resumed>NULL, 0, NULL) = 7\n"
    )
    assert events == [
        Call(5, "openat", b'AT_FDCWD</w>, "a", O_RDONLY', 3, None, b"/w/a", None),
        Call(6, "vfork", b"", 7, None, None, None),
        Call(6, "wait4", b"-1, NULL, 0, NULL", 7, None, None, None),
    ]
    assert parser.lost == {}


def test_a_thread_that_executes_a_program_comes_back_under_the_first_threads_pid() -> None:
    events, parser = parse(
        b'9 execve("/bin/x", ["x"], 0x1 /* 1 var */ <pid changed to 8 ...>\n'
        b"8 +++ superseded by execve in pid 9 +++\n"
        b"8 <... execve resumed>) = 0\n"
    )
    assert events == [Call(8, "execve", b'"/bin/x", ["x"], 0x1 /* 1 var */', 0, None, None, None)]
    assert parser.lost == {}


@pytest.mark.parametrize("pad", [b" ", b"     "])
def test_a_call_printed_twice_when_a_thread_executes_is_one_call(pad: bytes) -> None:
    events, parser = parse(
        b"8 wait4(-1,  <unfinished ...>\n"
        b'9 execve("/bin/x", ["+++ superseded by execve in pid 5 +++"], 0x1 <unfinished ...>\n'
        b'8 execve("/bin/x", ["+++ superseded by execve in pid 5 +++"], 0x18'
        + pad
        + b"+++ superseded by execve in pid 9 +++\n"
        b"8 <... execve resumed>) = 0\n"
    )
    assert events == [
        Call(8, "execve", b'"/bin/x", ["+++ superseded by execve in pid 5 +++"], 0x1', 0, None, None, None)
    ]
    assert parser.lost == {}


def test_ends_and_signals_are_events_and_stops_are_not() -> None:
    events, parser = parse(
        b"5 +++ exited with 3 +++\n"
        b"6 +++ killed by SIGKILL +++\n"
        b"7 +++ killed by SIGSEGV (core dumped) +++\n"
        b"8 --- SIGSYS {si_signo=SIGSYS, si_code=SYS_SECCOMP} ---\n"
        b"8 --- stopped by SIGSTOP ---\n"
    )
    assert events == [
        Ended(5, 3, None),
        Ended(6, None, "SIGKILL"),
        Ended(7, None, "SIGSEGV"),
        Signalled(8, "SIGSYS", b"{si_signo=SIGSYS, si_code=SYS_SECCOMP}"),
    ]
    assert parser.lost == {}


def test_a_call_that_never_returned_is_given_at_the_end() -> None:
    events, parser = parse(
        b"5 connect(3<socket:[1]>, {sa_family=AF_INET} <unfinished ...>\n5 +++ killed by SIGKILL +++\n"
    )
    assert events == [
        Ended(5, None, "SIGKILL"),
        Call(5, "connect", b"3<socket:[1]>, {sa_family=AF_INET}", None, None, None, None),
    ]
    assert parser.lost == {}


def test_a_call_cut_by_the_end_of_its_process_has_no_result() -> None:
    events, _ = parse(b"5 read(3,  <unfinished ...>) = ?\n")
    assert events == [Call(5, "read", b"3,  <unfinished ...>", None, None, None, None)]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "malformed"),
        (b"strace: Process 5 attached", "malformed"),
        (b"5 strace: [ Process PID=5 runs in 32 bit mode. ]", "malformed"),
        (b"5 ", "malformed"),
        (b"x open() = 0", "malformed"),
        (b"5 open(", "malformed"),
        (b"5 open() = zero", "malformed"),
        (b"5 open = 0", "malformed"),
        (b"5 OPEN() = 0", "malformed"),
        (b"5 +++ what +++", "malformed"),
        (b"5 --- what ---", "malformed"),
        (b"5 <... what", "malformed"),
        (b"5 execve() +++", "malformed"),
        (b"5 <... read resumed>) = 0", "resumed"),
        (b"5 open() = " + b"9" * 5000, "malformed"),
        (b"5 open() = 0x" + b"f" * 17, "malformed"),
        (b"5 open(" + b"x" * limits.TRACE_LINE_BYTES + b") = 0", "overlong"),
        (b"9" * 5000 + b" open() = 0", "malformed"),
    ],
)
def test_what_is_not_understood_is_counted_and_not_raised(line: bytes, why: str) -> None:
    _, parser = parse(line + b"\n5 fork() = 6\n")
    assert parser.lost == {why: 1}


def test_a_second_half_whose_first_is_missing_still_says_how_the_call_ended() -> None:
    events, parser = parse(b"5 read(3,  <unfinished ...>\n5 <... openat resumed>) = 3</etc/passwd>\n")
    assert events == [Call(5, "openat", b"", 3, None, b"/etc/passwd", None)]
    assert parser.lost == {"resumed": 1}


def test_a_line_made_to_cost_time_costs_none() -> None:
    """Ends at once; with a pattern that may split its input in many ways it would not end at all."""
    lines = [
        b"5 open() = 0" + b" (a)" * 9000 + b"x",
        b'5 open("' + b"= " * 30000 + b'") = x',
        b"5 open(" + b") = 0<" * 9000,
        b"5 <... open resumed>" + b") = 1 " * 9000,
        b"5 " + b"a" * 60000,
    ]
    _, parser = parse(b"\n".join(lines) + b"\n")
    assert sum(parser.lost.values()) >= len(lines)


@pytest.mark.threat("R4")
def test_a_line_without_end_costs_no_memory() -> None:
    parser = TraceParser()
    for _ in range(100):
        assert parser.feed(b"x" * limits.TRACE_LINE_BYTES) == []
        assert len(parser._rest) <= limits.TRACE_LINE_BYTES
    assert parser.feed(b"y\n5 fork() = 6\n") == [Call(5, "fork", b"", 6, None, None, None)]
    assert parser.lost == {"overlong": 1}


def test_halves_that_wait_are_bounded_in_number_and_size() -> None:
    parser = TraceParser()
    for pid in range(5000):
        parser.feed(b"%d read(3,  <unfinished ...>\n" % pid)
    assert parser.lost == {"pending": 5000 - 4096}
    parser = TraceParser()
    piece = b"x" * (limits.TRACE_LINE_BYTES - 100)
    parser.feed(b"1 read(" + piece + b" <unfinished ...>\n")
    parser.feed(b"1 <... read resumed>" + piece + b" <unfinished ...>\n")
    parser.feed(b"1 <... read resumed>" + piece + b" <unfinished ...>\n")
    assert parser.lost == {"overlong": 1}
    assert parser.finish() == []


def test_a_first_half_after_a_first_half_replaces_it_and_is_counted() -> None:
    events, parser = parse(b"1 read(3,  <unfinished ...>\n1 write(4,  <unfinished ...>\n1 <... write resumed>) = 1\n")
    assert events == [Call(1, "write", b"4, ", 1, None, None, None)]
    assert parser.lost == {"pending": 1}


def test_recorded_traces_are_read_whole(recorded: Callable[[str], bytes]) -> None:
    for name, least in (("node_plain", 500), ("node_fast", 200)):
        events, parser = parse(recorded(name))
        assert parser.lost == {}
        assert len(events) > least
        assert {e.name for e in events if isinstance(e, Call)} >= {
            "execve",
            "connect",
            "openat",
            "unlink",
            "getsockopt",
        }
        assert sum(isinstance(e, Ended) for e in events) > 8


STAMP = b"1796025580.384989 "


def stamped(trace: bytes) -> bytes:
    """The trace as `-ttt` has it: a moment behind each pid."""
    return re.sub(rb"^(\d+ +)", rb"\g<1>" + STAMP, trace, flags=re.MULTILINE)


@pytest.mark.parametrize("name", ["node_plain", "node_fast"])
def test_moments_change_nothing_else_of_a_trace(recorded: Callable[[str], bytes], name: str) -> None:
    events, parser = parse(stamped(recorded(name)))
    assert parser.lost == {}
    assert {event.moment for event in events} == {1796025580.384989}
    assert [event._replace(moment=None) for event in events] == parse(recorded(name))[0]


def test_the_moment_of_a_call_is_that_of_its_first_half() -> None:
    events, parser = parse(
        b"7 5.000001 read(0,  <unfinished ...>\n"
        b'8 5.000002 unlink("a") = 0\n'
        b"7 9.000000 <... read resumed>) = 0\n"
        b'9 5.500000 execve("/bin/x", ["x"], 0x1 <pid changed to 8 ...>\n'
        b"8 6.000000 +++ superseded by execve in pid 9 +++\n"
        b"8 6.100000 <... execve resumed>) = 0\n"
        b"8 7.000000 --- SIGTERM {si_signo=SIGTERM} ---\n"
        b"8 8.000000 +++ killed by SIGTERM +++\n"
        b"7 8.500000 read(0,  <unfinished ...>\n"
        b"6 8.600000 <... lost resumed>) = 0\n"
    )
    assert parser.lost == {"resumed": 1}
    assert [(event.pid, event.moment) for event in events] == [
        (8, 5.000002), (7, 5.000001), (8, 5.5), (8, 7.0), (8, 8.0), (6, None), (7, 8.5)
    ]  # fmt: skip


def test_a_call_printed_twice_with_moments_is_one_call() -> None:
    events, parser = parse(
        b"8 1.000000 wait4(-1,  <unfinished ...>\n"
        b'9 2.000000 execve("/bin/x", ["x"], 0x1 <unfinished ...>\n'
        b'8 2.500000 execve("/bin/x", ["x"], 0x18 2.600000 +++ superseded by execve in pid 9 +++\n'
        b"8 3.000000 <... execve resumed>) = 0\n"
    )
    assert parser.lost == {}
    assert events == [Call(8, "execve", b'"/bin/x", ["x"], 0x1', 0, None, None, None, 2.0)]


@given(st.lists(st.tuples(st.sampled_from([b"1 ", b"22  "]), st.binary(max_size=40), st.binary(max_size=40))))
def test_any_bytes_around_moments_are_taken(lines: list[tuple[bytes, bytes, bytes]]) -> None:
    data = b"".join(pid + before + STAMP + after + b"\n" for pid, before, after in lines)
    for event in parse(data)[0]:
        assert event.moment is None or event.moment >= 0


@settings(max_examples=50)
@given(data=st.data())
def test_the_pieces_in_which_a_trace_arrives_do_not_matter(
    recorded: Callable[[str], bytes], data: st.DataObject
) -> None:
    trace = recorded("node_fast")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(trace)), max_size=20)))
    parser = TraceParser()
    events: list[Event] = []
    for begin, end in zip([0, *cuts], [*cuts, len(trace)], strict=True):
        events += parser.feed(trace[begin:end])
    assert events + parser.finish() == parse(trace)[0]


@settings(max_examples=200)
@given(data=st.data())
def test_a_mangled_trace_never_raises_and_loses_are_counted(
    recorded: Callable[[str], bytes], data: st.DataObject
) -> None:
    trace = recorded("node_plain")
    begin = data.draw(st.integers(0, len(trace) - 2000))
    piece = bytearray(trace[begin : begin + 2000])
    for _ in range(data.draw(st.integers(0, 12))):
        at = data.draw(st.integers(0, len(piece) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "insert"])):
            case "flip":
                piece[at] = data.draw(st.integers(0, 255))
            case "cut":
                del piece[at : at + data.draw(st.integers(1, 40))]
            case _:
                piece[at:at] = data.draw(
                    st.sampled_from([b"\n", b"<", b'"', b") = ", b"\0", b" <unfinished ...>", b"5 "])
                )
        piece = piece or bytearray(b"x")
    events, parser = parse(bytes(piece))
    assert all(isinstance(e, Call | Ended | Signalled) for e in events)
    assert len(events) <= parser.lines + 4096


@given(st.binary(max_size=3000))
def test_any_bytes_are_taken(data: bytes) -> None:
    parse(data)


CALLS = st.tuples(
    st.integers(1, 6),
    st.sampled_from(["open", "unlink", "connect"]),
    st.text(st.sampled_from('ab<>"\\) =\n(,'), max_size=12),
    st.integers(-1, 99),
)


@given(calls=st.lists(CALLS, max_size=12), order=st.randoms(use_true_random=False))
def test_interleaved_calls_come_back_each_to_its_own_pid(calls: list[tuple[int, str, str, int]], order: object) -> None:
    """A small strace: each call is split in two halves, the halves of different pids are shuffled together."""
    assert hasattr(order, "random")
    queues: dict[int, list[bytes]] = {}
    expected: dict[int, list[Call]] = {}
    for pid, name, word, result in calls:
        quoted = b'"' + word.encode("unicode_escape").replace(b'"', b'\\"') + b'"'
        error = b" ENOENT (No such file or directory)" if result < 0 else b""
        halves = queues.setdefault(pid, [])
        if order.random() < 0.5:
            halves.append(b"%d %s(%s) = %d%s\n" % (pid, name.encode(), quoted, result, error))
        else:
            halves.append(b"%d %s(%s <unfinished ...>\n" % (pid, name.encode(), quoted))
            halves.append(b"%d <... %s resumed>) = %d%s\n" % (pid, name.encode(), result, error))
        call = Call(pid, name, quoted, result, "ENOENT" if result < 0 else None, None, None)
        expected.setdefault(pid, []).append(call)
    text = b""
    while queues:
        pid = sorted(queues)[int(order.random() * len(queues))]
        text += queues[pid].pop(0)
        if not queues[pid]:
            del queues[pid]
    events, parser = parse(text)
    assert parser.lost == {}
    by_pid: dict[int, list[Event]] = {}
    for event in events:
        by_pid.setdefault(event.pid, []).append(event)
    assert by_pid == expected


def test_the_tracer_of_this_machine_writes_what_is_understood(tmp_path: Path) -> None:
    program = 'echo hi > "$1/a) = 5 <b>\n.txt"; cat < "$1/a) = 5 <b>\n.txt"; (exit 3) & wait; sleep 0 & wait; exit 4'
    argv = ["strace", "-f", "-ttt", "-y", "--decode-pids=pidns", "-s", "200", "-o", str(tmp_path / "trace"), "--"]
    done = subprocess.run([*argv, "/bin/sh", "-c", program, "sh", str(tmp_path)], check=False, capture_output=True)
    events, parser = parse((tmp_path / "trace").read_bytes())
    assert (done.returncode, done.stdout) == (4, b"hi\n")
    assert parser.lost == {}
    opened = [e for e in events if isinstance(e, Call) and e.path is not None and b".txt" in e.path]
    assert {(e.name, e.path) for e in opened} >= {("openat", bytes(tmp_path) + rb"/a) = 5 \74b\76\n.txt")}
    assert {e.status for e in events if isinstance(e, Ended)} == {0, 3, 4}
    assert all(e.moment is not None and abs(e.moment - events[0].moment) < 60 for e in events if events[0].moment)
    assert events[0].moment is not None


@pytest.mark.parametrize(
    "lines",
    [
        b'7 1796032622.123456 openat(AT_FDCWD, "/x", O_RDONLY) = ? <unavailable>\n',
        (
            b'7 1796032622.123456 openat(AT_FDCWD, "/x", O_RDONLY <unfinished ...>\n'
            b"7 1796032622.123460 <... openat resumed>) = ? <unavailable>\n"
        ),
    ],
)
def test_a_call_in_which_its_process_was_killed_has_no_outcome_and_is_not_lost(lines: bytes) -> None:
    parser = TraceParser()
    (call,) = [*parser.feed(lines), *parser.finish()]
    assert isinstance(call, Call)
    assert (call.name, call.result, call.error) == ("openat", None, None)
    assert parser.lost == {}
