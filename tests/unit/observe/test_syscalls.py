"""From events to observations."""

from collections.abc import Callable, Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.observe.files import within
from fumehood.observe.model import CollectorState, Fidelity, Kind, Observation, Phase
from fumehood.observe.strace import TraceParser
from fumehood.observe.syscalls import LIMITATIONS, TracePolicy, TraceReader, no_activity

NODE = "/opt/node/bin/node"
START = f'10 execve("{NODE}", ["node", "x.js"], 0x1 /* 2 vars */) = 0\n'
Detail = dict[str, object]


def inert(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace")


class Run:
    """A trace that was read."""

    def __init__(self, trace: str | bytes, activity: Callable[[float | None], str] = no_activity) -> None:
        self.parser = TraceParser()
        policy = TracePolicy(
            program=NODE.encode(), ordinary=within(b"/usr", b"/home/u/ws"), redact=inert, activity=activity
        )
        self.reader = TraceReader(policy)
        self.reader.take(self.parser.feed(trace if isinstance(trace, bytes) else trace.encode()))
        self.reader.take(self.parser.finish())
        self.reader.finish()

    def all(self, layered: Collection[bytes] = ()) -> list[Observation]:
        return self.reader.observations(Phase.EXERCISE, "initialize", layered=layered)

    def details(self, kind: Kind, *keys: str) -> list[tuple[object, ...]]:
        return [tuple(o.detail.get(k) for k in keys) for o in self.all() if o.kind is kind]


def test_a_recorded_plain_trace_gives_the_facts_of_its_acts(recorded: Callable[[str], bytes]) -> None:
    run = Run(recorded("node_plain"))
    assert run.details(Kind.PROCESS_EXEC, "process", "parent", "argv", "outcome", "tried") == [
        (1, None, [NODE, "h.js"], "started", None),
        (2, 1, ["sudo", "id"], "ENOENT", ["/opt/node/bin/sudo", "/usr/bin/sudo"]),
        (3, 1, ["/bin/sh", "-c", "(setsid sleep 0.2; echo hi > late) & exit 3"], "started", None),
        (5, 4, ["setsid", "sleep", "0.2"], "started", None),
        (5, 4, ["sleep", "0.2"], "started", None),
    ]
    assert run.details(Kind.PROCESS_EXIT, "process", "status") == [(1, 0), (2, 127), (3, 3), (4, 0), (5, 0)]
    assert run.details(Kind.NETWORK_CONNECT, "address", "port", "path", "protocol", "outcome") == [
        (None, None, "/tmp/x.sock", None, "ENOENT"),
        ("127.0.0.1", 9, None, "tcp", "ECONNREFUSED"),
        ("::1", 9, None, "tcp", "ECONNREFUSED"),
    ]
    assert run.details(Kind.PROCESS_REFUSED, "call", "error", "usual") == [
        ("io_uring_setup", "ENOSYS", "Node tries it at each start"),
        ("clone3", "ENOSYS", "the C library tries it before clone, at each new thread"),
    ]
    assert ("/etc/shadow", "read", "ENOENT") in run.details(Kind.FILE_READ, "path", "how", "outcome")
    assert run.details(Kind.FILE_REFUSED, "path", "how", "outcome") == [("/usr/x", "write", "EROFS")]
    assert run.details(Kind.FILE_CHANGED, "path", "process") == [
        ("/home/u/ws/a<b>c d\n.txt", 1),
        ("/home/u/ws/gone", 1),
        ("/home/u/ws/late", 4),
    ]
    assert run.details(Kind.FILE_DELETED, "path") == [("/home/u/ws/a<b>c d\n.txt",), ("/home/u/ws/gone",)]
    collector = run.reader.collector(Phase.EXERCISE, run.parser, "plain")
    assert (collector.state, collector.lost, collector.why) == (CollectorState.ACTIVE, 0, "")
    assert collector.counts["processes"] == 5


def test_a_fast_trace_shows_no_refusal_and_says_so(recorded: Callable[[str], bytes]) -> None:
    run = Run(recorded("node_fast"))
    assert run.details(Kind.PROCESS_REFUSED, "call") == []
    assert any("refuses are not visible" in line for line in LIMITATIONS["fast"])
    assert not any("refuses are not visible" in line for line in LIMITATIONS["plain"])
    plain = Run(recorded("node_plain"))
    for kind in (Kind.PROCESS_EXEC, Kind.PROCESS_EXIT, Kind.FILE_CHANGED, Kind.FILE_DELETED):
        assert run.details(kind, "argv", "path", "status") == plain.details(kind, "argv", "path", "status")


def test_what_comes_before_the_targets_start_is_no_observation_nor_who_waits_for_it() -> None:
    run = Run(
        '9 openat(AT_FDCWD</>, "/etc/passwd", O_RDONLY) = 3</etc/passwd>\n'
        f'10 execve("/usr/bin/bwrap", ["bwrap", "{NODE}"], 0x1) = 0\n'
        f'10 execve("{NODE}", ["node"], 0x1) = -1 ENOENT (No such file or directory)\n'
        + START
        + '9 openat(3</proc>, "self/fd", O_RDONLY|O_DIRECTORY) = 4</proc/9/fd>\n'
        '9 newfstatat(4</proc/9/fd>, "", {st_mode=S_IFDIR|0500, ...}, AT_EMPTY_PATH) = 0\n'
        "9 clone(child_stack=NULL, flags=SIGCHLD) = 10\n9 wait4(-1, NULL, 0, NULL) = 2\n9 exit_group(0) = ?\n"
        "9 +++ exited with 0 +++\n"
        '10 openat(AT_FDCWD</>, "/etc/hosts", O_RDONLY) = 3</etc/hosts>\n'
    )
    assert run.details(Kind.FILE_READ, "path") == [("/etc/hosts",)]
    assert run.details(Kind.PROCESS_EXEC, "argv") == [(["node", "x.js"],)]
    assert run.details(Kind.PROCESS_EXIT, "process") == []


@pytest.mark.threat("R4")
@pytest.mark.parametrize(
    "act",
    [
        'openat(AT_FDCWD</>, "/home/u/taken", O_WRONLY|O_CREAT, 0600) = 3</home/u/taken>',
        'openat(AT_FDCWD</>, "self/fd", O_WRONLY|O_CREAT, 0600) = 3</home/u/taken>',
        'open("/home/u/taken", O_WRONLY|O_CREAT, 0600) = 3</home/u/taken>',
    ],
)
def test_what_built_the_sandbox_and_acts_after_the_start_was_taken_over(act: str) -> None:
    run = Run(f"9 wait4(-1, NULL, 0, NULL) = 2\n{START}9 wait4(-1, NULL, 0, NULL) = 2\n9 {act}\n")
    assert run.details(Kind.FILE_CHANGED, "path", "process", "parent") == [("/home/u/taken", 2, 0)]


def test_a_trace_without_the_targets_start_makes_the_collector_unavailable() -> None:
    run = Run('9 openat(AT_FDCWD</>, "/etc/passwd", O_RDONLY) = 3</etc/passwd>\nnonsense\n')
    collector = run.reader.collector(Phase.INSTALL, run.parser, "fast")
    assert run.all() == []
    assert collector.state is CollectorState.UNAVAILABLE
    assert "does not show the start" in collector.why
    assert collector.lost == 1


def test_lines_that_were_lost_make_the_collector_degraded_with_numbers() -> None:
    run = Run(START + "nonsense\n10 <... read resumed>) = 0\n")
    collector = run.reader.collector(Phase.INSTALL, run.parser, "fast")
    assert (collector.state, collector.lost) == (CollectorState.DEGRADED, 2)
    assert collector.why == "malformed: 1, resumed: 1"


def test_a_child_seen_before_its_fork_returns_gets_its_parent_all_the_same() -> None:
    run = Run(
        START + "10 vfork( <unfinished ...>\n"
        '11 execve("/bin/a", ["a"], 0x1) = 0\n'
        "11 vfork( <unfinished ...>\n"
        '12 execve("/bin/b", ["b"], 0x1) = 0\n'
        "12 +++ exited with 7 +++\n"
        "11 <... vfork resumed>) = 3 /* 12 in strace's PID NS */\n"
        "10 <... vfork resumed>) = 2 /* 11 in strace's PID NS */\n"
    )
    assert run.details(Kind.PROCESS_EXEC, "process", "parent", "argv") == [
        (1, None, ["node", "x.js"]),
        (2, 1, ["a"]),
        (3, 2, ["b"]),
    ]
    assert run.details(Kind.PROCESS_EXIT, "process", "parent", "status") == [(3, 2, 7)]


@pytest.mark.threat("R4")
def test_a_child_whose_parent_was_killed_inside_its_fork_is_not_taken_for_the_first_process() -> None:
    run = Run(
        START + "10 fork() = 11\n11 fork( <unfinished ...>\n11 +++ killed by SIGKILL +++\n"
        '12 openat(AT_FDCWD</tmp>, "x", O_WRONLY) = 3</tmp/x>\n'
    )
    assert run.details(Kind.FILE_CHANGED, "process", "parent") == [(3, 0)]


def test_threads_count_as_their_process_also_when_seen_before_their_clone_returns() -> None:
    run = Run(
        START + "10 clone(child_stack=0x1, flags=CLONE_VM|CLONE_THREAD) = 3 /* 11 in strace's PID NS */\n"
        "10 clone(child_stack=0x1, flags=CLONE_VM|CLONE_THREAD <unfinished ...>\n"
        '12 openat(AT_FDCWD</>, "/etc/hosts", O_RDONLY) = 3</etc/hosts>\n'
        "10 <... clone resumed>) = 4 /* 12 in strace's PID NS */\n"
        '11 openat(AT_FDCWD</>, "/etc/group", O_RDONLY) = 3</etc/group>\n'
        "11 +++ exited with 0 +++\n12 +++ exited with 0 +++\n10 +++ killed by SIGKILL +++\n"
    )
    assert run.details(Kind.FILE_READ, "path", "process") == [("/etc/hosts", 1), ("/etc/group", 1)]
    assert run.details(Kind.PROCESS_EXIT, "process", "status", "signal") == [(1, None, "SIGKILL")]


def test_a_detached_grandchild_keeps_its_lineage_after_its_parent_has_ended() -> None:
    run = Run(
        START + "10 fork() = 11\n11 fork() = 12\n11 +++ exited with 0 +++\n10 +++ exited with 0 +++\n"
        f"12 connect(3<socket:[5]>, {inet(443, '198.18.0.7')}) = 0\n"
    )
    assert run.details(Kind.NETWORK_CONNECT, "process", "parent", "address", "outcome") == [
        (3, 2, "198.18.0.7", "connected")
    ]


def test_an_inner_pid_that_was_not_translated_is_not_taken_for_an_outer_one() -> None:
    run = Run(START + "10 fork() = 2 /* 11 in strace's PID NS */\n10 fork() = 3\n3 +++ exited with 0 +++\n")
    assert len(run.reader.tree.processes) == 2
    assert run.reader.lost == {"untranslated": 1}


def test_a_sibling_made_with_clone_parent_gets_the_callers_parent() -> None:
    run = Run(START + '10 fork() = 11\n11 clone(flags=CLONE_PARENT|SIGCHLD) = 12\n12 execve("/b", ["b"], 0x1) = 0\n')
    assert run.details(Kind.PROCESS_EXEC, "process", "parent") == [(1, None), (3, 1)]


def test_a_pid_that_is_used_again_is_another_process() -> None:
    run = Run(
        START + "10 fork() = 11\n11 +++ exited with 1 +++\n10 fork() = 11\n11 +++ exited with 2 +++\n"
        "10 fork() = -1 EAGAIN (x)\n"
    )
    assert run.details(Kind.PROCESS_EXIT, "process", "parent", "status") == [(2, 1, 1), (3, 1, 2)]


def test_a_search_through_path_that_succeeds_is_one_exec() -> None:
    missing = "-1 ENOENT (No such file or directory)"
    run = Run(
        START
        + f'10 fork() = 11\n11 execve("/a/git", ["git"], 0x1) = {missing}\n11 execve("/b/git", ["git"], 0x1) = 0\n'
        f'10 fork() = 12\n12 execve("/a/no", ["no"], 0x1) = {missing}\n12 execve("/a/yes", ["yes"], 0x1) = {missing}\n'
        '10 fork() = 13\n13 execve("/usr/bin/sudo", ["sudo", "id"], 0x1) = -1 EPERM (Operation not permitted)\n'
        '10 fork() = 14\n14 execve("/bin/x", 0x7ffe, 0x1 <unfinished ...>\n'
        '10 execveat(5</proc/memfd:x (deleted)>, "", ["x"], 0x1, AT_EMPTY_PATH) = -1 EACCES (Permission denied)\n'
        '10 execve("/var/home/u/run", ["run"], 0x1) = -1 EACCES (Permission denied)\n'
        '10 execveat(AT_FDCWD</>, "/c", ["c"], 0x1, 0) = -1 ENOENT (No such file or directory)\n'
    )
    assert run.details(Kind.PROCESS_EXEC, "program", "argv", "outcome", "cut") == [
        (NODE, ["node", "x.js"], "started", False),
        ("/b/git", ["git"], "started", False),
        ("/a/no", ["no"], "ENOENT", False),
        ("/usr/bin/sudo", ["sudo", "id"], "EPERM", False),
        ("/proc/memfd:x (deleted)", ["x"], "EACCES", False),
        ("/home/u/run", ["run"], "EACCES", False),
        ("/bin/x", [], "unfinished", True),
        ("/c", ["c"], "ENOENT", False),
        ("/a/yes", ["yes"], "ENOENT", False),
    ]
    assert [o.fidelity for o in run.all() if o.detail.get("outcome") == "unfinished"] == [Fidelity.ATTEMPTED]


def inet(port: int, host: str = "127.0.0.1") -> str:
    return f'{{sa_family=AF_INET, sin_port=htons({port}), sin_addr=inet_addr("{host}")}}, 16'


def test_a_connect_that_does_not_wait_gets_its_outcome_from_so_error() -> None:
    run = Run(
        START + f"10 connect(3<socket:[5]>, {inet(1)}) = -1 EINPROGRESS (Operation now in progress)\n"
        f"10 connect(4<socket:[6]>, {inet(2)}) = -1 EINPROGRESS (Operation now in progress)\n"
        f"10 connect(5<socket:[7]>, {inet(3)}) = -1 EINPROGRESS (Operation now in progress)\n"
        f"10 connect(6, {inet(4)}) = -1 EINPROGRESS (Operation now in progress)\n"
        f"10 connect(7<socket:[8]>, {inet(5)}) = -1 EINPROGRESS (Operation now in progress)\n"
        "10 getsockopt(3<socket:[5]>, SOL_SOCKET, SO_ERROR, [0], [4]) = 0\n"
        "10 getsockopt(4<socket:[6]>, SOL_SOCKET, SO_ERROR, [ECONNREFUSED], [4]) = 0\n"
        "10 getsockopt(4<socket:[6]>, SOL_SOCKET, SO_ERROR, [0], [4]) = 0\n"
        "10 getsockopt(5<socket:[7]>, SOL_SOCKET, SO_TYPE, [1], [4]) = 0\n"
        "10 getsockopt(6, SOL_SOCKET, SO_ERROR, [111], [4]) = 0\n"
        f"10 connect(7<socket:[8]>, {inet(5)}) = -1 EISCONN (x)\n"
    )
    found = {(o.detail["port"], o.detail["outcome"], o.fidelity) for o in run.all() if o.kind is Kind.NETWORK_CONNECT}
    assert found == {
        (1, "connected", Fidelity.OBSERVED),
        (2, "ECONNREFUSED", Fidelity.OBSERVED),
        (3, "in progress", Fidelity.ATTEMPTED),
        (4, "111", Fidelity.OBSERVED),
        (5, "connected", Fidelity.OBSERVED),
    }


def test_a_socket_that_goes_on_to_another_address_keeps_both_attempts() -> None:
    run = Run(
        START + f"10 connect(3<socket:[5]>, {inet(1)}) = -1 EINPROGRESS (x)\n10 connect(3<socket:[5]>, {inet(2)}) = 0\n"
        f"10 connect(3<socket:[9]>, {inet(3)} <unfinished ...>\n"
    )
    assert run.details(Kind.NETWORK_CONNECT, "port", "outcome") == [(1, "in progress"), (2, "connected"), (3, None)]


def test_every_family_and_call_that_names_an_address_is_recorded() -> None:
    six = (
        "{sa_family=AF_INET6, sin6_port=htons(53), sin6_flowinfo=htonl(0), "
        'inet_pton(AF_INET6, "2001:db8::1", &sin6_addr), sin6_scope_id=0}'
    )
    run = Run(
        START + "10 socket(AF_INET6, SOCK_DGRAM|SOCK_CLOEXEC, IPPROTO_IP) = 3<socket:[5]>\n"
        "10 socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 4\n"
        f'10 sendto(3<socket:[5]>, "x", 1, 0, {six}, 28) = 1\n'
        f"10 sendmsg(3<socket:[5]>, {{msg_name={six}, msg_namelen=28, msg_iov=[]}}, 0) = 1\n"
        f"10 sendmmsg(3<socket:[5]>, [{{msg_hdr={{msg_name={six}, msg_namelen=28}}, msg_len=3}}], 1, 0) = 1\n"
        f"10 bind(4, {inet(8080, '0.0.0.0')}) = 0\n"
        '10 connect(5<socket:[8]>, {sa_family=AF_UNIX, sun_path=@"abs\\0"}, 9) = -1 ECONNREFUSED (Connection refused)\n'
        "10 bind(6<socket:[9]>, {sa_family=AF_NETLINK, nl_pid=0, nl_groups=00000000}, 12) = 0\n"
        '10 sendto(3<socket:[5]>, "x", 1, 0, NULL, 0) = 1\n'
        "10 socket(AF_PACKET, SOCK_RAW, 0) = -1 EAFNOSUPPORT (Address family not supported by protocol)\n"
        "10 socket(AF_VSOCK, SOCK_STREAM, 0) = -1 EAFNOSUPPORT (Address family not supported by protocol)\n"
        "10 socket(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT) = -1 EPROTONOSUPPORT (Protocol not supported)\n"
    )
    assert run.details(Kind.NETWORK_CONNECT, "call", "address", "port", "path", "abstract", "protocol", "outcome") == [
        ("sendto", "2001:db8::1", 53, None, None, "udp", "sent"),
        ("sendmsg", "2001:db8::1", 53, None, None, "udp", "sent"),
        ("sendmmsg", "2001:db8::1", 53, None, None, "udp", "sent"),
        ("connect", None, None, "abs\0", True, None, "ECONNREFUSED"),
    ]
    assert run.details(Kind.NETWORK_OTHER, "call", "address", "port", "protocol", "outcome") == [
        ("bind", "0.0.0.0", 8080, "tcp", "bound")
    ]
    assert run.details(Kind.PROCESS_REFUSED, "call", "error", "arguments") == [
        ("socket", "EAFNOSUPPORT", "AF_PACKET, SOCK_RAW, 0"),
        ("socket", "EAFNOSUPPORT", "AF_VSOCK, SOCK_STREAM, 0"),
        ("socket", "EPROTONOSUPPORT", "AF_NETLINK, SOCK_RAW, NETLINK_AUDIT"),
    ]


@pytest.mark.threat("R4")
def test_an_address_inside_the_data_that_is_sent_is_no_address() -> None:
    run = Run(
        START + '10 sendto(3<socket:[5]>, "{sa_family=AF_UNIX, sun_path=", 29, 0, ' + inet(53) + ") = 29\n"
        '10 sendto(3<socket:[5]>, "{sa_family=AF_INET, sin_port=htons(1), sin_addr=inet_addr(\\"9.9.9.9\\")}", 7, 0, '
        "NULL, 0) = 7\n"
    )
    assert run.details(Kind.NETWORK_CONNECT, "address", "port", "path") == [("127.0.0.1", 53, None)]


def test_refused_calls_are_counted_per_process_and_keep_their_arguments() -> None:
    run = Run(
        START + "10 ptrace(PTRACE_ATTACH, 1) = -1 EPERM (Operation not permitted)\n"
        "10 ptrace(PTRACE_ATTACH, 2) = -1 EPERM (Operation not permitted)\n"
        "10 unshare(CLONE_NEWUSER) = -1 EPERM (Operation not permitted)\n"
        "10 io_uring_setup(1, {}) = -1 ENOSYS (Function not implemented)\n"
        "10 io_uring_setup(256, {}) = -1 ENOSYS (Function not implemented)\n"
        "10 clone3({flags=CLONE_VM|CLONE_THREAD}, 88) = -1 ENOSYS (Function not implemented)\n"
        "10 clone3({flags=CLONE_NEWUSER}, 88) = -1 ENOSYS (Function not implemented)\n"
        '10 execve("/usr/bin/python3", ["p"], 0x1) = 0\n'
        "10 io_uring_setup(256, {}) = -1 ENOSYS (Function not implemented)\n"
        "10 --- SIGSYS {si_signo=SIGSYS, si_code=SYS_SECCOMP, si_arch=AUDIT_ARCH_I386} ---\n"
        "99 --- SIGCHLD {si_signo=SIGCHLD} ---\n"
        '10 readlink("/x", 0x1, 9) = -1 EINVAL (Invalid argument)\n'
    )
    assert run.details(Kind.PROCESS_REFUSED, "call", "error", "count", "arguments", "usual") == [
        ("ptrace", "EPERM", 2, "PTRACE_ATTACH, 1", None),
        ("unshare", "EPERM", 1, "CLONE_NEWUSER", None),
        ("io_uring_setup", "ENOSYS", 2, "1, {}", None),
        ("io_uring_setup", "ENOSYS", 1, "256, {}", "Node tries it at each start"),
        (
            "clone3",
            "ENOSYS",
            1,
            "{flags=CLONE_VM|CLONE_THREAD}, 88",
            "the C library tries it before clone, at each new thread",
        ),
        ("clone3", "ENOSYS", 1, "{flags=CLONE_NEWUSER}, 88", None),
        ("unknown", "SIGSYS", 1, "{si_signo=SIGSYS, si_code=SYS_SECCOMP, si_arch=AUDIT_ARCH_I386}", None),
    ]


def test_a_process_that_the_filter_killed_is_a_refusal_too() -> None:
    run = Run("9 fork() = 3\n" + START + "10 fork() = 11\n11 +++ killed by SIGSYS +++\n9 +++ killed by SIGSYS +++\n")
    assert run.details(Kind.PROCESS_REFUSED, "call", "error", "process") == [("unknown", "SIGSYS", 2)]
    assert run.details(Kind.PROCESS_EXIT, "process", "signal") == [(2, "SIGSYS")]


def test_what_a_process_reads_of_itself_has_the_same_name_each_time() -> None:
    run = Run(
        START + '10 openat(AT_FDCWD</>, "/proc/self/maps", O_RDONLY) = 3</proc/17/maps>\n'
        '10 openat(AT_FDCWD</>, "/proc/self/maps", O_RDONLY) = 3</proc/1/environ>\n'
        '10 openat(AT_FDCWD</>, "/proc/1/maps", O_RDONLY) = 3</proc/1/maps>\n'
    )
    assert run.details(Kind.FILE_READ, "path") == [("/proc/self/maps",), ("/proc/1/environ",), ("/proc/1/maps",)]


def test_a_signal_from_outside_the_target_is_nothing() -> None:
    run = Run("9 fork() = 3\n" + START + "9 --- SIGSYS {si_signo=SIGSYS} ---\n")
    assert run.details(Kind.PROCESS_REFUSED, "call") == []


def test_paths_come_from_the_kernel_where_it_answers_and_from_the_folder_elsewhere() -> None:
    run = Run(
        START + '10 openat(AT_FDCWD</var/home/u/ws>, "l", O_RDONLY) = 3</var/home/u/.ssh/id>\n'
        '10 unlink("../.bashrc") = 0\n'
        '10 renameat2(4</var/tmp>, "a", AT_FDCWD</var/home/u>, "/etc/b", RENAME_NOREPLACE) = 0\n'
        '10 rename("/tmp/c", "/tmp/d") = 0\n'
        '10 symlinkat("/etc/passwd", AT_FDCWD</var/home/u>, "s") = 0\n'
        '10 symlink("target", "/tmp/e") = 0\n'
        '10 chmod("/tmp/f", 0600) = 0\n'
        '10 creat("/tmp/g", 0600) = 3</var/tmp/g>\n'
        '10 open("/tmp/h", O_RDWR) = 3</var/tmp/h>\n'
        '10 mkdir("/tmp/i", 0700 <unfinished ...>\n'
        "10 fchmod(3</var/tmp/j>, 0777) = 0\n10 ftruncate(4</memfd:x>(deleted), 5) = 0\n10 fchmod(5, 0777) = 0\n"
        "10 fchown(6<socket:[7]>, 1, 1) = 0\n"
        '11 newfstatat(3</x>, "", {st_mode=S_IFREG}, AT_EMPTY_PATH) = 0\n'
    )
    assert run.details(Kind.FILE_READ, "path") == [("/home/u/.ssh/id",)]
    assert run.details(Kind.FILE_DELETED, "path") == [("/home/u/.bashrc",), ("/tmp/a",), ("/tmp/c",)]
    assert run.details(Kind.FILE_CHANGED, "path", "how", "outcome") == [
        ("/etc/b", "rename", "done"),
        ("/tmp/d", "rename", "done"),
        ("/home/u/s", "create", "done"),
        ("/tmp/e", "create", "done"),
        ("/tmp/f", "attributes", "done"),
        ("/tmp/g", "write", "done"),
        ("/tmp/h", "write", "done"),
        ("/tmp/j", "attributes", "done"),
        ("/memfd:x", "write", "done"),
        ("/tmp/i", "create", None),
    ]
    assert run.reader.writers()[b"/tmp/g"] == (1, None)
    assert [
        o.detail["path"] for o in run.all(layered={b"/tmp/g", b"/tmp/h", b"/memfd:x"}) if o.detail.get("how") == "write"
    ] == []


def test_reads_are_told_apart_and_ordinary_ones_left_out() -> None:
    run = Run(
        START + '10 openat(AT_FDCWD</>, "/usr/lib/x", O_RDONLY) = 3</usr/lib/x>\n'
        '10 openat(AT_FDCWD</>, "/etc/passwd", O_RDONLY|O_CLOEXEC) = 3</etc/passwd>\n'
        '10 openat(AT_FDCWD</>, "/etc/passwd", O_RDONLY|O_CLOEXEC) = 3</etc/passwd>\n'
        '10 openat(AT_FDCWD</>, "/etc", O_RDONLY|O_DIRECTORY) = 3</etc>\n'
        '10 openat2(AT_FDCWD</>, "/etc/x", {flags=O_PATH, mode=0, resolve=0}, 24) = 3</etc/x>\n'
        '10 access("/.dockerenv", F_OK) = -1 ENOENT (No such file or directory)\n'
        '10 openat(AT_FDCWD</>, "/root/x", O_RDONLY) = -1 EACCES (Permission denied)\n'
        '10 openat(AT_FDCWD</>, "/dev/null", O_RDWR) = 3</dev/null>\n'
        '10 openat(AT_FDCWD</>, "O_WRONLY", O_RDONLY) = 3</O_WRONLY>\n'
        "10 openat(AT_FDCWD</>, 0x1, O_RDONLY) = -1 EFAULT (Bad address)\n"
        "10 openat(AT_FDCWD</> <unfinished ...>\n"
    )
    assert run.details(Kind.FILE_READ, "path", "how", "outcome", "count") == [
        ("/etc/passwd", "read", "done", 2),
        ("/etc", "list", "done", 1),
        ("/etc/x", "look", "done", 1),
        ("/.dockerenv", "look", "ENOENT", 1),
        ("/O_WRONLY", "read", "done", 1),
    ]
    assert run.details(Kind.FILE_REFUSED, "path", "outcome") == [("/root/x", "EACCES")]
    assert run.details(Kind.FILE_CHANGED, "path") == []


def test_ordinary_prefixes_do_not_reach_their_siblings() -> None:
    ordinary = within(b"/usr", b"/home/u/ws/")
    assert [ordinary(p) for p in (b"/usr", b"/usr/x", b"/usrx", b"/home/u/ws", b"/home/u/wsx", b"/")] == [
        True,
        True,
        False,
        True,
        False,
        False,
    ]
    assert within(b"/")(b"/etc")


def test_each_kind_is_bounded_and_what_was_not_kept_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TRACE_RECORDS", 3)
    lines = [START]
    for n in range(10):
        lines += [
            f'10 openat(AT_FDCWD</>, "/r{n}", O_RDONLY) = 3</r{n}>\n',
            f'10 openat(AT_FDCWD</>, "/w{n}", O_WRONLY) = 3</w{n}>\n',
            f'10 openat(AT_FDCWD</>, "/x{n}", O_WRONLY) = -1 EACCES (Permission denied)\n',
            f"10 connect(3<socket:[5]>, {inet(n)}) = 0\n",
            f"10 connect(3<socket:[{100 + n}]>, {inet(n)}) = -1 EINPROGRESS (x)\n",
            f"10 socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 4<socket:[{n}]>\n",
            f"10 call{n}() = -1 EPERM (Operation not permitted)\n",
            f"10 fork() = {20 + n}\n",
            f'{20 + n} execve("/b", ["b"], 0x1) = 0\n{20 + n} execve("/b{n}", ["b"], 0x1) = 0\n',
        ]
    run = Run("".join(lines))
    assert run.reader.lost == {"processes": 8, "execs": 18, "reads": 7, "changes": 7, "refused": 7, "connects": 17}
    assert run.reader.collector(Phase.INSTALL, run.parser, "plain").state is CollectorState.DEGRADED
    assert len(run.all()) == 3 * 6


def test_a_flood_in_one_folder_hides_neither_another_folder_nor_what_is_notable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "TRACE_FOLDER_RECORDS", 3)
    reads = [f"/flood/{n}" for n in range(9)] + ["/flood/.npmrc", "/etc/passwd", "/home/u/ws/.env"]
    policy = TracePolicy(
        program=NODE.encode(),
        ordinary=within(b"/home/u/ws"),
        redact=inert,
        notable=lambda path: path.endswith((b"/.npmrc", b"/.env")),
    )
    parser, reader = TraceParser(), TraceReader(policy)
    lines = "".join(f'10 openat(AT_FDCWD</>, "{p}", O_RDONLY) = 3<{p}>\n' for p in reads)
    reader.take(parser.feed((START + lines).encode()))
    found = [o.detail["path"] for o in reader.observations(Phase.EXERCISE, "x") if o.kind is Kind.FILE_READ]
    assert found == [*reads[:3], *reads[9:]]
    assert reader.lost == {"reads": 6}


def test_a_flood_of_one_program_does_not_hide_the_first_start_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TRACE_RECORDS", 3)
    run = Run(START + '10 execve("/a", ["a"], 0x1) = 0\n' * 9 + '10 execve("/b", ["b"], 0x1) = 0\n')
    assert run.details(Kind.PROCESS_EXEC, "program") == [(NODE,), ("/a",), ("/a",), ("/b",)]
    assert run.reader.lost == {"execs": 7}


def test_a_file_that_was_written_and_given_a_mode_is_one_change() -> None:
    run = Run(
        START
        + '10 openat(AT_FDCWD</>, "/tmp/a", O_WRONLY|O_CREAT) = 3</var/tmp/a>\n10 fchmod(3</var/tmp/a>, 0755) = 0\n'
        '10 chmod("/tmp/a", 0644) = 0\n10 unlink("/tmp/a") = 0\n'
    )
    assert run.details(Kind.FILE_CHANGED, "path", "how", "count") == [("/tmp/a", "write+attributes", 3)]
    assert run.details(Kind.FILE_DELETED, "path", "how", "count") == [("/tmp/a", "delete", 1)]


def test_a_relative_name_is_taken_from_the_folder_that_is_known_and_else_is_called_assumed() -> None:
    run = Run(
        START + '10 unlink("unknown") = 0\n'
        '10 openat(AT_FDCWD</var/home/u/ws>, "x", O_RDONLY) = -1 ENOENT (No such file or directory)\n'
        '10 unlink("a") = 0\n'
        "10 fchdir(3</var/home/u>) = 0\n"
        '10 unlink(".bashrc") = 0\n'
        '10 chdir("ws/k") = 0\n10 chdir("none") = -1 ENOENT (x)\n10 unlink("../b") = 0\n'
        '10 fork() = 11\n11 unlink("c") = 0\n11 unlink("/tmp/l/../d") = 0\n11 unlink("/tmp/e") = 0\n'
        '10 unlinkat(4</var/tmp>, "f", 0) = 0\n10 fchdir(5) = 0\n10 unlink("g") = 0\n'
    )
    assert run.details(Kind.FILE_DELETED, "path", "assumed") == [
        ("/unknown", True),
        ("/home/u/ws/a", None),
        ("/home/u/.bashrc", None),
        ("/home/u/ws/b", True),
        ("/home/u/ws/k/c", True),
        ("/tmp/d", True),
        ("/tmp/e", None),
        ("/tmp/f", None),
        ("/home/u/ws/k/g", True),
    ]


def test_a_file_without_a_name_is_told_by_its_folder() -> None:
    run = Run(START + '10 openat(AT_FDCWD</var/tmp>, ".", O_RDWR|O_TMPFILE, 0600) = 3</var/tmp/#123>(deleted)\n')
    assert run.details(Kind.FILE_CHANGED, "path", "how") == [("/tmp", "unnamed")]


def test_words_pass_through_the_callers_redaction() -> None:
    parser = TraceParser()
    policy = TracePolicy(program=NODE.encode(), ordinary=within(b"/usr"), redact=lambda _: "«hidden»")
    reader = TraceReader(policy)
    secret = "ghp_secret"
    reader.take(
        parser.feed(
            (
                f'{START}10 execve("/{secret}", ["{secret}"], 0x1) = 0\n'
                f'10 openat(AT_FDCWD</>, "/{secret}", O_WRONLY) = 3</{secret}>\n'
                f'10 mount("{secret}") = -1 EPERM (x)\n'
                f'10 connect(3, {{sa_family=AF_UNIX, sun_path="/{secret}"}}, 9) = 0\n10 +++ exited with 0 +++\n'
            ).encode()
        )
    )
    reader.finish()
    found = reader.observations(Phase.EXERCISE, "x")
    assert len(found) == 6
    assert secret not in repr(found)


@settings(max_examples=150)
@given(data=st.data())
def test_a_mangled_trace_never_raises(recorded: Callable[[str], bytes], data: st.DataObject) -> None:
    lines = recorded("node_plain").splitlines(keepends=True)
    begin = data.draw(st.integers(300, len(lines) - 60))
    piece = bytearray(START.encode() + b"".join(lines[begin : begin + 60]))
    for _ in range(data.draw(st.integers(0, 20))):
        at = data.draw(st.integers(0, len(piece) - 1))
        piece[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=6))
        piece = piece or bytearray(b"x")
    run = Run(bytes(piece))
    for observation in run.all():
        assert observation.collector == "strace"
    run.reader.collector(Phase.EXERCISE, run.parser, "plain")


def test_calls_that_are_traced_for_the_tracers_sake_make_no_process() -> None:
    begun = Run(START + "11 set_robust_list(0x7f, 24) = 0\n11 sigaltstack({ss_sp=NULL}, NULL) = 0\n")
    assert [process.number for process in begun.reader.tree.processes] == [1]
    known = Run(START + '11 openat(AT_FDCWD</home/u/ws>, "x", O_RDONLY) = 3</home/u/ws/x>\n')
    assert [process.number for process in known.reader.tree.processes] == [1, 2]


def test_what_happened_in_two_activities_is_two_facts_each_with_its_first_moment() -> None:
    acts = (
        'openat(AT_FDCWD</>, "/etc/shadow", O_RDONLY) = -1 ENOENT (x)',
        'connect(3<socket:[1]>, {sa_family=AF_INET, sin_port=htons(9), sin_addr=inet_addr("192.0.2.1")}, 16) = 0',
        "ptrace(PTRACE_ATTACH, 5) = -1 EPERM (x)",
        'openat(AT_FDCWD</>, "/tmp/log", O_WRONLY) = 3</tmp/log>',
    )
    lines = [f"10 {moment}.000000 {act}\n" for moment in (2, 3, 7, 8) for act in acts]
    start = START.replace("10 ", "10 1.500000 ", 1)
    run = Run(start + "".join(lines) + "10 9.000000 +++ exited with 0 +++\n", lambda m: "late" if m and m > 5 else "")

    kinds = (Kind.FILE_READ, Kind.NETWORK_CONNECT, Kind.PROCESS_REFUSED, Kind.FILE_CHANGED)
    for kind in kinds:
        assert [(o.moment, o.detail["count"]) for o in run.all() if o.kind is kind] == [(2.0, 2), (7.0, 2)]
    assert [o.moment for o in run.all() if o.kind in (Kind.PROCESS_EXEC, Kind.PROCESS_EXIT)] == [1.5, 9.0]
    assert run.reader.begun == 1.5
    assert run.reader.writers() == {b"/tmp/log": (1, 2.0)}
    assert Run("").reader.begun is None


def test_of_a_watched_file_each_process_that_can_read_it_is_told_by_whatever_name() -> None:
    watched = [b"/home/u/.npmrc", b"/home/u/.ssh/id"]
    heard: list[tuple[int, bytes, list[bytes]]] = []
    policy = TracePolicy(
        program=NODE.encode(),
        ordinary=within(b"/home/u/ws"),
        redact=inert,
        watched=watched,
        words=lambda process, program, argv, _: heard.append((process.number, program, argv)),
    )
    parser, reader = TraceParser(), TraceReader(policy)
    lines = """\
10 openat(AT_FDCWD</>, "/home/u/.npmrc", O_RDONLY|O_CLOEXEC) = 3</var/home/u/.npmrc>
10 openat(AT_FDCWD</>, "/home/u/link", O_RDONLY) = 3</var/home/u/.npmrc>
10 openat(AT_FDCWD</>, "/home/u/.npmrc", O_WRONLY) = 3</var/home/u/.npmrc>
10 openat(AT_FDCWD</>, "/home/u/.npmrc", O_RDONLY|O_PATH) = 3</var/home/u/.npmrc>
10 openat(AT_FDCWD</>, "/home/u/.npmrc", O_RDONLY) = -1 EACCES (Permission denied)
10 creat("/home/u/.npmrc", 0600) = 3</var/home/u/.npmrc>
10 clone(flags=SIGCHLD) = 11
11 open("/home/u/.npmrc", O_RDWR) = 3</var/home/u/.npmrc>
11 link("/home/u/.npmrc", "/tmp/a") = 0
11 rename("/tmp/a", "/tmp/b") = 0
11 linkat(AT_FDCWD</>, "/home/u/.ssh/id", AT_FDCWD</>, "/tmp/c", 0) = 0
11 openat(AT_FDCWD</>, "/tmp/c", O_RDONLY) = 3</var/tmp/c>
11 openat(AT_FDCWD</>, "/tmp/b", O_RDONLY) = 3</var/tmp/b>
11 openat(AT_FDCWD</>, "/tmp/d", O_RDONLY) = 3</var/tmp/d>
11 execve("/bin/cat", ["cat", "secret"], 0x1) = -1 ENOENT (No such file or directory)
"""
    reader.take(parser.feed((START + lines).encode()))
    reader.finish()
    assert [(one.path, one.by, one.process.number, one.count) for one in reader.opened()] == [
        (b"/home/u/.npmrc", b"/home/u/.npmrc", 1, 2),
        (b"/home/u/.npmrc", b"/home/u/.npmrc", 2, 2),
        (b"/home/u/.ssh/id", b"/tmp/c", 2, 1),
    ]
    assert (2, b"/bin/cat", [b"cat", b"secret"]) in heard


def test_watched_opens_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TRACE_RECORDS", 2)
    paths = [b"/home/u/%d" % number for number in range(4)]
    policy = TracePolicy(program=NODE.encode(), ordinary=within(b"/home/u"), redact=inert, watched=paths)
    parser, reader = TraceParser(), TraceReader(policy)
    lines = "".join(f'10 openat(AT_FDCWD</>, "{p.decode()}", O_RDONLY) = 3<{p.decode()}>\n' for p in paths)
    reader.take(parser.feed((START + lines).encode()))
    assert len(reader.opened()) == 2
    assert reader.lost["watched"] == 2
