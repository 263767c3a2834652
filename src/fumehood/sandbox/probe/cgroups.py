"""Where a run's cgroups can be made: found out by making one, limiting it, moving a process in, and removing it.

Holds: version 1 is used where it has a controller for memory or pids that lets us; else version 2; each failure is
kept with its errno and path. Parsers of /proc are pure.

Sources: cgroups(7), kernel documentation cgroup-v1 and cgroup-v2 ("no internal processes").
"""

import contextlib
import errno
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from fumehood.core import limits
from fumehood.sandbox.hostfacts import CgroupFacts
from fumehood.sandbox.launch import PIPE, Streams, spawn

LIMITS_V1 = {"memory": "memory.limit_in_bytes", "pids": "pids.max", "cpuacct": ""}
LIMITS_V2 = ("memory.max", "pids.max")
# Whatever waits for its input; a container for programs has Python alone.
_CAT = "/usr/bin/cat"
_BY_PYTHON = (sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()")
_PROBE = "fumehood-probe-"  # and the pid of who probes
_REMOVE_SECONDS = 2.0  # a cgroup is busy until the kernel has reaped its last process
_REMOVE_PAUSE_SECONDS = 0.002
_LEFT_FIELDS, _RIGHT_FIELDS = 6, 3  # of a line of mountinfo, before and after the dash
_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One cgroup file system: the part of the hierarchy that it shows, where, and its controllers (empty: v2)."""

    root: str
    point: str
    controllers: frozenset[str]


def parse_mounts(mountinfo: str) -> list[Mount]:
    """The cgroup mounts of /proc/self/mountinfo (proc_pid_mountinfo(5)). Lines that do not fit are passed over."""
    mounts = []
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        left, right = before.split(" "), after.split(" ")
        if not dash or len(left) < _LEFT_FIELDS or len(right) < _RIGHT_FIELDS or right[0] not in {"cgroup", "cgroup2"}:
            continue
        controllers = frozenset(right[2].split(",")) if right[0] == "cgroup" else frozenset()
        mounts.append(Mount(root=_unescape(left[3]), point=_unescape(left[4]), controllers=controllers))
    return mounts


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found.group(1), 8)), text)


def parse_own(cgroup: str) -> dict[str, str]:
    """Our own cgroup in each hierarchy, by controller; version 2's is under the empty name."""
    own = {}
    for line in cgroup.splitlines():
        number, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if number and colon:
            own.update(dict.fromkeys(controllers.split(","), path))
    return own


def folder_of(mount: Mount, own: str) -> Path | None:
    """Where our own cgroup is seen below a mount; the mount's top when it lies outside of what is shown."""
    if ".." in PurePosixPath(own).parts:
        return None
    try:
        inner = PurePosixPath(own).relative_to(mount.root)
    except ValueError:
        inner = PurePosixPath()
    return Path(mount.point) / inner


def _read(path: str) -> str:
    with Path(path).open("rb") as file:
        return file.read(limits.PROC_BYTES).decode("utf-8", "replace")


Try = Callable[[Path, Iterable[str]], str]


def find_cgroups(try_folder: Try) -> CgroupFacts:
    """The cgroups that work here. `try_folder(folder, limit files)` makes one below `folder` and says why not."""
    try:
        mounts, own = parse_mounts(_read("/proc/self/mountinfo")), parse_own(_read("/proc/self/cgroup"))
    except OSError as error:
        return CgroupFacts(version=None, roots={}, why=f"/proc/self: {os.strerror(error.errno or 0)}")
    return choose(mounts, own, try_folder)


def choose(mounts: list[Mount], own: Mapping[str, str], try_folder: Try) -> CgroupFacts:
    """Version 1 where memory can be bounded by it, else version 2, else whatever of version 1 there is."""
    reasons: list[str] = []
    roots: dict[str, Path] = {}
    for controller, file in LIMITS_V1.items():
        mount = next((mount for mount in mounts if controller in mount.controllers), None)
        folder = folder_of(mount, own.get(controller, "/")) if mount else None
        if folder is None:
            continue
        if why := try_folder(folder, (file,) if file else ()):
            reasons.append(why)
        else:
            roots[controller] = folder
    if "memory" in roots:
        return CgroupFacts(version=1, roots=roots, why="; ".join(reasons))
    unified = next((mount for mount in mounts if not mount.controllers), None)
    folder = folder_of(unified, own.get("", "/")) if unified else None
    if unified and folder:
        for place in (folder, *folder.parents):
            if not place.is_relative_to(unified.point):
                break
            if not (why := try_folder(place, LIMITS_V2)):
                return CgroupFacts(version=2, roots={"unified": place})
            reasons.append(why)
    if roots:
        return CgroupFacts(version=1, roots=roots, why="; ".join(reasons))
    return CgroupFacts(version=None, roots={}, why="; ".join(reasons) or "no cgroup file system is mounted")


def try_cgroup(folder: Path, files: Iterable[str]) -> str:
    """Make a cgroup below `folder`, set each limit, move a process in, end it, remove the cgroup: empty, or why not."""
    _sweep(folder)
    place = folder / f"{_PROBE}{os.getpid()}"
    step = place
    try:
        place.mkdir()
        try:
            for file in files:
                step = place / file
                step.write_text(str(limits.MEMORY_BYTES if "memory" in file else limits.PROCESSES))
            step = place / "cgroup.procs"
            _attach(step)
        finally:
            remove_cgroup(place)
    except OSError as error:
        return f"{step}: {os.strerror(error.errno or 0)}"
    return ""


def _sweep(folder: Path) -> None:
    """Remove what a probe that was killed has left: an empty cgroup of a process that is gone."""
    for left in folder.glob(f"{_PROBE}*"):
        pid = left.name.removeprefix(_PROBE)
        if pid.isdigit() and not Path("/proc", pid).exists():
            with contextlib.suppress(OSError):  # busy: of a process in another namespace
                left.rmdir()


def _attach(procs: Path) -> None:
    """Move a process of our own in, see that it is there, end it."""
    waiting = spawn([_CAT] if Path(_CAT).exists() else list(_BY_PYTHON), streams=Streams(stdin=PIPE))
    try:
        procs.write_text(str(waiting.pid))
        if str(waiting.pid) not in procs.read_text().split():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
    finally:
        waiting.close()


def remove_cgroup(place: Path) -> None:
    """Remove an empty cgroup; one that stays busy is left for the sweep."""
    deadline = time.monotonic() + _REMOVE_SECONDS
    while True:
        try:
            place.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                return
            time.sleep(_REMOVE_PAUSE_SECONDS)
        else:
            return
