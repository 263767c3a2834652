"""Which system calls are refused, by name, with their numbers. Tables only.

Numbers: x86_64 from arch/x86/entry/syscalls/syscall_64.tbl, aarch64 from include/uapi/asm-generic/unistd.h. None: the
architecture has no such call. From 424 on both count alike.
"""

from typing import Final

Numbers = tuple[int | None, int | None]  # x86_64, aarch64

# The kernel's own word for an instruction set (linux/audit.h); a call under another one is not looked at, but killed.
AUDIT_ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# The first number that no table here knows (6.18 ends with file_setattr). A deny-list that lets through what did not
# exist when it was written would grow holes with each kernel. x32 calls (bit 30) and -1 lie above it as well.
FIRST_UNKNOWN: Final = 470

# Refused with EPERM in every profile.
REFUSED: Final[dict[str, Numbers]] = {
    # namespaces and mounts: each is a way to new privilege inside, and to most kernel faults of the last years
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "open_by_handle_at": (304, 265),  # walks out of any mount (the "shocker" of 2014)
    # other processes: memory, descriptors, tracing (a tracee of its own would be lost to our tracer)
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # large surfaces of the kernel that no server and no build needs
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "add_key": (248, 217),  # keyrings are not in any namespace
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "modify_ldt": (154, None),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "uselib": (134, None),
    "_sysctl": (156, None),
    # the machine itself
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "create_module": (174, None),
    "get_kernel_syms": (177, None),
    "query_module": (178, None),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
}

# Answered with ENOSYS, so that libraries fall back to the older call, which is looked at.
ABSENT: Final[dict[str, Numbers]] = {
    "clone3": (435, 435),  # its flags lie in memory, where a filter cannot look
    "io_uring_setup": (425, 425),  # opens, connects and writes without a call that a tracer sees
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "memfd_secret": (447, 447),  # a tracer cannot read it: a path kept there is a bare pointer in the trace
}

# Refused besides where a child may start no other process.
NEW_PROCESSES: Final[dict[str, Numbers]] = {
    "fork": (57, None),
    "vfork": (58, None),
    "execveat": (322, 281),  # execve has to stay: it starts the child itself
}

# Refused besides where a child speaks only over the descriptors it was given.
SOCKET_CALLS: Final[dict[str, Numbers]] = {
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
}
LISTENING: Final = ("listen", "accept", "accept4")  # of those, what a server does with a socket that is bound

# Refused besides in a process that was started long ago.
STARTS: Final[dict[str, Numbers]] = {"execve": (59, 221)}

# Refused besides where nothing is written: what Landlock does not look at (rights, owners, times, attributes), and
# what its first versions do not.
CHANGES: Final[dict[str, Numbers]] = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "truncate": (76, 45),
    "ftruncate": (77, 46),
    "fallocate": (285, 47),
    "creat": (85, None),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "rmdir": (84, None),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "link": (86, None),
    "linkat": (265, 37),
    "symlink": (88, None),
    "symlinkat": (266, 36),
}

# Of those, what a process does that keeps a log: where, is decided by Landlock.
KEEPING: Final = ("fchmod", "ftruncate", "rename", "renameat", "renameat2")

# All that stays for a process that computes over what came through its descriptors; whatever stands in no table
# answers EPERM. Python's memory, locks, clock and signals, and tree-sitter's memory.
COMPUTING: Final[dict[str, Numbers]] = {
    "read": (0, 63),
    "readv": (19, 65),
    "write": (1, 64),
    "writev": (20, 66),
    "recvfrom": (45, 207),
    "recvmsg": (47, 212),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "shutdown": (48, 210),
    "close": (3, 57),
    "fstat": (5, 80),
    "lseek": (8, 62),
    "poll": (7, None),
    "ppoll": (271, 73),
    "select": (23, None),
    "pselect6": (270, 72),
    "brk": (12, 214),
    "mmap": (9, 222),
    "munmap": (11, 215),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "futex": (202, 98),
    "set_robust_list": (273, 99),
    "rseq": (334, 293),
    "membarrier": (324, 283),
    "sched_yield": (24, 124),
    "getrandom": (318, 278),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "getrusage": (98, 165),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "exit": (60, 93),
    "exit_group": (231, 94),
}

# What a process needs besides that forks such ones, hands descriptors on and ends them.
FORKING: Final[dict[str, Numbers]] = {
    "fork": (57, None),
    "vfork": (58, None),
    "set_tid_address": (218, 96),
    "wait4": (61, 260),
    "waitid": (247, 95),
    "kill": (62, 129),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "getppid": (110, 173),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "setrlimit": (160, 164),
    "getrlimit": (97, 163),
    "fcntl": (72, 25),
    "dup": (32, 23),
    "dup2": (33, None),
    "dup3": (292, 24),
    "pipe": (22, None),
    "pipe2": (293, 59),
    "close_range": (436, 436),
    "setpgid": (109, 154),
    "setsid": (112, 157),
}

# Looked at by their arguments.
CLONE: Final[Numbers] = (56, 220)
IOCTL: Final[Numbers] = (16, 29)
SOCKET: Final[Numbers] = (41, 198)
SOCKETPAIR: Final[Numbers] = (53, 199)
SECCOMP: Final[Numbers] = (317, 277)

CLONE_THREAD: Final = 0x0001_0000
CLONE_PTRACE: Final = 0x0000_2000
CLONE_UNTRACED: Final = 0x0080_0000  # the child escapes `strace -f`
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. CLONE_NEWTIME (0x80) is part of the exit signal here.
CLONE_NAMESPACES: Final = 0x7E02_0000

TIOCSTI: Final = 0x5412  # pushes input into the terminal (CVE-2017-5226)
TIOCLINUX: Final = 0x541C  # the same through a console's selection

AF_UNIX: Final = 1
AF_INET: Final = 2
AF_INET6: Final = 10
AF_NETLINK: Final = 16
NETLINK_ROUTE: Final = 0

SECCOMP_SET_MODE_FILTER: Final = 1
SECCOMP_FILTER_FLAG_NEW_LISTENER: Final = 8
