"""The walls that the serving process puts up around itself, before its first request and before any thread.

What stays: reading the workspace, Python's libraries and, over HTTP, the folders of the files that are read again
(tokens, keys of an issuer); threads; what is open already. What is gone for good: every other read, every write and
every change of a file, starting programs, new processes, new sockets and connections; over stdio accepting one as
well; tracing other processes and signalling those outside.

They stand behind the fence, not in its place (threats T1, T2, T14): they hold when a path check is wrong, or when a
library turns out to be hostile after it was imported. They do not hold what was read inside: the workspace is open to
the whole process, `.env` included. Not promised: anything against a fault in the kernel; that the folder of a token
file holds nothing else.
"""

import errno
import os
import platform
import resource
import socket
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fumehood.core import limits
from fumehood.core.errors import HarnessError, UnsupportedError
from fumehood.core.jsonio import JsonValue
from fumehood.core.sections import Settings
from fumehood.sandbox import confine, landlock, seccomp
from fumehood.sandbox.containment import Containment, Wall, WallState
from fumehood.sandbox.spec import Profile

ROUTE: Final = "serving"  # of the record of these walls
NEEDED: Final = (*landlock.FILE_WALLS, "seccomp")  # without one of these nothing is served, unless the operator says so

_LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
_CLOCK: Final = ("/etc/localtime", "/usr/share/zoneinfo")
_RUNTIME: Final = ("stdlib", "platstdlib", "purelib", "platlib")
_PACKAGES: Final = ("site-packages", "dist-packages")  # a user's own among them
_ELSEWHERE: Final = "serve on Linux, in WSL 2 or in the container image, or set workspace.unsafe_without_walls"
_NAMES: Final = ("no_new_privileges", "core_dumps", "open_files", *landlock.WALLS, "seccomp")


def runtime() -> tuple[str, ...]:
    """What this Python reads while it runs: its libraries and packages, ours, and the loader's."""
    ours = str(Path(__file__).resolve().parents[1])
    python = [sysconfig.get_path(name) for name in _RUNTIME] + [str(Path(sys.base_exec_prefix, "lib"))]
    python += [place for place in sys.path if Path(place).name in _PACKAGES]
    return tuple(dict.fromkeys([*python, ours, *_LIBRARIES, *_CLOCK]))


def reread(settings: Settings) -> tuple[str, ...]:
    """The folders of the files that are read again while HTTP is served; folders, because files are replaced."""
    files = (settings.http.token_file, settings.http.oauth_keys_file)
    return tuple(dict.fromkeys(str(Path(file).parent) for file in files if file is not None))


def ruleset(root: int, settings: Settings, *, http: bool) -> landlock.Ruleset:
    """What the process may still do to files and over TCP."""
    again = reread(settings) if http else ()
    return landlock.Ruleset(readable=(root, *runtime(), *again), devices=("/dev/null",))


def stand(root: int, settings: Settings, *, http: bool) -> tuple[Wall, ...]:
    """Put them up around this process, which has one thread; say of each wall whether it stands.

    `root` is the descriptor of the workspace. Over HTTP the sockets are bound before, and certificates are read. Raises
    `UnsupportedError` where a needed wall cannot stand and the operator did not set `workspace.unsafe_without_walls`,
    before anything is put up; `ThreadsError` when a thread runs.
    """
    wanted = ruleset(root, settings, http=http)
    foreseen = foresee(wanted)
    require(foreseen, settings)
    if platform.system() != "Linux":
        return foreseen
    limited = ((resource.RLIMIT_NOFILE, limits.OPEN_FILES),)
    profile = Profile.SERVE_HTTP if http else Profile.SERVE_STDIO
    stood = confine.confine(confine.Walls(ruleset=wanted, profile=profile, limits=limited))
    open_files = Wall(name="open_files", state=WallState.ENFORCED, how="RLIMIT_NOFILE")
    walls = tuple(sorted((*stood, open_files), key=lambda wall: _NAMES.index(wall.name)))
    require(walls, settings)
    _verify(walls, root)
    return walls


def foresee(wanted: landlock.Ruleset) -> tuple[Wall, ...]:
    """What `stand` would say, without putting anything up."""
    system = platform.system()
    if system != "Linux":
        why = f"{system} has none of these walls, and serving there is not tested"
        return tuple(Wall(name=name, state=WallState.UNAVAILABLE, why=why, remedy=_ELSEWHERE) for name in _NAMES)
    plain = {"no_new_privileges": "no_new_privs", "core_dumps": "RLIMIT_CORE and PR_SET_DUMPABLE"}
    plain["open_files"] = "RLIMIT_NOFILE"
    walls = [Wall(name=name, state=WallState.ENFORCED, how=how) for name, how in plain.items()]
    filtered = Wall(name="seccomp", state=WallState.ENFORCED, how="a seccomp program")
    if platform.machine() not in seccomp.MACHINES:
        why = f"no seccomp program for {platform.machine()}"
        filtered = Wall(name="seccomp", state=WallState.UNAVAILABLE, why=why, remedy="use x86_64 or aarch64")
    return (*walls, *landlock.walls(wanted, confine.landlock_abi()), filtered)


def require(walls: Sequence[Wall], settings: Settings) -> None:
    """Raise `UnsupportedError` where a needed wall does not stand, unless the operator wants it so."""
    missing = [wall for wall in walls if wall.name in NEEDED and wall.state is not WallState.ENFORCED]
    if missing and not settings.workspace.unsafe_without_walls:
        names = ", ".join(wall.name for wall in missing)
        raise UnsupportedError(
            f"these walls of the serving process cannot stand here: {names}: {missing[0].why}",
            remedy=missing[0].remedy,
        )


def record(containments: Sequence[Containment]) -> dict[str, JsonValue]:
    """The walls as a result carries them: for each process, each wall with its state, and the reasons that lack one."""
    return {
        one.route: {
            wall.name: f"{wall.state.value}: {wall.why}" if wall.why else wall.state.value for wall in one.walls
        }
        for one in containments
    }


def _verify(walls: Sequence[Wall], root: int) -> None:
    """Try what two of the walls refuse: a kernel that takes a wall and does not keep it must not be believed."""
    standing = {wall.name for wall in walls if wall.state is WallState.ENFORCED}
    if os.path.samestat(os.fstat(root), Path("/").stat()):
        standing.discard("outside_reading")  # nothing is outside
    acts = {"outside_reading": _read_root, "seccomp": _make_socket}
    for name, act in acts.items():
        if name in standing and (answer := act()) not in {errno.EACCES, errno.EAFNOSUPPORT}:
            what = errno.errorcode.get(answer, "no error")
            raise HarnessError(f"the wall {name} was put up and does not hold ({what})", remedy="use another kernel")


def _read_root() -> int:
    try:
        os.close(os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno or 0
    return 0


def _make_socket() -> int:
    try:
        socket.socket(socket.AF_UNIX).close()
    except OSError as error:
        return error.errno or 0
    return 0
