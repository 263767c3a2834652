"""One question to the kernel of this host, asked by a process that exists for it: `hostprobe.py QUESTION [ARGUMENT…]`.

Ends with 0 and prints what was seen when the thing works; else ends with 1 and prints the reason to stderr. Standard
library only, run as `python -I -S`. Everything it does dies with it.
"""

import ctypes
import errno
import mmap
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 4, 22, 38, 2
DATA_BYTES, WANTED_BYTES = 64 << 20, 256 << 20
KINDS = {"mnt": CLONE_NEWNS, "uts": CLONE_NEWUTS, "ipc": CLONE_NEWIPC, "pid": CLONE_NEWPID, "net": CLONE_NEWNET}
RULES = (
    b"table ip probe {\n chain out {\n  type nat hook output priority -100;\n  meta l4proto tcp redirect to :1\n }\n}\n"
)


class No(Exception):  # noqa: N818 - it is an answer
    """The host cannot; the message says why."""


def call(name: str, *arguments: object) -> int:
    """A function of libc; raises OSError with its errno."""
    result = int(getattr(LIBC, name)(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def enter_user_namespace() -> None:
    """Become root of a new user namespace; an ordinary user's way to everything else here."""
    uid, gid = os.getuid(), os.getgid()
    call("unshare", CLONE_NEWUSER)
    for file, line in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        try:
            with open(f"/proc/self/{file}", "w", encoding="ascii") as map_file:  # noqa: PTH123 - start-up time
                map_file.write(line)
        except OSError as error:
            raise No(f"setting up {file.replace('_', ' ')}: {os.strerror(error.errno or 0)}") from error


def become(uid: str) -> None:
    """Drop to `uid` when root."""
    if os.getuid() == 0 and int(uid):
        os.setgroups([])
        os.setresgid(int(uid), int(uid), int(uid))
        os.setresuid(int(uid), int(uid), int(uid))
        call("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)  # else /proc/self stays root's, and no map can be written


def user_namespace(uid: str) -> str:
    """A user without privilege makes a user namespace and is root in it."""
    become(uid)
    enter_user_namespace()
    if os.getuid() != 0:
        raise No("the map of user ids has no effect")
    return "made and mapped"


def namespaces() -> str:
    """Each other kind of namespace."""
    if os.getuid() != 0:
        enter_user_namespace()
    for name, flag in KINDS.items():
        before = os.stat(f"/proc/self/ns/{name}").st_ino  # noqa: PTH116 - start-up time
        call("unshare", flag)
        after = "pid_for_children" if name == "pid" else name
        if name != "pid" and os.stat(f"/proc/self/ns/{after}").st_ino == before:  # noqa: PTH116 - the same
            raise No(f"{name}: the namespace is the same as before")
    return ", ".join(KINDS)


def seccomp() -> str:
    """A filter that refuses one call, and the call is refused."""
    numbers = {"x86_64": 99, "aarch64": 179}  # sysinfo
    number = numbers.get(os.uname().machine)
    if number is None:
        raise No(f"no table of system calls for {os.uname().machine}")
    program = b"".join(
        struct.pack("<HBBI", *row)
        for row in (
            (0x20, 0, 0, 0),  # load the number
            (0x15, 0, 1, number),
            (0x06, 0, 0, 0x00050000 | errno.ENOTTY),  # an errno that the call itself never gives
            (0x06, 0, 0, 0x7FFF0000),
        )
    )
    buffer = ctypes.create_string_buffer(program)
    head = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    call("prctl", PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_char_p(head), 0, 0)
    if LIBC.syscall(number, ctypes.create_string_buffer(256)) != -1 or ctypes.get_errno() != errno.ENOTTY:
        raise No("the filter was taken, and the call went through")
    return "a refused call was refused"


def rlimit_data() -> str:
    """A private mapping beyond RLIMIT_DATA fails (setrlimit(2), since Linux 4.7)."""
    resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES, DATA_BYTES))
    try:
        mmap.mmap(-1, WANTED_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError as error:
        if error.errno == errno.ENOMEM:
            return "bounds private memory"
        raise
    raise No("a mapping beyond the limit was given")


def prlimit(uid: str) -> str:
    """A process limits another of the same uid from outside."""
    become(uid)
    go_read, go_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go_write)
        os.read(go_read, 1)
        os._exit(0 if resource.getrlimit(resource.RLIMIT_NOFILE) == (64, 64) else 1)
    try:
        resource.prlimit(child, resource.RLIMIT_NOFILE, (64, 64))
        os.write(go_write, b"x")
    except OSError:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
    if status:
        raise No("the other process did not see its limit")
    return "limits a process from outside"


def nft(path: str) -> str:
    """The nat redirect of nft in a network namespace of its own; the last act, since nft takes this process's place."""
    if os.getuid() != 0:
        enter_user_namespace()
    call("unshare", CLONE_NEWNET)
    rules = os.memfd_create("rules", 0)
    os.write(rules, RULES)
    os.lseek(rules, 0, os.SEEK_SET)
    os.dup2(rules, 0)
    os.execv(path, [path, "-f", "-"])  # noqa: S606 - no shell is wanted


QUESTIONS: dict[str, Callable[..., str]] = {
    "user_namespace": user_namespace,
    "namespaces": namespaces,
    "seccomp": seccomp,
    "rlimit_data": rlimit_data,
    "prlimit": prlimit,
    "nft": nft,
}


def main() -> int:
    """Ask the one question that the command line names."""
    try:
        sys.stdout.write(QUESTIONS[sys.argv[1]](*sys.argv[2:]) + "\n")
    except (No, OSError) as error:
        text = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        sys.stderr.write(f"{text}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
