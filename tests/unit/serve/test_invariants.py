"""serve.invariants: what production refuses and others are warned of."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core.sections import ContentSettings, Settings, WorkspaceSettings
from fumehood.serve import invariants
from fumehood.serve.ground import is_held
from fumehood.serve.invariants import Ground, InvariantError

GOOD = Ground(root="/srv/project", homes=("/home/ada", "/root"))
WEAK = {
    "redaction": (Settings(content=ContentSettings(unsafe_no_redaction=True)), GOOD),
    "scanning": (Settings(content=ContentSettings(unsafe_no_scanning=True)), GOOD),
    "links": (Settings(workspace=WorkspaceSettings(unsafe_follow_links=True)), GOOD),
    "http_token": (Settings(), Ground(root="/srv/project", http=True)),
    "workspace": (Settings(), Ground(root="/home/ada", homes=("/home/ada",))),
    "workspace under another name": (Settings(), Ground(root="/mnt/x", homes=("/home/ada",), holds_a_home=True)),
}


@pytest.mark.threat("T11")
@pytest.mark.parametrize("name", WEAK)
def test_each_invariant_refuses_production_and_is_a_warning_elsewhere(name: str) -> None:
    settings, ground = WEAK[name]
    assert [one.name for one in invariants.hold(settings, ground)] == [name.partition(" ")[0]]
    production = msgspec.structs.replace(settings, environment="production")
    with pytest.raises(InvariantError) as error:
        invariants.hold(production, ground)
    assert error.value.exit_status == 2
    assert error.value.remedy


@pytest.mark.threat("T11")
def test_an_ordinary_workspace_breaks_nothing_in_production() -> None:
    settings = Settings(environment="production")
    assert invariants.hold(settings, GOOD) == ()
    assert invariants.hold(settings, Ground(root="/srv/project", http=True, authenticated=True)) == ()


@pytest.mark.threat("T11")
@pytest.mark.parametrize("root", ["/", "/home", "/home/ada", "/root", "/home/"])
def test_a_home_and_whatever_holds_one_is_too_wide(root: str) -> None:
    assert [one.name for one in invariants.broken(Settings(), Ground(root=root, homes=GOOD.homes))] == ["workspace"]


@pytest.mark.parametrize("root", ["/home/ada/project", "/home/adam", "/srv", "/rootfs"])
def test_what_lies_in_a_home_or_beside_one_is_not(root: str) -> None:
    assert invariants.broken(Settings(), Ground(root=root, homes=GOOD.homes)) == ()


@pytest.mark.threat("T11")
def test_a_home_is_known_by_what_it_is_not_by_its_name(tmp_path: Path) -> None:
    project = tmp_path / "home" / "ada" / "project"
    project.mkdir(parents=True)
    beside = tmp_path / "srv"
    beside.mkdir()
    # The same folder by a name that is not its real path, as a bind mount gives one.
    home = f"/proc/self/root{tmp_path}/home/ada"
    assert is_held(tmp_path / "home" / "ada", [home])
    assert is_held(tmp_path / "home", [home])
    assert not is_held(project, [home])
    assert not is_held(beside, [home, "/", "/no/such/home"])
    assert not is_held(tmp_path / "nothing", [home])


@given(st.lists(st.sampled_from(["redaction", "scanning", "links"]), unique=True))
def test_every_broken_invariant_is_named_not_only_the_first(names: list[str]) -> None:
    settings = Settings(
        content=ContentSettings(unsafe_no_redaction="redaction" in names, unsafe_no_scanning="scanning" in names),
        workspace=WorkspaceSettings(unsafe_follow_links="links" in names),
    )
    assert {one.name for one in invariants.broken(settings, GOOD)} == set(names)
