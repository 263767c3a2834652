"""What a process under Landlock may still do, as one frozen value, and what the kernel's version makes of it. Pure.

Landlock (landlock(7), Documentation/userspace-api/landlock.rst) takes rights from the calling thread and from whatever
it starts, and gives none back. Each version of its interface knows further rights: what a version does not know, it
does not refuse, and `walls` says so. `sandbox.confine` does what is decided here.

Not promised, in any version: what was opened before stays open; `stat`, `chdir`, `chmod`, `chown`, `setxattr` and
`utime` are not looked at (the seccomp programs of the same processes refuse those that change something); nor is UDP,
nor `connect` to a Unix socket that has a path.
"""

import struct
from dataclasses import dataclass
from typing import Final, TypeAlias

from fumehood.sandbox.containment import Wall, WallState

Place: TypeAlias = str | int  # a path, or the descriptor of what is meant

# linux/landlock.h
EXECUTE: Final = 1 << 0
WRITE_FILE: Final = 1 << 1
READ_FILE: Final = 1 << 2
READ_DIR: Final = 1 << 3
REMOVE_FILE: Final = 1 << 5
MAKE_REG: Final = 1 << 8
TRUNCATE: Final = 1 << 14
IOCTL_DEV: Final = 1 << 15
BIND_TCP: Final = 1 << 0
CONNECT_TCP: Final = 1 << 1
SCOPE_ABSTRACT_SOCKETS: Final = 1 << 0
SCOPE_SIGNALS: Final = 1 << 1

_OF_FILES: Final = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # rights that a file can have
_FILE_RIGHTS: Final = (0, 13, 14, 15, 15, 16)  # how many, by version; 16 from version 5 on
_TCP_SINCE: Final = 4
_SCOPES_SINCE: Final = 6

# The first version that refuses what the wall refuses.
_SINCE: Final = {
    "outside_reading": 1,
    "writing": 1,
    "executing": 1,
    "truncating": 3,
    "tcp_connect": _TCP_SINCE,
    "tcp_bind": _TCP_SINCE,
    "device_control": 5,
    "abstract_sockets": _SCOPES_SINCE,
    "signals": _SCOPES_SINCE,
}
WALLS: Final = tuple(_SINCE)
FILE_WALLS: Final = ("outside_reading", "writing", "executing")  # without these nothing is contained
REMEDY: Final = "use Linux 6.12 or newer, with landlock among the modules that /sys/kernel/security/lsm lists"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruleset:
    """What stays allowed; everything else that the kernel's version knows is refused. Written is only in `kept`."""

    readable: tuple[Place, ...] = ()  # files, and folders with all they hold; one that is missing grants nothing
    executable: tuple[Place, ...] = ()  # files that may be read and started
    devices: tuple[str, ...] = ()  # files that may be read and written: /dev/null
    kept: tuple[Place, ...] = ()  # folders in which regular files may be made, written and renamed
    tcp_connect: bool = False
    tcp_bind: bool = False
    scoped: bool = True  # signals and abstract sockets only to who is behind the same walls


NOTHING: Final = Ruleset()  # no file can be opened, no program started, nobody reached


def handled(ruleset: Ruleset, abi: int) -> tuple[int, int, int]:
    """What is refused unless a rule allows it: rights of files, of TCP, scopes."""
    files = (1 << _FILE_RIGHTS[min(abi, len(_FILE_RIGHTS) - 1)]) - 1
    tcp = (0 if ruleset.tcp_connect else CONNECT_TCP) | (0 if ruleset.tcp_bind else BIND_TCP)
    scopes = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS if ruleset.scoped else 0
    return files, tcp if abi >= _TCP_SINCE else 0, scopes if abi >= _SCOPES_SINCE else 0


def attributes(ruleset: Ruleset, abi: int) -> bytes:
    """`struct landlock_ruleset_attr`, as long as the version knows it."""
    known = 1 + (abi >= _TCP_SINCE) + (abi >= _SCOPES_SINCE)
    return struct.pack("<3Q", *handled(ruleset, abi))[: 8 * known]


def rules(ruleset: Ruleset) -> tuple[tuple[Place, int], ...]:
    """Each place with its rights, before the version and the kind of file take some away."""
    return (
        *((place, READ_FILE | READ_DIR) for place in ruleset.readable),
        *((place, READ_FILE | EXECUTE) for place in ruleset.executable),
        *((place, READ_FILE | WRITE_FILE) for place in ruleset.devices),
        *((place, READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | MAKE_REG | REMOVE_FILE) for place in ruleset.kept),
    )


def allowed(rights: int, abi: int, *, folder: bool) -> int:
    """The rights that a rule may name: those of the version, and for a file no right of folders."""
    return rights & handled(NOTHING, abi)[0] & (-1 if folder else _OF_FILES)


def beneath(rights: int, descriptor: int) -> bytes:
    """`struct landlock_path_beneath_attr`, which is packed."""
    return struct.pack("<Qi", rights, descriptor)


def walls(ruleset: Ruleset, abi: int) -> tuple[Wall, ...]:
    """Which walls a version gives, in the order of `WALLS`; `abi` 0: the kernel has no Landlock."""
    open_ = {"tcp_connect": ruleset.tcp_connect, "tcp_bind": ruleset.tcp_bind}
    open_ |= dict.fromkeys(("abstract_sockets", "signals"), not ruleset.scoped)
    return tuple(_wall(name, abi, requested=not open_.get(name, False)) for name in WALLS)


def _wall(name: str, abi: int, *, requested: bool) -> Wall:
    if not requested:
        return Wall(name=name, state=WallState.NOT_REQUESTED)
    if abi >= _SINCE[name]:
        return Wall(name=name, state=WallState.ENFORCED, how=f"Landlock, version {abi}")
    why = f"Landlock's version here is {abi}, and {_SINCE[name]} is needed" if abi else "the kernel offers no Landlock"
    return Wall(name=name, state=WallState.UNAVAILABLE, why=why, remedy=REMEDY)
