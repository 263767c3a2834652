import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "fumehood"
# The helpers are programs of their own, which launch starts; a namespace can only be entered by forking, and a grammar
# is given a process of its own by it.
EXEMPT = {
    SOURCE / "sandbox" / "launch.py",
    SOURCE / "serve" / "symbols" / "child.py",
    *(SOURCE / "sandbox" / "programs").glob("*.py"),
}
MODULES = {"subprocess", "multiprocessing", "pty", "_posixsubprocess"}
CALLS = ("fork", "forkpty", "exec", "posix_spawn", "spawn", "system", "popen", "startfile")
ASYNC_CALLS = {"create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell"}


def starters(tree: ast.AST) -> list[str]:
    """What in a module could start a process."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")[0]
            names = [alias.name for alias in node.names]
            if module in MODULES:
                found.append(module)
            found += [f"{module}.{n}" for n in names if module in {"os", "posix"} and n.startswith(CALLS)]
            found += [n for n in names if n in {"ProcessPoolExecutor", *ASYNC_CALLS}]
        elif isinstance(node, ast.Attribute):
            of_os = isinstance(node.value, ast.Name) and node.value.id in {"os", "posix"}
            if (of_os and node.attr.startswith(CALLS)) or node.attr in {"ProcessPoolExecutor", *ASYNC_CALLS}:
                found.append(node.attr)
    return found


def test_only_launch_starts_processes() -> None:
    offenders = {
        str(path.relative_to(SOURCE)): found
        for path in SOURCE.rglob("*.py")
        if path not in EXEMPT and (found := starters(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert offenders == {}


@pytest.mark.parametrize(
    "text",
    [
        "import subprocess",
        "from subprocess import run",
        "import os\nos.fork()",
        "from os import execv",
        "import os\nos.posix_spawnp('x', [], {})",
        "import os\nos.system('x')",
        "import asyncio\nasyncio.create_subprocess_exec('x')",
        "from concurrent.futures import ProcessPoolExecutor",
    ],
)
def test_the_search_finds_each_way_to_start_one(text: str) -> None:
    assert starters(ast.parse(text))


def test_launch_itself_would_be_found_so_the_search_is_not_blind() -> None:
    assert starters(ast.parse((SOURCE / "sandbox" / "launch.py").read_text(encoding="utf-8")))
