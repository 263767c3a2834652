import platform
from pathlib import Path

import pytest

from fumehood.core.errors import UnsupportedError
from fumehood.core.sections import ContentSettings, HttpSettings, LogSettings, Settings, WorkspaceSettings
from fumehood.sandbox import confine, landlock, launch, starter
from fumehood.sandbox.probe import served
from fumehood.sandbox.proof import processes
from fumehood.sandbox.proof.proving import HELD, Outcome
from fumehood.sandbox.spec import Profile
from fumehood.serve import standing


def test_this_host_can_serve_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = standing.look(Settings(), prove=False)
    assert found.stands, found
    assert [one.route for one in found.containments] == ["serving", "programs", "symbols"]
    assert [one.name for one in found.programs] == ["git", "rg"]
    assert {one.name: one.ok for one in found.checks} == {"serving_walls": True, "starter": True}
    assert "git version" in found.checks[-1].detail
    assert found.proofs is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.threat("G1")
def test_every_wall_is_proven_or_says_why_not(tmp_path: Path) -> None:
    settings = Settings(log=LogSettings(audit_file=str(tmp_path / "audit.jsonl")))
    found = standing.look(settings, prove=True)
    assert found.proofs is not None
    assert [name for name, _ in found.proofs] == ["serving", "programs", "symbols", "audit"]
    names = {one.route: [wall.name for wall in one.walls] for one in found.containments}
    for name, proofs in found.proofs:
        assert sorted(proof.wall for proof in proofs) == sorted(names[name])
        shown = {proof.wall: proof.result for proof in proofs}
        assert {wall: shown[wall] for wall in (*landlock.WALLS, "seccomp")} == dict.fromkeys(
            (*landlock.WALLS, "seccomp"), HELD
        )
        assert all(proof.why for proof in proofs if proof.result != HELD)


def test_what_production_refuses_is_told() -> None:
    weak = Settings(content=ContentSettings(unsafe_no_redaction=True), workspace=WorkspaceSettings(root="/"))
    names = {one.name for one in standing.look(weak, prove=False).warnings}
    assert names == {"redaction", "workspace", "http_token"}
    strong = Settings(http=HttpSettings(token_file="/srv/tokens"))
    assert standing.look(strong, prove=False).warnings == ()
    bare = Settings(http=HttpSettings(unix_socket="/run/fumehood/socket"))  # a uid is no token
    assert [one.name for one in standing.look(bare, prove=False).warnings] == ["http_token"]


def test_a_home_is_told_also_behind_a_link(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to("home")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    settings = Settings(
        http=HttpSettings(token_file="/srv/tokens"), workspace=WorkspaceSettings(root=str(tmp_path / "link"))
    )
    assert [one.name for one in standing.look(settings, prove=False).warnings] == ["workspace"]


def test_a_host_without_landlock_would_be_refused_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine, "landlock_abi", lambda: 0)
    found = standing.look(Settings(), prove=True)
    assert not found.stands
    checks = {one.name: one for one in found.checks}
    assert not checks["serving_walls"].ok  # the outside was read
    assert "read_outside: worked" in checks["serving_walls"].detail
    assert "no Landlock" in checks["starter"].detail
    assert checks["starter"].remedy
    assert found.proofs is not None
    assert {p.result for p in found.proofs[0][1] if p.wall == "outside_reading"} == {"not_held"}


def test_programs_that_are_missing_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = served.Served(programs={}, problems=())
    monkeypatch.setattr(served, "find", lambda _: nothing)
    found = standing.look(Settings(), prove=False)
    assert found.checks[-1].detail == "starts; neither git nor ripgrep was found"


def test_a_program_that_fails_behind_the_walls_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "_VERSION", ("--no-such-option",))
    assert "git ended with 129" in standing.look(Settings(), prove=False).checks[-1].detail


def test_a_starter_that_does_not_start_is_a_failed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise UnsupportedError("no starter")

    monkeypatch.setattr(starter, "start", fail)
    check = standing.look(Settings(), prove=False).checks[-1]
    assert (check.name, check.ok, check.detail, bool(check.remedy)) == ("starter", False, "no starter", True)


def test_another_system_is_looked_at_without_trying_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    found = standing.look(Settings(), prove=False)
    assert not found.stands
    assert found.checks == ()
    assert "not tested" in found.containments[0].walls[0].why


def test_a_tool_that_cannot_run_proves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object, **__: object) -> None:
        raise UnsupportedError("cannot run")

    monkeypatch.setattr(launch, "run_tool", fail)
    confined = processes.Confined(name="x", ruleset=None, profile=None)
    assert processes.attempt(confined, {"fork": 0}) == Outcome(acts={}, problem="cannot run")
    ground = processes.Ground(root=tmp_path, outside=tmp_path, port=1, abstract="a", pid=1)
    assert {one.result for one in processes.prove(confined, ground)} == {"not_proven"}


def test_each_wall_can_be_taken_away_alone() -> None:
    whole = processes.Confined(name="x", ruleset=landlock.NOTHING, profile=Profile.WORKER)
    for wall in landlock.WALLS:
        weaker = processes.without(whole, wall)
        assert weaker.profile is whole.profile
        assert weaker.ruleset != whole.ruleset
    assert processes.without(whole, "seccomp").profile is None
    assert processes.without(whole, "seccomp").ruleset is whole.ruleset
    bare = processes.Confined(name="x", ruleset=None, profile=None)
    assert processes.without(bare, "writing") is bare
