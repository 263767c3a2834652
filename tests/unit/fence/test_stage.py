"""A folder that somebody named, copied into a layer."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import errors
from fumehood.fence import openat2
from fumehood.fence.stage import Staged, StageLimits, stage, stays_inside
from fumehood.fence.walk import EntryKind


@pytest.fixture
def source(tmp_path: Path) -> Path:
    made = tmp_path / "source"
    (made / "src").mkdir(parents=True)
    (made / "package.json").write_bytes(b"{}")
    (made / "src/run").write_bytes(b"#!/bin/sh\n")
    (made / "src/run").chmod(0o4711)
    (made / "src/link").symlink_to("../package.json")
    return made


@pytest.fixture
def copy(source: Path, tmp_path: Path) -> Callable[..., tuple[Staged, Path]]:
    def run(*, owner: int | None = None, bounds: StageLimits | None = None) -> tuple[Staged, Path]:
        target = tmp_path / f"target-{len(list(tmp_path.iterdir()))}"
        target.mkdir()
        fds = [os.open(p, os.O_RDONLY) for p in (source, target)]
        try:
            return stage(fds[0], fds[1], owner=owner, bounds=bounds or StageLimits()), target
        finally:
            for fd in fds:
                os.close(fd)

    return run


@pytest.fixture(autouse=True)
def no_descriptor_is_left(open_descriptors: Callable[[], int]) -> Iterator[None]:
    before = open_descriptors()
    yield
    assert open_descriptors() == before


Copy = Callable[..., tuple[Staged, Path]]


def test_files_folders_and_links_inside_are_copied_with_plain_modes(copy: Copy) -> None:
    report, target = copy()
    assert (report.files, report.folders, report.links, report.total_bytes) == (2, 1, 1, 12)
    assert report.left_out == {}
    assert (target / "src/run").read_bytes() == b"#!/bin/sh\n"
    assert stat.S_IMODE((target / "src/run").stat().st_mode) == 0o755  # the set-id bit is gone
    assert stat.S_IMODE((target / "package.json").stat().st_mode) == 0o644
    assert os.readlink(target / "src/link") == "../package.json"  # noqa: PTH115 - the text, not a path


def test_the_digest_is_reproducible_by_its_documented_rule(copy: Copy, source: Path) -> None:
    report, _ = copy()
    content = [hashlib.sha256(c).hexdigest() for c in (b"{}", b"#!/bin/sh\n")]
    rule = f"file\0package.json\x00644\0{content[0]}\0folder\0src\0\0\0link\0src/link\0\0../package.json\0"
    rule += f"file\0src/run\x00755\0{content[1]}\0"
    assert report.sha256 == hashlib.sha256(rule.encode()).hexdigest()
    (source / "src/run").chmod(0o700)
    assert copy()[0].sha256 == report.sha256
    (source / "src/run").chmod(0o600)
    assert copy()[0].sha256 != report.sha256


def test_what_is_no_part_of_a_target_is_left_out_and_counted(copy: Copy, source: Path) -> None:
    for folder in (".git/objects", "node_modules/x", "packages/a/node_modules/y"):
        (source / folder).mkdir(parents=True)
    (source / "packages/a/.git").write_bytes(b"gitdir: /elsewhere")
    (source / "out").symlink_to("/etc/passwd")
    (source / "up").symlink_to("../secret")
    os.mkfifo(source / "fifo")
    report, target = copy()
    assert report.left_out == {".git": 2, "node_modules": 2, "link outside": 2, "other": 1}
    assert sorted(p.name for p in target.rglob("*")) == ["a", "link", "package.json", "packages", "run", "src"]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_copy_belongs_to_the_owner_that_was_asked_for(copy: Copy) -> None:
    _, target = copy(owner=10777)
    owners = {(p.lstat().st_uid, p.lstat().st_gid) for p in target.rglob("*")}
    assert owners == {(10777, 10777)}


@pytest.mark.parametrize(
    "bounds",
    [StageLimits(entries=2), StageLimits(depth=1), StageLimits(total_bytes=11)],
    ids=["names", "depth", "bytes"],
)
def test_a_tree_over_a_bound_is_refused_whole(copy: Copy, bounds: StageLimits) -> None:
    with pytest.raises(errors.TooLargeError):
        copy(bounds=bounds)


@pytest.mark.threat("R8")
def test_a_file_swapped_while_it_is_copied_is_left_out(
    copy: Copy, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_bytes(b"outside")
    real = openat2.open_beneath

    def swapping(root_fd: int, path: bytes, flags: int = openat2.READ) -> int:
        if path == b"package.json":
            (source / "package.json").unlink()
            (source / "package.json").symlink_to("../secret")
        if path == b"src/run":
            (source / "src/other").write_bytes(b"another")
            (source / "src/other").rename(source / "src/run")
        return real(root_fd, path, flags)

    monkeypatch.setattr(openat2, "open_beneath", swapping)
    report, target = copy()
    assert report.left_out == {"unreadable": 1, "changed": 1}
    assert [p.name for p in target.rglob("*") if p.is_file()] == []


def test_a_file_that_may_not_be_read_is_left_out_and_a_lost_name_too(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(*_: object, **__: object) -> tuple[int, int]:
        raise PermissionError(13, "no")

    monkeypatch.setattr("fumehood.fence.locked.enter", deny)
    report, _ = copy()
    assert report.left_out == {"unreadable": 1}
    assert report.folders == 1


@pytest.mark.threat("R8")
def test_a_fifo_that_got_the_inode_number_of_a_file_is_left_out(
    copy: Copy, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(source / "fifo")
    monkeypatch.setattr("fumehood.fence.walk._kind", lambda _: EntryKind.FILE)
    monkeypatch.setattr("fumehood.fence.walk.Walk._file_marks", lambda *_: ())
    report, _ = copy()
    assert report.left_out["changed"] >= 1
    assert report.files == 1  # package.json; the folder and the link are taken for files here, and left out as well


@pytest.mark.parametrize("call", ["symlink", "read", "write", "fchmod"])
def test_a_copy_that_cannot_be_written_is_our_fault(copy: Copy, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(errors.HarnessError) as failed:
        copy()
    monkeypatch.undo()
    assert failed.value.exit_status == 5


@pytest.mark.parametrize(
    ("path", "link", "inside"),
    [
        (b"a", b"b", True),
        (b"a/b", b"../c", True),
        (b"a/b/c", b"../../d/./e", True),
        (b"a/b", b".././/c", True),
        (b"a", b"..", False),
        (b"a/b", b"../../c", False),
        (b"a", b"/etc/passwd", False),
        (b"a/b", b"x/../../../c", False),
        (b"a/b", b"x/../c", False),  # x may be a link to a place from which `..` leads out
        (b"a", b"", False),
    ],
)
def test_a_link_stays_inside_only_when_it_cannot_lead_out(path: bytes, link: bytes, inside: bool) -> None:
    assert stays_inside(path, link) is inside


PART = st.sampled_from([b"a", b"b", b"..", b".", b""])


@given(path=st.lists(st.sampled_from([b"a", b"b"]), min_size=1, max_size=4), link=st.lists(PART, max_size=6))
def test_a_link_that_stays_inside_never_climbs_above_the_root(path: list[bytes], link: list[bytes]) -> None:
    if not stays_inside(b"/".join(path), b"/".join(link)):
        return
    depth = len(path) - 1
    for part in link:
        depth += {b"..": -1, b".": 0, b"": 0}.get(part, 1)
        assert depth >= 0
