"""Each route, walked end to end with a harmless command: what a child would have is what the probe has.

The probe makes every namespace, mounts proc, dev and an overlay (or a plain folder, where no overlay mounts), loads a
seccomp program, uses the status and block descriptors, drops, and reports from inside which walls it sees. An option
that bubblewrap lacks, a kernel that refuses, a folder that the dropped user cannot enter: each ends the probe with
bubblewrap's own words, which `remedies` explains.

For a root of a few files (`Root.FILES`) the same is walked without a new proc, dev and overlay, which no such root has:
a container engine that masks parts of /proc lets nobody mount a new one. What the probe reads of /proc is then the
one above, bound.

Threat: a wall that is believed to stand. Not promised: that it stands against an attack; `doctor --prove` tries that.
"""

import contextlib
import fcntl
import os
import re
import struct
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, assert_never

from fumehood.core.limits import FIRST_UID, UID_SLOTS
from fumehood.sandbox.bubblewrap import packed
from fumehood.sandbox.hostfacts import Probe
from fumehood.sandbox.probe.query import Answer, ask
from fumehood.sandbox.probe.remedies import explain
from fumehood.sandbox.programs.janitor import purge
from fumehood.sandbox.spec import Root, Route

PROBE_UID = FIRST_UID + UID_SLOTS  # beyond the slots, so that it never meets a target
NAMESPACES = ("user", "pid", "ipc", "uts", "net", "mnt")
_ALLOW = struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000)  # BPF_RET | SECCOMP_RET_ALLOW: a program of one instruction
THROUGH_ARGS = ("--setenv", "LC_ALL", "C.UTF-8")  # options that the probe hands over as a sandbox does
_DROP = ("--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--")
_INSIDE = (
    "/bin/sh",
    "-c",
    "echo here > /var/mark && /usr/bin/readlink "
    + " ".join(f"/proc/self/ns/{name}" for name in NAMESPACES)
    + " && exec /usr/bin/cat /proc/self/status",
)
# Without a shell: a container for programs has none. What is printed is the same.
_BY_PYTHON: Final = (
    f"import os; [print(os.readlink('/proc/self/ns/' + name)) for name in {NAMESPACES}];"
    "print(open('/proc/self/status').read())"
)
_LAYERS: Final = ("lower", "upper", "work")
_NO_LIMIT: Final = "max_user_namespaces"
_LIMIT_REMEDY: Final = "none is needed: the seccomp profile of a program refuses every new namespace"
_STATUS = re.compile(r"^(Uid|NoNewPrivs|Seccomp|CapEff|CapBnd|CapPrm):\s*(\S+)", re.MULTILINE)
_LINK = re.compile(r"^(\w+):\[(\d+)\]$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a route's probe stands on: the programs, and folders for the overlay."""

    bwrap: Path
    setpriv: Path
    node: Path | None
    folder: Path  # with lower, upper and work
    overlay: bool = True  # else the folder `upper` alone is bound
    root: Root = Root.SYSTEM
    userns_limit: bool = True  # else the number of further user namespaces is left as it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the probe saw from inside: the numbers of its namespaces and the lines of its status."""

    namespaces: Mapping[str, int] = field(default_factory=dict)
    status: Mapping[str, str] = field(default_factory=dict)


def setpriv_drop(setpriv: Path, uid: int) -> list[str]:
    """The words that take every privilege and become `uid`."""
    return [str(setpriv), f"--reuid={uid}", f"--regid={uid}", *_DROP]


def route_argv(route: Route, ground: Ground, descriptors: Mapping[str, int], uid: int) -> list[str]:
    """The whole command line of one route's probe. Pure."""
    words = [str(ground.setpriv), "--pdeathsig", "KILL", "--"]
    if route is Route.DROPPED:
        words += setpriv_drop(ground.setpriv, uid)
    words += [str(ground.bwrap), "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"]
    words += ["--unshare-cgroup-try", "--die-with-parent", "--new-session", "--hostname", "probe"]
    if route is Route.ROOT:
        for capability in ("SETUID", "SETGID", "SETPCAP"):
            words += ["--cap-add", f"CAP_{capability}"]
    else:
        limit = ["--disable-userns"] if ground.userns_limit else []
        words += ["--unshare-user", *limit, "--uid", str(uid), "--gid", str(uid)]
    words += [*_usr(), *_mounts(ground, descriptors), "--remount-ro", "/"]
    words += ["--chdir", "/", "--clearenv", "--args", str(descriptors["args"])]
    words += ["--seccomp", str(descriptors["seccomp"]), "--json-status-fd", str(descriptors["status"])]
    words += ["--block-fd", str(descriptors["block"]), "--"]
    if route is Route.ROOT:
        words += setpriv_drop(ground.setpriv, uid)
    return [*words, *_inside(ground.root)]


def _usr() -> list[str]:
    words = ["--ro-bind", "/usr", "/usr", "--perms", "0755", "--dir", "/opt", "--perms", "0755", "--dir", "/etc"]
    for name in ("bin", "sbin", "lib", "lib64"):
        words += ["--symlink", f"usr/{name}", f"/{name}"]
    return [*words, "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]


def _mounts(ground: Ground, descriptors: Mapping[str, int]) -> list[str]:
    data = ["--perms", "0444", "--ro-bind-data", str(descriptors["data"]), "/etc/passwd"]
    match ground.root:
        case Root.SYSTEM:
            node = ["--ro-bind", str(ground.node.parent), "/opt/bin"] if ground.node is not None else []
            proc = ["--proc", "/proc", "--perms", "0555", "--size", "65536", "--tmpfs", "/proc/1", "--dev", "/dev"]
            shared = ["--size", "1048576", "--tmpfs", "/dev/shm"]  # noqa: S108 - inside
            return [*node, *data, *proc, *shared, *_writable(ground), "--bind", "/dev/null", "/dev/null"]
        case Root.FILES:
            prefix = os.path.realpath(sys.base_prefix)
            python = [] if Path(prefix).is_relative_to("/usr") else ["--ro-bind", prefix, prefix]
            return [*python, *data, "--ro-bind", "/proc", "/proc", "--size", "65536", "--tmpfs", "/opt"]
        case _:
            assert_never(ground.root)


def _inside(root: Root) -> list[str]:
    if root is Root.SYSTEM:
        return list(_INSIDE)
    return [os.path.realpath(sys.executable), "-I", "-S", "-c", _BY_PYTHON]


def _writable(ground: Ground) -> list[str]:
    if not ground.overlay:
        return ["--bind", f"{ground.folder}/upper", "/var"]
    mount = ["--overlay", f"{ground.folder}/upper", f"{ground.folder}/work", "/var"]
    return ["--overlay-src", f"{ground.folder}/lower", *mount]


def read_seen(text: str) -> Seen:
    """What the probe printed, as values. Pure; what is missing stays missing."""
    return Seen(
        namespaces={name: int(number) for name, number in _LINK.findall(text)}, status=dict(_STATUS.findall(text))
    )


def missing_walls(seen: Seen, host: Mapping[str, int], route: Route, uid: int) -> list[str]:
    """The walls that the probe did not find around itself. Pure."""
    wanted = [name for name in NAMESPACES if not (name == "user" and route is Route.ROOT)]
    missing = [f"{name} namespace" for name in wanted if seen.namespaces.get(name) in {None, host.get(name)}]
    expected = {"Uid": str(uid), "NoNewPrivs": "1", "Seccomp": "2"}
    missing += [name for name, value in expected.items() if seen.status.get(name) != value]
    return missing + [name for name in ("CapEff", "CapPrm") if int(seen.status.get(name, "1"), 16)]


def own_namespaces() -> dict[str, int]:
    """The numbers of this process's namespaces."""
    return {name: Path(f"/proc/self/ns/{name}").stat().st_ino for name in NAMESPACES}


def _memory(name: str, content: bytes) -> int:
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


@contextlib.contextmanager
def _descriptors() -> Iterator[dict[str, int]]:
    """What bubblewrap is handed: filter, data file, options, status pipe, and a block pipe already released."""
    status_read, status_write = os.pipe()
    block_read, block_write = os.pipe()
    os.write(block_write, b"x")
    given = {
        "seccomp": _memory("seccomp", _ALLOW),
        "data": _memory("passwd", b"probe:x:0:0::/:/bin/sh\n"),
        "args": _memory("args", packed(THROUGH_ARGS)),
        "status": status_write,
        "block": block_read,
    }
    try:
        yield given
    finally:
        for descriptor in (*given.values(), status_read, block_write):
            os.close(descriptor)


@contextlib.contextmanager
def _layers(run_root: Path, uid: int, names: tuple[str, ...] = _LAYERS) -> Iterator[Path]:
    """A folder with lower, upper and work that belong to `uid`, removed afterwards.

    It is named and locked like a run's, so that the sweep at the next start (`runs.sweep`) takes one that was left by
    a killed process, and no other.
    """
    with contextlib.ExitStack() as stack:
        root = os.open(run_root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        stack.callback(os.close, root)
        fcntl.flock(root, fcntl.LOCK_EX)
        folder = Path(tempfile.mkdtemp(prefix="run-probe-", dir=run_root))
        stack.callback(purge, str(folder))
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        stack.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        fcntl.flock(root, fcntl.LOCK_UN)
        folder.chmod(0o711)
        for name in names:
            (folder / name).mkdir(mode=0o755)
            if os.geteuid() == 0:
                os.chown(folder / name, uid, uid)
        yield folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """How far a route goes: to its end, perhaps without an overlay or a limit of namespaces, and then why."""

    route: Probe
    overlay: Probe
    userns_limit: Probe = field(default_factory=lambda: Probe(name="userns_limit", ok=True, detail="none further"))


def walk_either(route: Route, tools: Mapping[str, Path], run_root: Path, root: Root = Root.SYSTEM) -> Walked:
    """Walk a route with an overlay, and where that fails with a plain folder: whether it was the overlay's fault.

    A root of files has no overlay, and none is tried; it does without a limit of further user namespaces, where a
    container engine makes /proc/sys read-only: its seccomp profile refuses them.
    """
    if root is Root.FILES:
        return _walk_files(route, tools, run_root)
    whole = walk_route(route, tools, run_root)
    if whole.ok:
        return Walked(route=whole, overlay=Probe(name="overlay", ok=True, detail="mounts over the run folder"))
    plain = walk_route(route, tools, run_root, overlay=False)
    lacking = Probe(name="overlay", ok=False, detail=whole.detail, remedy=whole.remedy or explain("").remedy)
    return Walked(route=plain, overlay=lacking)


def _walk_files(route: Route, tools: Mapping[str, Path], run_root: Path) -> Walked:
    untried = Probe(name="overlay", ok=True, detail="a root of files has none")
    whole = walk_route(route, tools, run_root, overlay=False, root=Root.FILES)
    if whole.ok or route is Route.ROOT or _NO_LIMIT not in whole.detail:
        return Walked(route=whole, overlay=untried)
    lacking = Probe(name="userns_limit", ok=False, detail=whole.detail, remedy=_LIMIT_REMEDY)
    free = walk_route(route, tools, run_root, overlay=False, root=Root.FILES, userns_limit=False)
    return Walked(route=free, overlay=untried, userns_limit=lacking)


def walk_route(  # noqa: PLR0913 - what is walked, and what is left out of it
    route: Route,
    tools: Mapping[str, Path],
    run_root: Path,
    *,
    overlay: bool = True,
    root: Root = Root.SYSTEM,
    userns_limit: bool = True,
) -> Probe:
    """Walk one route to its end; `tools` are bwrap, setpriv and perhaps node."""
    uid = os.getuid() if route is Route.USER else PROBE_UID
    name = f"route {route}"
    try:
        # A root of files writes nowhere: root needs no right over files of others to probe one.
        layers = _LAYERS if root is Root.SYSTEM else ()
        with _layers(run_root, uid, layers) as folder, _descriptors() as given:
            ground = Ground(
                bwrap=tools["bwrap"],
                setpriv=tools["setpriv"],
                node=tools.get("node"),
                folder=folder,
                overlay=overlay,
                root=root,
                userns_limit=userns_limit,
            )
            answer = ask(route_argv(route, ground, given, uid), pass_fds=tuple(given.values()))
            marked = root is Root.FILES or (folder / "upper" / "mark").exists()
    except OSError as error:
        why = f"{run_root}: {os.strerror(error.errno or 0)}"
        return Probe(name=name, ok=False, detail=why, remedy="set sandbox.run_root to a folder that can be written")
    return judge_route(route, answer, marked=marked, host=own_namespaces(), uid=uid)


def judge_route(route: Route, answer: Answer, *, marked: bool, host: Mapping[str, int], uid: int) -> Probe:
    """What the answer of a route's probe means. Pure."""
    name = f"route {route}"
    if not answer.ok:
        explanation = explain(answer.stderr)
        detail = f"{answer.why}: {explanation.meaning}" if explanation.meaning else answer.why
        return Probe(name=name, ok=False, detail=detail, remedy=explanation.remedy)
    missing = missing_walls(read_seen(answer.stdout), host, route, uid)
    if not marked:
        missing.append("what it wrote")
    if missing:
        detail = "it ran, but without: " + ", ".join(missing)
        return Probe(name=name, ok=False, detail=detail, remedy=explain("").remedy)
    return Probe(name=name, ok=True, detail="walked end to end")
