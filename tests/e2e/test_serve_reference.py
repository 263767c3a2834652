"""The page about the server names each member that a tool gives, and no other."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fumehood.serve.catalogue import TOOLS
from served import world
from served.talk import Talk

PAGE = Path(__file__).parents[2] / "docs/reference/serve.md"
REPORT = {"redaction", "signals", "risk", "level", "nonce", "clipped_lines"}
ASKED: dict[str, tuple[dict[str, Any], ...]] = {
    "read_file": ({"path": "long.txt"},),
    "list_directory": ({"include_hidden": True}, {"path": "many"}),
    "search_code": ({"pattern": "line", "max_results": 1},),
    "find_files": ({"glob": "*"},),
    "find_symbol": ({"symbol": "inner"},),
    "git_log": ({"limit": 1},),
}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What each tool gave, all its calls together."""
    root = world.make(tmp_path_factory.mktemp("world")).root
    (root / "long.txt").write_text("line\n" * 5000)
    (root / "src/inside.py").write_text("class Outer:\n    def inner(self):\n        return 1\n")
    (root / "package.json").write_text("{")
    (root / "README.md").write_text("# Changed\n")
    (root / "many").mkdir()
    for number in range(1200):
        (root / "many" / f"{number}.txt").touch()
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", *who, "commit", "--quiet", "--allow-empty", "--message", "Go on"], cwd=root, check=True)
    found: dict[str, dict[str, Any]] = {}
    with Talk(root) as talk:
        for tool in TOOLS:
            for arguments in ASKED.get(tool.name, ({},)):
                result = talk.call(tool.name, arguments)
                assert result["isError"] is False
                found.setdefault(tool.name, {}).update(result["structuredContent"])
    return found


def documented() -> dict[str, tuple[set[str], set[str]]]:
    """Tool → its own members, and all names of its row."""
    part = PAGE.read_text(encoding="utf-8").partition("## What each tool says")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z_]+)` \| (.+) \|$", part, re.MULTILINE)
    return {name: ({m for one in cell.split("; ") for m in _first(one)}, set(_names(cell))) for name, cell in rows}


def _names(text: str) -> list[str]:
    return re.findall(r"`([a-z_]+)`", text)


def _first(part: str) -> list[str]:
    """The members that a part of a row begins with: those before what it says of them."""
    return _names(re.split(r", each|: `|, where| of what| in bytes| by reason| bytes|, how many", part)[0])


@pytest.mark.sandbox
@pytest.mark.parametrize("name", [tool.name for tool in TOOLS])
def test_each_member_is_on_the_page_and_the_page_has_no_other(given: dict[str, dict[str, Any]], name: str) -> None:
    members, named = documented()[name]
    own = given[name].keys() - REPORT
    assert own - named == set()
    assert members - own - {"unread"} == set()
    assert set(_inner(given[name])) - REPORT - named == set()


def _inner(value: Any) -> Iterator[str]:
    """Keys of objects that stand in lists: what is told of each thing."""
    for member, inside in value.items():
        if isinstance(inside, list) and member != "signals":
            for one in inside:
                if isinstance(one, dict):
                    yield from one
