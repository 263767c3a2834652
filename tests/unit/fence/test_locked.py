"""An ordinary user reads what he owns, whatever mode a target gave it."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import fumehood
from fumehood.fence import locked, openat2
from fumehood.fence.walk import Walk

PROGRAM = """
import os, sys
sys.path.insert(0, sys.argv[2])
from fumehood.fence import locked
from fumehood.fence.walk import walk_layer
root = os.open(sys.argv[1], os.O_RDONLY)
os.makedirs(sys.argv[1] + "/a/b"); os.makedirs(sys.argv[1] + "/seen")
for name in ("a/b/f", "g", "seen/h"):
    open(sys.argv[1] + "/" + name, "w").write("hidden")
for name, mode in (("a/b/f", 0), ("a/b", 0o400), ("a", 0), ("g", 0o200), ("seen", 0o400)):
    os.chmod(sys.argv[1] + "/" + name, mode)
w = walk_layer(root)
found = {e.path: (oct(e.mode), (w.digest(e) or "")[:6]) for e in w}
later = {p: (w.digest(e) or "")[:6] for p, e in {e.path: e for e in w}.items() if p.endswith((b"f", b"g", b"h"))}
print(found, later, w.lost)
print([oct(e.mode) for e in w])
try: locked.unlock(os.open("/etc", os.O_RDONLY), b"shadow", os.O_RDONLY)
except PermissionError: print("refused")
"""


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="the test drops from root; an ordinary user runs the program itself")
def test_modes_hide_nothing_from_their_owner_and_are_put_back() -> None:
    home = Path("/var/tmp") / f"locked-{os.getpid()}"
    home.mkdir()
    os.chown(home, 10990, 10990)
    shutil.copytree(Path(fumehood.__file__).parent, home / "src/fumehood", ignore=shutil.ignore_patterns("__pycache__"))
    (home / "p.py").write_text(PROGRAM)
    (home / "tree").mkdir()
    os.chown(home / "tree", 10990, 10990)
    try:
        command = f"exec /usr/bin/python3 -B -I -S {home}/p.py {home}/tree {home}/src"
        done = subprocess.run(
            ["setpriv", "--reuid=10990", "--regid=10990", "--clear-groups", "sh", "-c", command],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        shutil.rmtree(home)
    digest = "e564b4"
    assert done.returncode == 0, done.stderr
    expected = {
        b"a": ("0o0", ""),
        b"a/b": ("0o400", ""),
        b"a/b/f": ("0o0", digest),
        b"g": ("0o200", digest),
        b"seen": ("0o400", ""),
        b"seen/h": ("0o644", digest),
    }
    later = {b"a/b/f": digest, b"g": digest, b"seen/h": digest}
    assert done.stdout.splitlines() == [
        f"{expected} {later} {{}}",
        str([mode for mode, _ in expected.values()]),
        "refused",
    ]


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opens fail as they fail for an ordinary owner, root or not: by the owner's bits alone."""
    real_open, real_access = os.open, os.access

    def opening(path: bytes | str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if not flags & os.O_PATH and (isinstance(path, bytes) or str(path).startswith("/proc/self/fd")):
            status = os.stat(path, dir_fd=dir_fd, follow_symlinks=not isinstance(path, bytes))
            if not status.st_mode & 0o400:
                raise PermissionError(13, "denied")
        return real_open(path, flags, mode, dir_fd=dir_fd)

    def accessible(path: bytes, mode: int, *, dir_fd: int, effective_ids: bool) -> bool:
        return bool(os.fstat(dir_fd).st_mode & 0o100) and real_access(
            path, mode, dir_fd=dir_fd, effective_ids=effective_ids
        )

    def denied(*_: object) -> int:
        raise PermissionError(13, "denied")

    monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(os, "access", accessible)
    monkeypatch.setattr(openat2, "by_openat2", denied)
    monkeypatch.setattr(openat2, "by_walk", denied)


@pytest.mark.usefixtures("ordinary")
def test_a_locked_file_below_locked_folders_is_read_and_locked_again(
    tmp_path: Path, open_descriptors: Callable[[], int]
) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/f").write_bytes(b"hidden")
    (tmp_path / "a/b/g").write_bytes(b"open")
    modes = {"a/b/f": 0, "a/b": 0o400, "a": 0}
    before = open_descriptors()
    held = {name: os.open(str(tmp_path / name), os.O_PATH) for name in modes}
    for name, mode in modes.items():
        (tmp_path / name).chmod(mode)
    root_fd = os.open(tmp_path, os.O_RDONLY)
    for path, content in ((b"a/b/f", b"hidden"), (b"a/b/g", b"open")):
        with locked.opened(root_fd, path, unlocking=True) as fd:
            assert os.read(fd, 10) == content
    assert {name: os.fstat(fd).st_mode & 0o7777 for name, fd in held.items()} == modes
    for fd in (root_fd, *held.values()):
        os.close(fd)
    assert open_descriptors() == before
    (tmp_path / "a").chmod(0o700)
    (tmp_path / "a/b").chmod(0o700)


@pytest.mark.usefixtures("ordinary")
@pytest.mark.parametrize("name", ["link", "fifo"])
def test_a_link_or_a_fifo_is_never_unlocked(tmp_path: Path, name: str) -> None:
    (tmp_path / "target").write_bytes(b"")
    (tmp_path / "target").chmod(0)
    (tmp_path / "link").symlink_to("target")
    os.mkfifo(tmp_path / "fifo", 0)
    fd = os.open(str(tmp_path), os.O_RDONLY)
    with pytest.raises(PermissionError):
        locked.unlock(fd, name.encode(), os.O_RDONLY)
    os.close(fd)
    assert (tmp_path / "target").stat().st_mode & 0o7777 == 0


def test_what_is_another_users_is_not_unlocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(b"")
    (tmp_path / "f").chmod(0)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    fd = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(PermissionError):
        locked.unlock(fd, b"f", os.O_RDONLY)
    os.close(fd)
    assert (tmp_path / "f").stat().st_mode & 0o7777 == 0


def test_a_file_that_vanishes_while_it_is_unlocked_gets_its_mode_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(b"")
    (tmp_path / "f").chmod(0)
    fd = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(OSError, match="Not a directory"):
        locked.unlock(fd, b"f", os.O_RDONLY | os.O_DIRECTORY)
    assert (tmp_path / "f").stat().st_mode & 0o7777 == 0
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(PermissionError):
        locked.unlock(fd, b"f", os.O_RDONLY)
    os.close(fd)


@pytest.mark.usefixtures("ordinary")
def test_a_folder_that_somebody_named_is_not_unlocked(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "f").write_bytes(b"x")
    (tmp_path / "a").chmod(0)
    (tmp_path / "f").chmod(0)
    fd = os.open(str(tmp_path), os.O_RDONLY)
    done = Walk(fd)
    assert [done.digest(e) for e in done] == [None, None]
    assert done.lost == {"unreadable": 2}
    with pytest.raises(PermissionError):
        locked.enter(fd, b"a", unlocking=False)
    os.close(fd)
