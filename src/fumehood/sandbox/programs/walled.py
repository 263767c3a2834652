"""Harmless acts that the walls of a process should stop: `walled.py RULESET FILTER JSON`.

RULESET and FILTER are descriptors of a Landlock ruleset and of a seccomp program, or -1: that wall is taken away. JSON
maps each act to its argument. Every act runs in a child of its own, which takes the walls first. For each act one line
of JSON is printed: `{"act": …, "worked": …, "detail": …}`. What is read, written, reached and signalled was planted for
this. Standard library only, run as `python -I -S`.
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import signal
import socket
import sys
import termios
from collections.abc import Callable

LIBC = ctypes.CDLL(None, use_errno=True)
RESTRICT_SELF = 446
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 22, 38, 2
PTRACE_TRACEME = 0
CONNECT_SECONDS = 2.0
WORKED = "worked"


class Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def read(path: str) -> None:
    """Read the planted file."""
    os.close(os.open(path, os.O_RDONLY))


def write(path: str) -> None:
    """Open the planted file for writing."""
    os.close(os.open(path, os.O_WRONLY))


def empty(path: str) -> None:
    """Empty the planted file by opening it for reading."""
    os.close(os.open(path, os.O_RDONLY | os.O_TRUNC))


def execute(path: str) -> None:
    """Become another program, which ends with 0 and says nothing."""
    os.execv(path, [path])  # noqa: S606 - a program of the system, named by us


def change_mode(path: str) -> None:
    """Change the rights of the planted file."""
    os.chmod(path, 0o644)  # noqa: PTH101 - start-up time


def control_device(path: str) -> None:
    """Ask the planted device for a terminal's settings: it has none, but whoever is let through is told so."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, termios.TCGETS, b"\0" * 64)
    except OSError as error:
        if error.errno != errno.ENOTTY:
            raise


def connect_tcp(port: int) -> None:
    """Connect to the planted service on loopback."""
    with socket.socket() as one:  # no name is looked up: that would read files
        one.settimeout(CONNECT_SECONDS)
        one.connect(("127.0.0.1", port))


def bind_tcp(_: object) -> None:
    """Take a port."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))


def connect_abstract(name: str) -> None:
    """Connect to the planted abstract socket."""
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(f"\0{name}")


def send_signal(pid: int) -> None:
    """Send the planted process a signal that changes nothing."""
    os.kill(pid, signal.SIGCONT)


def make_socket(_: object) -> None:
    """Make a Unix socket."""
    socket.socket(socket.AF_UNIX).close()


def fork(_: object) -> None:
    """Start a process."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def be_traced(_: object) -> None:
    """Ask to be traced: the door to another process's memory."""
    if LIBC.ptrace(PTRACE_TRACEME, 0, None, None) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


ACTS: dict[str, Callable[..., None]] = {
    "read_outside": read,
    "read_inside": read,
    "write_inside": write,
    "empty_inside": empty,
    "execute": execute,
    "change_mode": change_mode,
    "control_device": control_device,
    "connect_tcp": connect_tcp,
    "bind_tcp": bind_tcp,
    "connect_abstract": connect_abstract,
    "send_signal": send_signal,
    "make_socket": make_socket,
    "fork": fork,
    "be_traced": be_traced,
}


def confine(ruleset: int, code: bytes) -> None:
    """Take the walls. Raises OSError when one cannot be taken."""
    failed = LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if ruleset >= 0:
        failed = failed or LIBC.syscall(ctypes.c_long(RESTRICT_SELF), ctypes.c_ulong(ruleset), ctypes.c_ulong(0))
    if code:
        wall = Program(len(code) // 8, code)
        failed = failed or LIBC.prctl(PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(wall), 0, 0)
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, f"a wall could not be taken: {os.strerror(number)}")


def attempt(act: str, argument: object, walls: tuple[int, bytes]) -> tuple[bool, str]:
    """Do one act in a child behind the walls; whether it worked, and what came of it."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        answer = ""
        try:
            confine(*walls)
        except OSError as error:
            answer = str(error)
        try:
            if not answer:
                ACTS[act](argument)
                answer = WORKED
        except OSError as error:
            answer = errno.errorcode.get(error.errno or 0, str(error))
        with contextlib.suppress(OSError):
            os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:  # noqa: PTH123 - a descriptor
        said = pipe.read(1000).decode("utf-8", "replace")
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return False, f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    # A child that became another program says nothing, and ends well.
    said = said or (WORKED if act == "execute" and os.WEXITSTATUS(status) == 0 else "no answer")
    return said == WORKED, said


def main(arguments: list[str]) -> int:
    """Try each act that the command line names, in that order."""
    ruleset, steps = int(arguments[0]), int(arguments[1])
    code = b""
    if steps >= 0:
        with open(steps, "rb") as file:
            code = file.read()
    for act, argument in json.loads(arguments[2]).items():
        worked, detail = attempt(act, argument, (ruleset, code))
        sys.stdout.write(json.dumps({"act": act, "worked": worked, "detail": detail}) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
