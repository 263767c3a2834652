"""The time of `search_code` for patterns that other engines refuse or hang on, in lines of doubling length.

Shown beside them: Python's `re` on the same line, stopped after a second. ripgrep runs behind the starter's walls.
"""

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from peers import ripgrep_path

from fumehood.content import credentialfiles
from fumehood.core.budget import Budget
from fumehood.core.sections import WorkspaceSettings
from fumehood.sandbox import starter
from fumehood.serve.access import Access
from fumehood.serve.context import Context
from fumehood.serve.opening import NoSymbols
from fumehood.serve.programs import StarterPrograms
from fumehood.serve.tools.search_code import TOOL

PATTERNS = {"(a+)+b": "a", "a*a*a*a*a*a*b": "a", "(?:x{0,20}){0,20}y": "x"}
CHARACTERS = (60, 6_000, 60_000, 120_000, 240_000, 480_000)
_ROUNDS = 5
_RE_SECONDS = 1.0


@contextlib.contextmanager
def _contexts(root: Path) -> Iterator[Context]:
    settings = WorkspaceSettings(call_seconds=10.0)
    with (
        Access.opened(root, settings, credentialfiles.denies) as access,
        starter.start(access.root_fd, {"rg": ripgrep_path()}) as running,
    ):
        running.ready()
        yield Context(
            access=access,
            settings=settings,
            budget=Budget(600.0),
            programs=StarterPrograms(running),
            symbols=NoSymbols(),
        )


def _ours(context: Context, pattern: str) -> float:
    begun = time.perf_counter()
    TOOL.run({"pattern": pattern, "regex": True}, context)
    return time.perf_counter() - begun


def _python(pattern: str, line: str) -> str:
    """What Python's `re` takes, in a process of its own."""
    program = "import re,sys,json,time; p,l=json.load(sys.stdin); b=time.perf_counter(); re.search(p,l)\n"
    program += "print(time.perf_counter()-b)"
    words = [sys.executable, "-I", "-c", program]
    try:
        done = subprocess.run(
            words, input=json.dumps([pattern, line]).encode(), capture_output=True, timeout=_RE_SECONDS, check=True
        )
    except subprocess.TimeoutExpired:
        return f"> {1000 * _RE_SECONDS:.0f}"
    return f"{1000 * float(done.stdout):.1f}"


def main() -> None:
    """Print a table: pattern, characters, ms of search_code (least of five), ms of `re`."""
    print(f"{'pattern':24} {'characters':>10} {'search_code':>12} {'re':>8}   ms")
    with tempfile.TemporaryDirectory() as folder, _contexts(Path(folder)) as context:
        for pattern, mark in PATTERNS.items():
            for characters in CHARACTERS:
                line = mark * characters + "c" + pattern[-1]  # which has the last letter, and does not match
                (Path(folder) / "line.txt").write_text(line + "\n", encoding="ascii")
                ours = min(_ours(context, pattern) for _ in range(_ROUNDS))
                print(f"{pattern:24} {characters:10} {1000 * ours:12.1f} {_python(pattern, line):>8}")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    main()
