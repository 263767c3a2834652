"""Which walls a host lets stand, foreseen from its facts. Pure: the same facts give the same record.

What a sandbox had is in its own outcome; this is what `fumehood doctor` and a plan may count on beforehand.
"""

from fumehood.sandbox.containment import WALLS, Containment, Wall, WallState
from fumehood.sandbox.hostfacts import HostFacts, Probe
from fumehood.sandbox.spec import Route

_BY_ROUTE = {  # what the route's probe has seen from inside
    "pid_namespace": "bubblewrap --unshare-pid",
    "ipc_namespace": "bubblewrap --unshare-ipc",
    "uts_namespace": "bubblewrap --unshare-uts",
    "network_namespace": "bubblewrap --unshare-net",
    "mount_namespace": "bubblewrap, a read-only tree of chosen parts",
    "capabilities": "every set is empty",
    "no_new_privileges": "PR_SET_NO_NEW_PRIVS",
    "seccomp": "a filter of our own",
    "layer_size": "measured while it runs",
    "deadline": "the supervisor's clock",
    "parent_death": "setpriv --pdeathsig",
}
_BY_PRLIMIT = {"open_files": "RLIMIT_NOFILE", "file_size": "RLIMIT_FSIZE", "cpu_time": "RLIMIT_CPU"}
ROUTES_IN_WORDS = {
    Route.USER: "an ordinary user, through a user namespace",
    Route.DROPPED: "root drops to a uid of its own, then through a user namespace",
    Route.ROOT: "root without a user namespace, the child drops inside",
}


def foresee(facts: HostFacts) -> Containment:
    """The walls of the route that would be taken; with no route none can stand."""
    if not facts.routes:
        failed = _first_failure(facts)
        why = f"no route works: {failed.name}: {failed.detail}" if failed.name else failed.detail
        walls = (Wall(name=name, state=WallState.UNAVAILABLE, why=why, remedy=failed.remedy) for name in WALLS)
        return Containment(route="none", walls=tuple(walls))
    return Containment(route=facts.routes[0], walls=tuple(_wall(name, facts) for name in WALLS))


def _first_failure(facts: HostFacts) -> Probe:
    """What speaks against every route: a route's own probe says most, then the programs that each needs."""
    failed = [probe for probe in facts.probes if not probe.ok]
    for start in ("route", "host", "bwrap", "setpriv"):
        for probe in failed:
            if probe.name.startswith(start):
                return probe
    return Probe(name="", ok=False, detail="no route")


def is_full(containment: Containment) -> bool:
    """Every wall that the route asks for stands, memory by a cgroup or RLIMIT_DATA."""
    return all(wall.state is not WallState.UNAVAILABLE for wall in containment.walls)


def _wall(name: str, facts: HostFacts) -> Wall:
    if name in _BY_ROUTE:
        return Wall(name=name, state=WallState.ENFORCED, how=_BY_ROUTE[name])
    if name in _BY_PRLIMIT:
        return _by_prlimit(name, facts, _BY_PRLIMIT[name])
    return _BY_FACTS[name](facts)


def _user_namespace(facts: HostFacts) -> Wall:
    if facts.routes[0] is Route.ROOT:
        return Wall(name="user_namespace", state=WallState.NOT_REQUESTED, how="root needs none")
    return Wall(name="user_namespace", state=WallState.ENFORCED, how="bubblewrap --unshare-user --disable-userns")


def _uid(facts: HostFacts) -> Wall:
    if facts.routes[0] is Route.USER:
        return Wall(name="uid", state=WallState.NOT_REQUESTED, how="the invoking user's own, in its namespace")
    return Wall(name="uid", state=WallState.ENFORCED, how="a uid of its own for each slot")


def _has(facts: HostFacts, controller: str) -> bool:
    return facts.cgroups.version == 2 or controller in facts.cgroups.roots  # noqa: PLR2004 - a version


def _probe(facts: HostFacts, name: str) -> Probe | None:
    return next((probe for probe in facts.probes if probe.name == name), None)


def _by_prlimit(name: str, facts: HostFacts, how: str) -> Wall:
    """By prlimit on the blocked child, unless a probe has seen that it fails."""
    probe = _probe(facts, "prlimit")
    if probe and not probe.ok:
        return Wall(name=name, state=WallState.UNAVAILABLE, why=probe.detail, remedy=probe.remedy)
    return Wall(name=name, state=WallState.ENFORCED, how=how)


def _processes(facts: HostFacts) -> Wall:
    if _has(facts, "pids"):
        return Wall(name="processes", state=WallState.ENFORCED, how=f"cgroup v{facts.cgroups.version}")
    return _by_prlimit("processes", facts, "RLIMIT_NPROC")


def _memory(facts: HostFacts) -> Wall:
    if _has(facts, "memory"):
        return Wall(name="memory", state=WallState.ENFORCED, how=f"cgroup v{facts.cgroups.version}")
    probe = _probe(facts, "rlimit_data")
    if probe and probe.ok:
        return Wall(name="memory", state=WallState.ENFORCED, how="RLIMIT_DATA for each process", why=facts.cgroups.why)
    why = "; ".join(
        part for part in (facts.cgroups.why, probe.detail if probe else "RLIMIT_DATA was not tried") if part
    )
    return Wall(
        name="memory",
        state=WallState.UNAVAILABLE,
        how="polled and killed",
        why=why,
        remedy="run as root, or where a cgroup is delegated to you",
    )


_BY_FACTS = {"user_namespace": _user_namespace, "uid": _uid, "processes": _processes, "memory": _memory}
