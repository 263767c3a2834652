import contextlib
import dataclasses
import errno
import os
import pwd
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from fumehood.core import limits
from fumehood.sandbox import launch, runs, slots
from fumehood.sandbox.hostfacts import CgroupFacts, HostFacts
from fumehood.sandbox.programs import janitor

ROOT = os.geteuid() == 0


@pytest.fixture
def host(tmp_path: Path) -> Iterator[HostFacts]:
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
def test_a_run_is_closed_to_everybody_else_and_gone_afterwards(host: HostFacts) -> None:
    with runs.open_run(host) as run:
        status = run.path.stat()
        assert status.st_mode & 0o777 == (0o710 if ROOT else 0o700)
        assert status.st_uid == os.geteuid()
        assert status.st_gid == (run.uid if ROOT else os.getegid())
        assert run.private().stat().st_mode & 0o777 == 0o700
    assert not run.path.exists()


def test_layers_belong_to_the_target_and_are_stacked_bottom_first(host: HostFacts) -> None:
    with runs.open_run(host) as run:
        layers = [run.layer(name) for name in ("sources", "fetch", "install")]
        for layer in layers:
            assert layer.upper.stat().st_uid == layer.work.stat().st_uid == run.uid
            assert layer.upper.stat().st_mode & 0o777 == 0o755
        mount = runs.overlay(layers[:2], layers[2])
    assert mount.lowers == (layers[0].upper, layers[1].upper)
    assert (mount.upper, mount.work) == (layers[2].upper, layers[2].work)


def test_a_folder_beside_the_layers_belongs_to_the_target(host: HostFacts) -> None:
    with runs.open_run(host) as run:
        assert run.folder("cache").stat().st_uid == run.uid


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a"])
def test_a_name_that_leads_elsewhere_is_refused(host: HostFacts, name: str) -> None:
    with runs.open_run(host) as run, pytest.raises(ValueError, match="folder's name"):
        run.folder(name)


def test_a_name_that_is_taken_is_our_fault_and_said(host: HostFacts) -> None:
    with runs.open_run(host) as run:
        run.layer("one")
        with pytest.raises(runs.RunFolderError, match="File exists"):
            run.layer("one")


def test_every_cgroup_of_a_run_begins_with_its_name(host: HostFacts) -> None:
    with runs.open_run(host) as run:
        names = {run.cgroup_name() for _ in range(3)}
        assert len(names) == 3
        assert all(name.startswith(f"{run.name}-") for name in names)


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="an ordinary user has one uid")
def test_runs_at_the_same_time_have_different_uids(host: HostFacts) -> None:
    with runs.open_run(host) as one, runs.open_run(host) as two:
        assert one.uid != two.uid
        assert {one.uid, two.uid} <= set(range(limits.FIRST_UID, limits.FIRST_UID + limits.UID_SLOTS))


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="an ordinary user has one uid")
@pytest.mark.threat("R2")
def test_a_uid_that_the_system_knows_or_that_runs_something_is_not_taken(
    host: HostFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "randbelow", lambda _: 0)  # begin with the first
    known = pwd.getpwuid(0)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: known if uid == limits.FIRST_UID else _unknown(uid))
    busy = limits.FIRST_UID + 1
    drop = ["/usr/bin/setpriv", f"--reuid={busy}", f"--regid={busy}", "--clear-groups", "--", "/bin/sleep", "600"]
    streams = launch.Streams(stdout=launch.PIPE)
    process = launch.spawn([*drop], streams=streams)
    try:
        while Path(f"/proc/{process.pid}").stat().st_uid != busy:
            assert process.returncode is None
        with runs.open_run(host) as run:
            assert run.uid not in {limits.FIRST_UID, busy}
    finally:
        process.close()


def _unknown(uid: int) -> pwd.struct_passwd:
    raise KeyError(uid)


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="an ordinary user has one uid")
def test_no_free_uid_is_said_with_its_range(host: HostFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "_known", lambda _: True)
    with pytest.raises(slots.NoSlotError, match="10001 to 10256"), runs.open_run(host):
        pass


def test_a_place_that_is_missing_is_said(host: HostFacts) -> None:
    lost = dataclasses.replace(host, run_root=host.run_root / "nowhere")
    with pytest.raises(runs.RunFolderError, match="No such file"), runs.open_run(lost):
        pass


@pytest.mark.threat("R5")
def test_what_nobody_locks_is_swept_and_what_somebody_locks_is_not(host: HostFacts) -> None:
    for name in ("run-a", "run-b"):
        (host.run_root / name / "deep" / "er").mkdir(parents=True)
    (host.run_root / "run-file").write_text("no folder")
    with runs.open_run(host) as run:
        assert runs.sweep(host) == 2
        assert run.path.exists()
        assert runs.sweep(host) == 0
    (host.run_root / "run-file").unlink()


def test_an_error_inside_comes_through_and_the_folder_goes(host: HostFacts) -> None:
    with contextlib.suppress(LookupError), runs.open_run(host) as run:
        (run.folder("x") / "y").write_text("z")
        raise LookupError
    assert not run.path.exists()


def test_a_janitor_that_cannot_start_leaves_no_folder(host: HostFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> launch.Process:
        raise launch.StartError("no")

    monkeypatch.setattr(launch, "start_program", refuse)
    with pytest.raises(launch.StartError), runs.open_run(host):
        pass


def test_a_run_for_one_sandbox_gets_no_program_ready(host: HostFacts) -> None:
    with runs.open_run(host, once=True) as run:
        assert run.take_helper() is None
        run.prepare_helper()
        assert run.take_helper() is None


@pytest.mark.parametrize("step", ["remove_cgroups", "end_waiting", "purge"])
def test_what_we_cannot_clean_up_the_janitor_does(step: str, host: HostFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(janitor, step, refuse)
    with runs.open_run(host) as run:
        run.folder("x")
    assert not run.path.exists()


def test_a_pipe_for_the_janitor_that_cannot_be_had_is_said_and_leaves_nothing(
    host: HostFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pipe", refuse)
    with pytest.raises(runs.RunFolderError, match="Too many open files"), runs.open_run(host):
        pass


def test_a_folder_that_cannot_be_locked_is_said_and_goes(host: HostFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *more: object) -> int | None:
        if path.name.startswith("run-"):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return try_lock(path, *more)  # type: ignore[arg-type]  # as they came

    try_lock = slots.try_lock
    monkeypatch.setattr(slots, "try_lock", refuse)
    with pytest.raises(runs.RunFolderError, match="Too many open files"), runs.open_run(host):
        pass
