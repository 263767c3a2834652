"""What this host has and can do, found out by doing it.

`probe_host(…, quick=True)` is for every start: the routes that may be taken, the programs, the cgroups; everything
else is left to `quick=False`, which `fumehood doctor` asks for. Programs of the walls are digested at once; Node, of
126 MB, while other work goes on: `with_digests` waits for it and refuses a wheel's file that was altered.

Holds: nothing is left behind (processes, mounts, folders, cgroups), and every failure says why and what to do.
"""

import dataclasses
import os
import platform
import stat
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fumehood.core.errors import HarnessError, UnsupportedError
from fumehood.sandbox.confine import landlock_abi
from fumehood.sandbox.hostfacts import CgroupFacts, HostFacts, Probe, Tool
from fumehood.sandbox.probe.cgroups import find_cgroups, try_cgroup
from fumehood.sandbox.probe.checks import check_host
from fumehood.sandbox.probe.query import ask
from fumehood.sandbox.probe.remedies import explain
from fumehood.sandbox.probe.routes import Walked, walk_either
from fumehood.sandbox.probe.tools import DIGESTS, LARGE, NAMES, Candidate, candidates, tool
from fumehood.sandbox.spec import Root, Route

_FOR_FILES = ("bwrap", "setpriv")
_RUN_ROOT_MODE = 0o711  # a target's uid passes through, and cannot list
_MISSING = {
    "bwrap": "pip install 'fumehood[review]', or name a bubblewrap with --overlay by sandbox.bwrap",
    "node": "pip install 'fumehood[review]', or name Node 24 by sandbox.node",
    "setpriv": "install util-linux from the distribution",
    "strace": "install strace from the distribution: without it no system calls are recorded",
    "nft": "install nftables from the distribution: without it only listed ports are relayed",
    "uv": "pip install 'fumehood[review]', or name uv by sandbox.uv: without it no pypi target can be reviewed",
    "python": "install python3 from the distribution: without it no pypi target can be reviewed",
    "git": "install git from the distribution: without it no git target can be reviewed",
}

_UNTOLD = Probe(name="", ok=False, detail="fumehood doctor says more")
_UNFIT = {
    "wheel": "reinstall the wheel as root or as the user who runs fumehood; or name another program in [sandbox]",
    "system": "the file and the folders above it must be root's, and writable by nobody else",
    "operator": "name a program that is root's or your own, and writable by nobody else",
}


class ChosenToolError(UnsupportedError):
    """A program that the operator named cannot be used. It is never replaced by another."""

    code = "chosen_tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The operator's choices, for which root, and whether the large file is compared with its record at once."""

    choices: Mapping[str, Path]
    thorough: bool
    root: Root

    @property
    def names(self) -> tuple[str, ...]:
        """The programs that are looked for: a child in a root of files needs no others."""
        return NAMES if self.root is Root.SYSTEM else _FOR_FILES


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The programs taken, and what was wrong with the others."""

    taken: Mapping[str, Candidate]
    probes: tuple[Probe, ...]
    routes: tuple[Route, ...]
    no_overlay: str = ""
    no_userns_limit: str = ""


def default_run_root() -> Path:
    """Where run folders are made unless the operator names another place."""
    return Path(f"/var/tmp/fumehood-{os.getuid()}")  # noqa: S108 - checked to be ours by prepare_run_root


def prepare_run_root(path: Path) -> Path:
    """Make the folder of run folders, mode 0711, and refuse one that is a link, somebody else's or everybody's."""
    try:
        path.mkdir(mode=_RUN_ROOT_MODE, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            facts = os.fstat(descriptor)
            if facts.st_uid != os.geteuid():
                raise UnsupportedError(f"{path} belongs to another user", remedy="name another with sandbox.run_root")
            if facts.st_mode & stat.S_ISVTX:  # as /var/tmp: root would close it to everybody
                raise UnsupportedError(f"{path} is everybody's", remedy="name one below it with sandbox.run_root")
            os.fchmod(descriptor, _RUN_ROOT_MODE)  # the umask took bits, or somebody closed it
        finally:
            os.close(descriptor)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise UnsupportedError(f"{path}: {why}", remedy="name another folder with sandbox.run_root") from error
    return path


def possible_routes(uid: int) -> tuple[Route, ...]:
    """The routes that a user may try, the preferred first."""
    return (Route.DROPPED, Route.ROOT) if uid == 0 else (Route.USER,)


def probe_host(
    choices: Mapping[str, Path], *, quick: bool, run_root: Path | None = None, root: Root = Root.SYSTEM
) -> HostFacts:
    """Find out what this host can do. `choices` are the operator's programs, by the names of `tools.NAMES`.

    With `Root.FILES` the routes are those for a root of a few files, and only what such a child needs is looked for.

    `quick` raises `UnsupportedError` where nothing can run at all, and `ChosenToolError` for a choice that cannot be
    used; otherwise that is told in the facts too. A program that is there and fails is not among the tools.
    """
    place = run_root or default_run_root()
    try:
        _require_linux()
        prepare_run_root(place)
    except UnsupportedError as error:
        if quick:
            raise
        return _facts(place, probes=(Probe(name="host", ok=False, detail=error.message, remedy=error.remedy),))
    with ThreadPoolExecutor(max_workers=4, thread_name_prefix="probe") as pool:
        cgroups = pool.submit(find_cgroups, try_cgroup)
        found = _find(_Asked(choices=choices, thorough=not quick, root=root), place, pool)
        tools = {
            name: pool.submit(tool, taken, digest=not quick or name not in LARGE) for name, taken in found.taken.items()
        }
        tracing = (_strace(found.taken["strace"].path),) if "strace" in found.taken else ()
        probes = (*found.probes, *tracing)
        if not quick and root is Root.SYSTEM:  # of the host, whatever for
            probes += check_host({name: one.path for name, one in found.taken.items()}, pool)
        known = {name: future.result() for name, future in tools.items()}
    if not all(one.ok for one in tracing):
        del known["strace"]
    wanted = {name: path for name, path in choices.items() if root is Root.SYSTEM or name in _FOR_FILES}
    probes += _mute(wanted, known)
    if quick:
        _refuse_choices(wanted, known, probes, found.routes)
        _digest_later([found.taken[name] for name in LARGE if name in found.taken])
    facts = _facts(place, probes=probes, routes=found.routes, tools=known, cgroups=cgroups.result())
    return dataclasses.replace(facts, no_overlay=found.no_overlay, no_userns_limit=found.no_userns_limit)


def _mute(choices: Mapping[str, Path], known: dict[str, Tool]) -> tuple[Probe, ...]:
    """Take away an operator's program that does not even say its version: it is another program, or none."""
    mute = [name for name in choices if name in known and not known[name].version]
    for name in mute:
        del known[name]
    words = "it does not say its version"
    return tuple(Probe(name=f"{name} (operator)", ok=False, detail=words, remedy=_UNFIT["operator"]) for name in mute)


def _refuse_choices(
    choices: Mapping[str, Path], known: Mapping[str, Tool], probes: tuple[Probe, ...], routes: tuple[Route, ...]
) -> None:
    """Name the setting of the first program that the operator chose and that cannot be used."""
    for name, path in choices.items():
        if name not in NAMES:
            continue  # of another part: `probe.runtime` and `probe.served` judge theirs
        if name not in known:
            problem, about = "which cannot be used", name
        elif name in {"bwrap", "setpriv"} and not routes:
            problem, about = "with which no route works", "route"
        else:
            continue
        failed = next((one for one in probes if not one.ok and one.name.split(" ")[0] == about), _UNTOLD)
        remedy = f"name another program, or take the setting away; {failed.remedy}".removesuffix("; ")
        raise ChosenToolError(f"sandbox.{name} names {path}, {problem}: {failed.detail}", remedy=remedy)


def _require_linux() -> None:
    if platform.system() != "Linux":
        raise UnsupportedError(f"{platform.system()} is not Linux", remedy="use the container image, or WSL 2")


def _facts(
    run_root: Path,
    *,
    probes: tuple[Probe, ...],
    routes: tuple[Route, ...] = (),
    tools: Mapping[str, Tool] | None = None,
    cgroups: CgroupFacts | None = None,
) -> HostFacts:
    return HostFacts(
        system=platform.system(),
        machine=platform.machine(),
        kernel=platform.release(),
        uid=os.getuid(),
        routes=routes,
        tools=dict(tools or {}),
        cgroups=cgroups or CgroupFacts(version=None, roots={}, why="not tried"),
        landlock_abi=landlock_abi(),
        run_root=run_root,
        probes=probes,
    )


def with_digests(facts: HostFacts) -> HostFacts:
    """The same facts with every SHA-256; waits for the large one.

    Raises `HarnessError` when a wheel's file is not what its RECORD names, or was replaced meanwhile.
    """
    tools: dict[str, Tool] = {}
    for name, known in facts.tools.items():
        try:
            digest = known.sha256 or DIGESTS.of(known.path)
        except OSError as error:
            raise HarnessError(f"{known.path}: {os.strerror(error.errno or 0)}") from error
        if known.recorded not in {"", digest}:
            raise HarnessError(
                f"{known.path} is not the file that the wheel's RECORD names",
                remedy="reinstall the wheel, or name another program in the settings",
            )
        tools[name] = dataclasses.replace(known, sha256=digest)
    return dataclasses.replace(facts, tools=tools)


def _digest_later(large: list[Candidate]) -> None:
    """Begin to read Node's 126 MB and uv's 38 in a thread each that nobody has to wait for."""
    for one in large:
        threading.Thread(target=_digest_quietly, args=(one.path,), daemon=True, name="digest").start()


def _digest_quietly(path: Path) -> None:
    """Read once; a failure is met again, and told, by `with_digests`."""
    try:
        DIGESTS.of(path)
    except OSError:
        return


def _find(asked: _Asked, run_root: Path, pool: ThreadPoolExecutor) -> _Found:
    """Take the first program of each name that nothing speaks against, and the first bwrap with which a route works."""
    uid = os.getuid()
    every = {name: candidates(name, asked.choices, uid, thorough=asked.thorough) for name in asked.names}
    probes = [
        Probe(name=f"{name} ({one.origin})", ok=False, detail=one.problem, remedy=_UNFIT[one.origin])
        for name in every
        for one in every[name]
        if one.problem
    ]
    usable = {name: [one for one in found if not one.problem] for name, found in every.items()}
    probes += [
        Probe(name=name, ok=False, detail="not found", remedy=_MISSING[name]) for name in every if not every[name]
    ]
    taken = {name: found[0] for name, found in usable.items() if found}
    routes: tuple[Route, ...] = ()
    no_overlay = no_userns_limit = ""
    if "setpriv" in taken:
        for bwrap in usable["bwrap"]:
            paths = {name: taken[name].path for name in ("setpriv", "node") if name in taken} | {"bwrap": bwrap.path}
            walked = _walk(asked.root, paths, run_root, pool)
            routes = tuple(route for route, one in walked.items() if one.route.ok)
            ways = [one.route for one in walked.values()]
            if routes:
                taken["bwrap"] = bwrap
                taking = walked[routes[0]]
                no_overlay = "" if taking.overlay.ok else taking.overlay.detail
                no_userns_limit = "" if taking.userns_limit.ok else taking.userns_limit.detail
                probes += [*ways, taking.overlay, taking.userns_limit]
                break
            probes += [dataclasses.replace(probe, name=f"{probe.name} ({bwrap.origin})") for probe in ways]
    return _Found(
        taken=taken,
        probes=tuple(probes),
        routes=routes,
        no_overlay=no_overlay,
        no_userns_limit=no_userns_limit,
    )


def _walk(root: Root, paths: Mapping[str, Path], run_root: Path, pool: ThreadPoolExecutor) -> dict[Route, Walked]:
    walks: dict[Route, Future[Walked]] = {
        route: pool.submit(walk_either, route, paths, run_root, root) for route in possible_routes(os.getuid())
    }
    return {route: walk.result() for route, walk in walks.items()}


def _strace(path: Path) -> Probe:
    """Trace a harmless command with the options that the phases use."""
    options = ["-f", "-y", "--seccomp-bpf", "--decode-pids=pidns", "-e", "trace=execve", "-o", "/dev/null"]
    answer = ask([path, *options, "/usr/bin/true"])
    if answer.ok:
        return Probe(name="strace", ok=True, detail="attaches, with --seccomp-bpf")
    return Probe(name="strace", ok=False, detail=answer.why, remedy=explain(answer.stderr).remedy)
