import errno
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fumehood.core.errors import HarnessError, UnsupportedError
from fumehood.core.sections import HttpSettings, Settings, WorkspaceSettings
from fumehood.sandbox import confine, landlock
from fumehood.sandbox.containment import Containment, Wall, WallState
from fumehood.sandbox.spec import Profile
from fumehood.serve import walls

WITHOUT = Settings(workspace=WorkspaceSettings(unsafe_without_walls=True))
TOKENS = Settings(http=HttpSettings(token_file="/srv/secret/tokens", oauth_keys_file="/srv/keys/jwks.json"))


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    """The descriptor of a workspace."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


class Confining:
    """Stands in for the kernel's walls: notes what is wanted, says what a version of Landlock would."""

    def __init__(self, abi: int, *, filtered: bool = True) -> None:
        self.abi = abi
        self.filtered = filtered
        self.wanted: list[confine.Walls] = []

    def confine(self, wanted: confine.Walls) -> tuple[Wall, ...]:
        self.wanted.append(wanted)
        state = WallState.ENFORCED if self.filtered else WallState.UNAVAILABLE
        plain = [Wall(name=name, state=WallState.ENFORCED) for name in ("no_new_privileges", "core_dumps")]
        return (*plain, *landlock.walls(wanted.ruleset, self.abi), Wall(name="seccomp", state=state, why="no filters"))


@pytest.fixture
def confining(monkeypatch: pytest.MonkeyPatch) -> Confining:
    fake = Confining(7)
    monkeypatch.setattr(confine, "confine", fake.confine)
    monkeypatch.setattr(confine, "landlock_abi", lambda: fake.abi)
    monkeypatch.setattr(walls, "_read_root", lambda: errno.EACCES)
    monkeypatch.setattr(walls, "_make_socket", lambda: errno.EAFNOSUPPORT)
    return fake


def test_what_python_needs_is_read_and_the_place_of_this_package() -> None:
    found = walls.runtime()
    assert any(Path(place, "encodings").is_dir() for place in found)
    assert str(Path(walls.__file__).parents[1]) in found
    assert any(Path(place, "msgspec").is_dir() for place in found)
    assert all(Path(place).is_absolute() for place in found)
    assert not {"/", "/etc", "/home", "/root", "/tmp", "/proc", str(Path.home())} & set(found)


def test_a_users_own_packages_are_read_and_the_current_folder_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["", "/srv/here", "/srv/me/.local/lib/python3.11/site-packages"])
    found = walls.runtime()
    assert "/srv/me/.local/lib/python3.11/site-packages" in found
    assert "/srv/here" not in found
    assert "" not in found


def test_only_over_http_the_folders_of_tokens_and_keys_stay_readable(root: int) -> None:
    over_http = walls.ruleset(root, TOKENS, http=True).readable
    assert {root, "/srv/secret", "/srv/keys"} <= set(over_http)
    assert not {"/srv/secret", "/srv/keys"} & set(walls.ruleset(root, TOKENS, http=False).readable)


def test_nothing_may_be_written_or_started_and_no_connection_made(root: int) -> None:
    for http in (True, False):
        wanted = walls.ruleset(root, TOKENS, http=http)
        assert (wanted.executable, wanted.devices) == ((), ("/dev/null",))
        assert (wanted.tcp_connect, wanted.tcp_bind, wanted.scoped) == (False, False, True)


@pytest.mark.parametrize(("http", "profile"), [(False, Profile.SERVE_STDIO), (True, Profile.SERVE_HTTP)])
def test_each_transport_has_its_own_seccomp_program(
    root: int, confining: Confining, *, http: bool, profile: Profile
) -> None:
    stood = walls.stand(root, Settings(), http=http)
    assert confining.wanted[0].profile is profile
    assert [wall.name for wall in stood] == [wall.name for wall in walls.foresee(confining.wanted[0].ruleset)]
    assert {wall.state for wall in stood} == {WallState.ENFORCED}


def test_without_landlock_nothing_is_put_up_and_nothing_is_served(root: int, confining: Confining) -> None:
    confining.abi = 0
    with pytest.raises(UnsupportedError, match=r"outside_reading, writing, executing: the kernel offers no Landlock"):
        walls.stand(root, Settings(), http=False)
    assert confining.wanted == []


def test_the_operator_may_serve_without_and_is_told_which_walls_stand(root: int, confining: Confining) -> None:
    confining.abi = 0
    state = {wall.name: wall.state for wall in walls.stand(root, WITHOUT, http=False)}
    assert state["outside_reading"] is WallState.UNAVAILABLE
    assert state["seccomp"] is WallState.ENFORCED


def test_a_filter_that_could_not_be_put_up_refuses_too(root: int, confining: Confining) -> None:
    confining.filtered = False
    with pytest.raises(UnsupportedError, match="seccomp: no filters"):
        walls.stand(root, Settings(), http=False)


def test_an_older_landlock_serves_and_says_what_it_lacks(root: int, confining: Confining) -> None:
    confining.abi = 2
    stood = walls.stand(root, Settings(), http=False)
    missing = {wall.name for wall in stood if wall.state is WallState.UNAVAILABLE}
    assert missing == {"truncating", "tcp_connect", "tcp_bind", "device_control", "abstract_sockets", "signals"}


@pytest.mark.parametrize("act", ["_read_root", "_make_socket"])
def test_a_wall_that_does_not_hold_is_not_believed(
    root: int, confining: Confining, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    monkeypatch.setattr(walls, act, lambda: 0)
    with pytest.raises(HarnessError, match="was put up and does not hold"):
        walls.stand(root, Settings(), http=False)
    confining.abi = 0
    confining.filtered = False
    walls.stand(root, WITHOUT, http=False)  # what does not stand is not tried


def test_the_root_of_the_file_system_has_no_outside(confining: Confining, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walls, "_read_root", lambda: 0)
    descriptor = os.open("/", os.O_RDONLY)
    assert walls.stand(descriptor, Settings(), http=False)
    assert confining.wanted
    os.close(descriptor)


def test_the_acts_that_are_tried_work_where_no_wall_stands() -> None:
    assert (walls._read_root(), walls._make_socket()) == (0, 0)


def test_another_system_is_named_as_untested(root: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(UnsupportedError, match="Darwin has none of these walls, and serving there is not tested"):
        walls.stand(root, Settings(), http=False)
    stood = walls.stand(root, WITHOUT, http=False)
    assert {wall.state for wall in stood} == {WallState.UNAVAILABLE}


def test_a_machine_without_a_filter_is_refused_before_anything_is_put_up(
    root: int, confining: Confining, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "m68k")
    with pytest.raises(UnsupportedError, match="no seccomp program for m68k"):
        walls.stand(root, Settings(), http=False)
    assert confining.wanted == []


def test_a_record_says_each_wall_once_with_its_reason() -> None:
    one = Containment(route="serving", walls=landlock.walls(landlock.NOTHING, 2))
    record = walls.record([one])
    found = record["serving"]
    assert isinstance(found, dict)
    assert found["writing"] == "enforced"
    assert found["signals"] == "unavailable: Landlock's version here is 2, and 6 is needed"
    assert msgspec.json.encode(record)
