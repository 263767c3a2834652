import asyncio
import os
import sys
from pathlib import Path

import pytest

from fumehood.core import limits
from fumehood.core.limits import MIB
from fumehood.sandbox import launch, lineage, watch
from fumehood.sandbox.cgroup import Cgroup
from fumehood.sandbox.hostfacts import CgroupFacts
from fumehood.sandbox.spec import End, ProcessLimits

NONE = CgroupFacts(version=None, roots={})


def watched(layer: Path | None = None, *, memory_bytes: int | None = None, layer_bytes: int = MIB) -> watch.Watch:
    return watch.Watch(
        watch.Watched(
            init=os.getpid(),
            cgroup=Cgroup(NONE, "g", ProcessLimits()),
            memory_bytes=memory_bytes,
            layer=layer,
            layer_bytes=layer_bytes,
        )
    )


def broken(one: watch.Watch) -> End:
    return asyncio.run(asyncio.wait_for(one.broken(), 30))


def test_a_tree_that_uses_more_memory_than_its_bound_is_noticed() -> None:
    one = watched(memory_bytes=1)
    assert broken(one) is End.MEMORY
    assert one.peak_memory_bytes > MIB


def test_the_kernels_own_kill_is_noticed(tmp_path: Path) -> None:
    group = Cgroup(CgroupFacts(version=2, roots={"unified": tmp_path}), "g", ProcessLimits())
    (tmp_path / "g" / "memory.events").write_text("oom_kill 1\n")
    one = watch.Watch(watch.Watched(init=1, cgroup=group, memory_bytes=None, layer=None, layer_bytes=0))
    assert broken(one) is End.MEMORY


def test_a_layer_is_walked_when_it_is_time_even_if_the_disk_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LAYER_WALK_SECONDS", 0.0)
    (tmp_path / "file").write_bytes(b"x" * (2 * MIB))
    assert broken(watched(tmp_path, layer_bytes=MIB)) is End.LAYER


@pytest.mark.threat("R10")
@pytest.mark.parametrize(("layer_bytes", "walked"), [(MIB, True), (limits.LAYER_SMALL_BYTES, False)])
def test_a_low_bound_is_walked_soon_for_others_may_free_what_the_layer_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layer_bytes: int, *, walked: bool
) -> None:
    monkeypatch.setattr(limits, "LAYER_WALK_SECONDS", 1000.0)
    monkeypatch.setattr(watch, "_free", lambda _: 10 * limits.DISK_RESERVE_BYTES)  # the disk shows nothing
    walks: list[Path] = []

    def measure(layer: Path) -> watch.Measure:
        walks.append(layer)
        return watch.Measure(size_bytes=0, complete=True, excessive=False)

    monkeypatch.setattr(watch, "measure", measure)
    one = watched(tmp_path, layer_bytes=layer_bytes)
    one._walked -= 20.0
    asyncio.run(one._layer())
    assert bool(walks) is walked


@pytest.mark.threat("R10")
@pytest.mark.parametrize(
    ("left", "ends"),
    [(limits.DISK_RESERVE_BYTES - 1, True), (limits.DISK_RESERVE_BYTES, False)],
)
def test_a_disk_that_is_nearly_full_ends_who_may_have_filled_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int, *, ends: bool
) -> None:
    free = [left + 2 * MIB]
    monkeypatch.setattr(watch, "_free", lambda _: free[0])
    monkeypatch.setattr(limits, "LAYER_WATCH_SECONDS", 0.0)
    one = watched(tmp_path, layer_bytes=MIB)
    free[0] = left  # what nobody finds: a mapped file without a name, a descriptor on its way
    assert asyncio.run(one._layer()) is ends  # one look


def test_a_measure_counts_blocks_of_everything_below(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"x" * MIB)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    (tmp_path / "link").symlink_to("/")
    found = watch.measure(tmp_path)
    assert MIB <= found.size_bytes < 2 * MIB
    assert found.complete
    assert not found.excessive


def test_too_many_names_or_too_deep_is_excessive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LAYER_ENTRIES", 10)
    for number in range(11):
        (tmp_path / str(number)).touch()
    assert watch.measure(tmp_path).excessive
    deep = tmp_path / "deep"
    monkeypatch.setattr(limits, "LAYER_ENTRIES", 1000)
    (deep / "/".join("d" * (limits.LAYER_DEPTH + 2))).mkdir(parents=True)
    assert watch.measure(deep).excessive


def test_a_folder_that_is_gone_is_empty(tmp_path: Path) -> None:
    assert watch.measure(tmp_path / "gone") == watch.Measure(size_bytes=0, complete=True, excessive=False)


CHILD = """
import os, sys, threading
kept = []
if sys.argv[1] == 'memfd':
    fd = os.memfd_create('x'); os.write(fd, b'x' * (8 << 20))
if sys.argv[1] == 'deleted':
    fd = os.open(sys.argv[2], os.O_CREAT | os.O_RDWR); os.unlink(sys.argv[2]); os.write(fd, b'x' * (8 << 20))
if sys.argv[1] == 'thread':
    def start():
        if os.fork() == 0: os.read(0, 1); os._exit(0)
        print('ready', flush=True); os.read(0, 1)
    threading.Thread(target=start).start()
else:
    print('ready', flush=True)
os.read(0, 1)
"""


@pytest.mark.parametrize("what", ["memfd", "deleted", "plain", "thread"])
def test_what_a_tree_holds_without_a_name_is_counted(what: str, tmp_path: Path) -> None:
    argv = [sys.executable, "-W", "ignore", "-I", "-c", CHILD, what, str(tmp_path / "file")]
    process = launch.spawn(argv, streams=launch.Streams(stdin=launch.PIPE, stdout=launch.PIPE))
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        if what == "thread":  # a child of another thread stands in that thread's list
            assert len(lineage.children(process.pid)) == 1
            assert set(lineage.tree(process.pid)) == {process.pid, *lineage.children(process.pid)}
        assert (lineage.deleted_bytes(process.pid) >= 8 * MIB) == (what == "deleted")
        usual = lineage.private_memory_bytes(process.pid) - (8 * MIB if what == "memfd" else 0)
        assert 0 < usual < 64 * MIB
    finally:
        process.close()


def test_a_process_that_is_gone_has_no_relatives() -> None:
    process = launch.spawn(["/bin/true"])
    process.close()
    assert lineage.parent(process.pid) is None
    assert lineage.children(process.pid) == []
    assert lineage.first_child(process.pid) is None
    assert lineage.private_memory_bytes(process.pid) == 0


def test_our_own_parent_is_known() -> None:
    assert lineage.parent(os.getpid()) == os.getppid()


def test_a_tree_that_computes_longer_than_its_bound_is_noticed() -> None:
    group = Cgroup(NONE, "g", ProcessLimits())
    facts = watch.Watched(
        init=os.getpid(), cgroup=group, memory_bytes=1 << 50, layer=None, layer_bytes=0, cpu_seconds=0.0
    )
    one = watch.Watch(facts)
    assert broken(one) is End.CPU
    seen = one.charged(None)
    assert seen is not None
    assert 0 < seen <= lineage.cpu_seconds(os.getpid())


def test_a_cgroup_says_how_long_a_tree_has_computed(tmp_path: Path) -> None:
    group = Cgroup(CgroupFacts(version=2, roots={"unified": tmp_path}), "g", ProcessLimits())
    (tmp_path / "g" / "cpu.stat").write_text("usage_usec 2500000\n")
    facts = watch.Watched(init=1, cgroup=group, memory_bytes=None, layer=None, layer_bytes=0, cpu_seconds=2.0)
    one = watch.Watch(facts)
    assert broken(one) is End.CPU
    assert one.charged(None) == 2.5
    assert one.charged(2.75) == 2.75


@pytest.fixture
def waiting(tmp_path: Path) -> watch.Watch:
    """Watches a tree that waits and has used 2.5 seconds, of 3 that it may use until it is armed."""
    group = Cgroup(CgroupFacts(version=2, roots={"unified": tmp_path}), "g", ProcessLimits())
    (tmp_path / "g" / "cpu.stat").write_text("usage_usec 2500000\n")
    facts = watch.Watched(
        init=1, cgroup=group, memory_bytes=None, layer=None, layer_bytes=0, cpu_seconds=3.0, waits=True
    )
    return watch.Watch(facts)


def test_what_was_used_before_arming_is_not_charged(waiting: watch.Watch, tmp_path: Path) -> None:
    waiting.arm(1.0)
    (tmp_path / "g" / "cpu.stat").write_text("usage_usec 3500000\n")
    assert not waiting._cpu()
    assert waiting.charged(None) == 1.0
    assert waiting.charged(3.25) == 0.75
    assert waiting.charged(2.0) == 0.0  # a count that runs backwards
    (tmp_path / "g" / "cpu.stat").write_text("usage_usec 3600000\n")
    assert broken(waiting) is End.CPU


def test_nothing_was_seen_of_an_armed_tree_before_the_first_look(waiting: watch.Watch) -> None:
    assert not waiting._cpu()
    assert waiting.charged(None) == 2.5
    waiting.arm(1.0)
    assert waiting.charged(None) is None


def test_a_tree_that_waits_has_a_bound_too(waiting: watch.Watch, tmp_path: Path) -> None:
    (tmp_path / "g" / "cpu.stat").write_text("usage_usec 3100000\n")
    assert broken(waiting) is End.CPU


def test_arming_ends_the_pause_of_one_who_waits(
    waiting: watch.Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WATCH_WAITING_SECONDS", 1000.0)

    async def armed() -> End:
        looking = asyncio.ensure_future(waiting.broken())
        await asyncio.sleep(0)
        waiting.arm(0.5)
        (tmp_path / "g" / "cpu.stat").write_text("usage_usec 9500000\n")
        return await asyncio.wait_for(looking, 30)

    assert asyncio.run(armed()) is End.CPU


@pytest.mark.threat("R10")
def test_what_lies_beside_a_layer_counts_with_it(tmp_path: Path) -> None:
    layer, beside = tmp_path / "layer", tmp_path / "beside"
    for folder in (layer, beside):
        folder.mkdir()
        (folder / "file").write_bytes(b"x" * 64 * 1024)
    both = watch._together((layer, beside))
    assert both.size_bytes >= watch.measure(layer).size_bytes + 64 * 1024
    assert both.complete
    assert not both.excessive
