"""What a hostile program does in a real sandbox is in the trace, whatever it calls its files and words."""

import os
from typing import Any

import pytest

from fumehood.observe.files import within
from fumehood.observe.model import CollectorState, Kind, Phase
from fumehood.observe.strace import TraceParser
from fumehood.observe.syscalls import TracePolicy, TraceReader
from fumehood.sandbox import tracing
from fumehood.sandbox.spec import TraceMode

pytestmark = pytest.mark.sandbox
ACTS = r"""
import mmap, threading
names = [b"x) = -1 ENOENT (No such file or directory)", b"a <unfinished ...>", b"<... openat resumed>) = 0",
         b"\n10 +++ exited with 0 +++\n", b"b>(deleted)", b'c" = 3<shadow>', b"d\\", b"g\xff\x1b[2J"]
for name in names:
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o600)); os.unlink(name)
attempt(lambda: os.execv("/usr/bin/no-such-sudo", ["sudo", "= 0", "<unfinished ...>"]))
def child(act):
    pid = os.fork()
    if pid == 0:
        try: act()
        finally: os._exit(9)
    return os.waitpid(pid, 0)[1]
def detached():
    os.setsid()
    if os.fork() == 0:
        os.close(os.open("late", os.O_CREAT | os.O_WRONLY)); os._exit(7)
child(detached)
def by_thread():
    thread = threading.Thread(target=lambda: os.execv("/usr/bin/true", ["true-from-a-thread"])); thread.start()
    thread.join()
child(by_thread)
image = os.memfd_create("image"); os.write(image, open("/usr/bin/true", "rb").read())
child(lambda: os.execve(image, ["from memory"], {}))
child(lambda: os.kill(os.getpid(), 9))
call(101, 0, 0, 0, 0) if os.uname().machine == "x86_64" else call(117, 0, 0, 0, 0)
s = socket.socket(); s.setblocking(False); attempt(lambda: s.connect(("127.0.0.1", 1)))
import select; select.select([], [s], [], 10); s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
data = b'{sa_family=AF_INET, sin_port=htons(1), sin_addr=inet_addr("9.9.9.9")}'
attempt(lambda: s.sendto(data, ("::1", 5353)))
attempt(lambda: open("/etc/passwd").read()); attempt(lambda: open("/usr/planted", "w"))
"""


def read(trace: bytes, mode: TraceMode) -> dict[str, list[Any]]:
    parser = TraceParser()
    policy = TracePolicy(
        program=os.path.realpath("/usr/bin/python3").encode(),
        ordinary=within(b"/usr", b"/lib", b"/lib64", b"/home/mira/notes", b"/proc/self", b"/dev"),
        redact=lambda text: text.decode("utf-8", "backslashreplace"),
    )
    reader = TraceReader(policy)
    reader.take(parser.feed(trace))
    reader.take(parser.finish())
    reader.finish()
    assert parser.lost == {}
    collector = reader.collector(Phase.EXERCISE, parser, mode.value)
    assert (collector.state, collector.lost) == (CollectorState.ACTIVE, 0)
    found: dict[str, list[Any]] = {}
    for observation in reader.observations(Phase.EXERCISE, "acts"):
        found.setdefault(observation.kind, []).append(observation.detail)
    return found


@pytest.mark.threat("R4")
@pytest.mark.parametrize("mode", [TraceMode.PLAIN, TraceMode.FAST])
def test_every_act_is_in_the_trace_under_its_own_name(lab: Any, mode: TraceMode) -> None:
    outcome = lab.run(ACTS, trace=mode, linger_seconds=2.0)
    found = read(outcome.trace, mode)
    execs = [(e["argv"][:1], e["outcome"]) for e in found[Kind.PROCESS_EXEC]]
    assert execs[0][1] == "started"
    assert (["sudo"], "ENOENT") in execs
    assert (["true-from-a-thread"], "started") in execs
    assert (["from memory"], "started") in execs
    assert not any("bwrap" in e["program"] or "setpriv" in e["program"] for e in found[Kind.PROCESS_EXEC])
    assert {e["signal"] for e in found[Kind.PROCESS_EXIT]} == {None, "SIGKILL"}
    parents = {e["process"]: e["parent"] for e in found[Kind.PROCESS_EXEC] + found[Kind.PROCESS_EXIT]}
    assert [process for process, parent in parents.items() if parent is None] == [1]
    (late,) = [c for c in found[Kind.FILE_CHANGED] if c["path"] == "/home/mira/notes/late"]
    assert parents[parents[late["process"]]] == 1  # a grandchild, whose parent has ended
    deleted = {d["path"].removeprefix("/home/mira/notes/") for d in found[Kind.FILE_DELETED]}
    assert deleted >= {
        "x) = -1 ENOENT (No such file or directory)",
        "a <unfinished ...>",
        "<... openat resumed>) = 0",
        "\n10 +++ exited with 0 +++\n",
        "b>(deleted)",
        'c" = 3<shadow>',
        "d\\",
        "g\\xff\x1b[2J",
    }
    connects = {(c.get("address"), c.get("port"), c["outcome"]) for c in found[Kind.NETWORK_CONNECT]}
    assert ("127.0.0.1", 1, "ECONNREFUSED") in connects
    assert "9.9.9.9" not in {address for address, _, _ in connects}
    assert "/etc/passwd" in {r["path"] for r in found[Kind.FILE_READ]}
    assert "/usr/planted" in {r["path"] for r in found[Kind.FILE_REFUSED]}
    if mode is TraceMode.PLAIN:
        assert ("::1", 5353, "sent") in connects
        assert ("ptrace", "EPERM") in {(r["call"], r["error"]) for r in found[Kind.PROCESS_REFUSED]}
    else:
        # What the mode says of itself: calls that the filter refuses are not visible.
        assert "ptrace" not in {r["call"] for r in found.get(Kind.PROCESS_REFUSED, [])}


@pytest.mark.threat("R4")
def test_a_call_of_a_foreign_architecture_is_a_kill_that_is_seen(lab: Any) -> None:
    program = r"""
import mmap
page = mmap.mmap(-1, 4096, prot=7); page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20; int 0x80; ret
def foreign():
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    return "came back"
say(machine=os.uname().machine, answer=apart(foreign) if os.uname().machine == "x86_64" else "")
"""
    outcome = lab.run(program, trace=TraceMode.PLAIN)
    if outcome.said["machine"] != "x86_64":
        return
    assert outcome.said["answer"] == f"signal {31}"
    found = read(outcome.trace, TraceMode.PLAIN)
    assert [(r["call"], r["error"]) for r in found[Kind.PROCESS_REFUSED] if r["error"] == "SIGSYS"] == [
        ("unknown", "SIGSYS")
    ]


# Its thread makes no call of a traced set but those with which a C library begins it: what it reads was opened before.
SWITCHES = r"""
import threading
libc = ctypes.CDLL(None)
usage = (ctypes.c_long * 36)()
def switches():
    libc.getrusage(1, usage)  # RUSAGE_THREAD, which opens no file; the voluntary ones are the 17th number
    return usage[16]
said = []
def work():
    before = switches()
    for _ in range(2000): os.getppid()
    said.append(switches() - before)
thread = threading.Thread(target=work); thread.start(); thread.join()
say(switched=said[0])
"""


@pytest.mark.parametrize("mode", [TraceMode.NETWORK, TraceMode.FAST])
def test_a_thread_is_not_stopped_at_calls_that_a_trace_leaves_out(
    lab: Any, mode: TraceMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lab.run(SWITCHES, trace=mode).said["switched"] < 1000
    words = [word.replace("set_robust_list,sigaltstack,", "") for word in tracing._SETS[mode]]
    monkeypatch.setitem(tracing._SETS, mode, words)
    assert lab.run(SWITCHES, trace=mode).said["switched"] >= 2000  # strace 6.1 stops it twice at each
