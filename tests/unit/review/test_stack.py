"""What steps stand on: overlays, or copies that tell the same."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fumehood.core.errors import TooLargeError
from fumehood.observe.layers import LAYER, SNAPSHOT
from fumehood.review import stack as stacks
from fumehood.review.stack import Copies, Laid, Layered, Overlays, Stack, layering_for, part
from fumehood.review.states import ReviewEndedError, State
from fumehood.sandbox.hostfacts import CgroupFacts, HostFacts
from fumehood.sandbox.runs import Run
from fumehood.sandbox.spec import Overlay, PlainFolder


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "run").mkdir()
    return Run(tmp_path / "run", os.geteuid())


@pytest.fixture
def copies() -> Iterator[Stack]:
    with Stack(Copies(owner=None, why="none here")) as stack:
        yield stack


def facts(run: Run, no_overlay: str) -> HostFacts:
    return HostFacts(
        system="Linux",
        machine="x86_64",
        kernel="6.18",
        uid=os.geteuid(),
        routes=(),
        tools={},
        cgroups=CgroupFacts(version=None, roots={}),
        landlock_abi=0,
        run_root=run.path,
        probes=(),
        no_overlay=no_overlay,
    )


def sources(stack: Stack, run: Run) -> Path:
    folder = run.layer("sources").upper
    (folder / "home").mkdir()
    (folder / "home/kept").write_bytes(b"kept")
    (folder / "home/changed").write_bytes(b"before")
    (folder / "home/removed").mkdir()
    (folder / "home/removed/inner").write_bytes(b"")
    stack.push(stack.read(folder))
    return folder


def step(stack: Stack, run: Run, name: str, act: Callable[[Path], None]) -> tuple[Laid, Layered]:
    laid = stack.lay(run.layer(name))
    act(laid.mount.upper / "home")
    return laid, stack.read_step(laid)


def told(stack: Stack, layer: Layered) -> list[tuple[bytes, str]]:
    kinds = {(True, False): "created", (False, True): "deleted", (False, False): "changed"}
    return [(c.path, kinds[c.before is None, c.after is None]) for c in stack.changes(layer)]


def act(home: Path) -> None:
    (home / "changed").write_bytes(b"after!")
    shutil.rmtree(home / "removed")
    (home / "made").write_bytes(b"")


def test_a_host_without_overlays_works_on_copies_and_says_why(run: Run) -> None:
    assert isinstance(layering_for(facts(run, ""), run), Overlays)
    lesser = layering_for(facts(run, "no such mount"), run)
    assert isinstance(lesser, Copies)
    assert (lesser.sensor, Overlays.sensor) == (SNAPSHOT, LAYER)
    assert "no such mount" in lesser.limitations[0]
    assert Overlays.limitations == ()


def test_overlays_are_mounted_over_every_layer_below(run: Run) -> None:
    with Stack(Overlays()) as stack:
        below = sources(stack, run)
        laid = stack.lay(run.layer("step"))
        assert isinstance(laid.mount, Overlay)
        assert laid.mount.lowers == (below,)
        assert list(laid.mount.upper.iterdir()) == []
        (laid.mount.upper / "new").write_bytes(b"")
        assert told(stack, stack.read_step(laid)) == [(b"new", "created")]


def test_a_copy_starts_as_the_tree_before_and_only_what_changed_is_its_layer(run: Run, copies: Stack) -> None:
    below = sources(copies, run)
    laid, layer = step(copies, run, "step", act)
    assert laid.mount == PlainFolder(upper=run.path / "step/upper")
    assert [(e.path, e.kind) for e in layer.entries] == [
        (b"home/removed", "whiteout"),
        (b"home/changed", "file"),
        (b"home/made", "file"),
    ]
    assert told(copies, layer) == [
        (b"home/changed", "changed"),
        (b"home/made", "created"),
        (b"home/removed", "deleted"),
    ]
    assert (below / "home/changed").read_bytes() == b"before"  # the tree below is as it was
    assert laid.held_bytes > 0


def test_a_step_above_a_copy_starts_from_that_copy_alone(run: Run, copies: Stack) -> None:
    sources(copies, run)
    copies.push(step(copies, run, "one", act)[1])
    assert copies.layers == [run.path / "one/upper"]
    laid, layer = step(copies, run, "two", lambda home: (home / "kept").unlink())
    assert sorted(p.name for p in (laid.mount.upper / "home").iterdir()) == ["changed", "made"]
    assert told(copies, layer) == [(b"home/kept", "deleted")]


def test_a_step_after_a_rewind_sees_nothing_of_what_came_since(run: Run, copies: Stack) -> None:
    sources(copies, run)
    mark = copies.mark()
    copies.push(step(copies, run, "one", act)[1])
    copies.rewind(mark)
    laid, layer = step(copies, run, "two", lambda home: (home / "new").touch())
    assert sorted(p.name for p in (laid.mount.upper / "home").iterdir()) == ["changed", "kept", "new", "removed"]
    assert told(copies, layer) == [(b"home/new", "created")]


def test_what_is_not_copied_is_told_and_no_deletion_of_the_next_step(run: Run, copies: Stack) -> None:
    sources(copies, run)
    copies.push(step(copies, run, "one", lambda home: os.mkfifo(home / "fifo"))[1])
    laid, layer = step(copies, run, "two", lambda _: None)
    assert laid.left_out == ("other: 1",)
    assert told(copies, layer) == []
    copies.push(layer)
    assert copies.lay(run.layer("three")).left_out == ()


def test_install_on_copies_is_compared_with_fetch_above_the_cache(run: Run, copies: Stack) -> None:
    sources(copies, run)

    def fetch(home: Path) -> None:
        (home / "module").write_bytes(b"module")
        (home / "changed").write_bytes(b"by npm")

    def install(home: Path) -> None:
        fetch(home)
        (home / "hooked").write_bytes(b"")
        (home / "module").write_bytes(b"hooked")

    copies.set_fetched(step(copies, run, "fetch", fetch)[1], lambda _: True)
    cache = run.layer("cache").upper
    (cache / "home").mkdir()
    (cache / "home/cached").write_bytes(b"cached")
    copies.push(copies.read(cache))
    laid, layer = step(copies, run, "install", install)
    assert (laid.mount.upper / "home/cached").read_bytes() == b"cached"
    assert [c.path for c in copies.beyond_fetch(layer)] == [b"home/hooked", b"home/module"]


@pytest.mark.threat("R4")
def test_what_fetch_has_beside_packages_hides_nothing_of_install(run: Run, copies: Stack) -> None:
    sources(copies, run)

    def plant(home: Path) -> None:
        (home / "module").write_bytes(b"module")
        (home / "planted").write_bytes(b"planted")

    fetched = step(copies, run, "fetch", plant)[1]
    copies.set_fetched(fetched, lambda path: path == b"home/module")
    _, layer = step(copies, run, "install", plant)
    assert [c.path for c in copies.beyond_fetch(layer)] == [b"home/planted"]
    assert [c.path for c in copies.changes(part(fetched, lambda path: path != b"home/module"))] == [b"home/planted"]


@pytest.mark.threat("R10")
def test_a_tree_that_is_too_large_to_copy_ends_the_review(
    run: Run, copies: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources(copies, run)

    def refuse(*_: object, **__: object) -> None:
        raise TooLargeError("too large")

    monkeypatch.setattr(stacks, "copy_trees", refuse)
    with pytest.raises(ReviewEndedError) as ended:
        copies.lay(run.layer("step"))
    assert (ended.value.state, ended.value.code) == (State.TARGET_FAILED, "layer_size")
