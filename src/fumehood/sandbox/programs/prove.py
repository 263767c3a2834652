"""Harmless acts that a wall should stop, tried from inside: `prove.py JSON`, where JSON maps each act to its argument.

Every act runs in a child of its own, so that a wall that kills is an outcome too. For each act one line of JSON is
printed as soon as it is known: `{"act": …, "worked": …, "detail": …}`. What is read, reached, signalled and traced was
planted for this. Standard library only, run as `python -I -S`.
"""

import contextlib
import ctypes
import errno
import json
import mmap
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUTS, CLONE_NEWUSER, CLONE_UNTRACED = 0x04000000, 0x10000000, 0x00800000
PTRACE_SEIZE, PTRACE_TRACEME = 0x4206, 0
KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING = 0, -2
NUMBERS = {"x86_64": {"clone": 56, "keyctl": 250}, "aarch64": {"clone": 220, "keyctl": 219}}
IO_URING_SETUP = 425  # the same on every architecture
CONNECT_SECONDS = 2.0
WAIT_SECONDS = 60.0  # a child that was not ended by then ends itself


def checked(result: int, name: str) -> int:
    """The result of a call of libc; raises OSError with its errno."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def number_of(name: str) -> int:
    """The number of a system call on this machine."""
    table = NUMBERS.get(os.uname().machine)
    if table is None:
        raise OSError(errno.ENOSYS, f"no table of system calls for {os.uname().machine}")
    return table[name]


def read_file(paths: list[str]) -> str:
    """Read the first of the planted files that opens."""
    return _first(paths, os.O_RDONLY)


def write_file(paths: list[str]) -> str:
    """Create the first of these files that can be created."""
    return _first(paths, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def _first(paths: list[str], flags: int) -> str:
    failed: OSError | None = None
    for path in paths:
        try:
            os.close(os.open(path, flags, 0o600))
        except OSError as error:
            failed = error
        else:
            return "opened"
    raise failed or OSError(errno.EINVAL, "no path")


def see_process(pid: int) -> str:
    """Find the planted process in /proc."""
    os.stat(f"/proc/{pid}/status")  # noqa: PTH116 - start-up time
    return "seen"


def read_environment(pid: int) -> str:
    """Read the environment that the planted process was started with."""
    with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - start-up time
        if not file.read(4096):
            raise OSError(errno.ENODATA, "nothing is shown")
    return "read"


def become_root(_: object) -> str:
    """Take uid 0."""
    os.setuid(0)
    return "taken"


def signal_process(pid: int) -> str:
    """Send the planted process a signal that changes nothing."""
    os.kill(pid, signal.SIGCONT)
    return "sent"


def reach_socket(address: str | list[object]) -> str:
    """Connect to the planted abstract socket (a name), or to the planted service on loopback (host and port)."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(CONNECT_SECONDS)
        one.connect(f"\0{address}" if isinstance(address, str) else tuple(address))
    return "connected"


def see_host_name(name: str) -> str:
    """Learn the host's name."""
    if os.uname().nodename != name:
        raise OSError(errno.ENOENT, "another name is shown")
    return "learnt"


def reach_queue(key: int) -> str:
    """Find the planted System V message queue."""
    checked(LIBC.msgget(ctypes.c_int(key), 0), "msgget")
    return "found"


def make_user_namespace(_: object) -> str:
    """Make a user namespace, the door to most of the kernel."""
    checked(LIBC.unshare(CLONE_NEWUSER), "unshare")
    return "made"


def make_namespace(_: object) -> str:
    """Make another namespace."""
    checked(LIBC.unshare(CLONE_NEWUTS), "unshare")
    return "made"


def set_host_name(name: str) -> str:
    """Change the name of the host, in a namespace of its own."""
    text = name.encode()
    checked(LIBC.sethostname(text, len(text)), "sethostname")
    return "set"


def open_closed_file(folder: str) -> str:
    """Open a file whose mode lets nobody in, its owner included (CAP_DAC_OVERRIDE)."""
    path = f"{folder}/closed-{os.getpid()}"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0))
    try:
        os.close(os.open(path, os.O_RDONLY))
    finally:
        os.unlink(path)  # noqa: PTH108 - start-up time
    return "opened"


def mount(where: str) -> str:
    """Mount a file system."""
    checked(LIBC.mount(b"none", where.encode(), b"tmpfs", 0, None), "mount")
    return "mounted"


def use_io_uring(_: object) -> str:
    """Make an io_uring, whose work no tracer sees."""
    parameters = ctypes.create_string_buffer(120)
    os.close(checked(LIBC.syscall(IO_URING_SETUP, 1, parameters), "io_uring_setup"))
    return "made"


def clone_untraced(_: object) -> str:
    """Start a process that no tracer follows."""
    pid = checked(LIBC.syscall(number_of("clone"), CLONE_UNTRACED | signal.SIGCHLD, 0, 0, 0, 0), "clone")
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return "started"


def use_keyring(_: object) -> str:
    """Look up a keyring of the kernel, which is in no namespace."""
    call = (number_of("keyctl"), KEYCTL_GET_KEYRING_ID, ctypes.c_long(KEY_SPEC_PROCESS_KEYRING), 1)
    checked(LIBC.syscall(*call), "keyctl")
    return "looked up"


def trace_sibling(_: object) -> str:
    """Trace another process of the same user."""
    pid = os.fork()
    if pid == 0:
        time.sleep(WAIT_SECONDS)
        os._exit(0)
    try:
        checked(LIBC.ptrace(PTRACE_SEIZE, pid, None, None), "ptrace")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return "traced"


def open_many(count: int) -> str:
    """Hold many open files."""
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(count)]
    return f"{len(held)} held"


def raise_limit(count: int) -> str:
    """Allow itself more open files."""
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
    except ValueError as error:
        raise OSError(errno.EPERM, str(error)) from error
    return "raised"


def start_many(count: int) -> str:
    """Hold many processes."""
    held: list[int] = []
    try:
        for _ in range(count):
            pid = os.fork()
            if pid == 0:
                time.sleep(WAIT_SECONDS)
                os._exit(0)
            held.append(pid)
    finally:
        for pid in held:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return f"{count} held"


def write_much(argument: list[object]) -> str:
    """Write a large file, then stay for a while: path, bytes, seconds."""
    path, size, stay = str(argument[0]), int(str(argument[1])), float(str(argument[2]))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    chunk, left = b"x" * (1 << 20), size
    while left > 0:
        left -= os.write(descriptor, chunk[: min(left, len(chunk))])
    time.sleep(stay)
    return f"{size} bytes written"


def use_memory(size: int) -> str:
    """Fill memory."""
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        for offset in range(0, size, 4096):
            block[offset] = 1
    return f"{size} bytes used"


def use_cpu(seconds: float) -> str:
    """Compute for a while."""
    while time.process_time() < seconds:
        sum(range(10_000))
    return f"{seconds} s used"


def outlast(seconds: float) -> str:
    """Stay."""
    time.sleep(seconds)
    return f"{seconds} s stayed"


ACTS: dict[str, Callable[..., str]] = {
    "read_outside": read_file,
    "write_outside": write_file,
    "read_other_users_file": read_file,
    "see_process": see_process,
    "read_environment": read_environment,
    "signal_process": signal_process,
    "become_root": become_root,
    "reach_abstract_socket": reach_socket,
    "reach_loopback_service": reach_socket,
    "see_host_name": see_host_name,
    "reach_message_queue": reach_queue,
    "make_user_namespace": make_user_namespace,
    "make_namespace": make_namespace,
    "set_host_name": set_host_name,
    "open_closed_file": open_closed_file,
    "mount": mount,
    "use_io_uring": use_io_uring,
    "clone_untraced": clone_untraced,
    "use_keyring": use_keyring,
    "trace_sibling": trace_sibling,
    "open_many": open_many,
    "raise_limit": raise_limit,
    "start_many": start_many,
    "write_much": write_much,
    "use_memory": use_memory,
    "use_cpu": use_cpu,
    "outlast": outlast,
}


def attempt(act: str, argument: object) -> tuple[bool, str]:
    """Run one act in a child; whether it worked, and what came of it."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        try:
            worked, detail = True, ACTS[act](argument)
        except (OSError, MemoryError) as error:
            number = error.errno if isinstance(error, OSError) else errno.ENOMEM
            worked, detail = False, errno.errorcode.get(number or 0, str(error))
        with contextlib.suppress(OSError):
            os.write(write_end, json.dumps([worked, detail]).encode())
        os._exit(0)
    os.close(write_end)
    with open(read_end, "rb") as pipe:  # noqa: PTH123 - a descriptor
        said = pipe.read(65536)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return False, f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    worked, detail = json.loads(said) if said else (False, "no answer")
    return bool(worked), str(detail)


def main() -> int:
    """Try each act that the command line names, in that order."""
    for act, argument in json.loads(sys.argv[1]).items():
        worked, detail = attempt(act, argument)
        sys.stdout.write(json.dumps({"act": act, "worked": worked, "detail": detail}) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
