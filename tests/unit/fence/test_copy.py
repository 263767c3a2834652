"""Trees that somebody hostile made, copied for the next step."""

import hashlib
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fumehood.core import errors
from fumehood.fence import locked
from fumehood.fence.copy import Copied, CopyLimits, copy_trees
from fumehood.fence.walk import opened_layer

Copy: TypeAlias = Callable[..., tuple[Copied, Path]]


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """Copy folders, the first at the bottom, into a new one."""

    def run(*sources: Path, owner: int | None = None, bounds: CopyLimits | None = None) -> tuple[Copied, Path]:
        target = tmp_path / f"target-{len(list(tmp_path.iterdir()))}"
        target.mkdir()
        fds = [os.open(p, os.O_RDONLY) for p in (*sources, target)]
        try:
            return copy_trees(fds[:-1], fds[-1], owner=owner, bounds=bounds or CopyLimits()), target
        finally:
            for fd in fds:
                os.close(fd)

    return run


@pytest.fixture
def source(tmp_path: Path) -> Path:
    made = tmp_path / "source"
    made.mkdir()
    return made


@pytest.fixture(autouse=True)
def no_descriptor_is_left(open_descriptors: Callable[[], int]) -> Iterator[None]:
    before = open_descriptors()
    yield
    assert open_descriptors() == before


def listed(folder: Path) -> dict[bytes, tuple[object, ...]]:
    with opened_layer(folder, plain=True) as walk:
        return {e.path: (e.kind, e.mode, e.link, walk.digest(e)) for e in tuple(walk)}


@pytest.mark.threat("R8")
def test_a_copy_is_what_was_there_but_for_what_only_a_kernel_can_make(source: Path, copy: Copy) -> None:
    (source / "bin").mkdir(mode=0o755)
    (source / "bin/run").write_bytes(b"#!/bin/sh\n")
    (source / "bin/run").chmod(0o4751)
    (source / "out").symlink_to("/etc")
    (source / "up").symlink_to("../../../etc/passwd")
    (source / os.fsdecode(b"line\nbreak \xff")).write_bytes(b"odd")
    os.link(source / "bin/run", source / "second")
    os.mkfifo(source / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(source / "socket"))
    copied, target = copy(source)
    expected = listed(source)
    assert copied.left_out == {b"fifo": "other", b"socket": "other"}
    assert listed(target) == {path: seen for path, seen in expected.items() if path not in copied.left_out}
    assert (target / "second").stat().st_nlink == 1
    assert copied.lost == {}


@pytest.mark.threat("R8")
def test_a_link_in_the_source_is_never_followed(source: Path, copy: Copy, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_bytes(b"key")
    (source / "folder").symlink_to(tmp_path / "secret")
    (source / "file").symlink_to(tmp_path / "secret/key")
    _, target = copy(source)
    assert {p.name: str(p.readlink()) for p in target.iterdir()} == {
        "folder": str(tmp_path / "secret"),
        "file": str(tmp_path / "secret/key"),
    }


@pytest.mark.threat("R8")
def test_what_was_locked_is_copied_and_locked_again_on_both_sides(source: Path, copy: Copy) -> None:
    (source / "locked/inner").mkdir(parents=True)
    hidden = source / "locked/inner/hidden"
    hidden.write_bytes(b"hidden")
    for path in (hidden, hidden.parent, source / "locked"):
        path.chmod(0)
    _, target = copy(source)
    for root in (source, target):
        seen = listed(root)
        assert seen[b"locked"][1] == seen[b"locked/inner"][1] == seen[b"locked/inner/hidden"][1] == 0
        assert seen[b"locked/inner/hidden"][3] == hashlib.sha256(b"hidden").hexdigest()


def test_holes_stay_holes_and_cost_nothing_of_the_bound(source: Path, copy: Copy) -> None:
    with (source / "holes").open("wb") as file:
        file.truncate(1 << 30)
        file.seek(512 << 20)
        file.write(b"x" * 5000)
    copied, target = copy(source, bounds=CopyLimits(total_bytes=1 << 20))
    status = (target / "holes").stat()
    assert (status.st_size, status.st_blocks * 512 < 1 << 20) == (1 << 30, True)
    with (target / "holes").open("rb") as file:
        file.seek((512 << 20) - 1)
        assert file.read(5002) == b"\0" + b"x" * 5000 + b"\0"
    assert copied.disk_bytes < 1 << 20


def test_times_of_files_are_kept(source: Path, copy: Copy) -> None:
    (source / "old").write_bytes(b"")
    os.utime(source / "old", ns=(1, 1_000_000_007))
    _, target = copy(source)
    assert (target / "old").stat().st_mtime_ns == 1_000_000_007


def test_a_later_tree_lies_on_top_of_an_earlier_one(source: Path, copy: Copy, tmp_path: Path) -> None:
    top = tmp_path / "top"
    for root in (source, top):
        (root / "home/both").mkdir(parents=True)
        (root / "home/file").write_bytes(os.fsencode(root.name))
        (root / "home" / root.name).write_bytes(b"")
        (root / "home/link").symlink_to(root.name)
    (top / "home/both").chmod(0o700)
    os.mkfifo(source / "home/filled")
    (top / "home/filled").write_bytes(b"")
    copied, target = copy(source, top)
    assert sorted(p.name for p in (target / "home").iterdir()) == ["both", "file", "filled", "link", "source", "top"]
    assert (target / "home/file").read_bytes() == b"top"
    assert (target / "home/link").readlink() == Path("top")
    assert stat.S_IMODE((target / "home/both").stat().st_mode) == 0o700
    assert copied.left_out == {}


def test_trees_that_do_not_fit_on_each_other_are_our_own_fault(source: Path, copy: Copy, tmp_path: Path) -> None:
    (source / "name").mkdir()
    (tmp_path / "top").mkdir()
    (tmp_path / "top/name").write_bytes(b"")
    with pytest.raises(errors.HarnessError, match="could not be copied"):
        copy(source, tmp_path / "top")


@pytest.mark.threat("R10")
@pytest.mark.parametrize("bounds", [CopyLimits(entries=3), CopyLimits(total_bytes=29)])
def test_trees_over_a_bound_are_refused(source: Path, copy: Copy, tmp_path: Path, bounds: CopyLimits) -> None:
    (tmp_path / "top").mkdir()
    for root in (source, tmp_path / "top"):
        for number in range(2):
            (root / f"{root.name}-{number}").write_bytes(b"x" * 10)
    with pytest.raises(errors.TooLargeError):
        copy(source, tmp_path / "top", bounds=bounds)
    assert copy(source, bounds=bounds)[0].entries == 2
    for number in range(4):
        (source / f"more-{number}").write_bytes(b"")
    if bounds.entries == 3:
        with pytest.raises(errors.TooLargeError, match="entries"):
            copy(source, bounds=bounds)


@pytest.mark.threat("R8")
def test_what_lies_too_deep_is_counted_and_the_rest_is_copied(source: Path, copy: Copy) -> None:
    (source / "/".join(["d"] * 300)).mkdir(parents=True)
    copied, target = copy(source)
    assert copied.lost == {"depth": 1}
    assert len(listed(target)) == CopyLimits().depth


@pytest.mark.threat("R8")
def test_a_file_that_became_another_is_left_out(
    source: Path, copy: Copy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (source / "file").write_bytes(b"listed")
    (source / "gone").write_bytes(b"listed")
    (tmp_path / "other").write_bytes(b"other")
    opened = locked.opened

    def swapped(root_fd: int, path: bytes, *, unlocking: bool) -> object:
        (source / os.fsdecode(path)).unlink()
        if path == b"file":
            os.link(tmp_path / "other", source / "file")
        return opened(root_fd, path, unlocking=unlocking)

    monkeypatch.setattr(locked, "opened", swapped)
    copied, target = copy(source)
    assert copied.left_out == {b"file": "changed", b"gone": "unreadable"}
    assert list(target.iterdir()) == []


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_copy_belongs_to_the_owner_and_keeps_its_bits(source: Path, copy: Copy) -> None:
    (source / "folder").mkdir()
    (source / "folder/file").write_bytes(b"")
    (source / "folder/file").chmod(0o4755)
    (source / "link").symlink_to("x")
    _, target = copy(source, owner=12345)
    for path in target.rglob("*"):
        assert (path.lstat().st_uid, path.lstat().st_gid) == (12345, 12345)
    assert stat.S_IMODE((target / "folder/file").stat().st_mode) == 0o4755


NAMES = st.binary(min_size=1, max_size=8).filter(lambda n: b"/" not in n and b"\0" not in n and n not in (b".", b".."))
TREES: st.SearchStrategy[object] = st.recursive(
    st.binary(max_size=20) | st.tuples(NAMES), lambda inner: st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)


def plant(path: Path, tree: object) -> None:
    if isinstance(tree, dict):
        path.mkdir(exist_ok=True)
        for name, inner in tree.items():
            plant(path / os.fsdecode(name), inner)
    elif isinstance(tree, bytes):
        path.write_bytes(tree)
    elif isinstance(tree, tuple):
        path.symlink_to(os.fsdecode(tree[0]))


@given(tree=st.dictionaries(NAMES, TREES, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_any_tree_of_files_folders_and_links_comes_out_as_it_was(
    tree: dict[bytes, object], copy: Copy, tmp_path: Path
) -> None:
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    plant(folder, tree)
    _, target = copy(folder)
    assert listed(target) == listed(folder)
