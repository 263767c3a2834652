"""find_files: globs over a tree, what is passed over, and the bounds."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fumehood.core import errors
from fumehood.serve.tools.find_files import TOOL

FILES = [
    "a.py",
    "README.md",
    "src/b.py",
    "src/deep/c.py",
    ".github/ci.yml",
    "node_modules/x/index.js",
    "build/out.py",
    ".venv/lib/d.py",
    ".git/config",
    ".env",
    "src/key.pem",
]


@pytest.fixture
def planted(ground: Path) -> Path:
    for name in FILES:
        (ground / name).parent.mkdir(parents=True, exist_ok=True)
        (ground / name).write_text("x")
    return ground


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("**/*.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("./*.py", ["a.py"]),
        ("src/*.py", ["src/b.py"]),
        ("src\\*.py", ["src/b.py"]),
        ("src/**", ["src/b.py", "src/deep/c.py"]),
        ("*.{md,yml}", ["README.md", ".github/ci.yml"]),
        ("nothing", []),
        (".env", []),
        ("*.pem", []),
        ("config", []),
    ],
)
def test_a_glob_finds_the_files_that_may_be_served(asking: Any, glob: str, found: list[str]) -> None:
    assert asking.lines(TOOL, glob=glob) == found


@pytest.mark.usefixtures("planted")
def test_what_is_passed_over_is_counted_and_not_named(asking: Any, ground: Path) -> None:
    (ground / "link.py").symlink_to("a.py")
    os.mkfifo(ground / "pipe.py")
    lines, facts = asking.answer(TOOL, glob="*.py")
    assert facts["skipped"] == {"denied": 3, "generated": 3, "links": 1, "other": 1}
    assert facts["total"] == len(lines) == 3
    assert facts["complete"] is True
    assert "key.pem" not in str(asking.result(TOOL, glob="*.py"))


@pytest.mark.usefixtures("planted")
def test_a_path_narrows_the_walk_and_may_lead_into_a_generated_tree(asking: Any) -> None:
    assert asking.lines(TOOL, glob="*", path="src") == ["src/b.py", "src/deep/c.py"]
    assert asking.lines(TOOL, glob="./*", path="src/deep/") == ["src/deep/c.py"]
    assert asking.lines(TOOL, glob="*.js", path="node_modules") == ["node_modules/x/index.js"]


@pytest.mark.threat("T2")
def test_a_linked_folder_is_not_entered(asking: Any, ground: Path) -> None:
    (ground.parent / "outside").mkdir()
    (ground.parent / "outside/secret.py").touch()
    (ground / "linked").symlink_to("../outside")
    lines, facts = asking.answer(TOOL, glob="*.py")
    assert lines == []
    assert facts["skipped"] == {"links": 1}
    with pytest.raises(errors.OutsideWorkspaceError):
        asking.answer(TOOL, glob="*.py", path="linked")


@pytest.mark.usefixtures("planted")
def test_pages_join_to_all_that_is_found(asking: Any) -> None:
    asking.settings = msgspec.structs.replace(asking.settings, page_entries=2)
    first, facts = asking.answer(TOOL, glob="*.py")
    second, last = asking.answer(TOOL, glob="*.py", cursor=facts["next_cursor"])
    assert first + second == ["a.py", "src/b.py", "src/deep/c.py"]
    assert "next_cursor" not in last


@pytest.mark.threat("T8")
@pytest.mark.usefixtures("planted")
def test_a_walk_ends_at_its_bound_and_says_so(asking: Any) -> None:
    asking.settings = msgspec.structs.replace(asking.settings, walked_files=4)
    result = asking.result(TOOL, glob="*")
    assert result["structuredContent"]["complete"] is False
    assert "the walk ended after 4 entries" in result["content"][0]["text"]


def test_a_page_holds_no_more_bytes_than_a_reply(asking: Any, ground: Path) -> None:
    asking.settings = msgspec.structs.replace(asking.settings, reply_bytes=4096)
    for n in range(40):
        (ground / f"{n:03}{'x' * 200}").touch()
    lines, facts = asking.answer(TOOL, glob="*")
    assert 10 < len(lines) < 40
    assert facts["total"] == 40


def test_an_unreadable_folder_is_counted(asking: Any, ground: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ground / "locked").mkdir()
    (ground / "a.py").touch()
    really = os.open

    def opened(path: Any, *rest: Any, **more: Any) -> int:
        if path == b"locked":
            raise PermissionError(13, "no")
        return really(path, *rest, **more)

    monkeypatch.setattr(os, "open", opened)
    lines, facts = asking.answer(TOOL, glob="*.py")
    assert lines == ["a.py"]
    assert facts["skipped"] == {"unreadable": 1}


@pytest.mark.threat("T8")
def test_a_tree_deeper_than_a_walk_is_cut_and_counted(asking: Any, ground: Path) -> None:
    place = ground
    for _ in range(130):
        place /= "d"
    place.mkdir(parents=True)
    (place / "x.py").touch()
    assert asking.facts(TOOL, glob="*.py")["skipped"] == {"deep": 1}


def test_an_odd_name_is_spelled(asking: Any, ground: Path) -> None:
    Path(os.fsdecode(os.fsencode(ground) + b"/caf\xe9\n.py")).touch()
    assert asking.lines(TOOL, glob="*.py") == [r"caf\xe9\x0a.py"]


def test_a_bad_glob_is_refused(asking: Any) -> None:
    with pytest.raises(errors.BadPatternError):
        asking.answer(TOOL, glob="../*")


@pytest.mark.threat("T8")
def test_a_folder_that_opens_and_cannot_be_read_is_counted(
    asking: Any, ground: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ground / "a").touch()
    scandir = os.scandir

    @contextlib.contextmanager
    def failing(fd: int) -> Iterator[Iterator[Any]]:
        def entries(found: Any) -> Iterator[Any]:
            yield from found
            raise PermissionError

        with scandir(fd) as found:
            yield entries(found)

    monkeypatch.setattr(os, "scandir", failing)
    lines, facts = asking.answer(TOOL, glob="*")
    assert lines == ["a"]
    assert facts["skipped"] == {"unreadable": 1}
