"""Many runs under one folder, one lock and one janitor."""

import contextlib
import dataclasses
import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from fumehood.core.errors import BusyError
from fumehood.sandbox import launch, runs, slots, station
from fumehood.sandbox.hostfacts import CgroupFacts, HostFacts
from fumehood.sandbox.programs import janitor
from fumehood.sandbox.station import Station, open_station

ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not ROOT, reason="an ordinary user has one uid")
OWNER = """
import sys
from fumehood.sandbox.hostfacts import CgroupFacts, HostFacts
from fumehood.sandbox.station import open_station
from pathlib import Path
root, group = map(Path, sys.argv[1:])
host = HostFacts(system="Linux", machine="x86_64", kernel="6", uid=0, routes=(), tools={},
    cgroups=CgroupFacts(version=2, roots={"unified": group}), landlock_abi=0, run_root=root, probes=())
with open_station(host, 2) as place, place.run() as one, place.run() as two:
    one.folder("x")
    for run in (one, two):
        (group / run.cgroup_name()).mkdir()
    print("open", flush=True)
    sys.stdin.read()
"""


seen_running = slots.seen_running


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostFacts]:
    """A host without routes; what others of this machine run under uids of the range is not looked at."""
    monkeypatch.setattr(slots, "seen_running", lambda _: False)
    yield HostFacts(
        system="Linux",
        machine="x86_64",
        kernel="6",
        uid=os.geteuid(),
        routes=(),
        tools={},
        cgroups=CgroupFacts(version=None, roots={}),
        landlock_abi=0,
        run_root=tmp_path,
        probes=(),
    )
    assert [path.name for path in tmp_path.iterdir() if path.name != "slots"] == []


@pytest.mark.threat("R2")
def test_each_run_has_a_folder_of_its_own_that_only_its_uid_enters(host: HostFacts) -> None:
    with open_station(host, 2) as place, place.run() as one, place.run() as two:
        assert one.path.parent == two.path.parent == place.path
        assert place.path.stat().st_mode & 0o777 == (0o711 if ROOT else 0o700)
        for run in (one, two):
            status = run.path.stat()
            assert status.st_mode & 0o777 == (0o710 if ROOT else 0o700)
            assert status.st_gid == (run.uid if ROOT else os.getegid())
        assert one.path != two.path
    assert not place.path.exists()


def test_cgroups_are_named_after_the_run_and_all_of_them_after_the_folder(host: HostFacts) -> None:
    with open_station(host, 12) as place, contextlib.ExitStack() as stack:
        seated = [stack.enter_context(place.run()) for _ in range(12)]
        names = [run.cgroup_name() for run in seated]
        assert len({run.name for run in seated}) == 12
        assert all(name.startswith(f"{place.path.name}-") for name in names)
        for run, name in zip(seated, names, strict=True):  # nobody's are swept with another's
            assert [other for other in names if other.startswith(f"{run.name}-")] == [name]


def test_a_seat_more_than_there_are_is_busy_and_free_again_afterwards(host: HostFacts) -> None:
    with open_station(host, 1) as place:
        with place.run() as run:
            (run.folder("x") / "y").write_text("z")
            with pytest.raises(BusyError, match="every seat is taken"), place.run():
                pass
        assert place.free == 1
        assert not run.path.exists()
        with place.run() as following:
            assert following.path != run.path


def test_an_error_inside_comes_through_and_the_seat_is_free_again(
    host: HostFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(janitor, "end_waiting", looked.append)
    with open_station(host, 1) as place:
        with place.run():
            pass
        assert looked == []  # nothing can wait where a sandbox ended as it should
        with contextlib.suppress(LookupError), place.run() as run:
            raise LookupError
        assert looked == [str(run.path)]
        assert place.free == 1


def test_a_folder_that_cannot_be_made_is_said_and_the_seat_is_free_again(host: HostFacts) -> None:
    with open_station(host, 1) as place:
        (place.path / "1").mkdir()
        with pytest.raises(runs.RunFolderError, match="File exists"), place.run():
            pass
        assert place.free == 1


@pytest.mark.root
@as_root
@pytest.mark.threat("R2")
def test_each_run_has_a_uid_of_its_own_and_no_other_owner_gets_it(host: HostFacts) -> None:
    with open_station(host, 3) as place, place.run() as one, place.run() as two, runs.open_run(host) as other:
        assert len({one.uid, two.uid, other.uid}) == 3
        with open_station(host, 3) as beside, beside.run() as third:
            assert third.uid not in {one.uid, two.uid, other.uid}


@pytest.mark.root
@as_root
def test_too_few_free_uids_are_said_and_none_is_kept(host: HostFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "_known", lambda uid: uid > 10002)
    with pytest.raises(slots.NoSlotError, match=r"2 free uids, not 3, from 10001 to 10256"), open_station(host, 3):
        pass
    with open_station(host, 2) as place:
        assert place.free == 2


@pytest.mark.root
@as_root
@pytest.mark.threat("R2")
def test_a_uid_under_which_something_runs_is_given_to_nobody_until_it_is_gone(
    host: HostFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_station(host, 1) as place:
        monkeypatch.setattr(slots, "seen_running", seen_running)
        with place.run() as run:
            process = sleeping(run.uid)
        try:
            with pytest.raises(BusyError), place.run():
                pass
        finally:
            process.close()
        with place.run() as again:
            assert again.uid == run.uid


def sleeping(uid: int) -> launch.Process:
    """A process of a uid that has nothing to do with any run."""
    drop = ["/usr/bin/setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--", "/bin/sleep", "600"]
    process = launch.spawn(drop)
    while Path(f"/proc/{process.pid}").stat().st_uid != uid:
        assert process.returncode is None
    return process


@pytest.mark.root
@as_root
@pytest.mark.threat("R2")
def test_a_process_cannot_hide_its_uid(host: HostFacts) -> None:
    hidden = """
import ctypes, os, sys
uid = int(sys.argv[1])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
print('hidden', flush=True)
sys.stdin.read()
"""
    with open_station(host, 1) as place, place.run() as run:
        words = [sys.executable, "-c", hidden, str(run.uid)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"hidden\n"
            assert Path(f"/proc/{process.pid}/fd").stat().st_uid == 0
            assert seen_running(run.uid)
        assert not seen_running(run.uid)


@pytest.mark.threat("R5")
def test_the_janitor_removes_every_run_of_a_killed_owner(
    host: HostFacts, tmp_path_factory: pytest.TempPathFactory
) -> None:
    group = tmp_path_factory.mktemp("cgroups")
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(host.run_root), str(group)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"open\n"
        path = next(host.run_root.glob("run-*"))
        assert runs.sweep(host) == 0  # it is locked
        owner.kill()
        assert owner.stdout.read() == b""
    while slots.try_lock(path) is None and path.exists():  # the janitor keeps the lock until it is done
        os.sched_yield()
    while path.exists():
        os.sched_yield()
    assert list(group.iterdir()) == []


def test_a_folder_that_cannot_be_removed_keeps_its_seat_aside(host: HostFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_station(host, 1) as place:
        with monkeypatch.context() as stuck:
            stuck.setattr(janitor, "purge", lambda _: False)
            with place.run():
                pass
            assert place.free == 0
            with pytest.raises(BusyError), place.run():
                pass
        with place.run() as run:
            assert [path.name for path in place.path.iterdir()] == [run.path.name]


@pytest.mark.parametrize("step", ["remove_cgroups", "end_waiting", "purge"])
def test_a_seat_that_nobody_can_look_at_is_set_aside(
    step: str, host: HostFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with open_station(host, 1) as place:
        with monkeypatch.context() as starved:
            starved.setattr(janitor, step, refuse)
            with pytest.raises(KeyError), place.run():
                raise KeyError
            assert place.free == 0
        with place.run():
            assert place.free == 0
        assert place.free == 1


class Seats(RuleBasedStateMachine):
    """Runs come and go in any order; some leave something that cannot be removed yet."""

    def __init__(self) -> None:
        super().__init__()
        self.stuck: set[str] = set()
        self.seated: list[tuple[contextlib.AbstractContextManager[runs.Run], runs.Run]] = []
        self.station = _Bare(self.stuck)

    @rule()
    def come(self) -> None:
        context = self.station.run()
        if len(self.seated) + len(self.stuck) < 4:
            self.seated.append((context, context.__enter__()))
            uids = [run.uid for _, run in self.seated]
            assert len(set(uids)) == len(uids)
        else:
            with pytest.raises(BusyError):
                context.__enter__()

    @rule(which=st.integers(0, 3), stuck=st.booleans())
    def go(self, which: int, *, stuck: bool) -> None:
        if self.seated:
            context, run = self.seated.pop(which % len(self.seated))
            if stuck:
                self.stuck.add(str(run.path))
            context.__exit__(None, None, None)

    @rule()
    def loosen(self) -> None:
        self.stuck.clear()


class _Bare(Station):
    """Gives seats without folders or processes."""

    def __init__(self, stuck: set[str]) -> None:
        facts = CgroupFacts(version=None, roots={})
        super().__init__(Path("/nowhere"), range(4), dataclasses.replace(_HOST, cgroups=facts))
        self._stuck = stuck

    def _seated(self, used: station._Used) -> runs.Run:
        return _Still(used.path, used.uid)

    def _leave(self, used: station._Used, *, ended: bool) -> None:
        del ended
        if str(used.path) in self._stuck:
            self._aside.append(used)
        else:
            self._free.append(used.uid)


class _Still(runs.Run):
    def prepare_helper(self) -> None:
        """Starts nothing."""


_HOST = HostFacts(
    system="Linux",
    machine="x86_64",
    kernel="6",
    uid=0,
    routes=(),
    tools={},
    cgroups=CgroupFacts(version=None, roots={}),
    landlock_abi=0,
    run_root=Path("/nowhere"),
    probes=(),
)
Seats.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestSeats = Seats.TestCase
