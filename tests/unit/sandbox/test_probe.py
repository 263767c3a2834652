import os
import platform
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fumehood.core.errors import HarnessError, UnsupportedError
from fumehood.sandbox import confine
from fumehood.sandbox.hostfacts import CgroupFacts, HostFacts, Tool
from fumehood.sandbox.probe import host as probe
from fumehood.sandbox.spec import Root, Route


def facts_with(tool: Tool, run_root: Path) -> HostFacts:
    return HostFacts(
        system="Linux",
        machine="x86_64",
        kernel="6.18",
        uid=os.getuid(),
        routes=(),
        tools={tool.name: tool},
        cgroups=CgroupFacts(version=None, roots={}),
        landlock_abi=0,
        run_root=run_root,
        probes=(),
    )


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that a user without privilege can pass through, which pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="fumehood-test-", dir="/var/tmp") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.mark.sandbox
def test_a_quick_probe_finds_a_route_and_leaves_nothing_behind(open_folder: Path) -> None:
    place = open_folder / "runs"
    found = probe.probe_host({}, quick=True, run_root=place)
    assert found.routes == tuple(route for route in probe.possible_routes(os.getuid()) if route in found.routes)
    assert found.routes, found.probes
    assert list(place.iterdir()) == []
    assert {"bwrap", "setpriv"} <= set(found.tools)
    assert found.tools["bwrap"].sha256
    assert all(tool.sha256 for tool in probe.with_digests(found).tools.values())


def test_a_user_has_one_route_and_root_prefers_to_drop() -> None:
    assert probe.possible_routes(1000) == (Route.USER,)
    assert probe.possible_routes(0) == (Route.DROPPED, Route.ROOT)


def test_a_folder_of_everybody_is_no_run_root_and_stays_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(0o1777)
    with pytest.raises(UnsupportedError, match="is everybody's"):
        probe.prepare_run_root(place)
    assert place.stat().st_mode & 0o7777 == 0o1777


def test_a_run_root_is_made_with_a_mode_that_lets_through_and_does_not_list(tmp_path: Path) -> None:
    place = tmp_path / "runs"
    assert probe.prepare_run_root(place) == place
    assert place.stat().st_mode & 0o7777 == 0o711
    place.chmod(0o777)
    probe.prepare_run_root(place)
    assert place.stat().st_mode & 0o7777 == 0o711


def test_a_run_root_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsupportedError, match=r"sandbox\.run_root"):
        probe.prepare_run_root(tmp_path / "runs")


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_run_root_of_another_user_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "runs"
    place.mkdir()
    os.chown(place, 12345, 12345)
    with pytest.raises(UnsupportedError, match="another user"):
        probe.prepare_run_root(place)


def test_a_program_that_is_not_what_the_wheel_recorded_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "node"
    file.write_bytes(b"altered")
    tool = Tool(name="node", path=file, version="24", sha256="", origin="wheel", recorded="00" * 32)
    with pytest.raises(HarnessError, match="RECORD"):
        probe.with_digests(facts_with(tool, tmp_path))


def test_digests_that_were_left_out_are_filled_in(tmp_path: Path) -> None:
    file = tmp_path / "node"
    file.write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    tool = Tool(name="node", path=file, version="24", sha256="", origin="wheel", recorded=empty)
    assert probe.with_digests(facts_with(tool, tmp_path)).tools["node"].sha256 == empty
    file.unlink()
    with pytest.raises(HarnessError, match="No such file"):
        probe.with_digests(facts_with(tool, tmp_path))


def test_landlock_is_a_version_or_nothing() -> None:
    assert 0 <= confine.landlock_abi() < 100


def test_another_system_is_told_in_the_facts_or_refused_at_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    facts = probe.probe_host({}, quick=False, run_root=tmp_path / "runs")
    assert (facts.routes, facts.tools, facts.landlock_abi) == ((), {}, 0)
    assert "WSL 2" in facts.probes[0].remedy
    with pytest.raises(UnsupportedError, match="not Linux"):
        probe.probe_host({}, quick=True, run_root=tmp_path / "runs")


def test_a_place_that_cannot_be_made_is_told_in_the_facts(tmp_path: Path) -> None:
    facts = probe.probe_host({}, quick=False, run_root=tmp_path / "none" / "runs")
    assert facts.routes == ()
    assert "No such file" in facts.probes[0].detail
    assert "sandbox.run_root" in facts.probes[0].remedy


@pytest.mark.sandbox
def test_an_operators_program_that_is_unfit_is_told_and_not_replaced(tmp_path: Path) -> None:
    false = Path("/usr/bin/false")
    chosen = {"bwrap": false, "strace": false, "node": tmp_path / "none"}
    facts = probe.probe_host(chosen, quick=False, run_root=tmp_path / "runs")
    assert facts.routes == ()
    failed = {one.name: one for one in facts.probes if not one.ok}
    assert {"strace", "node (operator)"} <= set(failed)
    assert any(name.startswith("route") and name.endswith("(operator)") for name in failed)
    assert "node" not in facts.tools


@pytest.mark.sandbox
def test_without_setpriv_no_route_is_walked(tmp_path: Path) -> None:
    facts = probe.probe_host({"setpriv": tmp_path / "none"}, quick=False, run_root=tmp_path / "runs")
    assert facts.routes == ()
    assert next(one.name for one in facts.probes if not one.ok) == "setpriv (operator)"


@pytest.mark.sandbox
@pytest.mark.threat("R9")
@pytest.mark.parametrize("name", ["bwrap", "node", "setpriv", "strace", "nft", "git"])
def test_a_start_with_a_choice_that_is_not_there_names_the_setting(tmp_path: Path, name: str) -> None:
    with pytest.raises(probe.ChosenToolError, match=rf"^sandbox\.{name} names /none, which cannot be used: /none: No"):
        probe.probe_host({name: Path("/none")}, quick=True, run_root=tmp_path / "runs")


@pytest.mark.sandbox
@pytest.mark.threat("R9")
@pytest.mark.parametrize("name", ["bwrap", "setpriv", "strace", "nft", "git"])
def test_a_start_with_a_choice_that_does_not_work_names_the_setting(open_folder: Path, name: str) -> None:
    other = open_folder / "other"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    with pytest.raises(probe.ChosenToolError, match=rf"^sandbox\.{name} names {other}, which cannot be used: \w"):
        probe.probe_host({name: other}, quick=True, run_root=open_folder / "runs")


@pytest.mark.sandbox
@pytest.mark.threat("R9")
@pytest.mark.parametrize("name", ["bwrap", "setpriv"])
def test_a_start_with_a_choice_that_makes_no_route_says_what_the_route_lacked(tmp_path: Path, name: str) -> None:
    expected = rf"^sandbox\.{name} names /usr/bin/false, with which no route works: \w"
    with pytest.raises(probe.ChosenToolError, match=expected):  # it says a version, and does nothing
        probe.probe_host({name: Path("/usr/bin/false")}, quick=True, run_root=tmp_path / "runs")


@pytest.mark.sandbox
@pytest.mark.threat("R9")
def test_a_start_with_a_choice_that_works_takes_it(open_folder: Path) -> None:
    facts = probe.probe_host({"strace": Path("/usr/bin/strace")}, quick=True, run_root=open_folder / "runs")
    assert (facts.tools["strace"].origin, facts.tools["strace"].path) == ("operator", Path("/usr/bin/strace"))


@pytest.mark.sandbox
@pytest.mark.threat("R9")
def test_a_bwrap_without_overlays_has_its_routes_and_the_reason(open_folder: Path) -> None:
    ordinary = probe.probe_host({}, quick=True, run_root=open_folder / "runs")
    assert ordinary.no_overlay == ""
    old = open_folder / "bwrap"
    real = ordinary.tools["bwrap"].path
    old.write_text(
        "#!/bin/sh\n"
        'case " $* " in *" --overlay-src "*) echo "bwrap: Unknown option --overlay-src" >&2; exit 1;; esac\n'
        f'exec {real} "$@"\n'
    )
    old.chmod(0o755)
    facts = probe.probe_host({"bwrap": old}, quick=True, run_root=open_folder / "runs")
    assert facts.routes == ordinary.routes
    assert "Unknown option --overlay-src" in facts.no_overlay
    check = next(one for one in facts.probes if one.name == "overlay")
    assert not check.ok
    assert "bubblewrap 0.11" in check.remedy
    assert list((open_folder / "runs").iterdir()) == []


def as_in_a_container(folder: Path, real: Path, *words: tuple[str, str]) -> Path:
    """A bwrap that refuses options, each with its words."""
    refusing = folder / "bwrap"
    cases = "".join(
        f'case " $* " in *" {option} "*) echo "bwrap: {text}" >&2; exit 1;; esac\n' for option, text in words
    )
    refusing.write_text(f'#!/bin/sh\n{cases}exec {real} "$@"\n')
    refusing.chmod(0o755)
    return refusing


MASKED = ("--proc", "Can't mount proc on /newroot/proc: Operation not permitted")
READ_ONLY = ("--disable-userns", "cannot open /proc/sys/user/max_user_namespaces: Read-only file system")


@pytest.mark.sandbox
@pytest.mark.threat("C2")
def test_a_masked_proc_ends_the_routes_of_a_system_and_not_those_of_a_root_of_files(open_folder: Path) -> None:
    runs = open_folder / "runs"
    ordinary = probe.probe_host({}, quick=True, run_root=runs, root=Root.FILES)
    assert ordinary.routes
    assert set(ordinary.tools) == {"bwrap", "setpriv"}
    assert ordinary.no_userns_limit == ""
    refusing = {"bwrap": as_in_a_container(open_folder, ordinary.tools["bwrap"].path, MASKED)}
    assert probe.probe_host(refusing, quick=False, run_root=runs).routes == ()
    assert probe.probe_host(refusing, quick=True, run_root=runs, root=Root.FILES).routes == ordinary.routes
    assert list(runs.iterdir()) == []


@pytest.mark.sandbox
@pytest.mark.threat("C2")
def test_a_root_of_files_does_without_a_number_of_namespaces_that_is_read_only(open_folder: Path) -> None:
    runs = open_folder / "runs"
    real = probe.probe_host({}, quick=True, run_root=runs, root=Root.FILES).tools["bwrap"].path
    readonly = {"bwrap": as_in_a_container(open_folder, real, MASKED, READ_ONLY)}
    facts = probe.probe_host(readonly, quick=True, run_root=runs, root=Root.FILES)
    assert facts.routes == probe.possible_routes(os.getuid())
    limited = facts.routes[0] is not Route.ROOT
    assert ("Read-only file system" in facts.no_userns_limit) is limited
    other = {"bwrap": as_in_a_container(open_folder, real, (READ_ONLY[0], "something else"))}
    # Only for this reason: any other refusal of the option ends the route.
    assert Route.DROPPED not in probe.probe_host(other, quick=False, run_root=runs, root=Root.FILES).routes
    assert Route.USER not in probe.probe_host(other, quick=False, run_root=runs, root=Root.FILES).routes


@pytest.mark.sandbox
def test_a_choice_that_no_root_of_files_needs_is_not_judged(open_folder: Path) -> None:
    facts = probe.probe_host({"node": Path("/none")}, quick=True, run_root=open_folder / "runs", root=Root.FILES)
    assert facts.routes
