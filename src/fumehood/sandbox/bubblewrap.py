"""Turn a spec into bubblewrap's options and the chain of programs around it. Pure: the same values give the same list.

Invariants: the environment inside is exactly the spec's; the root is read-only; the only writable places are the one
overlay or folder (or bounded tmpfs where there is none), writable binds, and a bounded /dev/shm; a root of files
(`Root.FILES`) has only its bounded scratch, and neither /proc nor /dev; descriptors come as numbers.

The order of bwrap's options matters (bwrap(1), and measured): `--clearenv` before `--setenv`, `--perms` and `--size`
right before what they describe, parents before children (an implied parent is 0700 and root's in the `root` route),
what lies below the overlay after it, remounts last.

The options travel through `--args FD`: a command line may be read by others, and would name folders of the host.

Pid 1 of the namespace is bubblewrap's own, and has the target's uid where there is a user namespace: through
/proc/1/mem a target could write code into it, act as a process that builds the sandbox, and say with which status the
command ended. So /proc/1 is a folder of ours, which says of pid 1 what is said of any other `init`.
"""

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, assert_never

from fumehood.core import limits
from fumehood.core.errors import HarnessError
from fumehood.sandbox.spec import Bind, DataFile, Identity, Overlay, PlainFolder, Root, Route, SandboxSpec, Scratch

# Of the host's /etc only what programs need that are not ours: certificates, the loader's cache, names of services.
_ETC: Final = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
_USERNS_LIMIT: Final = "--disable-userns"
_MERGED_USR: Final = ("bin", "lib", "lib32", "lib64", "sbin")
_INIT: Final = "/proc/1"
_INIT_BYTES: Final = 64 * limits.KIB
_INIT_FILES: Final = {
    "cmdline": b"/sbin/init\0",
    "comm": b"init\n",
    "stat": b"1 (init) S 0 1 1 0 -1 4194560"
    + b" 0" * 8
    + b" 20 0 1 0 2 2764800 310 18446744073709551615"
    + b" 0" * 27
    + b"\n",
    "status": b"Name:\tinit\nState:\tS (sleeping)\nTgid:\t1\nPid:\t1\nPPid:\t0\nTracerPid:\t0\nThreads:\t1\n",
}
_DROP: Final = ("--clear-groups", "--no-new-privs", "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all")


class BadSpecError(HarnessError):
    """A spec cannot be turned into a command line: a caller of ours let something through."""

    code = "bad_spec"


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptors:
    """The numbers under which bwrap finds what it reads and writes."""

    files: tuple[int, ...]  # one for each of `data_files(spec)`, in that order
    seccomp: int
    info: int  # bwrap says here who its child is, and the exit status, the latter only if the command was started
    block: int


def data_files(spec: SandboxSpec) -> tuple[DataFile, ...]:
    """The files that exist only inside: our own of /etc, each replaced by the spec's where it has one.

    A root of files has the spec's alone.
    """
    if spec.root is Root.FILES:
        return spec.files
    init = (DataFile(target=f"{_INIT}/{name}", content=content) for name, content in _INIT_FILES.items())
    files = {file.target: file for file in (*init, *_identity_files(spec.identity), *spec.files)}
    return tuple(files.values())


def options(spec: SandboxSpec, route: Route, descriptors: Descriptors, *, userns_limit: bool = True) -> list[str]:
    """Bwrap's options, without its name and without the command.

    Without `userns_limit` the number of further user namespaces is left as it is, for a host where it cannot be set
    (`HostFacts.no_userns_limit`): every seccomp profile refuses to make one all the same.
    """
    files = data_files(spec)
    if len(files) != len(descriptors.files):
        raise BadSpecError("one descriptor for each data file")
    words = [
        *(word for word in _namespaces(spec.identity, route) if userns_limit or word != _USERNS_LIMIT),
        *_root(spec, files, descriptors),
        *_environment(spec.environment),
        *("--seccomp", str(descriptors.seccomp), "--json-status-fd", str(descriptors.info)),
        *("--block-fd", str(descriptors.block)),
    ]
    if any("\0" in word for word in words):
        raise BadSpecError("a NUL byte in a path, a name or a value")
    return words


def packed(words: Sequence[str]) -> bytes:
    """Options as `--args FD` reads them: each ends with a NUL byte."""
    return b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)


def command(spec: SandboxSpec, route: Route, setpriv: Path | str) -> list[str]:
    """What bwrap starts: the target, in the `root` route behind the drop to its uid."""
    if not spec.argv or not spec.argv[0].startswith("/"):
        raise BadSpecError("argv[0] must be absolute")
    drop = [*drop_words(str(setpriv), spec.identity.uid), "--"] if route is Route.ROOT else []
    return [*drop, *spec.argv]


def chain(
    route: Route, uid: int, tools: Mapping[str, Path], inner: Sequence[str], trace: Sequence[str] = ()
) -> list[str]:
    """Everything around `inner` (bwrap and its words), outermost first: parent death, tracer, drop.

    A parent-death signal is lost with a change of uid (prctl(2)); setpriv sets it after its own. Where a tracer
    stands between, the tracer gets it: its death kills what it traces (PTRACE_O_EXITKILL).
    """
    setpriv = str(tools["setpriv"])
    death = ["--pdeathsig", "KILL"]
    drop = drop_words(setpriv, uid) if route is Route.DROPPED else []
    if not trace and drop:
        return [*drop, *death, "--", *inner]
    head = [setpriv, *death, "--", *trace]
    return [*head, *drop, "--", *inner] if drop else [*head, *inner]


def drop_words(setpriv: str, uid: int) -> list[str]:
    """Setpriv's words for the one-way change to `uid`, without the final `--`."""
    return [setpriv, f"--reuid={uid}", f"--regid={uid}", *_DROP]


def _namespaces(identity: Identity, route: Route) -> list[str]:
    words = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--unshare-cgroup-try"]
    if route is Route.ROOT:
        # setpriv inside needs these three; it drops them with the uid.
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            words += ["--cap-add", capability]
    else:
        uid = str(identity.uid)
        words += ["--unshare-user", "--uid", uid, "--gid", uid, _USERNS_LIMIT]
    return [*words, "--die-with-parent", "--new-session", "--hostname", identity.host]


def _root(spec: SandboxSpec, files: Sequence[DataFile], descriptors: Descriptors) -> list[str]:
    """Everything that is mounted, and the folder where the command starts."""
    targets = (*(b.target for b in spec.binds), *(f.target for f in files if not f.target.startswith(_INIT)))
    shown = [*_binds(spec.binds), *_data(files, descriptors.files), "--chdir", spec.workdir]
    match spec.root:
        case Root.SYSTEM:
            if spec.scratch:
                raise BadSpecError("the system's root has its own places to write")
            above = [*_system(), *_parents(_outside(spec.overlay, targets)), *_devices(), *_writable(spec)]
            above += _parents(_inside(spec, targets))
            return [*above, *shown, "--remount-ro", _INIT, "--remount-ro", "/dev", "--remount-ro", "/"]
        case Root.FILES:
            if spec.overlay is not None or any(bind.writable for bind in spec.binds):
                raise BadSpecError("a root of files has nowhere to write but its scratch")
            scratch = [word for one in spec.scratch for word in _scratch(one)]
            above = _parents((*targets, *(one.target for one in spec.scratch)))
            return [*above, *scratch, *shown, "--remount-ro", "/"]
        case _:
            assert_never(spec.root)


def _scratch(place: Scratch) -> list[str]:
    """Root's in the `root` route: open to the one uid."""
    return ["--perms", "0777", "--size", str(place.size_bytes), "--tmpfs", _absolute(place.target)]


def _system() -> list[str]:
    words = ["--ro-bind", "/usr", "/usr"]
    for name in _MERGED_USR:
        words += ["--symlink", f"usr/{name}", f"/{name}"]
    words += _parents(_ETC)
    for path in _ETC:
        words += ["--ro-bind-try", path, path]
    words += ["--symlink", "../usr/lib/os-release", "/etc/os-release", "--proc", "/proc"]
    return [*words, "--perms", "0555", "--size", str(_INIT_BYTES), "--tmpfs", _INIT]


def _devices() -> list[str]:
    size = str(limits.SHARED_MEMORY_BYTES)
    return ["--dev", "/dev", "--perms", "1777", "--size", size, "--tmpfs", "/dev/shm"]  # noqa: S108  # a path inside


def _writable(spec: SandboxSpec) -> list[str]:
    overlay = spec.overlay
    if overlay is None:
        size = str(limits.SCRATCH_BYTES)
        home = spec.identity.home
        return [
            *("--perms", "1777", "--size", size, "--tmpfs", "/tmp"),  # noqa: S108  # a path inside
            *_parents([home]),
            *("--perms", "0777", "--size", size, "--tmpfs", home),  # root's in the `root` route: open to the one uid
        ]
    words = [*_parents([overlay.target]), *_mount(overlay)]
    inside = overlay.target.strip("/")
    return [*words, "--symlink", f"{inside}/tmp", "/tmp", "--symlink", f"{inside}/home", "/home"]  # noqa: S108 - inside


def _mount(overlay: Overlay | PlainFolder) -> list[str]:
    match overlay:
        case Overlay(lowers=lowers, upper=upper, work=work, target=target):
            sources = [word for lower in lowers for word in ("--overlay-src", str(lower))]
            return [*sources, "--overlay", str(upper), str(work), target]
        case PlainFolder(upper=folder, target=target):
            return ["--bind", str(folder), target]  # bubblewrap adds nosuid and nodev to a bind
        case _:
            assert_never(overlay)


def _binds(binds: Iterable[Bind]) -> list[str]:
    words: list[str] = []
    for bind in binds:
        words += ["--bind" if bind.writable else "--ro-bind", str(bind.source), _absolute(bind.target)]
    return words


def _data(files: Sequence[DataFile], descriptors: Sequence[int]) -> list[str]:
    words: list[str] = []
    for file, descriptor in zip(files, descriptors, strict=True):
        words += ["--perms", f"{file.mode & 0o777:04o}", "--ro-bind-data", str(descriptor), _absolute(file.target)]
    return words


def _environment(pairs: Sequence[tuple[str, str]]) -> list[str]:
    words = ["--clearenv"]
    for name, value in pairs:
        if not name or "=" in name:
            raise BadSpecError("a name of the environment is empty or has an equals sign")
        words += ["--setenv", name, value]
    return words


def _inside(spec: SandboxSpec, targets: Iterable[str]) -> list[str]:
    """The targets below the two places in memory, where those stand: their parents are made once these are mounted."""
    if spec.overlay is not None:
        return []
    return [one for one in targets if one.startswith(("/tmp/", f"{spec.identity.home}/"))]  # noqa: S108 - a path inside


def _outside(overlay: Overlay | PlainFolder | None, targets: Iterable[str]) -> list[str]:
    """The targets whose parents are ours to make: what lies in the overlay has to be in one of its layers."""
    below = f"{overlay.target}/" if overlay else None
    return [target for target in targets if below is None or not target.startswith(below)]


def _parents(targets: Iterable[str]) -> list[str]:
    """`--dir` for each folder above these paths, each once, parents first; /usr is bound and needs none."""
    folders: dict[str, None] = {}
    for target in targets:
        parts = _absolute(target).strip("/").split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            folders["/" + "/".join(parts[:depth])] = None
    words: list[str] = []
    for folder in folders:
        if folder != "/usr" and not folder.startswith("/usr/"):
            words += ["--dir", folder]
    return words


def _absolute(path: str) -> str:
    if not path.startswith("/") or path.startswith("//") or posixpath.normpath(path) != path:
        raise BadSpecError(f"not an absolute, plain path: {path!r}")
    return path


def _identity_files(identity: Identity) -> tuple[DataFile, ...]:
    uid, user, host = identity.uid, identity.user, identity.host
    texts = {
        "/etc/passwd": f"root:x:0:0:root:/root:/bin/sh\n{user}:x:{uid}:{uid}::{identity.home}:/bin/sh\n",
        "/etc/group": f"root:x:0:\n{user}:x:{uid}:\n",
        "/etc/hosts": f"127.0.0.1 localhost {host}\n::1 localhost ip6-localhost ip6-loopback\n",
        # ndots:1 and no search list: a name is asked for as it stands. The server is the listener in the namespace.
        "/etc/resolv.conf": "nameserver 127.0.0.1\noptions ndots:1 timeout:5 attempts:2\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
        "/etc/gai.conf": "",
        "/etc/hostname": f"{host}\n",
    }
    return tuple(DataFile(target=target, content=text.encode()) for target, text in texts.items())
