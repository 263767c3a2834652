"""Opens beneath a folder: both mechanisms say the same."""

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.fence import openat2
from fumehood.fence.openat2 import Opener, by_openat2, by_walk, open_beneath

OPENERS = [pytest.param(by_openat2, id="openat2"), pytest.param(by_walk, id="walk")]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/file").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(b"outside")
    (root / "out").symlink_to("../secret")
    (root / "up").symlink_to("..")
    (root / "in").symlink_to("a/b/file")
    (root / "infolder").symlink_to("a")
    (root / "magic").symlink_to("/proc/self/root")
    os.mkfifo(root / "fifo")
    return root


@pytest.fixture
def root_fd(tree: Path) -> Iterator[int]:
    fd = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def outcome(root_fd: int, path: bytes, opener: Opener | None, flags: int = openat2.READ) -> bytes | int | None:
    """The content, or "folder", or the errno."""
    try:
        fd = open_beneath(root_fd, path, flags, opener=opener)
    except OSError as e:
        return e.errno
    try:
        return os.read(fd, 100) if stat.S_ISREG(os.fstat(fd).st_mode) else b"<other>"
    finally:
        os.close(fd)


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("path", [b"a/b/file", b"./a//b/./file", b"a/../a/b/file", b"a/b/../b/file"])
def test_a_file_inside_is_opened(root_fd: int, opener: Opener, path: bytes) -> None:
    assert outcome(root_fd, path, opener) == b"inside"


@pytest.mark.threat("R8")
@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize(
    ("path", "code"),
    [
        (b"out", errno.ELOOP),
        (b"in", errno.ELOOP),
        (b"up/secret", errno.ELOOP),
        (b"infolder/b/file", errno.ELOOP),
        (b"magic/etc/passwd", errno.ELOOP),
        (b"..", errno.EXDEV),
        (b"../secret", errno.EXDEV),
        (b"a/../../secret", errno.EXDEV),
        (b"a/b/../../..", errno.EXDEV),
        (b"/etc/passwd", errno.EXDEV),
        (b"a/b/file\0/../../../secret", errno.EINVAL),
        (b"a/b/file/", errno.ENOTDIR),
        (b"a/b/file/x", errno.ENOTDIR),
        (b"none", errno.ENOENT),
        (b"a/" + b"n" * 256, errno.ENAMETOOLONG),
    ],
)
def test_what_leads_outside_or_through_a_link_is_refused(root_fd: int, opener: Opener, path: bytes, code: int) -> None:
    assert outcome(root_fd, path, opener) == code


def test_an_ordinary_open_would_have_followed_the_link(tree: Path) -> None:
    assert (tree / "out").read_bytes() == b"outside"  # the negative control of the test above


@pytest.mark.threat("R8")
@pytest.mark.parametrize("opener", OPENERS)
def test_a_fifo_is_opened_without_waiting_for_its_other_end(root_fd: int, opener: Opener) -> None:
    assert outcome(root_fd, b"fifo", opener) == b"<other>"


@pytest.mark.parametrize("opener", OPENERS)
def test_an_empty_path_is_the_root(root_fd: int, opener: Opener) -> None:
    for path in (b"", b".", b"a/.."):
        fd = open_beneath(root_fd, path, openat2.FOLDER, opener=opener)
        assert os.path.samestat(os.fstat(fd), os.fstat(root_fd))
        os.close(fd)


@pytest.mark.parametrize("opener", OPENERS)
def test_a_path_longer_than_one_call_takes_is_opened_in_pieces(
    tree: Path, root_fd: int, opener: Opener, open_descriptors: Callable[[], int]
) -> None:
    name = b"n" * 200
    fd = os.dup(root_fd)
    for _ in range(40):
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open(b"file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.symlink(b"/etc/passwd", b"link", dir_fd=fd)
    os.close(fd)
    long = b"/".join([name] * 40)
    before = open_descriptors()
    assert outcome(root_fd, long + b"/file", opener) == b""
    assert outcome(root_fd, long + b"/link", opener) == errno.ELOOP
    assert outcome(root_fd, long + b"/none/x", opener) == errno.ENOENT
    assert outcome(root_fd, b"x/" * limits.PATH_BYTES, opener) == errno.ENAMETOOLONG
    assert open_descriptors() == before
    assert tree.is_dir()


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM])
def test_a_kernel_without_the_call_gets_the_walk(root_fd: int, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: object) -> int:
        raise OSError(code, "filtered")

    monkeypatch.setattr(openat2, "_openat2", refuse)
    assert outcome(root_fd, b"a/b/file", None) == b"inside"
    assert outcome(root_fd, b"out", None) == errno.ELOOP


def test_a_system_without_the_call_gets_the_walk(root_fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(openat2, "by_openat2", None)
    assert outcome(root_fd, b"a/b/file", None) == b"inside"


PARTS = st.sampled_from([b"a", b"b", b"file", b"..", b".", b"", b"out", b"up", b"in", b"infolder", b"magic", b"none"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(parts=st.lists(PARTS, max_size=7))
@example(parts=[b"a", b"b", b"file", b"."])
def test_both_mechanisms_agree_and_neither_reads_outside(root_fd: int, parts: list[bytes]) -> None:
    path = b"/".join(parts)
    by_call, by_step = outcome(root_fd, path, by_openat2), outcome(root_fd, path, by_walk)
    assert b"outside" not in (by_call, by_step)
    assert isinstance(by_call, int) == isinstance(by_step, int)
    if not isinstance(by_call, int):
        assert by_call == by_step
