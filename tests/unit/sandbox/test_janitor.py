import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fumehood.sandbox import launch
from fumehood.sandbox.programs import janitor


def deep(root: Path, depth: int) -> None:
    """Nest folders deeper than any path may be long."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("n" * 100, dir_fd=here)
        below = os.open("n" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_a_tree_deeper_than_a_path_may_be_long_is_removed(tmp_path: Path) -> None:
    root = tmp_path / "run"
    root.mkdir()
    deep(root, 2000)
    assert janitor.purge(str(root))
    assert list(tmp_path.iterdir()) == []


def test_links_are_removed_and_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    root = tmp_path / "run"
    (root / "a").mkdir(parents=True)
    (root / "a" / "link").symlink_to(outside)
    (root / "loop").symlink_to("loop")
    (root / "hard").hardlink_to(outside / "kept")
    os.mkfifo(root / "fifo")
    assert janitor.purge(str(root))
    assert (outside / "kept").read_text() == "kept"
    assert outside.stat().st_mode & 0o777 == 0o755


def test_a_link_in_the_place_of_the_run_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (tmp_path / "run").symlink_to(outside)
    assert not janitor.purge(str(tmp_path / "run"))
    assert (outside / "kept").exists()


def test_what_is_gone_already_is_fine(tmp_path: Path) -> None:
    assert janitor.purge(str(tmp_path / "run"))
    assert janitor.purge(str(tmp_path / "no" / "run"))


@pytest.mark.root
def test_an_ordinary_user_removes_folders_of_mode_000_as_well() -> None:
    program = (
        "import os, sys, tempfile, importlib.util\n"
        "spec = importlib.util.spec_from_file_location('janitor', sys.argv[1])\n"
        "janitor = importlib.util.module_from_spec(spec); spec.loader.exec_module(janitor)\n"
        "root = tempfile.mkdtemp(); run = root + '/run'\n"
        "os.makedirs(run + '/outer/inner'); os.mkdir(run + '/sealed'); open(run + '/sealed/x', 'w').close()\n"
        "[os.chmod(run + p, 0) for p in ('/outer/inner', '/outer', '/sealed')]\n"
        "print(os.getuid(), janitor.purge(run), os.listdir(root)); os.rmdir(root)"
    )
    readable = Path(janitor.__file__).read_text(encoding="utf-8")
    copy = f"/tmp/janitor-{os.getpid()}.py"
    Path(copy).write_text(readable, encoding="utf-8")
    try:
        drop = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
        done = launch.run_tool([*drop, "/bin/sh", "-c", '"$@"', "sh", "/usr/bin/python3", "-I", "-c", program, copy])
    finally:
        Path(copy).unlink()
    assert done.stdout == b"65534 True []\n", done.stderr


def test_end_of_the_pipe_makes_the_program_clean_up(tmp_path: Path) -> None:
    root = tmp_path / "run"
    (root / "a" / "b").mkdir(parents=True)
    theirs, ours = os.pipe()
    process = launch.start_program("janitor", str(theirs), "name", str(root), pass_fds=[theirs])
    os.close(theirs)
    assert process.returncode is None
    assert root.exists()
    os.close(ours)
    os.waitid(os.P_PIDFD, process.pidfd, os.WEXITED | os.WNOWAIT)
    assert process.close() == 0
    assert not root.exists()


def test_cgroups_of_other_runs_are_left_alone(tmp_path: Path) -> None:
    for name in ("fumehood-run-a", "fumehood-run-a-1", "fumehood-run-ab", "other"):
        (tmp_path / name).mkdir()
    janitor.remove_cgroups([str(tmp_path), "/nowhere"], "fumehood-run-a")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fumehood-run-ab", "other"]


def test_the_program_loads_nothing_that_makes_its_start_long() -> None:
    program = f"import sys; sys.path.insert(0, {str(launch.PROGRAMS)!r}); import janitor; print(*sys.modules)"
    said = launch.run_tool([sys.executable, "-I", "-S", "-c", program]).stdout.decode().split()
    assert "janitor" in said
    assert {"contextlib", "enum", "pathlib", "re", "signal"}.isdisjoint(said)


def test_the_program_needs_nothing_of_ours() -> None:
    text = Path(janitor.__file__).read_text(encoding="utf-8")
    assert "fumehood" not in text
    assert sys.version_info >= (3, 11)


def test_what_is_left_in_a_cgroup_is_killed_and_a_busy_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(janitor, "_EMPTY_SECONDS", 0.0)
    process = launch.spawn(["/bin/sleep", "600"])
    try:
        folder = tmp_path / "group"
        (folder / "cgroup.kill").mkdir(parents=True)  # as in version 1: there is nothing to write to
        (folder / "cgroup.procs").write_text(f"{process.pid}\n4194304\n")
        assert not janitor.empty_cgroup(str(folder))
        janitor._kill_all(str(folder))
        os.waitid(os.P_PIDFD, process.pidfd, os.WEXITED | os.WNOWAIT)
    finally:
        assert process.close() == -9


def test_version_2_is_told_to_kill_by_itself(tmp_path: Path) -> None:
    janitor._kill_all(str(tmp_path))
    assert (tmp_path / "cgroup.kill").read_text() == "1"


def test_an_empty_cgroup_is_removed_and_one_that_is_gone_is_fine(tmp_path: Path) -> None:
    (tmp_path / "group").mkdir()
    assert janitor.empty_cgroup(str(tmp_path / "group"))
    assert janitor.empty_cgroup(str(tmp_path / "group"))


def test_a_folder_of_many_full_folders_is_looked_at_twice_and_not_once_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(200):
        (tmp_path / "all" / f"{number}" / "below").mkdir(parents=True)
    wide = (tmp_path / "all").stat().st_ino
    looked: list[int] = []
    scandir = os.scandir

    def watched(folder: int) -> object:
        looked.append(os.fstat(folder).st_ino)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", watched)
    assert janitor.purge(str(tmp_path / "all"))
    assert looked.count(wide) == 2
    assert not (tmp_path / "all").exists()


def test_more_full_folders_than_are_remembered_at_once_are_removed_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (tmp_path / "all" / f"{number}" / "below" / "deeper").mkdir(parents=True)
    monkeypatch.setattr(janitor, "_AT_ONCE", 3)
    assert janitor.purge(str(tmp_path / "all"))
    assert not (tmp_path / "all").exists()


def gate_of(run: Path) -> Path:
    place = run / f"{janitor.PRIVATE}1"
    place.mkdir(parents=True)
    os.mkfifo(place / janitor.GATE)
    return place / janitor.GATE


@pytest.mark.threat("R5")
@pytest.mark.parametrize("seat", ["", "12"], ids=["run", "station"])
def test_who_waits_at_a_gate_is_ended(tmp_path: Path, seat: str) -> None:
    gate = gate_of(tmp_path / "run" / seat)
    (tmp_path / "run" / f"{janitor.PRIVATE}0").mkdir()  # of a run that got no further
    held = os.open(gate, os.O_RDWR)
    waits = launch.spawn(["/usr/bin/sleep", "600"], pass_fds=[held])
    os.close(held)
    janitor.end_waiting(str(tmp_path / "run"))
    assert waits.close() == -signal.SIGKILL


@pytest.mark.parametrize("prepare", [Path.exists, Path.mkdir, gate_of], ids=["gone", "none", "free"])
def test_no_process_is_looked_at_where_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[Path], object]
) -> None:
    prepare(tmp_path / "run")
    monkeypatch.setattr(janitor, "_kill_waiting", lambda *_: pytest.fail("all processes were looked at"))
    janitor.end_waiting(str(tmp_path / "run"))


def test_a_gate_that_does_not_say_who_waits_is_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = gate_of(tmp_path / "run")
    gate.unlink()
    gate.symlink_to("elsewhere")
    looked: list[str] = []
    monkeypatch.setattr(janitor, "_kill_waiting", lambda prefix, _: looked.append(prefix))
    janitor.end_waiting(str(tmp_path / "run"))
    assert set(looked) == {f"{tmp_path}/run/"}


def test_who_holds_a_gate_and_cannot_be_looked_into_yet_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = os.open(gate_of(tmp_path / "run"), os.O_RDONLY | os.O_NONBLOCK)
    looks: list[int] = []

    def look(*_: str) -> int:
        looks.append(held)
        if len(looks) == 3:
            os.close(held)
        return 0

    monkeypatch.setattr(janitor, "_kill_waiting", look)
    janitor.end_waiting(str(tmp_path / "run"))
    assert len(looks) == 3


def test_neither_we_nor_a_whole_group_are_killed_with_a_cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = launch.spawn(["/usr/bin/sleep", "600"])
    (tmp_path / "cgroup.kill").mkdir()  # of version 1: there is none
    (tmp_path / "cgroup.procs").write_text(f"0\n{os.getpid()}\n{waits.pid}\n")
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _: killed.append(pid))
    janitor._kill_all(str(tmp_path))
    waits.close()
    assert killed == [waits.pid]
