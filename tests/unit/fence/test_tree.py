"""What lies in a folder and below it, by descriptors and names."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fumehood.fence import tree
from fumehood.fence.tree import Kind, Walk


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    for name in ("b", "a", "sub/c", "sub/skip/d", "skip/e", "no"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("xyz")
    (tmp_path / "link").symlink_to("sub")
    os.mkfifo(tmp_path / "fifo")
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def walk(**changes: object) -> Walk:
    made = Walk(
        denies=lambda _place, name: name == "no",
        skips=lambda name: name == "skip",
        enters=lambda _folder: True,
        check=lambda: None,
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_names_come_in_order_and_excluded_ones_are_counted(folder: int) -> None:
    found = tree.names(folder, excludes=lambda name: name in ("no", "link"), check=lambda: None, bound=100)
    assert found == (["a", "b", "fifo", "skip", "sub"], 2)


def test_no_more_entries_are_read_than_the_bound(folder: int) -> None:
    names, excluded = tree.names(folder, excludes=lambda name: name == "no", check=lambda: None, bound=3)
    assert len(names) + excluded == 3


def test_each_kind_is_told_without_following(folder: int) -> None:
    kinds = {name: found.kind for name in ("a", "sub", "link", "fifo") if (found := tree.look(folder, name))}
    assert kinds == {"a": Kind.FILE, "sub": Kind.FOLDER, "link": Kind.LINK, "fifo": Kind.OTHER}
    assert tree.look(folder, "a") == tree.Look(kind=Kind.FILE, size=3)
    assert tree.look(folder, "none") is None


def test_files_come_before_the_folders_beside_them_and_what_is_passed_over_is_counted(folder: int) -> None:
    one = walk()
    assert list(one.files(folder, "")) == [((), "a"), ((), "b"), (("sub",), "c")]
    assert one.skipped == {"denied": 1, "generated": 2, "links": 1, "other": 1}
    assert one.complete
    assert one.entries == 9


def test_names_are_judged_by_where_they_lie(folder: int) -> None:
    asked: list[tuple[str, str]] = []
    one = walk(denies=lambda place, name: asked.append((place, name)))
    list(one.files(folder, "root"))
    assert ("root", "a") in asked
    assert ("root/sub", "c") in asked


def test_a_folder_that_can_hold_nothing_wanted_is_not_entered(folder: int) -> None:
    one = walk(enters=lambda folder: folder != ("sub",))
    assert list(one.files(folder, "")) == [((), "a"), ((), "b")]


def test_a_walk_ends_at_its_bound(folder: int) -> None:
    one = walk(bound=2)
    list(one.files(folder, ""))
    assert (one.complete, one.entries) == (False, 2)


def test_whoever_counts_the_time_is_asked_in_each_folder_and_within(folder: int, tmp_path: Path) -> None:
    for n in range(1000):
        (tmp_path / f"n{n}").touch()
    asked: list[None] = []
    list(walk(check=lambda: asked.append(None)).files(folder, ""))
    assert len(asked) == 3  # two folders, and once within the first
    asked.clear()
    tree.names(folder, excludes=lambda _: False, check=lambda: asked.append(None), bound=5000)
    assert len(asked) == 2


def test_a_walk_that_is_left_early_closes_what_it_opened(folder: int) -> None:
    with os.scandir("/proc/self/fd") as found:
        before = len(list(found))
    for inner, _ in (files := walk().files(folder, "")):
        if inner:
            break
    files.close()  # type: ignore[attr-defined]  # a generator behind the type of an iterator
    with os.scandir("/proc/self/fd") as found:
        assert len(list(found)) == before


def test_names_are_utf_8_whatever_the_locale_says(tmp_path: Path) -> None:
    (tmp_path / "caf\u00e9").touch()
    (tmp_path / "caf\u00e9.d").mkdir()
    (tmp_path / "caf\u00e9.d/x").touch()
    program = (
        "import os, sys\n"
        "from fumehood.fence import tree\n"
        "fd = os.open(sys.argv[1], os.O_RDONLY)\n"
        "names, _ = tree.names(fd, excludes=lambda _: False, check=lambda: None, bound=9)\n"
        "walk = tree.Walk(denies=lambda *_: False, skips=lambda _: False, enters=lambda _: True, check=lambda: None)\n"
        "kind = tree.look(fd, names[0]).kind.value\n"
        "print(sys.getfilesystemencoding(), ascii(names), kind, ascii(list(walk.files(fd, ''))))"
    )
    for mode in ("0", "1"):
        environment = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": mode}
        command = [sys.executable, "-c", program, str(tmp_path)]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout
        encoding, _, rest = said.strip().partition(" ")
        assert (encoding == "utf-8") == (mode == "1")
        assert rest == r"['caf\xe9', 'caf\xe9.d'] file [((), 'caf\xe9'), (('caf\xe9.d',), 'x')]"
