"""Assemble the seccomp programs. Pure: the same profile and machine give the same bytes.

Classic BPF by hand (linux/filter.h, seccomp(2)), for `bwrap --seccomp FD`; no library is needed. Invariants, for both
architectures:

- a call under another instruction set kills the process;
- a call that the tables do not know yet (x32 among them) answers ENOSYS;
- `clone` gets no namespace, and no child that a tracer would lose;
- sockets are AF_UNIX, AF_INET, AF_INET6, and in `review` NETLINK_ROUTE, whose refusal makes
  `os.networkInterfaces()` throw; `code`, `git` and the serving process get none but a pair of AF_UNIX;
- `code` gets what a Deno child needs and no more: no descriptor is passed on, no memory becomes code that was data, no
  lock inherits a priority;
- `git` and the serving process change no file: neither its content and name nor its rights, owner and times;
- the serving process starts no program; over HTTP it accepts connections, over stdio none;
- `audit` starts nothing and reaches nobody either; it writes, cuts, renames and sets the mode of files, and leaves
  where to Landlock;
- no filter with a listener: its answer outranks a tracer's (seccomp(2): USER_NOTIF before TRACE) and may let the call
  go on unseen.

Arguments that the kernel takes as 32 bits are compared as 32 bits: whatever a caller puts into the upper half would
else be a way around. `review`, `git`, `audit` and the serving process have deny-lists: what they let through is the
kernel's ordinary surface for an ordinary user. `code`, `zygote` and `worker` are lists of what is allowed.

Not promised of `code`: that a file which Deno may write does not become code (its folder of compiled programs can be
mapped); that `execve` is gone (bubblewrap starts Deno by it, and there is nothing else in the root to start).
"""

import errno
import struct
from collections.abc import Iterable, Sequence
from typing import Final

from fumehood.core.errors import UnsupportedError
from fumehood.sandbox import seccomp_child as child
from fumehood.sandbox import seccomp_tables as t
from fumehood.sandbox.spec import Profile

MACHINES: Final = tuple(t.AUDIT_ARCHITECTURES)

_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K

_KILL = 0x8000_0000  # SECCOMP_RET_KILL_PROCESS
_ERRNO = 0x0005_0000
_ALLOW = 0x7FFF_0000

_NUMBER = 0  # offsets into struct seccomp_data
_ARCHITECTURE = 4

_EPERM = _ERRNO | errno.EPERM
_ENOSYS = _ERRNO | errno.ENOSYS
_EINVAL = _ERRNO | errno.EINVAL
_ENOTTY = _ERRNO | errno.ENOTTY
_EAFNOSUPPORT = _ERRNO | errno.EAFNOSUPPORT
_ESOCKTNOSUPPORT = _ERRNO | errno.ESOCKTNOSUPPORT
_EPROTONOSUPPORT = _ERRNO | errno.EPROTONOSUPPORT

_Code = list[bytes]


class UnknownMachineError(UnsupportedError):
    """No program exists for this machine."""

    code = "seccomp_machine"


def program(profile: Profile, machine: str) -> bytes:
    """The program of a profile as an array of `struct sock_filter`; `machine` as `uname -m` says it."""
    if machine not in t.AUDIT_ARCHITECTURES:
        raise UnknownMachineError(f"no seccomp program for {machine}", remedy=f"use one of {', '.join(MACHINES)}")
    column = MACHINES.index(machine)
    head = _head(t.AUDIT_ARCHITECTURES[machine])
    if profile in {Profile.ZYGOTE, Profile.WORKER}:
        return b"".join([*head, *_allow_list(column, forks=profile is Profile.ZYGOTE)])
    if profile is Profile.CODE:
        return b"".join([*head, *_code(column)])
    confined = profile is not Profile.REVIEW
    code = [
        *head,
        *_refuse(t.REFUSED.values(), column, _EPERM),
        *_refuse(t.ABSENT.values(), column, _ENOSYS),
        *(_refuse(t.NEW_PROCESSES.values(), column, _EPERM) if confined else ()),
        *_refuse(_further(profile), column, _EPERM),
        *_for_call(t.CLONE[column], _clone(threads_only=confined)),
        *_for_call(t.IOCTL[column], _ioctl()),
        *_for_call(t.SECCOMP[column], _seccomp()),
        *_for_call(t.SOCKETPAIR[column], _socketpair()),
        *_for_call(t.SOCKET[column], [_return(_EAFNOSUPPORT)] if confined else _socket()),
        _return(_ALLOW),
    ]
    return b"".join(code)


def _further(profile: Profile) -> tuple[t.Numbers, ...]:
    """The calls that a profile refuses besides: sockets, and where nothing is written or started any more, that."""
    if profile is Profile.REVIEW:
        return ()
    kept = t.LISTENING if profile is Profile.SERVE_HTTP else ()
    refused = {name: numbers for name, numbers in t.SOCKET_CALLS.items() if name not in kept}
    changed = t.KEEPING if profile is Profile.AUDIT else ()
    refused |= {name: numbers for name, numbers in t.CHANGES.items() if name not in changed}
    if profile is not Profile.GIT:
        refused |= t.STARTS
    return tuple(refused.values())


def _allow_list(column: int, *, forks: bool) -> _Code:
    """Let through what computing needs, with `forks` what a parent of such processes needs; refuse everything else."""
    calls = t.COMPUTING | t.FORKING if forks else t.COMPUTING
    return [
        *_refuse(t.ABSENT.values(), column, _ENOSYS),
        *_refuse(calls.values(), column, _ALLOW),
        *(_for_call(t.CLONE[column], _clone(threads_only=False)) if forks else ()),
        *(_for_call(t.SECCOMP[column], _seccomp()) if forks else ()),
        *(_for_call(t.SOCKETPAIR[column], _socketpair()) if forks else ()),
        _return(_EPERM),
    ]


def _code(column: int) -> _Code:
    """A Deno child: what is called most is asked for first."""
    looked_at: tuple[tuple[t.Numbers, _Code], ...] = (
        (child.FUTEX, _among(1, child.FUTEX_OPERATIONS, _ENOSYS)),
        (child.MADVISE, _among(2, child.MADVISE_ADVICE, _EINVAL)),
        (child.MPROTECT, _without(2, child.PROT_EXEC, _EPERM)),
        (child.MMAP, _mmap()),
        (child.RECVFROM, _without(3, child.MESSAGE_REFUSED, _EINVAL)),
        (child.SENDTO, _without(3, child.MESSAGE_REFUSED, _EINVAL)),
        (child.FCNTL, _among(1, child.FCNTL_COMMANDS, _EINVAL)),
        (t.IOCTL, _among(1, child.IOCTL_REQUESTS, _ENOTTY)),
        (child.PRCTL, _among(0, child.PRCTL_OPTIONS, _EINVAL)),
        (child.ARCH_PRCTL, _among(0, (child.ARCH_SET_FS,), _EINVAL)),
        (child.PRLIMIT64, _null(2, _EPERM)),
        (t.CLONE, _clone(threads_only=True)),
        (t.SOCKETPAIR, [*_socketpair()[:-1], *_among(1, child.SOCKET_TYPES, _ESOCKTNOSUPPORT)]),
        (t.SOCKET, [_return(_EAFNOSUPPORT)]),
    )
    return [
        *(step for numbers, body in looked_at for step in _for_call(numbers[column], body)),
        *_refuse(child.CALLS.values(), column, _ALLOW),
        _return(_ENOSYS),
    ]


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """One `struct sock_filter`: after a comparison, `yes` or `no` steps are skipped."""
    return struct.pack("<HBBI", code, yes, no, value)


def _return(value: int) -> bytes:
    return _step(_RETURN, value)


def _argument(index: int, *, upper: bool = False) -> bytes:
    """Load one half of an argument; both machines are little-endian."""
    return _step(_LOAD, 16 + 8 * index + (4 if upper else 0))


def _head(architecture: int) -> _Code:
    return [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, architecture, yes=1),
        _return(_KILL),
        _step(_LOAD, _NUMBER),
        _step(_AT_LEAST, t.FIRST_UNKNOWN, no=1),
        _return(_ENOSYS),
    ]


def _refuse(calls: Iterable[t.Numbers], column: int, answer: int) -> _Code:
    """Give each of these calls one answer, whatever its arguments; the number is loaded and stays so."""
    code: _Code = []
    for numbers in calls:
        number = numbers[column]
        if number is not None:
            code += [_step(_EQUAL, number, no=1), _return(answer)]
    return code


def _for_call(number: int | None, body: _Code) -> _Code:
    """Enter `body` for one call only. It ends in a return on every path, so the number need not be loaded again."""
    if number is None:
        return []
    return [_step(_EQUAL, number, no=len(body)), *body]


def _among(argument: int, values: Sequence[int], answer: int) -> _Code:
    """Let through what one argument names, in 32 bits; `answer` for every other value."""
    compared = (_step(_EQUAL, value, yes=len(values) - at) for at, value in enumerate(values))
    return [_argument(argument), *compared, _return(answer), _return(_ALLOW)]


def _without(argument: int, bits: int, answer: int) -> _Code:
    """Let through what has none of these bits in one argument."""
    return [_argument(argument), _step(_ANY_BIT, bits, no=1), _return(answer), _return(_ALLOW)]


def _null(argument: int, answer: int) -> _Code:
    """Let through what points nowhere."""
    lower, upper = _argument(argument), _argument(argument, upper=True)
    zero = [_step(_EQUAL, 0, yes=1), _return(answer)]
    return [lower, *zero, upper, *zero, _return(_ALLOW)]


def _mmap() -> _Code:
    """Code comes out of files, which the loader maps, and cannot be written where it lies."""
    return [
        _argument(3),
        _step(_ANY_BIT, child.MAP_REFUSED, no=1),
        _return(_EINVAL),
        _argument(2),
        _step(_ANY_BIT, child.PROT_EXEC, yes=1),
        _return(_ALLOW),
        _step(_ANY_BIT, child.PROT_WRITE, no=1),
        _return(_EPERM),
        *_without(3, child.MAP_ANONYMOUS, _EPERM),
    ]


def _clone(*, threads_only: bool) -> _Code:
    """Flags are arguments' first on both machines. Kernels before 5.5 passed the upper half on: it has to be empty."""
    flags = t.CLONE_NAMESPACES | t.CLONE_UNTRACED | t.CLONE_PTRACE
    code = [
        _argument(0, upper=True),
        _step(_EQUAL, 0, yes=1),
        _return(_EPERM),
        _argument(0),
        _step(_ANY_BIT, flags, no=1),
        _return(_EPERM),
    ]
    if threads_only:
        code += [_step(_ANY_BIT, t.CLONE_THREAD, yes=1), _return(_EPERM)]
    return [*code, _return(_ALLOW)]


def _ioctl() -> _Code:
    return [
        _argument(1),
        _step(_EQUAL, t.TIOCSTI, yes=1),
        _step(_EQUAL, t.TIOCLINUX, no=1),
        _return(_EPERM),
        _return(_ALLOW),
    ]


def _seccomp() -> _Code:
    return [
        _argument(0),
        _step(_EQUAL, t.SECCOMP_SET_MODE_FILTER, no=3),
        _argument(1),
        _step(_ANY_BIT, t.SECCOMP_FILTER_FLAG_NEW_LISTENER, no=1),
        _return(_EPERM),
        _return(_ALLOW),
    ]


def _socketpair() -> _Code:
    return [_argument(0), _step(_EQUAL, t.AF_UNIX, yes=1), _return(_EAFNOSUPPORT), _return(_ALLOW)]


def _socket() -> _Code:
    return [
        _argument(0),
        _step(_EQUAL, t.AF_UNIX, yes=6),
        _step(_EQUAL, t.AF_INET, yes=5),
        _step(_EQUAL, t.AF_INET6, yes=4),
        _step(_EQUAL, t.AF_NETLINK, yes=1),
        _return(_EAFNOSUPPORT),
        _argument(2),
        _step(_EQUAL, t.NETLINK_ROUTE, no=1),
        _return(_ALLOW),
        _return(_EPROTONOSUPPORT),
    ]
