from pathlib import Path

import pytest

from fumehood.sandbox.containment import WALLS, Wall, WallState
from fumehood.sandbox.hostfacts import CgroupFacts, HostFacts, Probe
from fumehood.sandbox.probe.standing import foresee, is_full
from fumehood.sandbox.spec import Route

V1 = CgroupFacts(version=1, roots={"memory": Path("/m"), "pids": Path("/p")})
NONE = CgroupFacts(version=None, roots={}, why="/sys/fs/cgroup: Permission denied")
DATA = Probe(name="rlimit_data", ok=True)


def host(*routes: Route, cgroups: CgroupFacts = V1, probes: tuple[Probe, ...] = ()) -> HostFacts:
    return HostFacts(
        system="Linux",
        machine="x86_64",
        kernel="6.18",
        uid=0,
        routes=routes,
        tools={},
        cgroups=cgroups,
        landlock_abi=0,
        run_root=Path("/r"),
        probes=probes,
    )


def wall(facts: HostFacts, name: str) -> Wall:
    return next(wall for wall in foresee(facts).walls if wall.name == name)


@pytest.mark.parametrize("route", Route)
def test_every_wall_is_in_the_record(route: Route) -> None:
    assert tuple(wall.name for wall in foresee(host(route)).walls) == WALLS
    assert is_full(foresee(host(route)))


def test_without_a_route_no_wall_stands_and_the_reason_is_given() -> None:
    failed = Probe(name="route user", ok=False, detail="AppArmor", remedy="load a profile")
    record = foresee(host(probes=(failed,)))
    assert {wall.state for wall in record.walls} == {WallState.UNAVAILABLE}
    assert record.walls[0].remedy == "load a profile"
    assert "AppArmor" in record.walls[0].why
    assert not is_full(record)
    assert foresee(host()).walls[0].why == "no route"


def test_what_a_route_does_not_need_is_not_requested() -> None:
    assert wall(host(Route.ROOT), "user_namespace").state is WallState.NOT_REQUESTED
    assert wall(host(Route.USER), "uid").state is WallState.NOT_REQUESTED
    assert wall(host(Route.DROPPED), "uid").state is WallState.ENFORCED


def test_memory_is_bounded_by_a_cgroup_else_by_rlimit_data_else_polled() -> None:
    assert wall(host(Route.USER), "memory").how == "cgroup v1"
    v2 = CgroupFacts(version=2, roots={"unified": Path("/u")})
    assert wall(host(Route.USER, cgroups=v2), "memory").how == "cgroup v2"
    assert "RLIMIT_DATA" in wall(host(Route.USER, cgroups=NONE, probes=(DATA,)), "memory").how
    polled = wall(host(Route.USER, cgroups=NONE), "memory")
    assert polled.state is WallState.UNAVAILABLE
    assert "Permission denied" in polled.why
    assert not is_full(foresee(host(Route.USER, cgroups=NONE)))


def test_limits_that_cannot_be_set_are_unavailable() -> None:
    broken = Probe(name="prlimit", ok=False, detail="Operation not permitted", remedy="x")
    facts = host(Route.USER, cgroups=NONE, probes=(DATA, broken))
    for name in ("processes", "open_files", "file_size", "cpu_time"):
        assert wall(facts, name).state is WallState.UNAVAILABLE
    assert wall(host(Route.USER, probes=(broken,)), "processes").how == "cgroup v1"
