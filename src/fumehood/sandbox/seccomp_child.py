"""Which system calls a Deno child has, by name, with their numbers, and which arguments of them. Tables only.

The list is what Deno 2.9.8 was seen to call (strace of every kind of program, by the routes `dropped` and `root`), what
other C libraries and kernels call in the same places, and what bubblewrap and setpriv need between filter and Deno.
Numbers: as in `seccomp_tables`; values: the kernel's uapi headers, alike on both machines.

What is not listed is answered as a kernel that has not got it would answer, so that a library falls back instead of
giving up: ENOSYS for a call and an operation of futex, EINVAL for an option, ENOTTY for a request to a device.
"""

from typing import Final

from fumehood.sandbox.seccomp_tables import Numbers

# Whatever their arguments are.
CALLS: Final[dict[str, Numbers]] = {
    # what is open
    "read": (0, 63),
    "readv": (19, 65),
    "pread64": (17, 67),
    "preadv": (295, 69),
    "write": (1, 64),
    "writev": (20, 66),
    "close": (3, 57),
    "fstat": (5, 80),
    "lseek": (8, 62),
    # files by name: the root has ten of them, and one small folder that Deno writes the compiled program to
    "open": (2, None),
    "openat": (257, 56),
    "stat": (4, None),
    "lstat": (6, None),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "access": (21, None),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "getcwd": (79, 17),
    "umask": (95, 166),  # cannot fail, so Deno aborts where it does
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    # waiting
    "poll": (7, None),
    "ppoll": (271, 73),
    "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21),
    "epoll_wait": (232, None),
    "epoll_pwait": (281, 22),
    "eventfd2": (290, 19),
    "restart_syscall": (219, 128),
    # memory
    "brk": (12, 214),
    "munmap": (11, 215),
    "mremap": (25, 216),
    # threads, and the signals within one process
    "set_tid_address": (218, 96),
    "set_robust_list": (273, 99),
    "rseq": (334, 293),
    "membarrier": (324, 283),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120),
    "getcpu": (309, 168),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "tgkill": (234, 131),  # abort(3); who could be meant besides is pid 1, which no signal from within reaches
    "exit": (60, 93),
    "exit_group": (231, 94),
    # time, where the vDSO does not say it
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "time": (201, None),
    # what it may know of itself and of the machine
    "getrandom": (318, 278),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "getppid": (110, 173),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "getrusage": (98, 165),
    "getrlimit": (97, 163),
    "sysinfo": (99, 179),
    "uname": (63, 160),
    # bubblewrap, after it took the filter: pid 2 becomes the command, pid 1 waits for its end
    "execve": (59, 221),
    "wait4": (61, 260),
    # setpriv, which drops root before it becomes Deno; to a process without capabilities they give nothing
    "capget": (125, 90),
    "capset": (126, 91),
    "getresuid": (118, 148),
    "getresgid": (120, 150),
    "setresuid": (117, 147),
    "setresgid": (119, 149),
    "setgroups": (116, 159),
}

# With some values of one argument only.
FUTEX: Final[Numbers] = (202, 98)
FCNTL: Final[Numbers] = (72, 25)
MADVISE: Final[Numbers] = (28, 233)
PRCTL: Final[Numbers] = (157, 167)
ARCH_PRCTL: Final[Numbers] = (158, None)

# With bits of one argument refused.
MMAP: Final[Numbers] = (9, 222)
MPROTECT: Final[Numbers] = (10, 226)
RECVFROM: Final[Numbers] = (45, 207)
SENDTO: Final[Numbers] = (44, 206)

PRLIMIT64: Final[Numbers] = (302, 261)  # to read a limit, not to set one

_PRIVATE: Final = 0x80
_CLOCK_REALTIME: Final = 0x100
# WAIT, WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, WAIT_BITSET, WAKE_BITSET. None that inherits a priority: those have been
# ways into the kernel (CVE-2014-3153, CVE-2021-3347), and a C library asks whether they exist before it uses one.
_FUTEX_BASE: Final = (0, 1, 3, 4, 5, 9, 10)
FUTEX_OPERATIONS: Final = (
    *(operation | _PRIVATE for operation in _FUTEX_BASE),
    *(9 | _CLOCK_REALTIME | private for private in (_PRIVATE, 0)),
    *_FUTEX_BASE,
)

# F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC: no locks, leases, notices, owners, sizes or seals.
FCNTL_COMMANDS: Final = (1030, 0, 1, 2, 3, 4)

# FIONBIO, FIOCLEX, TCGETS, TCGETS2, TIOCGWINSZ: whether something is a terminal, which nothing inside is.
IOCTL_REQUESTS: Final = (0x5421, 0x5451, 0x5401, 0x802C542A, 0x5413)

# DONTNEED, DONTFORK, DODUMP, FREE, DONTDUMP, DOFORK, NORMAL, RANDOM, SEQUENTIAL, WILLNEED, NOHUGEPAGE, WIPEONFORK,
# KEEPONFORK, GUARD_INSTALL, GUARD_REMOVE (stacks of newer C libraries). Not MERGEABLE: pages that are shared with
# others tell what is in theirs; nothing that punches holes into files, collapses, offlines or pages out memory.
MADVISE_ADVICE: Final = (4, 10, 17, 8, 16, 11, 0, 1, 2, 3, 15, 18, 19, 102, 103)

# SET_NAME, GET_NAME, GET_DUMPABLE; for setpriv and libcap-ng GET_KEEPCAPS, SET_KEEPCAPS, CAPBSET_READ, CAPBSET_DROP,
# GET_SECUREBITS, SET_SECUREBITS, SET_NO_NEW_PRIVS, GET_NO_NEW_PRIVS, CAP_AMBIENT.
PRCTL_OPTIONS: Final = (15, 16, 3, 7, 8, 23, 24, 27, 28, 38, 39, 47)

ARCH_SET_FS: Final = 0x1002  # where a thread's own data lies; the loader says it once

PROT_WRITE: Final = 2
PROT_EXEC: Final = 4
MAP_ANONYMOUS: Final = 0x20
# MAP_GROWSDOWN, MAP_HUGETLB: nobody asks for either, and both lead into corners of memory management.
MAP_REFUSED: Final = 0x0100 | 0x4_0000

SOCK_STREAM: Final = 1
# With SOCK_NONBLOCK, SOCK_CLOEXEC, both.
SOCKET_TYPES: Final = (0x8_0801, 0x8_0001, 0x801, SOCK_STREAM)
# All but MSG_PEEK, MSG_DONTWAIT, MSG_NOSIGNAL: bytes out of band are one more corner.
MESSAGE_REFUSED: Final = 0xFFFF_FFFF & ~(0x2 | 0x40 | 0x4000)
