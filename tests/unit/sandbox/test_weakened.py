from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.sandbox.bubblewrap import Descriptors, chain, command, data_files, options
from fumehood.sandbox.containment import WALLS
from fumehood.sandbox.proof.weakened import REMOVABLE, SHOWN, Weakened
from fumehood.sandbox.spec import Identity, Route, SandboxSpec

SPEC = SandboxSpec(
    argv=("/usr/bin/true", "--unshare-net"),
    environment=(("NAME", "--seccomp"), ("OTHER", "--proc")),
    workdir="/",
    identity=Identity(uid=10001, user="sam", host="--unshare-pid"),
)
GIVEN = Descriptors(files=tuple(range(10, 10 + len(data_files(SPEC)))), seccomp=5, info=6, block=7)


def without(*walls: str) -> list[str]:
    return Weakened(without=frozenset(walls)).options(options(SPEC, Route.USER, GIVEN))


def test_nothing_taken_away_changes_nothing() -> None:
    assert without() == options(SPEC, Route.USER, GIVEN)


@pytest.mark.parametrize(
    ("wall", "gone"),
    [
        ("user_namespace", ["--disable-userns"]),
        ("network_namespace", ["--unshare-net"]),
        ("ipc_namespace", ["--unshare-ipc"]),
        ("uts_namespace", ["--unshare-uts", "--hostname"]),
        ("seccomp", ["--seccomp"]),
        ("parent_death", ["--die-with-parent"]),
    ],
)
def test_exactly_the_options_of_a_wall_are_gone(wall: str, gone: list[str]) -> None:
    full, rest = options(SPEC, Route.USER, GIVEN), without(wall)
    assert all(word in full for word in gone)
    position = 0
    for word in full:  # what is left is in the same order
        if position < len(rest) and rest[position] == word:
            position += 1
    assert position == len(rest)
    # values that look like the option stay: they belong to --setenv and --hostname
    kept = {"--seccomp": 1 if wall == "seccomp" else 2}
    assert rest.count("--seccomp") == kept["--seccomp"]


def test_what_shows_more_is_added_before_the_tree_is_closed() -> None:
    words = without("mount_namespace")
    assert words.index(SHOWN) < words.index("--remount-ro")
    assert "--cap-add" in without("capabilities")
    assert without("pid_namespace").count("/proc") == 2


def test_without_the_uid_wall_nobody_drops() -> None:
    weak = Weakened(without=frozenset({"uid"}))
    assert weak.route(Route.DROPPED) is Route.USER
    assert command(SPEC, weak.route(Route.ROOT), "/usr/bin/setpriv") == list(SPEC.argv)
    assert Weakened(without=frozenset()).route(Route.ROOT) is Route.ROOT


def test_without_parent_death_no_signal_that_ends_is_sent() -> None:
    words = chain(Route.DROPPED, 10001, {"setpriv": Path("/usr/bin/setpriv")}, ["/bwrap"])
    weak = Weakened(without=frozenset({"parent_death"})).chain(words)
    assert len(weak) == len(words)
    assert "KILL" not in weak
    assert weak[weak.index("--pdeathsig") + 1] == "CONT"
    assert Weakened(without=frozenset({"seccomp"})).chain(words) == words


def test_without_the_capabilities_wall_the_drop_inside_keeps_some() -> None:
    words = command(SPEC, Route.ROOT, "/usr/bin/setpriv")
    weak = Weakened(without=frozenset({"capabilities"})).command(words)
    assert "--bounding-set=-all" not in weak
    assert any("+sys_admin" in word for word in weak)
    assert weak[-2:] == list(SPEC.argv)
    assert Weakened(without=frozenset()).command(words) == words


@given(st.frozensets(st.text(max_size=20), min_size=1))
def test_a_wall_that_cannot_be_taken_away_is_refused(walls: frozenset[str]) -> None:
    if walls <= REMOVABLE:
        return
    with pytest.raises(ValueError, match="cannot be taken away"):
        Weakened(without=walls)


def test_only_known_walls_can_be_taken_away() -> None:
    assert set(WALLS) >= REMOVABLE
