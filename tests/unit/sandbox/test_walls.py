import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.sandbox import rlimits, walls
from fumehood.sandbox.containment import WALLS, Wall, WallState
from fumehood.sandbox.spec import Identity, Overlay, ProcessLimits, Route, SandboxSpec

SPEC = SandboxSpec(
    argv=("/bin/true",), environment=(), workdir="/", identity=Identity(uid=10001, user="mira", host="birch")
)
NUMBERS = [number for number, _ in rlimits.pairs(ProcessLimits(), memory_by_cgroup=False)]


def of(name: str, started: walls.Started, route: Route = Route.USER, spec: SandboxSpec = SPEC) -> Wall:
    return next(wall for wall in walls.record(spec, route, started).walls if wall.name == name)


@given(
    route=st.sampled_from(Route),
    unlimited=st.dictionaries(st.sampled_from(NUMBERS), st.just("not permitted")),
    bounds=st.frozensets(st.sampled_from(["memory", "processes"])),
)
@pytest.mark.threat("R12")
def test_every_wall_is_recorded_once_and_none_stands_without_a_mechanism(
    route: Route, unlimited: dict[int, str], bounds: frozenset[str]
) -> None:
    started = walls.Started(unlimited=unlimited, cgroup_version=2 if bounds else None, cgroup_bounds=bounds)
    record = walls.record(SPEC, route, started)
    assert sorted(wall.name for wall in record.walls) == sorted(WALLS)
    for wall in record.walls:
        assert wall.how if wall.state is WallState.ENFORCED else wall.why
        assert wall.state is not WallState.UNAVAILABLE or wall.remedy


@pytest.mark.parametrize("route", [Route.USER, Route.DROPPED])
def test_who_forbids_further_user_namespaces_is_told(route: Route) -> None:
    assert of("user_namespace", walls.Started(), route).how == "bubblewrap, further ones disabled"
    free = of("user_namespace", walls.Started(no_userns_limit="read-only"), route)
    assert (free.state, free.how) == (WallState.ENFORCED, "bubblewrap; seccomp alone refuses further ones")
    assert "read-only" in free.why


@pytest.mark.parametrize("name", ["open_files", "file_size", "cpu_time"])
def test_a_limit_that_could_not_be_set_is_unavailable(name: str) -> None:
    numbers = {"open_files": resource.RLIMIT_NOFILE, "file_size": resource.RLIMIT_FSIZE}
    started = walls.Started(unlimited={numbers.get(name, resource.RLIMIT_CPU): "not permitted"})
    wall = of(name, started)
    assert wall.state is WallState.UNAVAILABLE
    assert "not permitted" in wall.why


def test_processes_are_bounded_by_either() -> None:
    started = walls.Started(
        unlimited={resource.RLIMIT_NPROC: "no"}, cgroup_version=1, cgroup_bounds=frozenset({"processes"})
    )
    assert of("processes", started).how == "cgroup v1"


def test_memory_says_which_mechanism_it_was() -> None:
    by_cgroup = walls.Started(cgroup_version=2, cgroup_bounds=frozenset({"memory"}))
    assert of("memory", by_cgroup).how == "cgroup v2"
    by_limit = of("memory", walls.Started(cgroup_notes=("memory.max: Permission denied",)))
    assert by_limit.state is WallState.ENFORCED
    assert "RLIMIT_DATA" in by_limit.how
    assert "memory.max: Permission denied" in by_limit.why
    neither = of("memory", walls.Started(unlimited={resource.RLIMIT_DATA: "no"}))
    assert neither.state is WallState.UNAVAILABLE


def test_the_root_route_has_no_user_namespace_and_says_so() -> None:
    assert of("user_namespace", walls.Started(), Route.ROOT).state is WallState.NOT_REQUESTED
    assert of("user_namespace", walls.Started(), Route.DROPPED).state is WallState.ENFORCED


def test_a_layer_has_a_bound_when_there_is_one() -> None:
    overlay = Overlay(lowers=(), upper=Path("/u"), work=Path("/w"))
    layered = SandboxSpec(argv=SPEC.argv, environment=(), workdir="/", identity=SPEC.identity, overlay=overlay)
    assert of("layer_size", walls.Started(), spec=layered).state is WallState.ENFORCED
    assert of("layer_size", walls.Started()).state is WallState.NOT_REQUESTED


def test_memory_is_limited_for_each_process_only_without_a_cgroup() -> None:
    with_cgroup = dict(rlimits.pairs(ProcessLimits(), memory_by_cgroup=True))
    without = dict(rlimits.pairs(ProcessLimits(memory_bytes=7), memory_by_cgroup=False))
    assert resource.RLIMIT_DATA not in with_cgroup
    assert without[resource.RLIMIT_DATA] == 7
    assert with_cgroup[resource.RLIMIT_CORE] == 0
    assert resource.RLIMIT_AS not in without
