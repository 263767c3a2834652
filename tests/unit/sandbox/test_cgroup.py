from pathlib import Path

import pytest

from fumehood.core.limits import MIB
from fumehood.sandbox import cgroup
from fumehood.sandbox.cgroup import Cgroup, Usage
from fumehood.sandbox.hostfacts import CgroupFacts
from fumehood.sandbox.spec import ProcessLimits

LIMITS = ProcessLimits(memory_bytes=64 * MIB, processes=20)


def v1(root: Path) -> CgroupFacts:
    roots = {name: root / name for name in ("memory", "pids", "cpuacct")}
    for place in roots.values():
        place.mkdir()
    return CgroupFacts(version=1, roots=roots)


def v2(root: Path) -> CgroupFacts:
    return CgroupFacts(version=2, roots={"unified": root})


def test_version_1_bounds_memory_with_swap_and_processes(tmp_path: Path) -> None:
    group = Cgroup(v1(tmp_path), "run-a-1", LIMITS)
    memory = tmp_path / "memory" / "run-a-1"
    assert (memory / "memory.limit_in_bytes").read_text() == str(64 * MIB)
    assert (memory / "memory.memsw.limit_in_bytes").read_text() == str(64 * MIB)
    assert (tmp_path / "pids" / "run-a-1" / "pids.max").read_text() == "20"
    assert group.has("memory")
    assert group.has("processes")
    assert group.notes == []


def test_version_2_bounds_memory_without_swap_and_processes(tmp_path: Path) -> None:
    group = Cgroup(v2(tmp_path), "run-a-1", LIMITS)
    folder = tmp_path / "run-a-1"
    assert (folder / "memory.max").read_text() == str(64 * MIB)
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "pids.max").read_text() == "20"
    assert group.has("memory")
    assert group.has("processes")


def test_usage_is_read_from_version_1(tmp_path: Path) -> None:
    group = Cgroup(v1(tmp_path), "g", LIMITS)
    assert group.usage() == Usage()
    (tmp_path / "cpuacct" / "g" / "cpuacct.usage").write_text("1500000000\n")
    (tmp_path / "memory" / "g" / "memory.max_usage_in_bytes").write_text("4096\n")
    (tmp_path / "memory" / "g" / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert group.usage() == Usage(cpu_seconds=1.5, peak_memory_bytes=4096, out_of_memory=True)


def test_usage_is_read_from_version_2(tmp_path: Path) -> None:
    group = Cgroup(v2(tmp_path), "g", LIMITS)
    assert group.usage() == Usage()
    (tmp_path / "g" / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    (tmp_path / "g" / "memory.peak").write_text("8192\n")
    (tmp_path / "g" / "memory.events").write_text("low 0\noom 1\noom_kill 0\n")
    assert group.usage() == Usage(cpu_seconds=2.5, peak_memory_bytes=8192, out_of_memory=False)


@pytest.mark.parametrize("text", ["", "oom_kill\n", "oom_kill x\n", "other 3\n"])
def test_a_file_that_says_nothing_is_no_sign_of_anything(tmp_path: Path, text: str) -> None:
    group = Cgroup(v2(tmp_path), "g", LIMITS)
    (tmp_path / "g" / "memory.events").write_text(text)
    assert not group.out_of_memory()


@pytest.mark.threat("R12")
def test_what_cannot_be_made_or_set_is_a_note_and_bounds_nothing(tmp_path: Path) -> None:
    facts = CgroupFacts(version=1, roots={"memory": tmp_path / "nowhere", "pids": tmp_path})
    (tmp_path / "g").mkdir()  # taken
    group = Cgroup(facts, "g", LIMITS)
    assert not group.has("memory")
    assert not group.has("processes")
    assert [note.rpartition(": ")[2] for note in group.notes] == ["No such file or directory", "File exists"]
    assert not group.out_of_memory()
    assert group.usage() == Usage()


@pytest.mark.threat("R12")
def test_a_limit_that_is_refused_bounds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "write_text", refuse)
    group = Cgroup(v2(tmp_path), "g", LIMITS)
    assert not group.has("memory")
    assert not group.has("processes")
    assert len(group.notes) == 2


@pytest.mark.threat("R12")
def test_a_process_that_may_not_be_moved_in_is_not_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [Cgroup(v1(tmp_path), "g", LIMITS), Cgroup(v2(tmp_path), "h", LIMITS)]

    def refuse(self: Path, *_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "write_text", refuse)
    for group in groups:
        group.add(1)
        assert not group.has("memory")
        assert not group.has("processes")
        assert any("cgroup.procs: Permission denied" in note for note in group.notes)


def test_without_any_cgroup_the_reason_is_kept() -> None:
    group = Cgroup(CgroupFacts(version=None, roots={}, why="no cgroup file system is mounted"), "g", LIMITS)
    group.add(1)
    assert group.notes == ["no cgroup file system is mounted"]
    assert group.usage() == Usage()
    group.remove()


def test_removing_empties_every_folder_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emptied: list[str] = []
    monkeypatch.setattr(cgroup, "empty_cgroup", emptied.append)
    group = Cgroup(v1(tmp_path), "g", LIMITS)
    group.remove()
    group.remove()
    assert emptied == [str(tmp_path / name / "g") for name in ("memory", "pids", "cpuacct")]
