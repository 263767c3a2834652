"""Start git and ripgrep for a server that may start nothing itself.

As a program: `starter.py CONTROL ROOT RULESET FILTER NAME=PATH…`, with descriptors of: a SOCK_SEQPACKET socket, the
folder in which programs run, a Landlock ruleset, the bytes of a seccomp program (-1: there is none). It takes the
ruleset for itself before it reads anything, so that everything it starts stands behind it, and says `ready`.

A request is one message on CONTROL: the program's name, how many arguments, the arguments, the environment, joined by
NUL; with it three descriptors: the call's own SOCK_SEQPACKET socket, stdout, stderr. The child gets /dev/null, those
two and nothing else, a session of its own, limits, the filter, and SIGKILL when this program dies. The call's socket
carries the answer: what became of the child (the first one counts). When it is closed, the child is killed. When
CONTROL is closed, all are.

Threats: a server whose bytes an attacker chooses (it starts no program that was not named at the start, sets no
variable of the loader), one that floods (children and the size of a message are bounded), one that is killed.
"""

import array
import contextlib
import ctypes
import gc
import os
import resource
import select
import signal
import socket
import struct
import sys

MESSAGE_BYTES = 128 * 1024  # a search with the whole denylist as globs is 12 KiB
CHILDREN = 32  # at once; a server runs a quarter of it
READY = b"ready"
ENDED, NOT_STARTED, BUSY, MALFORMED = (
    b"E",
    b"X",
    b"B",
    b"M",
)  # the first byte of an answer; a number follows the first two

_DESCRIPTORS = 3  # of a request: the call's socket, stdout, stderr
_ANCILLARY = socket.CMSG_SPACE(2 * _DESCRIPTORS * array.array("i").itemsize)  # more than that is cut, and malformed
_COUNT_DIGITS = 5  # of the number of arguments; a message has no room for more
_LIMITS = (
    (resource.RLIMIT_CPU, 80),  # a call's ten seconds on eight processors
    (resource.RLIMIT_DATA, 512 * 1024 * 1024),  # git's delta bases and ripgrep's buffers stay below a fifth
    (resource.RLIMIT_FSIZE, 0),
    (resource.RLIMIT_NOFILE, 256),  # ripgrep holds a few for each thread
    (resource.RLIMIT_CORE, 0),
)
_RESTRICT_SELF = 446  # landlock_restrict_self, on every architecture
_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2
_EXECVE = {"x86_64": (0xC000003E, 59), "aarch64": (0xC00000B7, 221)}  # AUDIT_ARCH_…, the call's number
_LOADER = (b"LD_", b"GLIBC_", b"MALLOC_")  # variables that choose what the loader loads, and how
_UNSTARTED = 127
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the server ends us, by closing its end

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def once(machine: str, address: int) -> bytes:
    """A seccomp program that kills who calls execve with a name that does not stand at `address`.

    This program's own call passes. What it becomes has other addresses (ASLR), and knows not which one it was: it can
    start nothing in its own place either. Empty for a machine that is not known.
    """
    if machine not in _EXECVE:
        return b""
    architecture, number = _EXECVE[machine]
    steps = (
        (0x20, 0, 0, 4),  # load the architecture
        (0x15, 0, 6, architecture),  # another one is the first program's business
        (0x20, 0, 0, 0),  # load the number
        (0x15, 0, 4, number),
        (0x20, 0, 0, 16),  # load the lower half of the name's address
        (0x15, 0, 3, address & 0xFFFF_FFFF),
        (0x20, 0, 0, 20),  # load the upper half
        (0x15, 0, 1, address >> 32),
        (0x06, 0, 0, 0x7FFF_0000),  # allow
        (0x06, 0, 0, 0x8000_0000),  # kill
    )
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


class MalformedError(Exception):
    """A message that no client of ours sends."""


def parse(message: bytes) -> tuple[bytes, list[bytes], dict[bytes, bytes]]:
    """Name, arguments and environment of a request. Raises MalformedError."""
    name, _, rest = message.partition(b"\0")
    digits, *words = rest.split(b"\0")
    if not digits.isdigit() or len(digits) > _COUNT_DIGITS or int(digits) > len(words):
        raise MalformedError
    environment: dict[bytes, bytes] = {}
    for word in words[int(digits) :]:
        variable, equals, value = word.partition(b"=")
        if not variable or not equals or variable in environment or variable.startswith(_LOADER):
            raise MalformedError
        environment[variable] = value
    return name, words[: int(digits)], environment


class Starter:
    """The children that run, and the sockets that hold them."""

    def __init__(self, control: socket.socket, root: int, code: bytes, programs: dict[bytes, bytes]) -> None:
        """Nothing runs yet; `code` is the seccomp program of every child, or empty."""
        self._control = control
        self._root = root
        self._null = os.open("/dev/null", os.O_RDWR)
        machine = os.uname().machine
        # The buffers stay where they are: children have them at the same addresses until they become a program.
        self._programs = {name: ctypes.create_string_buffer(path) for name, path in programs.items()}
        self._filters = {
            name: [_Program(len(one) // 8, one) for one in (once(machine, ctypes.addressof(path)), code) if one]
            for name, path in self._programs.items()
            if code
        }
        self._own = os.getpid()
        self._pids: dict[int, int] = {}  # pidfd → pid
        self._calls: dict[int, socket.socket] = {}  # pidfd → the socket of its call, until that is given up
        self._owners: dict[int, int] = {}  # descriptor of such a socket → pidfd
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def run(self) -> None:
        """Serve until the server is gone, then end what runs."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._control.fileno():
                    if not self._receive():
                        self._end_all()
                        return
                elif descriptor in self._pids:
                    self._ended(descriptor)
                elif descriptor in self._owners:
                    self._give_up(descriptor)

    def _receive(self) -> bool:
        """Take one request; False when the server has closed its end, or sent what nobody sends."""
        try:
            message, ancillary, flags, _ = self._control.recvmsg(MESSAGE_BYTES, _ANCILLARY, socket.MSG_CMSG_CLOEXEC)
        except ConnectionError:  # it was killed before it had read what we sent
            return False
        received = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received.frombytes(data[: len(data) - len(data) % received.itemsize])
        descriptors = list(received)
        try:
            if not message and not descriptors:
                return False
            cut = flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
            self._request(b"" if cut or len(descriptors) != _DESCRIPTORS else message, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return True

    def _request(self, message: bytes, descriptors: list[int]) -> None:
        """Start what a request asks for, or answer why not. The descriptors stay the caller's."""
        if not descriptors:
            return
        try:
            call = socket.socket(fileno=os.dup(descriptors[0]))
        except OSError:  # no socket: nobody waits for an answer
            return
        try:
            name, arguments, environment = parse(message)
            self._programs[name]
        except (MalformedError, KeyError):
            _answer(call, MALFORMED)
            return
        if len(self._pids) >= CHILDREN:
            _answer(call, BUSY)
            return
        try:
            pid = os.fork()
        except OSError as error:
            _answer(call, NOT_STARTED + str(error.errno).encode())
            return
        if pid == 0:
            self._become(name, arguments, environment, (descriptors[1], descriptors[2], call))
        pidfd = os.pidfd_open(pid)
        self._pids[pidfd], self._calls[pidfd], self._owners[call.fileno()] = pid, call, pidfd
        self._poll.register(pidfd, select.POLLIN)
        self._poll.register(call, select.POLLIN)

    def _become(
        self,
        name: bytes,
        arguments: list[bytes],
        environment: dict[bytes, bytes],
        ends: tuple[int, int, socket.socket],
    ) -> None:
        """In the child: take limits, walls and streams, and become the program. Never returns."""
        out, err, call = ends
        try:
            os.setsid()
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != self._own:  # the parent died before the line above
                return
            for target, descriptor in enumerate((self._null, out, err)):
                os.dup2(descriptor, target)
            os.fchdir(self._root)
            for ignored in (*_IGNORED, signal.SIGPIPE, signal.SIGXFSZ):  # by us and by Python: exec would hand that on
                signal.signal(ignored, signal.SIG_DFL)
            for number, value in _LIMITS:
                hard = resource.getrlimit(number)[1]
                least = value if hard == resource.RLIM_INFINITY else min(value, hard)
                resource.setrlimit(number, (least, least))
            path = self._programs[name]
            words = _strings([path.value, *arguments])
            variables = _strings([key + b"=" + value for key, value in environment.items()])
            for wall in self._filters.get(name, ()):
                _checked(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(wall), 0, 0))
            _checked(_libc.execve(path, words, variables))
        except OSError as error:
            _answer(call, NOT_STARTED + str(error.errno).encode())
        finally:
            os._exit(_UNSTARTED)

    def _ended(self, pidfd: int) -> None:
        """Reap a child and say what became of it. Its session is killed first: while it is a zombie the id is its."""
        pid = self._pids.pop(pidfd)
        _kill(pid)
        _, status = os.waitpid(pid, 0)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        call = self._calls.pop(pidfd, None)
        if call is not None:
            self._release(call)
            code = os.waitstatus_to_exitcode(status)
            _answer(call, ENDED + str(128 - code if code < 0 else code).encode())

    def _give_up(self, descriptor: int) -> None:
        """Nobody wants the answer of a call any more: kill its child, which is reaped when it has ended."""
        pidfd = self._owners[descriptor]
        call = self._calls.pop(pidfd)
        self._release(call)
        call.close()
        _kill(self._pids[pidfd])

    def _release(self, call: socket.socket) -> None:
        del self._owners[call.fileno()]
        self._poll.unregister(call)

    def _end_all(self) -> None:
        for pid in self._pids.values():
            _kill(pid)
        for pidfd in list(self._pids):
            self._ended(pidfd)


def _kill(pid: int) -> None:
    """Kill a child that was not reaped yet, and the session that it leads, if it came so far."""
    for act in (os.kill, os.killpg):
        with contextlib.suppress(OSError):
            act(pid, signal.SIGKILL)


def _strings(words: list[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    """A list of C strings with its end."""
    return (ctypes.c_char_p * (len(words) + 1))(*words, None)


def _checked(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _answer(call: socket.socket, answer: bytes) -> None:
    """Send the one answer and close; a client that is gone or does not read loses it."""
    with call, contextlib.suppress(OSError):
        call.send(answer, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


def _restrict(ruleset: int) -> str:
    """Take the ruleset; why not, or nothing."""
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return f"no_new_privs: {os.strerror(ctypes.get_errno())}"
    zero = ctypes.c_ulong(0)
    if ruleset >= 0 and _libc.syscall(ctypes.c_long(_RESTRICT_SELF), ctypes.c_ulong(ruleset), zero):
        return f"Landlock: {os.strerror(ctypes.get_errno())}"
    return ""


def _content(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        return file.read()


def main(arguments: list[str]) -> int:
    """Stand behind the walls and serve."""
    control, root, ruleset, code = (int(word) for word in arguments[:4])
    for descriptor in (control, root, ruleset, code):
        if descriptor >= 0:
            os.set_inheritable(descriptor, False)  # noqa: FBT003 - the standard library has no name for it
    programs = dict(os.fsencode(word).split(b"=", 1) for word in arguments[4:])
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=control) as connection:
        steps = _content(code) if code >= 0 else b""
        if why := _restrict(ruleset):
            connection.send(why.encode())
            return 1
        if ruleset >= 0:
            os.close(ruleset)
        starter = Starter(connection, root, steps, programs)
        gc.freeze()  # a collection in a child would touch, and copy, every page
        connection.send(READY)
        starter.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
