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
