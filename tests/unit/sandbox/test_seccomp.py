import errno
import hashlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.sandbox import seccomp
from fumehood.sandbox import seccomp_child as child
from fumehood.sandbox import seccomp_tables as t
from fumehood.sandbox.spec import Profile

KILL = "kill"
ALLOW = "allow"
EVERY = [(profile, machine) for profile in Profile for machine in seccomp.MACHINES]
every = pytest.mark.parametrize(("profile", "machine"), EVERY)
LISTS_OF_ALLOWED = {Profile.ZYGOTE, Profile.WORKER}
machines = pytest.mark.parametrize("machine", seccomp.MACHINES)
cloning = pytest.mark.parametrize(("profile", "machine"), [one for one in EVERY if one[0] not in LISTS_OF_ALLOWED])
denying = pytest.mark.parametrize(
    ("profile", "machine"), [one for one in EVERY if one[0] not in {*LISTS_OF_ALLOWED, Profile.CODE}]
)
word = st.integers(0, 2**64 - 1)
SERVING = {Profile.SERVE_STDIO, Profile.SERVE_HTTP}


def refused_calls(profile: Profile) -> dict[str, t.Numbers]:
    """What a deny-list refuses whatever the arguments are."""
    table = t.REFUSED | t.ABSENT
    if profile is not Profile.REVIEW:
        kept = t.LISTENING if profile is Profile.SERVE_HTTP else ()
        table = table | t.NEW_PROCESSES | {n: v for n, v in t.SOCKET_CALLS.items() if n not in kept}
    if profile in {Profile.GIT, Profile.AUDIT, *SERVING}:
        changed = t.KEEPING if profile is Profile.AUDIT else ()
        table = table | {n: v for n, v in t.CHANGES.items() if n not in changed}
    return table | t.STARTS if profile in {Profile.AUDIT, *SERVING} else table


def interpret(code: bytes, number: int, arguments: tuple[int, ...] = (), *, architecture: int) -> str | int:
    """Run a program as the kernel would; a second implementation, from seccomp(2) and filter.h."""
    words = [a % 2**64 for a in (*arguments, 0, 0, 0, 0, 0, 0)][:6]
    data = struct.pack("<IIQ6Q", number % 2**32, architecture, 0, *words)
    steps = list(struct.iter_unpack("<HBBI", code))
    at = accumulator = 0
    for _ in range(len(steps) + 1):
        operation, yes, no, value = steps[at]
        at += 1
        if operation == 0x20:
            assert value % 4 == 0
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif operation == 0x06:
            return answer(value)
        else:
            truth = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}
            at += yes if truth[operation] else no
    raise AssertionError("a program that does not end")


def answer(value: int) -> str | int:
    if value == 0x80000000:
        return KILL
    if value == 0x7FFF0000:
        return ALLOW
    assert value & 0xFFFF0000 == 0x00050000
    return value & 0xFFFF


def ask(profile: Profile, machine: str, number: int | None, *arguments: int) -> str | int:
    assert number is not None
    return interpret(seccomp.program(profile, machine), number, arguments, architecture=t.AUDIT_ARCHITECTURES[machine])


def column(machine: str) -> int:
    return seccomp.MACHINES.index(machine)


def test_the_bytes_are_those_that_were_reviewed() -> None:
    digests = {
        f"{profile} {machine}": hashlib.sha256(seccomp.program(profile, machine)).hexdigest()[:16]
        for profile, machine in EVERY
    }
    assert digests == {
        "review x86_64": "0250e67496721ffa",
        "review aarch64": "d9d99cbcaa5d9997",
        "code x86_64": "4b38794c29464ad9",
        "code aarch64": "bfbeb9350633c506",
        "git x86_64": "27e7271c2da6d9ca",
        "git aarch64": "5a82f62486367a73",
        "serve_stdio x86_64": "406bcd947289c9ee",
        "serve_stdio aarch64": "834e1b701ce12aee",
        "serve_http x86_64": "553238645dfb40b7",
        "serve_http aarch64": "4043d3957555dfd2",
        "audit x86_64": "96a407a920f9cff4",
        "audit aarch64": "3425e0312f66290d",
        "zygote x86_64": "efc8eca77d82cfdb",
        "zygote aarch64": "d7336b371539b2df",
        "worker x86_64": "1d82a37eacd3d400",
        "worker aarch64": "1e30efffb78ede41",
    }


@every
def test_a_program_fits_the_kernels_bounds_and_every_path_ends(profile: Profile, machine: str) -> None:
    code = seccomp.program(profile, machine)
    steps = list(struct.iter_unpack("<HBBI", code))
    assert len(steps) <= 4096
    for at, (operation, yes, no, _) in enumerate(steps):
        assert operation in {0x06, 0x15, 0x20, 0x35, 0x45}
        assert at + 1 + max(yes, no) < len(steps) or operation == 0x06


@every
@pytest.mark.parametrize("architecture", [0x40000003, 0x40000028, 0xC00000F3, 0])
def test_a_foreign_architecture_is_killed(profile: Profile, machine: str, architecture: int) -> None:
    assert interpret(seccomp.program(profile, machine), 0, architecture=architecture) == KILL


@every
@given(number=st.integers(t.FIRST_UNKNOWN, 2**32 - 1), arguments=st.tuples(*[st.integers(0, 2**64 - 1)] * 6))
def test_calls_newer_than_the_tables_are_absent(
    profile: Profile, machine: str, number: int, arguments: tuple[int, ...]
) -> None:
    assert ask(profile, machine, number, *arguments) == errno.ENOSYS


@denying
@given(arguments=st.tuples(*[st.integers(0, 2**64 - 1)] * 6))
def test_no_arguments_open_a_refused_call(profile: Profile, machine: str, arguments: tuple[int, ...]) -> None:
    got = {
        name: ask(profile, machine, numbers[column(machine)], *arguments)
        for name, numbers in refused_calls(profile).items()
        if numbers[column(machine)] is not None
    }
    assert got == {name: errno.ENOSYS if name in t.ABSENT else errno.EPERM for name in got}


@denying
@given(number=st.integers(0, t.FIRST_UNKNOWN - 1), arguments=st.tuples(*[st.integers(0, 2**64 - 1)] * 6))
def test_every_other_call_is_allowed(profile: Profile, machine: str, number: int, arguments: tuple[int, ...]) -> None:
    looked_at = {n[column(machine)] for n in (t.CLONE, t.IOCTL, t.SOCKET, t.SOCKETPAIR, t.SECCOMP)}
    refused = {n[column(machine)] for n in refused_calls(profile).values()}
    if number not in looked_at | refused:
        assert ask(profile, machine, number, *arguments) == ALLOW


@pytest.mark.parametrize("machine", seccomp.MACHINES)
@pytest.mark.parametrize("profile", sorted(LISTS_OF_ALLOWED))
@given(number=st.integers(0, t.FIRST_UNKNOWN - 1), arguments=st.tuples(*[st.integers(0, 2**64 - 1)] * 6))
def test_a_list_of_allowed_calls_allows_nothing_else(
    profile: Profile, machine: str, number: int, arguments: tuple[int, ...]
) -> None:
    listed = t.COMPUTING | (t.FORKING if profile is Profile.ZYGOTE else {})
    looked_at = {n[column(machine)] for n in (t.CLONE, t.SOCKETPAIR, t.SECCOMP)} if profile is Profile.ZYGOTE else set()
    if number in {n[column(machine)] for n in listed.values()}:
        expected: str | int = ALLOW
    else:
        expected = errno.ENOSYS if number in {n[column(machine)] for n in t.ABSENT.values()} else errno.EPERM
    if number not in looked_at:
        assert ask(profile, machine, number, *arguments) == expected


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_a_worker_opens_nothing_starts_nothing_and_makes_no_socket(machine: str) -> None:
    at = column(machine)
    calls: dict[str, t.Numbers] = {
        "open": (2, None),
        "openat": (257, 56),
        "openat2": (437, 437),
        "execve": (59, 221),
        "execveat": (322, 281),
    }
    calls |= {"clone": t.CLONE, "fork": (57, None), "socket": t.SOCKET, "connect": (42, 203), "ptrace": (101, 117)}
    for numbers in calls.values():
        if (number := numbers[at]) is not None:
            assert ask(Profile.WORKER, machine, number, t.CLONE_THREAD) == errno.EPERM
    assert ask(Profile.ZYGOTE, machine, t.CLONE[at], 17) == ALLOW  # a plain fork
    assert ask(Profile.ZYGOTE, machine, calls["openat"][at]) == errno.EPERM
    assert ask(Profile.ZYGOTE, machine, calls["execve"][at]) == errno.EPERM


HOSTILE = t.CLONE_NAMESPACES | t.CLONE_UNTRACED | t.CLONE_PTRACE


@cloning
@given(flags=st.integers(0, 2**64 - 1))
def test_clone_gives_no_namespace_and_no_untraced_child(profile: Profile, machine: str, flags: int) -> None:
    got = ask(profile, machine, t.CLONE[column(machine)], flags)
    harmless = not flags >> 32 and not flags & HOSTILE
    thread = bool(flags & t.CLONE_THREAD)
    assert (got == ALLOW) == (harmless and (thread or profile is Profile.REVIEW))
    assert got in {ALLOW, errno.EPERM}


@cloning
@pytest.mark.parametrize("bit", [b for b in range(64) if b >= 32 or HOSTILE >> b & 1])
def test_each_hostile_flag_of_clone_is_refused_alone(profile: Profile, machine: str, bit: int) -> None:
    assert ask(profile, machine, t.CLONE[column(machine)], 1 << bit | t.CLONE_THREAD) == errno.EPERM
    assert ask(profile, machine, t.CLONE[column(machine)], t.CLONE_THREAD) == ALLOW


@denying
@given(upper=st.integers(0, 2**32 - 1), command=st.sampled_from([t.TIOCSTI, t.TIOCLINUX]))
def test_the_upper_half_does_not_open_a_refused_ioctl(profile: Profile, machine: str, upper: int, command: int) -> None:
    assert ask(profile, machine, t.IOCTL[column(machine)], 0, upper << 32 | command) == errno.EPERM
    assert ask(profile, machine, t.IOCTL[column(machine)], 0, upper << 32 | 0x5401) == ALLOW  # TCGETS


@pytest.mark.parametrize("machine", seccomp.MACHINES)
@given(family=st.integers(0, 2**64 - 1), kind=st.integers(0, 2**64 - 1), protocol=st.integers(0, 2**64 - 1))
def test_a_reviewed_child_has_sockets_of_four_kinds(machine: str, family: int, kind: int, protocol: int) -> None:
    low = family & 0xFFFFFFFF
    got = ask(Profile.REVIEW, machine, t.SOCKET[column(machine)], family, kind, protocol)
    if low in {t.AF_UNIX, t.AF_INET, t.AF_INET6}:
        assert got == ALLOW
    elif low == t.AF_NETLINK:
        assert got == (errno.EPROTONOSUPPORT if protocol & 0xFFFFFFFF else ALLOW)
    else:
        assert got == errno.EAFNOSUPPORT


@pytest.mark.parametrize("machine", seccomp.MACHINES)
@pytest.mark.parametrize(
    ("family", "protocol", "expected"),
    [
        (t.AF_UNIX, 0, ALLOW),
        (t.AF_INET, 6, ALLOW),
        (t.AF_INET6, 17, ALLOW),
        (t.AF_NETLINK, t.NETLINK_ROUTE, ALLOW),
        (t.AF_NETLINK, 12, errno.EPROTONOSUPPORT),  # NETLINK_NETFILTER
        (1 << 32 | t.AF_NETLINK, 12, errno.EPROTONOSUPPORT),
        (t.AF_NETLINK, 1 << 32, ALLOW),  # the kernel takes 32 bits: this is NETLINK_ROUTE
        (17, 0, errno.EAFNOSUPPORT),  # AF_PACKET
        (40, 0, errno.EAFNOSUPPORT),  # AF_VSOCK
        (38, 0, errno.EAFNOSUPPORT),  # AF_ALG
    ],
)
def test_sockets_by_family_and_protocol(machine: str, family: int, protocol: int, expected: str | int) -> None:
    assert ask(Profile.REVIEW, machine, t.SOCKET[column(machine)], family, 1, protocol) == expected


@denying
@given(family=st.integers(0, 2**64 - 1))
def test_a_pair_of_sockets_is_a_unix_pair(profile: Profile, machine: str, family: int) -> None:
    got = ask(profile, machine, t.SOCKETPAIR[column(machine)], family)
    assert got == (ALLOW if family & 0xFFFFFFFF == t.AF_UNIX else errno.EAFNOSUPPORT)


@pytest.mark.parametrize("profile", [Profile.CODE, Profile.GIT, *sorted(SERVING)])
@pytest.mark.parametrize("machine", seccomp.MACHINES)
@pytest.mark.parametrize("family", [t.AF_UNIX, t.AF_INET, t.AF_INET6, t.AF_NETLINK, 17])
def test_code_git_and_the_serving_process_make_no_socket(profile: Profile, machine: str, family: int) -> None:
    assert ask(profile, machine, t.SOCKET[column(machine)], family, 1, 0) == errno.EAFNOSUPPORT


@denying
@given(flags=st.integers(0, 2**64 - 1), operation=st.integers(0, 2**64 - 1))
def test_no_filter_with_a_listener_can_be_installed(profile: Profile, machine: str, flags: int, operation: int) -> None:
    got = ask(profile, machine, t.SECCOMP[column(machine)], operation, flags)
    listener = operation & 0xFFFFFFFF == t.SECCOMP_SET_MODE_FILTER and flags & t.SECCOMP_FILTER_FLAG_NEW_LISTENER
    assert got == (errno.EPERM if listener else ALLOW)


def test_an_unknown_machine_is_said_and_what_there_is() -> None:
    with pytest.raises(seccomp.UnknownMachineError, match=r"riscv64 \(use one of x86_64, aarch64\)"):
        seccomp.program(Profile.REVIEW, "riscv64")


def test_the_interpreter_itself_tells_programs_apart() -> None:
    code = struct.pack("<HBBIHBBIHBBIHBBI", 0x20, 0, 0, 0, 0x15, 0, 1, 7, 6, 0, 0, 0x50001, 6, 0, 0, 0x7FFF0000)
    assert interpret(code, 7, architecture=0) == errno.EPERM
    assert interpret(code, 8, architecture=0) == ALLOW


# What of a Deno child's calls is looked at by value: the call, which argument, what passes, the answer to the rest.
BY_VALUE = {
    "futex": (child.FUTEX, 1, child.FUTEX_OPERATIONS, errno.ENOSYS),
    "madvise": (child.MADVISE, 2, child.MADVISE_ADVICE, errno.EINVAL),
    "fcntl": (child.FCNTL, 1, child.FCNTL_COMMANDS, errno.EINVAL),
    "ioctl": (t.IOCTL, 1, child.IOCTL_REQUESTS, errno.ENOTTY),
    "prctl": (child.PRCTL, 0, child.PRCTL_OPTIONS, errno.EINVAL),
    "arch_prctl": (child.ARCH_PRCTL, 0, (child.ARCH_SET_FS,), errno.EINVAL),
}
BY_BITS = {"mmap": child.MMAP, "mprotect": child.MPROTECT, "recvfrom": child.RECVFROM, "sendto": child.SENDTO}
LOOKED_AT = {name: one[0] for name, one in BY_VALUE.items()} | BY_BITS
LOOKED_AT |= {"prlimit64": child.PRLIMIT64, "clone": t.CLONE, "socket": t.SOCKET, "socketpair": t.SOCKETPAIR}


def ask_child(machine: str, numbers: t.Numbers, *arguments: int) -> str | int:
    """What a Deno child is answered; where the machine has no such call, nobody asks."""
    number = numbers[column(machine)]
    return ALLOW if number is None else ask(Profile.CODE, machine, number, *arguments)


@pytest.mark.threat("C2")
@machines
@given(number=st.integers(0, t.FIRST_UNKNOWN - 1), arguments=st.tuples(*[word] * 6))
def test_a_deno_child_has_no_call_that_is_not_listed(machine: str, number: int, arguments: tuple[int, ...]) -> None:
    listed = {numbers[column(machine)] for numbers in child.CALLS.values()}
    if number not in {numbers[column(machine)] for numbers in LOOKED_AT.values()}:
        expected = ALLOW if number in listed else errno.ENOSYS
        assert ask(Profile.CODE, machine, number, *arguments) == expected


@pytest.mark.threat("C2")
@machines
def test_nothing_that_another_profile_refuses_is_open_to_a_deno_child(machine: str) -> None:
    refused = {**t.REFUSED, **t.ABSENT, **t.NEW_PROCESSES, **t.SOCKET_CALLS}
    assert {name for name in refused if ask_child(machine, refused[name]) == ALLOW} == {
        name for name, numbers in refused.items() if numbers[column(machine)] is None
    }
    kept = {name for name in t.CHANGES if name in child.CALLS}
    assert kept == {"mkdir", "mkdirat", "unlink", "unlinkat", "rename", "renameat", "renameat2"}


def test_no_call_of_a_deno_child_is_listed_twice() -> None:
    assert not set(child.CALLS) & set(LOOKED_AT)
    for at in range(len(seccomp.MACHINES)):
        numbers = [pair[at] for pair in (*child.CALLS.values(), *LOOKED_AT.values()) if pair[at] is not None]
        assert len(numbers) == len(set(numbers))


@pytest.mark.threat("C2")
@machines
@pytest.mark.parametrize("name", BY_VALUE)
@given(value=st.integers(0, 2**32 - 1), upper=st.integers(0, 2**32 - 1), other=word)
def test_an_argument_passes_by_its_lower_half_alone(
    machine: str, name: str, value: int, upper: int, other: int
) -> None:
    numbers, at, passing, answer = BY_VALUE[name]
    if numbers[column(machine)] is None:
        return
    for one in (value, *passing):
        arguments = [other] * 6
        arguments[at] = upper << 32 | one
        assert ask_child(machine, numbers, *arguments) == (ALLOW if one in passing else answer)


@machines
@pytest.mark.parametrize("operation", [2, 6, 7, 8, 11, 12, 13])  # FD and all that inherit a priority
@pytest.mark.parametrize("flags", [0, 0x80, 0x100, 0x180])
def test_no_lock_inherits_a_priority(machine: str, operation: int, flags: int) -> None:
    assert ask_child(machine, child.FUTEX, 0, operation | flags) == errno.ENOSYS


@pytest.mark.threat("C2")
@machines
@given(prot=word, flags=word, fd=word)
def test_memory_becomes_code_out_of_a_file_that_is_not_written_there(
    machine: str, prot: int, flags: int, fd: int
) -> None:
    got = ask_child(machine, child.MMAP, 0, 4096, prot, flags, fd, 0)
    if flags & child.MAP_REFUSED:
        assert got == errno.EINVAL
    elif prot & child.PROT_EXEC and (prot & child.PROT_WRITE or flags & child.MAP_ANONYMOUS):
        assert got == errno.EPERM
    else:
        assert got == ALLOW
    expected = errno.EPERM if prot & child.PROT_EXEC else ALLOW
    assert ask_child(machine, child.MPROTECT, 0, 4096, prot) == expected


@machines
@pytest.mark.parametrize(
    ("prot", "flags", "expected"),
    [
        (5, 0x802, ALLOW),  # the loader's: read and execute, private, out of a file
        (3, 0x22, ALLOW),  # data
        (0, 0x4022, ALLOW),  # a reservation
        (7, 0x02, errno.EPERM),
        (4, 0x22, errno.EPERM),
        (5, 0x22, errno.EPERM),
        (3, 0x122, errno.EINVAL),  # MAP_GROWSDOWN
        (3, 0x40022, errno.EINVAL),  # MAP_HUGETLB
    ],
)
def test_mappings_by_protection_and_flags(machine: str, prot: int, flags: int, expected: str | int) -> None:
    assert ask_child(machine, child.MMAP, 0, 4096, prot, flags, 3, 0) == expected


@machines
@given(flags=st.integers(0, 2**32 - 1), upper=st.integers(0, 2**32 - 1))
def test_messages_have_three_flags_and_none_is_out_of_band(machine: str, flags: int, upper: int) -> None:
    for numbers in (child.RECVFROM, child.SENDTO):
        for one in (flags, flags & 0x4042, 1):
            expected = ALLOW if one | 0x4042 == 0x4042 else errno.EINVAL
            assert ask_child(machine, numbers, 3, 0, 1, upper << 32 | one) == expected


@machines
@given(pointer=word)
def test_a_limit_is_read_and_not_set(machine: str, pointer: int) -> None:
    for one in (pointer, pointer << 32, 0):
        expected = errno.EPERM if one % 2**64 else ALLOW
        assert ask_child(machine, child.PRLIMIT64, 0, 7, one, 4096) == expected


@machines
@given(family=st.integers(0, 2**32 - 1), kind=st.integers(0, 2**32 - 1))
def test_a_deno_childs_pair_of_sockets_is_a_unix_stream(machine: str, family: int, kind: int) -> None:
    for one in (family, t.AF_UNIX):
        for form in (kind, *child.SOCKET_TYPES):
            got = ask_child(machine, t.SOCKETPAIR, one, form)
            if one != t.AF_UNIX:
                assert got == errno.EAFNOSUPPORT
            else:
                assert got == (ALLOW if form in child.SOCKET_TYPES else errno.ESOCKTNOSUPPORT)


@machines
@given(arguments=st.tuples(*[word] * 6))
def test_a_deno_child_takes_no_further_filter(machine: str, arguments: tuple[int, ...]) -> None:
    assert ask_child(machine, t.SECCOMP, *arguments) == errno.ENOSYS
    assert ask_child(machine, child.PRCTL, 22, *arguments[1:]) == errno.EINVAL  # PR_SET_SECCOMP
