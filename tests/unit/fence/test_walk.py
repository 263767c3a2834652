"""A walk over trees that somebody hostile made."""

import dataclasses
import errno
import hashlib
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.fence import locked, openat2, walk
from fumehood.fence.walk import Entry, EntryKind, Walk, WalkLimits, opened_layer, walk_layer


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "tree"
    made.mkdir()
    return made


@pytest.fixture
def root_fd(root: Path) -> Iterator[int]:
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.fixture(autouse=True)
def no_descriptor_is_left(open_descriptors: Callable[[], int]) -> Iterator[None]:
    before = open_descriptors()
    yield
    assert open_descriptors() <= before


DEFAULT = WalkLimits()


def entries(root_fd: int, bounds: WalkLimits = DEFAULT) -> tuple[dict[bytes, Entry], Walk]:
    pass_ = walk_layer(root_fd, bounds=bounds)
    return {e.path: e for e in pass_}, pass_


@pytest.mark.threat("R8")
def test_each_kind_is_told_apart_and_none_is_opened_that_could_block(root: Path, root_fd: int) -> None:
    (root / "folder").mkdir()
    (root / "folder/file").write_bytes(b"abc")
    (root / "link").symlink_to("/etc/passwd")
    (root / "up").symlink_to("..")
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.fsencode(f"/proc/self/fd/{root_fd}/socket"))
        found, done = entries(root_fd)
    assert {p: e.kind for p, e in found.items()} == {
        b"fifo": EntryKind.OTHER,
        b"folder": EntryKind.FOLDER,
        b"folder/file": EntryKind.FILE,
        b"link": EntryKind.LINK,
        b"socket": EntryKind.OTHER,
        b"up": EntryKind.LINK,
    }
    assert found[b"link"].link == b"/etc/passwd"
    assert not done.truncated
    assert done.digest(found[b"folder/file"]) == hashlib.sha256(b"abc").hexdigest()
    assert done.digest(found[b"fifo"]) is None
    assert not done.truncated


def test_the_order_is_by_name_and_a_folder_comes_before_what_it_holds(root: Path, root_fd: int) -> None:
    for name in ("b/x", "a/z", "a/y", "c"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"")
    assert [e.path for e in walk_layer(root_fd)] == [b"a", b"a/y", b"a/z", b"b", b"b/x", b"c"]


@pytest.mark.threat("R8")
def test_names_are_bytes_whatever_they_hold(root_fd: int) -> None:
    names = [b"new\nline", b"\x1b[31m", b"\xff\xfe", b" ", b"n" * 255, "ü".encode()]
    for name in names:
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=root_fd))
    found, done = entries(root_fd)
    assert sorted(found) == sorted(names)
    assert all(done.digest(e) == hashlib.sha256().hexdigest() for e in found.values())


@pytest.mark.threat("R8")
def test_a_tree_a_thousand_deep_is_walked_to_the_bound_and_the_rest_is_counted(root: Path, root_fd: int) -> None:
    fd = os.dup(root_fd)
    for _ in range(1000):
        os.mkdir(b"d", dir_fd=fd)
        below = os.open(b"d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    found, done = entries(root_fd)
    assert len(found) == limits.LAYER_DEPTH
    assert done.lost == {"depth": 1}
    fd = os.dup(root_fd)  # taken apart from the top: pytest's own removal would recurse
    for level in range(1000):
        os.rename(b"d", str(level).encode(), src_dir_fd=fd, dst_dir_fd=root_fd)
        os.close(fd)
        fd = os.open(str(level).encode(), os.O_RDONLY, dir_fd=root_fd)
    os.close(fd)
    assert root.is_dir()


def test_entries_beyond_the_bound_are_counted(root: Path, root_fd: int) -> None:
    for n in range(20):
        (root / str(n)).write_bytes(b"")
    found, done = entries(root_fd, WalkLimits(entries=7))
    assert len(found) == 7
    assert done.lost == {"entries": 1}


def test_the_bytes_hashed_are_bounded_and_the_rest_is_counted(root: Path, root_fd: int) -> None:
    (root / "a").write_bytes(b"x" * 100)
    (root / "b").write_bytes(b"x" * 100)
    found, done = entries(root_fd, WalkLimits(hashed_bytes=150))
    assert done.digest(found[b"a"]) is not None
    assert done.digest(found[b"b"]) is None
    assert done.lost == {"hashed_bytes": 1}


@pytest.mark.threat("R8")
def test_a_file_of_holes_is_described_and_not_hashed(root: Path, root_fd: int) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(1 << 40)
    found, done = entries(root_fd)
    assert found[b"huge"].size == 1 << 40
    assert found[b"huge"].sparse
    assert done.digest(found[b"huge"]) is None
    assert done.lost == {"sparse": 1}


@pytest.mark.threat("R8")
def test_a_file_swapped_for_a_link_after_the_walk_is_not_read(root: Path, root_fd: int) -> None:
    (root / "a").mkdir()
    (root / "a/f").write_bytes(b"x")
    (root / "g").write_bytes(b"x")
    found, done = entries(root_fd)
    (root / "a/f").unlink()
    (root / "a/f").symlink_to("/etc/passwd")
    (root / "g").write_bytes(b"longer")
    assert done.digest(found[b"a/f"]) is None
    assert done.digest(found[b"g"]) is None
    assert done.lost == {"changed": 2}


def test_a_name_that_vanishes_during_the_walk_is_counted(root: Path, root_fd: int) -> None:
    (root / "a").write_bytes(b"")
    (root / "b").write_bytes(b"")
    (root / "c").mkdir()
    done = walk_layer(root_fd)
    steps = iter(done)
    next(steps)
    (root / "b").unlink()
    (root / "c").rmdir()
    assert list(steps) == []
    assert done.lost == {"changed": 2}


def test_a_walk_that_is_dropped_half_way_closes_what_it_opened(
    root: Path, root_fd: int, open_descriptors: Callable[[], int]
) -> None:
    (root / "a/b/c").mkdir(parents=True)
    before = open_descriptors()
    steps = iter(walk_layer(root_fd))
    next(steps)
    next(steps)
    del steps
    assert open_descriptors() == before


def test_marks_of_an_overlay_are_facts_and_only_the_kernels_own_make_a_folder_opaque(root: Path, root_fd: int) -> None:
    for name, marks in {
        "real": {"user.overlay.opaque": b"y", "user.overlay.origin": b"1"},
        "escaped": {"user.overlay.overlay.opaque": b"y"},
        "x": {"user.overlay.opaque": b"x"},
    }.items():
        (root / name).mkdir()
        for mark, value in marks.items():
            os.setxattr(root / name, mark, value)
    (root / "gone").write_bytes(b"")
    os.setxattr(root / "gone", "user.overlay.whiteout", b"y")
    (root / "full").write_bytes(b"a full file is no whiteout")
    os.setxattr(root / "full", "user.overlay.whiteout", b"y")
    found, _ = entries(root_fd)
    assert [p for p, e in found.items() if e.opaque] == [b"real"]
    assert found[b"escaped"].marks == ("user.overlay.overlay.opaque",)
    assert found[b"x"].marks == ("user.overlay.opaque=x",)
    assert found[b"gone"].kind is EntryKind.WHITEOUT
    assert found[b"full"].kind is EntryKind.FILE


def test_a_file_system_without_xattrs_has_no_marks(root: Path, root_fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "a").mkdir()
    monkeypatch.delattr(os, "listxattr")
    assert entries(root_fd)[0][b"a"].marks == ()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_character_device_without_numbers_is_a_whiteout(root: Path, root_fd: int) -> None:
    os.mknod(root / "w", stat.S_IFCHR, os.makedev(0, 0))
    os.mknod(root / "null", stat.S_IFCHR, os.makedev(1, 3))
    found, _ = entries(root_fd)
    assert {p: e.kind for p, e in found.items()} == {b"null": EntryKind.OTHER, b"w": EntryKind.WHITEOUT}


def test_what_may_not_be_read_is_counted(root: Path, root_fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "a").mkdir()
    (root / "b").write_bytes(b"x")
    (root / "c").write_bytes(b"")

    def deny(*_: object) -> tuple[int, int]:
        raise PermissionError(13, "no")

    real = os.open

    def closed(path: bytes, flags: int, dir_fd: int | None = None) -> int:
        if path in (b"a", b"b", b"c") and dir_fd is not None:
            raise PermissionError(13, "no")
        return real(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(locked, "unlock", deny)
    monkeypatch.setattr(os, "open", closed)
    monkeypatch.setattr(openat2, "by_openat2", openat2.by_walk)
    found, done = entries(root_fd)
    assert sorted(found) == [b"a", b"b", b"c"]
    assert done.digest(found[b"b"]) is None
    assert done.lost == {"unreadable": 2}


NAMES = st.binary(min_size=1, max_size=12).filter(lambda n: b"/" not in n and b"\0" not in n and n not in (b".", b".."))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(tree=st.recursive(st.binary(max_size=40), lambda c: st.dictionaries(NAMES, c, max_size=4), max_leaves=12))
def test_a_generated_tree_comes_back_whole(tmp_path_factory: pytest.TempPathFactory, tree: object) -> None:
    folder = tmp_path_factory.mktemp("generated")
    expected: dict[bytes, str | None] = {}
    pending: list[tuple[bytes, object]] = [(b"", tree if isinstance(tree, dict) else {b"only": tree})]
    while pending:
        path, value = pending.pop()
        place = os.path.join(os.fsencode(folder), path)  # noqa: PTH118 - names here are bytes
        if isinstance(value, dict):
            if path:
                os.mkdir(place)  # noqa: PTH102 - the same
                expected[path] = None
            pending.extend((path + b"/" + name if path else name, below) for name, below in value.items())
        elif isinstance(value, bytes):
            fd = os.open(place, os.O_CREAT | os.O_WRONLY)
            os.write(fd, value)
            os.close(fd)
            expected[path] = hashlib.sha256(value).hexdigest()
    fd = os.open(folder, os.O_RDONLY)
    done = walk_layer(fd)
    assert {e.path: done.digest(e) for e in done} == expected
    assert not done.truncated
    os.close(fd)


def test_the_system_failing_is_counted_and_does_not_end_the_walk(
    root: Path, root_fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").mkdir()
    (root / "b").write_bytes(b"x")

    def failing(code: int) -> Callable[..., tuple[int, int]]:
        def fail(*_: object, **__: object) -> tuple[int, int]:
            raise OSError(code, "failed")

        return fail

    monkeypatch.setattr(locked, "enter", failing(errno.EIO))
    monkeypatch.setattr(locked, "opened", failing(errno.ENAMETOOLONG))
    found, done = entries(root_fd)
    assert done.digest(found[b"b"]) is None
    assert done.lost == {"error": 1, "name": 1}


def test_a_folder_that_cannot_be_listed_is_counted(root: Path, root_fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "a").mkdir()

    def fail(_: object) -> Iterator[object]:
        raise OSError(errno.EIO, "failed")

    monkeypatch.setattr(os, "scandir", fail)
    found, done = entries(root_fd)
    monkeypatch.undo()
    assert found == {}
    assert done.lost == {"error": 1}


def test_a_pruned_folder_is_listed_and_not_entered(root: Path, root_fd: int) -> None:
    (root / "a/.git/x").mkdir(parents=True)
    assert [e.path for e in Walk(root_fd, prune=frozenset({b".git"}))] == [b"a", b"a/.git"]


def test_a_layer_is_open_for_digests_until_its_block_ends_and_each_is_counted_once(root: Path) -> None:
    (root / "a").write_bytes(b"x" * 100)
    with opened_layer(root, bounds=WalkLimits(hashed_bytes=150)) as layer:
        (entry,) = layer
        assert layer.digest(entry) == layer.digest(entry) == hashlib.sha256(b"x" * 100).hexdigest()
    assert layer.lost == {}


def test_a_layer_that_is_a_link_is_not_opened(root: Path) -> None:
    (root / "l").symlink_to("/etc")
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"), opened_layer(root / "l"):
        pass


@pytest.mark.threat("R8")
def test_a_fifo_that_got_the_inode_number_of_a_file_is_not_read(root: Path, root_fd: int) -> None:
    os.mkfifo(root / "fifo")
    found, done = entries(root_fd)
    assert done.digest(dataclasses.replace(found[b"fifo"], kind=EntryKind.FILE)) is None
    assert done.lost == {"changed": 1}


@pytest.mark.threat("R4")
def test_on_a_plain_folder_nothing_is_an_overlays_word(
    root: Path, root_fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "folder").mkdir()
    (root / "folder/file").write_bytes(b"")
    monkeypatch.setattr(walk, "_marks", lambda _: ("user.overlay.opaque", "user.overlay.whiteout"))
    as_layer = {e.path: e for e in walk_layer(root_fd)}
    as_plain = {e.path: e for e in walk_layer(root_fd, plain=True)}
    assert (as_layer[b"folder"].opaque, as_layer[b"folder/file"].kind) == (True, EntryKind.WHITEOUT)
    assert (as_plain[b"folder"].opaque, as_plain[b"folder/file"].kind) == (False, EntryKind.FILE)
    assert as_plain[b"folder"].marks == ("user.overlay.opaque=set by the target", "user.overlay.whiteout")


@pytest.mark.threat("R4")
def test_the_device_of_a_whiteout_is_a_device_on_a_plain_folder(root: Path, root_fd: int) -> None:
    os.mknod(root / "forged", stat.S_IFCHR | 0o600, 0)
    assert [e.kind for e in walk_layer(root_fd)] == [EntryKind.WHITEOUT]
    assert [e.kind for e in walk_layer(root_fd, plain=True)] == [EntryKind.OTHER]


def test_pieces_are_those_of_a_regular_file_that_is_still_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to("file")
    with opened_layer(tmp_path) as walk:
        entries = {entry.path: entry for entry in walk}
        assert list(walk.pieces(entries[b"file"], 4)) == [b"0123", b"4567", b"89"]
        assert list(walk.pieces(entries[b"link"], 4)) == []
        (tmp_path / "other").write_bytes(b"another")
        (tmp_path / "other").replace(tmp_path / "file")
        assert list(walk.pieces(entries[b"file"], 4)) == []
        (tmp_path / "file").unlink()
        assert list(walk.pieces(entries[b"file"], 4)) == []
