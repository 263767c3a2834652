"""Write down which walls stand. Pure: what was asked for and what the start found give the record.

A wall that bubblewrap makes stands, or bubblewrap refuses to start anything; limits and cgroups are told by those who
set them.
"""

import resource
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fumehood.sandbox.containment import Containment, Wall, WallState
from fumehood.sandbox.spec import Route, SandboxSpec

_LIMITS: Final = {
    "processes": resource.RLIMIT_NPROC,
    "open_files": resource.RLIMIT_NOFILE,
    "file_size": resource.RLIMIT_FSIZE,
    "cpu_time": resource.RLIMIT_CPU,
}
_NAMES: Final = {
    resource.RLIMIT_NPROC: "RLIMIT_NPROC",
    resource.RLIMIT_NOFILE: "RLIMIT_NOFILE",
    resource.RLIMIT_FSIZE: "RLIMIT_FSIZE",
    resource.RLIMIT_CPU: "RLIMIT_CPU",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What the start of a sandbox found out about its limits."""

    unlimited: Mapping[int, str] = field(default_factory=dict)  # RLIMIT number → why it could not be set
    cgroup_version: int | None = None
    cgroup_bounds: frozenset[str] = frozenset()  # "memory", "processes"
    cgroup_notes: tuple[str, ...] = ()
    no_userns_limit: str = ""  # as in `HostFacts`


def record(spec: SandboxSpec, route: Route, started: Started) -> Containment:
    """The containment of one sandbox: every name of `WALLS`, once."""
    namespaces = ("pid_namespace", "ipc_namespace", "uts_namespace", "network_namespace", "mount_namespace")
    walls = (
        _user_namespace(route, started.no_userns_limit),
        _uid(spec, route),
        *(_stands(name, "bubblewrap") for name in namespaces),
        _stands("capabilities", "setpriv" if route is Route.ROOT else "bubblewrap"),
        _stands("no_new_privileges", "prctl"),
        _stands("seccomp", f"profile {spec.profile.value}"),
        *(_limit(name, started) for name in _LIMITS),
        _memory(started),
        _layer_size(spec),
        _stands("deadline", "supervisor, SIGKILL to pid 1 of the namespace"),
        _stands("parent_death", "PR_SET_PDEATHSIG"),
    )
    return Containment(route=route.value, walls=walls)


def _stands(name: str, how: str) -> Wall:
    return Wall(name=name, state=WallState.ENFORCED, how=how)


def _user_namespace(route: Route, no_limit: str) -> Wall:
    if route is not Route.ROOT and no_limit:
        how = "bubblewrap; seccomp alone refuses further ones"
        return Wall(name="user_namespace", state=WallState.ENFORCED, how=how, why=f"their number: {no_limit}")
    if route is not Route.ROOT:
        return _stands("user_namespace", "bubblewrap, further ones disabled")
    why = "the root route needs none: the child is an ordinary user of the host's namespace"
    return Wall(name="user_namespace", state=WallState.NOT_REQUESTED, why=why)


def _uid(spec: SandboxSpec, route: Route) -> Wall:
    if route is not Route.USER:
        return _stands("uid", f"uid {spec.identity.uid}")
    why = "the user route has none: the child has the uid of who runs fumehood, in a namespace of its own"
    return Wall(name="uid", state=WallState.NOT_REQUESTED, why=why)


def _limit(name: str, started: Started) -> Wall:
    number = _LIMITS[name]
    ways = []
    if number not in started.unlimited:
        ways.append(_NAMES[number])
    if name in started.cgroup_bounds:
        ways.append(f"cgroup v{started.cgroup_version}")
    if ways:
        return _stands(name, " and ".join(ways))
    return Wall(
        name=name,
        state=WallState.UNAVAILABLE,
        why=f"{_NAMES[number]}: {started.unlimited[number]}",
        remedy="raise the hard limit of the shell that starts fumehood",
    )


def _memory(started: Started) -> Wall:
    if "memory" in started.cgroup_bounds:
        return _stands("memory", f"cgroup v{started.cgroup_version}")
    why = "; ".join(started.cgroup_notes) or "no cgroup"
    if resource.RLIMIT_DATA not in started.unlimited:
        how = "RLIMIT_DATA for each process, and a poll of resident memory for the tree"
        return Wall(name="memory", state=WallState.ENFORCED, how=how, why=f"no memory cgroup: {why}")
    return Wall(
        name="memory",
        state=WallState.UNAVAILABLE,
        how="a poll of resident memory",
        why=f"{why}; RLIMIT_DATA: {started.unlimited[resource.RLIMIT_DATA]}",
        remedy="delegate a cgroup with the memory controller to this user",
    )


def _layer_size(spec: SandboxSpec) -> Wall:
    if spec.overlay is not None:
        return _stands("layer_size", "free space is polled, then the layer is measured")
    return Wall(name="layer_size", state=WallState.NOT_REQUESTED, why="no layer; tmpfs have a size")
