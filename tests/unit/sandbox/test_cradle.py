"""Processes that are born in their cgroup, and the thread that goes there."""

import contextlib
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from pathlib import Path

import pytest

from fumehood.core import limits
from fumehood.core.errors import HarnessError
from fumehood.sandbox import cradle, launch
from fumehood.sandbox.cgroup import Cgroup
from fumehood.sandbox.hostfacts import CgroupFacts
from fumehood.sandbox.probe import cgroups
from fumehood.sandbox.programs import janitor
from fumehood.sandbox.spec import ProcessLimits

CALM = ProcessLimits(memory_bytes=64 * limits.MIB, processes=20)


def places(root: Path, *names: str) -> dict[str, Path]:
    """Folders that look like cgroups, each below a home."""
    found = {}
    for name in names:
        found[name] = root / name / "g"
        found[name].mkdir(parents=True)
        for folder in (found[name], found[name].parent):
            (folder / "tasks").touch()
    return found


def sleeper() -> launch.Process:
    return launch.spawn(["/usr/bin/sleep", "600"])


def test_the_thread_goes_in_starts_and_comes_home(tmp_path: Path) -> None:
    folders, seen = places(tmp_path, "a", "b"), []

    def start() -> launch.Process:
        seen.append([(folder / "tasks").read_text() for folder in folders.values()])
        return sleeper()

    born = cradle.born_in(folders, start)
    born.process.close()
    assert (seen, born.refused) == ([["0", "0"]], {})
    assert [(tmp_path / name / "tasks").read_text() for name in folders] == ["00", "00"]  # before, and after


def test_a_cgroup_that_cannot_be_entered_or_left_is_told_and_the_others_serve(tmp_path: Path) -> None:
    folders = places(tmp_path, "a", "b", "c")
    (folders["a"] / "tasks").unlink()
    (tmp_path / "b" / "tasks").unlink()
    born = cradle.born_in(folders, sleeper)
    born.process.close()
    assert {name: why.rpartition(": ")[2] for name, why in born.refused.items()} == {
        "a": "No such file or directory",
        "b": "No such file or directory",
    }
    assert (folders["b"] / "tasks").read_text() == ""


def test_it_is_one_thread_for_all_and_never_the_first() -> None:
    seen = []

    def start() -> launch.Process:
        seen.append((threading.current_thread(), threading.get_native_id()))
        return sleeper()

    for _ in range(3):
        cradle.born_in({}, start).process.close()
    assert len(set(seen)) == 1
    assert seen[0][1] != os.getpid()


def test_an_error_of_the_start_comes_through_and_the_thread_is_home(tmp_path: Path) -> None:
    folders = places(tmp_path, "a")

    def start() -> launch.Process:
        raise launch.StartError("no such program")

    with pytest.raises(launch.StartError, match="no such program"):
        cradle.born_in(folders, start)
    assert (tmp_path / "a" / "tasks").read_text() == "00"


def test_a_thread_that_cannot_come_home_ends_what_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders, started = places(tmp_path, "a", "b"), []
    written, write = [], os.write

    def fail_third(descriptor: int, data: bytes) -> int:
        if threading.current_thread().name.startswith("cradle"):
            written.append(data)
            if len(written) == 5:  # two for each way in
                raise OSError(16, "Device or resource busy")
        return write(descriptor, data)

    def start() -> launch.Process:
        started.append(sleeper())
        return started[0]

    monkeypatch.setattr(os, "write", fail_third)
    with pytest.raises(cradle.CradleError, match="could not leave"):
        cradle.born_in(folders, start)
    assert started[0].returncode is not None
    assert (tmp_path / "b" / "tasks").read_text() == "00"  # the other is left all the same


def test_a_start_that_takes_too_long_is_given_up_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CRADLE_SECONDS", 0.01)
    go, started = threading.Event(), []

    def start() -> launch.Process:
        go.wait(20)
        started.append(sleeper())
        return started[0]

    with pytest.raises(cradle.CradleError, match="no process within"):
        cradle.born_in({}, start)
    go.set()
    monkeypatch.setattr(limits, "CRADLE_SECONDS", 20.0)
    cradle.born_in({}, sleeper).process.close()  # after the other
    assert started[0].returncode is not None


def test_who_is_interrupted_while_waiting_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def interrupted(orders: Sequence[Future[cradle.Born]], seconds: float) -> None:
        wait(orders, seconds)
        raise KeyboardInterrupt

    def start() -> launch.Process:
        started.append(sleeper())
        return started[0]

    monkeypatch.setattr(cradle, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cradle.born_in({}, start)
    assert started[0].returncode is not None


def test_a_forked_process_has_a_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    first = cradle._thread()
    try:
        with monkeypatch.context() as forked:
            forked.setattr(os, "getpid", lambda: -1)
            assert cradle._thread() is not first
        assert cradle._thread() is cradle._thread()
    finally:
        first.shutdown()


def test_the_thread_ends_when_it_is_told_and_another_serves_after_it() -> None:
    cradle.rest()
    cradle.rest()
    cradle.born_in({}, sleeper).process.close()
    first = cradle._thread()
    cradle.rest()
    assert not [one for one in threading.enumerate() if one.name.startswith("cradle")]
    cradle.born_in({}, sleeper).process.close()
    assert cradle._thread() is not first


@pytest.mark.sandbox
def test_what_a_thread_started_ends_with_our_process_also_when_that_is_killed() -> None:
    program = """
import os, signal
from fumehood.sandbox import cradle, launch
words = ["/usr/bin/setpriv", "--pdeathsig", "KILL", "/usr/bin/cat"]
talk = launch.Streams(stdin=launch.PIPE, stdout=launch.PIPE)
born = cradle.born_in({}, lambda: launch.spawn(words, streams=talk))
born.process.stdin.write(b"x"); born.process.stdout.read(1)
print(born.process.pid, flush=True)
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        held = os.pidfd_open(int(owner.stdout.readline()))
        assert not select.select([held], [], [], 0)[0]  # the thread that forked waits for more
        owner.kill()
    try:
        assert select.select([held], [], [], 20)[0], "it outlived its owner"
    finally:
        os.close(held)


@pytest.fixture
def real() -> Iterator[Cgroup]:
    """A real cgroup of version 1."""
    facts = cgroups.find_cgroups(cgroups.try_cgroup)
    if facts.version != 1:
        pytest.skip("no cgroup of version 1 can be made here")
    name = f"run-test-{os.getpid()}"
    group = Cgroup(facts, name, CALM)
    try:
        yield group
    finally:
        group.remove()
        janitor.remove_cgroups([str(root) for root in facts.roots.values()], name)


def own() -> str:
    return Path("/proc/thread-self/cgroup").read_text()


@pytest.mark.sandbox
@pytest.mark.threat("R10")
def test_a_process_is_in_its_real_cgroup_from_the_start_and_we_are_not(real: Cgroup) -> None:
    before, homes = own(), []

    def look() -> launch.Process:
        homes.append(own())
        return sleeper()

    process = real.start(sleeper)
    try:
        where = Path(f"/proc/{process.pid}/cgroup").read_text()
        cradle.born_in({}, look).process.close()
        held = [line for line in where.splitlines() if f"run-test-{os.getpid()}" in line]
        assert real.complete
        assert len(held) == len(real._folders)
        assert [own(), *homes] == [before, before]
    finally:
        process.close()


def test_without_version_1_a_process_starts_outside_and_has_to_be_moved(tmp_path: Path) -> None:
    group = Cgroup(CgroupFacts(version=2, roots={"unified": tmp_path}), "g", CALM)
    group.start(sleeper).close()
    assert not group.complete


def test_without_any_cgroup_nobody_has_to_be_moved() -> None:
    group = Cgroup(CgroupFacts(version=None, roots={}, why="none"), "g", CALM)
    group.start(sleeper).close()
    assert group.complete


def test_a_controller_that_a_process_is_not_born_in_gets_it_moved(tmp_path: Path) -> None:
    roots = {name: tmp_path / name for name in ("memory", "pids", "cpuacct")}
    for root in roots.values():
        root.mkdir()
        (root / "tasks").touch()
    group = Cgroup(CgroupFacts(version=1, roots=roots), "g", CALM)
    for name in ("memory", "pids"):
        (roots[name] / "g" / "tasks").touch()
    group.start(sleeper).close()
    assert not group.complete
    assert (roots["pids"] / "g" / "pids.max").read_text() == "21"  # bubblewrap's outer process is in it
    group.add(7)
    moved = [name for name in roots if (roots[name] / "g" / "cgroup.procs").exists()]
    assert moved == ["cpuacct"]


def test_a_start_that_fails_leaves_the_error_as_it_is() -> None:
    def start() -> launch.Process:
        raise HarnessError("as it is")

    with contextlib.suppress(HarnessError), pytest.raises(HarnessError, match="as it is"):
        cradle.born_in({}, start)
