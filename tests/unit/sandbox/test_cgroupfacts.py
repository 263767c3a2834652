import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.sandbox.probe import cgroups as cgroupfacts
from fumehood.sandbox.probe.cgroups import Mount, choose, folder_of, parse_mounts, parse_own, try_cgroup

HYBRID = """\
22 1 0:21 / /sys rw,nosuid - sysfs sysfs rw
30 22 0:26 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory
31 22 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 22 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
33 22 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
OWN = "9:name=systemd:/\n8:pids:/x\n4:memory:/a/b\n2:cpu,cpuacct:/\n0::/u/v\n"
V1 = parse_mounts(HYBRID)
V2 = [Mount(root="/", point="/sys/fs/cgroup", controllers=frozenset())]


def allowing(*allowed: str) -> cgroupfacts.Try:
    def attempt(folder: Path, files: Iterable[str]) -> str:
        del files
        return "" if str(folder) in allowed else f"{folder}: Permission denied"

    return attempt


def test_the_mounts_of_a_hybrid_host_are_read() -> None:
    assert [mount.point for mount in V1] == [
        "/sys/fs/cgroup/memory",
        "/sys/fs/cgroup/cpu,cpuacct",
        "/sys/fs/cgroup/pids",
        "/sys/fs/cgroup/unified",
    ]
    assert "memory" in V1[0].controllers
    assert V1[3].controllers == frozenset()


def test_an_escaped_mount_point_is_read() -> None:
    found = parse_mounts("30 22 0:26 / /mnt/a\\040b rw - cgroup2 cgroup2 rw\n")
    assert found == [Mount(root="/", point="/mnt/a b", controllers=frozenset())]


def test_our_own_cgroup_is_known_by_controller() -> None:
    assert parse_own(OWN) == {
        "name=systemd": "/", "pids": "/x", "memory": "/a/b", "cpu": "/", "cpuacct": "/", "": "/u/v",
    }  # fmt: skip


@given(st.text(max_size=300))
def test_mangled_text_is_passed_over(text: str) -> None:
    assert all(mount.point for mount in parse_mounts(text)) or " - cgroup" in text
    assert isinstance(parse_own(text), dict)


@pytest.mark.parametrize(
    ("root", "own", "expected"),
    [
        ("/", "/a/b", "/sys/fs/cgroup/a/b"),
        ("/docker/x", "/docker/x/y", "/sys/fs/cgroup/y"),
        ("/docker/x", "/elsewhere", "/sys/fs/cgroup"),
        ("/", "/../outside", None),
    ],
)
def test_our_cgroup_is_found_below_its_mount(root: str, own: str, expected: str | None) -> None:
    found = folder_of(Mount(root=root, point="/sys/fs/cgroup", controllers=frozenset()), own)
    assert found == (Path(expected) if expected else None)


def test_version_1_is_taken_where_memory_can_be_bounded_by_it() -> None:
    facts = choose(V1, parse_own(OWN), allowing("/sys/fs/cgroup/memory/a/b", "/sys/fs/cgroup/pids/x"))
    assert facts.version == 1
    assert facts.roots == {"memory": Path("/sys/fs/cgroup/memory/a/b"), "pids": Path("/sys/fs/cgroup/pids/x")}
    assert "cpuacct" in facts.why


def test_version_2_is_taken_at_the_nearest_folder_that_lets_us() -> None:
    facts = choose(V2, {"": "/user.slice/session"}, allowing("/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"))
    assert facts.version == 2
    assert facts.roots == {"unified": Path("/sys/fs/cgroup/user.slice")}


def test_nothing_above_the_mount_is_tried() -> None:
    facts = choose(V2, {"": "/a"}, allowing("/sys/fs", "/"))
    assert facts.version is None
    assert "/sys/fs/cgroup/a: Permission denied" in facts.why


def test_version_1_without_memory_counts_when_version_2_gives_nothing() -> None:
    facts = choose(V1, parse_own(OWN), allowing("/sys/fs/cgroup/pids/x"))
    assert (facts.version, set(facts.roots)) == (1, {"pids"})
    assert "memory" in facts.why


def test_a_host_without_cgroups_says_so() -> None:
    facts = choose([], {}, allowing())
    assert (facts.version, facts.why) == (None, "no cgroup file system is mounted")


def test_a_host_without_proc_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: str) -> str:
        raise FileNotFoundError(2, "no", path)

    monkeypatch.setattr(cgroupfacts, "_read", missing)
    assert "/proc/self" in cgroupfacts.find_cgroups(allowing()).why


def test_a_folder_that_is_no_cgroup_is_refused_with_the_path_and_leaves_nothing(tmp_path: Path) -> None:
    why = try_cgroup(tmp_path / "none", ())
    assert why.endswith("No such file or directory")
    assert str(tmp_path) in why


def test_a_cgroup_that_stays_busy_is_left_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroupfacts, "_REMOVE_SECONDS", 0.0)
    (tmp_path / "busy" / "child").mkdir(parents=True)
    cgroupfacts.remove_cgroup(tmp_path / "busy")
    assert (tmp_path / "busy").exists()
    cgroupfacts.remove_cgroup(tmp_path / "none")
    cgroupfacts.remove_cgroup(tmp_path / "busy" / "child")
    assert not (tmp_path / "busy" / "child").exists()


@pytest.mark.sandbox
def test_what_this_host_allows_is_found_by_doing_it_and_removed() -> None:
    facts = cgroupfacts.find_cgroups(try_cgroup)
    assert facts.version in {None, 1, 2}
    assert facts.roots or facts.why
    own = f"fumehood-probe-{os.getpid()}"  # another probe may be under way
    assert [root for root in facts.roots.values() if (root / own).exists()] == []


def test_what_a_killed_probe_left_is_removed_by_the_next_and_a_living_ones_is_not(tmp_path: Path) -> None:
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    left, living, other = (tmp_path / f"fumehood-probe-{name}" for name in (gone.pid, os.getppid(), "x"))
    for folder in (left, living, other):
        folder.mkdir()
    try_cgroup(tmp_path, ())  # no cgroup file system: it says why, after the sweep
    assert not left.exists()
    assert living.exists()
    assert other.exists()
