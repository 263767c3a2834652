"""A file or folder that is replaced by a link to the outside while it is read: nothing of the outside is ever shown."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fumehood.core import errors
from fumehood.core.sections import WorkspaceSettings
from fumehood.serve.access import Access

INSIDE, OUTSIDE = b"inside", b"outside"
# Replaces `file` and `folder` in turn by links that lead outside and by what they were, without a moment when nothing
# is there, until its standard input ends.
SWAPPER = """
import os, select, sys
root, outside = sys.argv[1:]
os.chdir(root)
print("ready", flush=True)
while not select.select([0], [], [], 0)[0]:
    os.symlink(outside + "/file", "t"); os.replace("t", "file")
    os.symlink(outside, "t"); os.rename("folder", "was"); os.rename("t", "folder")
    with open("t", "wb") as file: file.write(b"inside")
    os.replace("t", "file")
    os.rename("folder", "t"); os.rename("was", "folder"); os.unlink("t")
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder, content in ((tmp_path / "ws", INSIDE), (tmp_path / "out", OUTSIDE)):
        (folder / "folder").mkdir(parents=True)
        (folder / "file").write_bytes(content)
        (folder / "folder/file").write_bytes(content)
    (tmp_path / "out/planted").touch()
    return tmp_path / "ws"


@contextmanager
def swapping(root: Path) -> Iterator[None]:
    command = [sys.executable, "-I", "-S", "-c", SWAPPER, str(root), str(root.parent / "out")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as swapper:
        assert swapper.stdin is not None
        assert swapper.stdout is not None
        assert swapper.stdout.readline() == b"ready\n"
        try:
            yield
        finally:
            swapper.stdin.close()
            assert swapper.wait(timeout=30) == 0


def checked_and_then_opened(root: Path, name: str, between: Callable[[], None] = lambda: None) -> bytes:
    """What a server does that resolves a path, compares it with its root, and opens the path."""
    path = root / name
    resolved = path.resolve()
    if not resolved.is_relative_to(root.resolve()) or not resolved.is_file():
        raise errors.OutsideWorkspaceError("outside")
    between()
    return path.read_bytes()


def outcomes(read: Callable[[str], bytes], reads: int) -> Counter[str]:
    """How often each thing happened, of at least so many reads, until both inside and refused were seen."""
    seen: Counter[str] = Counter()
    while seen.total() < reads or (not (seen["inside"] and seen["outside_workspace"]) and seen.total() < 100 * reads):
        for name in ("file", "folder/file"):
            try:
                seen[read(name).decode()] += 1
            except errors.RefusedError as refused:
                seen[refused.code] += 1
            except OSError:
                seen["failed"] += 1
    return seen


@contextmanager
def opened(root: Path, *, follow: bool = False) -> Iterator[Access]:
    settings = WorkspaceSettings(unsafe_follow_links=follow)
    with Access.opened(root, settings, lambda _name, _data: False) as access:
        yield access


def swap(root: Path, name: str) -> None:
    (root / name).rename(root / "aside")
    (root / name).symlink_to(root.parent / "out" / name)


@pytest.mark.threat("T2")
@pytest.mark.parametrize("name", ["file", "folder"])
def test_a_check_before_the_open_is_overtaken(root: Path, name: str) -> None:
    path = "file" if name == "file" else "folder/file"
    assert checked_and_then_opened(root, path, lambda: swap(root, name)) == OUTSIDE


@pytest.mark.threat("T2")
@pytest.mark.parametrize("name", ["file", "folder"])
def test_a_swap_after_the_open_changes_nothing_that_is_read(root: Path, name: str) -> None:
    path = "file" if name == "file" else "folder/file"
    with opened(root) as access, access.open(path) as file:
        swap(root, name)
        assert file.read(100) == INSIDE
        with pytest.raises(errors.OutsideWorkspaceError):
            access.read(path, 100)


@pytest.mark.threat("T2")
@pytest.mark.parametrize("follow", [False, True])
def test_nothing_leaks_while_files_and_folders_are_swapped(root: Path, follow: bool) -> None:
    with opened(root, follow=follow) as access, swapping(root):
        seen = outcomes(lambda name: access.read(name, 100), 2000)
    assert seen["outside"] == 0
    assert seen["inside"] > 0
    assert seen["outside_workspace"] > 0


@pytest.mark.threat("T2")
def test_no_name_of_the_outside_is_listed_while_folders_are_swapped(root: Path) -> None:
    names: set[str] = set()
    refused = 0
    with opened(root) as access, swapping(root):
        for _ in range(1000):
            try:
                with access.folder("folder") as folder:
                    names |= set(os.listdir(folder))  # noqa: PTH208 - a descriptor has no Path
            except errors.RefusedError:
                refused += 1
    assert names <= {"file"}
    assert refused < 1000


@pytest.mark.long
@pytest.mark.threat("T2")
def test_nothing_leaks_in_seconds_of_swapping_where_a_check_before_the_open_does(root: Path) -> None:
    with opened(root) as access, swapping(root):
        seen = outcomes(lambda name: access.read(name, 100), 200_000)
        leaky = outcomes(lambda name: checked_and_then_opened(root, name), 50_000)
    assert seen["outside"] == 0
    assert leaky["outside"] > 0
