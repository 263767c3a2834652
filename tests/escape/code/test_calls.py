"""What a child may ask of the kernel: each surface that is closed, tried with the filter and without it."""

import json
import platform
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fumehood.code.job import State
from fumehood.code.run import Ground
from fumehood.sandbox import seccomp
from fumehood.sandbox.proof.weakened import Weakened
from fumehood.sandbox.spec import Profile
from fumehood.sandbox.start import AsItIs, Reshape
from fumehood.sandbox.supervise import Wiring

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("C2")]
Lab = Any
Run = Any

# --- raw calls, from a program that takes the very bytes of a child's filter

TAKE = """
import mmap as mapping, struct
class Filter(ctypes.Structure): _fields_ = [('len', ctypes.c_ushort), ('steps', ctypes.c_char_p)]
code = bytes.fromhex('{code}')
def take():
    prog = Filter(len(code) // 8, code)
    if code and (_libc.prctl(38, 1, 0, 0, 0) or _libc.prctl(22, 2, ctypes.byref(prog), 0, 0)):
        raise OSError('the filter was not taken')
def told(act):
    def one():
        take()
        return act()
    return apart(one)
"""
# An answer is OK where the kernel does what is asked of it, or an error that only it can give to this question.
ACTS = """
data, room = ctypes.create_string_buffer(4096), ctypes.create_string_buffer(65536)
open('file', 'w').close()
file = os.open('file', os.O_RDWR)
reading, writing = os.pipe()
other = os.pipe()[1]
left, right = socket.socketpair()
here = os.open('.', os.O_RDONLY)
page = _libc.mmap
page.restype, page.argtypes = ctypes.c_void_p, [ctypes.c_void_p, *[ctypes.c_ulong] * 5]
plain = page(None, 4096, 3, 0x22, 2**64 - 1, 0)
library = os.open(next(line.split()[-1] for line in open('/proc/self/maps') if 'libc.so' in line), os.O_RDONLY)
def mapped(prot, flags, fd=2**64 - 1):
    at = page(None, 4096, prot, flags, fd, 0)
    return 'OK' if at != 2**64 - 1 else errno.errorcode[ctypes.get_errno()]
def number(name):
    return NUMBERS[name][AT]
def by(name, *arguments):
    return call(number(name), *arguments)
def process():
    pid = _libc.syscall(ctypes.c_long(CLONE), ctypes.c_ulong(17), None, None, None, None)
    if pid == 0: os._exit(0)
    return 'OK' if pid > 0 else errno.errorcode[ctypes.get_errno()]
"""
NUMBERS = {
    "pipe2": (293, 59),
    "dup": (32, 23),
    "splice": (275, 76),
    "tee": (276, 77),
    "vmsplice": (278, 75),
    "sendfile": (40, 71),
    "copy_file_range": (326, 285),
    "memfd_create": (319, 279),
    "sendmsg": (46, 211),
    "recvmsg": (47, 212),
    "getsockopt": (55, 209),
    "timer_create": (222, 107),
    "timerfd_create": (283, 85),
    "setitimer": (38, 103),
    "signalfd4": (289, 74),
    "inotify_init1": (294, 26),
    "kill": (62, 129),
    "rt_sigqueueinfo": (129, 138),
    "setpriority": (141, 140),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "personality": (135, 92),
    "mlock": (149, 228),
    "msync": (26, 227),
    "mincore": (27, 232),
    "remap_file_pages": (216, 234),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "symlinkat": (266, 36),
    "linkat": (265, 37),
    "fchmod": (91, 52),
    "ftruncate": (77, 46),
    "fallocate": (285, 47),
    "utimensat": (280, 88),
    "getdents64": (217, 61),
    "statfs": (137, 43),
    "flock": (73, 32),
    "fsync": (74, 82),
    "chdir": (80, 49),
    "umask": (95, 166),
    "setsid": (112, 157),
    "setrlimit": (160, 164),
    "prctl": (157, 167),
    "fcntl": (72, 25),
    "futex": (202, 98),
    "madvise": (28, 233),
    "mprotect": (10, 226),
    "sendto": (44, 206),
    "socketpair": (53, 199),
    "prlimit64": (302, 261),
    "ioctl": (16, 29),
    "arch_prctl": (158, None),
}
# name → expression, and the answer of the filter; without the filter all of them are OK.
ABSENT = {
    "a pipe": "by('pipe2', ctypes.byref(room), 0)",
    "a copy of a descriptor": "by('dup', 0)",
    "pages moved between pipes and files": "os.write(writing, b'x') and by('tee', reading, other, 1, 0)",
    "pages lent to a pipe": "by('vmsplice', writing, ctypes.byref((ctypes.c_void_p * 2)(plain, 1)), 1, 0)",
    "a pipe spliced into a file": "os.write(writing, b'x') and by('splice', reading, None, file, None, 1, 0)",
    "a file sent into a file": "by('sendfile', file, library, None, 10)",
    "a range copied": "by('copy_file_range', file, None, file, None, 0, 0)",
    "a file in memory": "by('memfd_create', b'a', 0)",
    "a message with a descriptor": "attempt(lambda: socket.send_fds(left, [b'x'], [0]))",
    "a timer of the process": "by('timer_create', 0, None, ctypes.byref(room))",
    "a timer with a descriptor": "by('timerfd_create', 0, 0)",
    "an interval timer": "by('setitimer', 0, ctypes.byref(room), None)",
    "signals with a descriptor": "by('signalfd4', -1, ctypes.byref(room), 8, 0)",
    "a watch on files": "by('inotify_init1', 0)",
    "a signal to a process": "by('kill', os.getpid(), 0)",
    "a priority": "by('setpriority', 0, 0, 19)",
    "a choice of processors": "by('sched_setaffinity', 0, 128, ctypes.byref(affinity))",
    "a class of scheduling": "by('sched_setscheduler', 0, 0, ctypes.byref((ctypes.c_int * 1)(0)))",
    "a personality": "by('personality', 0)",
    "locked memory": "by('mlock', ctypes.c_void_p(plain), 4096)",
    "memory written back": "by('msync', ctypes.c_void_p(plain), 4096, 4)",
    "what is in memory": "by('mincore', ctypes.c_void_p(plain), 4096, ctypes.byref(room))",
    "shared memory": "by('shmget', 0, 4096, 0o1600)",
    "semaphores": "by('semget', 0, 1, 0o1600)",
    "queues of messages": "by('msgget', 0, 0o1600)",
    "a link by name": "by('symlinkat', b'a', -100, b'link')",
    "a second name": "by('linkat', -100, b'file', -100, b'other', 0)",
    "rights of a file": "by('fchmod', file, 0o600)",
    "a length": "by('ftruncate', file, 100)",
    "times of a file": "by('utimensat', file, None, None, 0)",
    "a list of a folder": "by('getdents64', here, ctypes.byref(room), 60000)",
    "a file system": "by('statfs', b'/', ctypes.byref(room))",
    "a lock": "by('flock', file, 2)",
    "a folder to be in": "by('chdir', b'/')",
}
LOOKED_AT = {
    "a process": ("process()", "EPERM"),
    "memory that is code and data": ("mapped(7, 0x22)", "EPERM"),
    "memory that is code and no file": ("mapped(5, 0x22)", "EPERM"),
    "a file that is code and data": ("mapped(7, 2, library)", "EPERM"),
    "data that becomes code": ("by('mprotect', ctypes.c_void_p(plain), 4096, 5)", "EPERM"),
    "memory that grows down": ("mapped(3, 0x122)", "EINVAL"),
    "a lock that inherits a priority": ("by('futex', ctypes.byref(data), 6, 0, None)", "ENOSYS"),
    "the size of a pipe": ("by('fcntl', writing, 1031, 4096)", "EINVAL"),
    "a lock of a range": ("attempt(lambda: __import__('fcntl').lockf(file, 2))", "EINVAL"),
    "what a pipe holds": ("by('ioctl', reading, 0x541B, ctypes.byref(room))", "ENOTTY"),
    "memory paged out": ("by('madvise', ctypes.c_void_p(plain), 4096, 20)", "EINVAL"),
    "a dump": ("by('prctl', 4, 0)", "EINVAL"),
    "a death of its own": ("by('prctl', 1, 9)", "EINVAL"),
    "a pair of datagrams": ("by('socketpair', 1, 2, 0, ctypes.byref(room))", "ESOCKTNOSUPPORT"),
    "a limit": ("by('prlimit64', 0, 4, ctypes.byref((ctypes.c_ulong * 2)(0, 0)), None)", "EPERM"),
}
OPEN = {
    "memory": "mapped(3, 0x22)",
    "a library": "mapped(5, 2, library)",
    "a pair of streams": "by('socketpair', 1, 0x80801, 0, ctypes.byref(room))",
    "a byte through a pair": "by('sendto', left.fileno(), data, 1, 0x4000, None, 0)",
    "a thread": "attempt(lambda: [one.start() or one.join() for one in [__import__('threading').Thread()]])",
    "a limit that is read": "by('prlimit64', 0, 7, None, ctypes.byref(room))",
    "a mask": "by('umask', 0)",
    "a name": "by('prctl', 15, b'name')",
}


def answers(lab: Lab, expressions: dict[str, str], *, filtered: bool) -> dict[str, str]:
    """What each gives in a process of its own, in a sandbox without another filter."""
    machine = platform.machine()
    code = seccomp.program(Profile.CODE, machine).hex() if filtered else ""
    acts = ", ".join(f"{name!r}: told(lambda: {expression})" for name, expression in expressions.items())
    program = f"""
NUMBERS, AT, CLONE = {NUMBERS!r}, {seccomp.MACHINES.index(machine)}, {(56, 220)[seccomp.MACHINES.index(machine)]}
{TAKE.replace("{code}", code)}
{ACTS}
affinity = ctypes.create_string_buffer(sum(1 << cpu for cpu in os.sched_getaffinity(0)).to_bytes(128, 'little'))
say(**{{{acts}}})
"""
    said: dict[str, str] = lab.run(program, without=("seccomp",)).said
    return said


needs_filter = pytest.mark.skipif(platform.machine() not in seccomp.MACHINES, reason="raw system calls of Linux")


@needs_filter
def test_calls_that_a_child_does_not_need_are_absent(lab: Lab) -> None:
    assert answers(lab, ABSENT, filtered=True) == dict.fromkeys(ABSENT, "ENOSYS")
    assert answers(lab, ABSENT, filtered=False) == dict.fromkeys(ABSENT, "OK")


@needs_filter
def test_calls_that_it_needs_are_open_for_what_it_needs_them_for(lab: Lab) -> None:
    expressions = {name: expression for name, (expression, _) in LOOKED_AT.items()}
    held = {name: answer for name, (_, answer) in LOOKED_AT.items()}
    assert answers(lab, expressions | OPEN, filtered=True) == held | dict.fromkeys(OPEN, "OK")
    assert answers(lab, expressions | OPEN, filtered=False) == dict.fromkeys([*held, *OPEN], "OK")


@needs_filter
def test_no_byte_is_out_of_band_and_no_terminal_is_pushed(lab: Lab) -> None:
    expressions = {
        "sent": "by('sendto', left.fileno(), data, 1, 1, None, 0)",
        "pushed": "by('ioctl', 0, 0x5412, data)",
        "console": "by('ioctl', 0, 0x541C, data)",
        "filter": "by('prctl', 22, 2, ctypes.byref(Filter(1, struct.pack('<HBBI', 6, 0, 0, 0x7fff0000))))",
    }
    held = answers(lab, expressions, filtered=True)
    assert held == {"sent": "EINVAL", "pushed": "ENOTTY", "console": "ENOTTY", "filter": "EINVAL"}
    assert answers(lab, expressions, filtered=False)["sent"] != "EINVAL"


# --- Deno itself, to which everything is permitted, behind the sandbox alone


class Unfiltered(AsItIs):
    """Takes the filter away besides what `inner` takes."""

    def __init__(self, inner: Reshape) -> None:
        self._inner = inner

    def options(self, words: Sequence[str]) -> list[str]:
        return Weakened(without=frozenset({"seccomp"})).options(words)

    def command(self, words: Sequence[str]) -> list[str]:
        return self._inner.command(words)


ASKED = """
const place = "/deno_dir/gen/";
Deno.writeTextFileSync(place + "a", "text");
const file = Deno.openSync(place + "a", { read: true, write: true });
const acts = {
  symlink: () => Deno.symlinkSync("a", place + "b"),
  link: () => Deno.linkSync(place + "a", place + "c"),
  rights: () => Deno.chmodSync(place + "a", 0o600),
  times: () => Deno.utimeSync(place + "a", 1, 1),
  length: () => Deno.truncateSync(place + "a", 1),
  list: () => { if ([...Deno.readDirSync("/")].length === 0) throw new Error("nothing, where ten files are"); },
  kill: () => Deno.kill(Deno.pid, "SIGCONT"),
  lock: () => file.lockSync(true),
  sync: () => file.syncSync(),
  mask: () => Deno.umask(0),
  folder: () => Deno.chdir("/"),
  watch: () => Deno.watchFs(place).close(),
  copy: () => Deno.copyFileSync(place + "a", place + "d"),
  listen: () => Deno.listen({ port: 0 }).close(),
  program: () => new Deno.Command("/deno").outputSync(),
  read: () => Deno.readTextFileSync("/harness.js").length,
  written: () => Deno.writeTextFileSync(place + "e", "text"),
  renamed: () => Deno.renameSync(place + "e", place + "f"),
  made: () => Deno.mkdirSync(place + "g"),
  removed: () => Deno.removeSync(place + "f"),
};
const said = {};
for (const [name, act] of Object.entries(acts)) {
  try { act(); said[name] = "OK"; } catch (error) { said[name] = error.name; }
}
return said;
"""
NEEDED = {"mask", "read", "written", "renamed", "made", "removed"}
HELD_WITHOUT = {"program"}  # the other walls hold it as well: a process more is more than the run may have


def test_deno_with_every_permission_asks_for_what_it_does_not_need_in_vain(permitted: Ground, run: Run) -> None:
    held = run(permitted, ASKED).value
    assert {name for name, answer in held.items() if answer == "OK"} == NEEDED
    free = replace(permitted, wiring=Wiring(unsafe_reshape=Unfiltered(permitted.wiring.unsafe_reshape)))
    succeeded = {name for name, answer in run(free, ASKED).value.items() if answer == "OK"}
    assert succeeded | HELD_WITHOUT == set(held)


# --- ordinary programs

PROGRAMS = json.loads((Path(__file__).parents[2] / "fixtures/code/ordinary.json").read_text(encoding="utf-8"))


def test_ordinary_programs_run_by_every_route(routed: Ground, run: Run) -> None:
    program = f"""
const said = {{}};
for (const [name, body] of Object.entries({json.dumps({name: one["program"] for name, one in PROGRAMS.items()})})) {{
  const AsyncFunction = (async () => {{}}).constructor;
  try {{ said[name] = await new AsyncFunction("tools", body)(tools); }} catch (error) {{ said[name] = `${{error}}`; }}
}}
return said;
"""
    result = run(routed, program, wall_seconds=60, cpu_seconds=30)
    assert (result.state, result.error) == (State.OK, None)
    assert result.value == {name: one["value"] for name, one in PROGRAMS.items()}


@pytest.mark.parametrize(
    ("program", "state", "name"),
    [
        ("const deeper = () => deeper() + 1; return deeper()", State.USER_ERROR, "RangeError"),
        ("const deeper = async (n) => await deeper(n + 1); return await deeper(0)", State.USER_ERROR, "RangeError"),
        ("Promise.reject(new TypeError('x')); await new Promise(() => {})", State.USER_ERROR, "TypeError"),
        ("const all = []; for (;;) all.push(new Array(100000).fill(1.5))", State.OUT_OF_MEMORY, None),
        ("const all = []; for (;;) all.push(new Uint8Array(5e6).fill(1))", State.OUT_OF_MEMORY, None),
    ],
    ids=["recursion", "asynchronous-recursion", "rejection", "heap", "buffers"],
)
def test_a_program_that_fails_ends_as_it_would_without_the_filter(
    ground: Ground, run: Run, program: str, state: State, name: str | None
) -> None:
    for one in (ground, replace(ground, wiring=Wiring(unsafe_reshape=Unfiltered(AsItIs())))):
        result = run(one, program)
        assert result.state is state
        assert result.error is not None
        assert (
            name is None or result.error.name == name
        )  # memory ends in V8, in the kernel, or in an error that is thrown
