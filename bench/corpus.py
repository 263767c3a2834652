"""A repository to read: some eleven thousand source files of this Python, with history, made anew each time.

Nothing in it but `.git` is denied or counts as generated, so that a bare ripgrep that passes over `.git` searches the
very files that fumehood does. What is read lies there many times over, so that no two rounds in a row read one file.
"""

import os
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from fumehood.fence import generated
from fumehood.fence.denylist import Denylist

FILES = 11_000
_COMMITS = 40
_SUFFIXES = {".py", ".pyi", ".md", ".txt", ".rst", ".toml", ".c", ".h"}
_LARGEST = 400 * 1024
SIZES = {"small": 6 * 1024, "medium": 117 * 1024, "large": 480 * 1024}
COPIES = 24  # of each size: 11 MiB of the largest, more than any server here keeps in memory
_LINE = 64  # characters: what prose and code have, so that 117 KB are fewer than 2,000 lines
_MODULES = ("netrc", "getpass", "http/server", "ssl", "ftplib")  # source that says password and token
WORD = "socketserver"  # occurs in the standard library, and so in a few hundred of the files


def make(folder: Path) -> Path:
    """The root of the repository, below `folder`."""
    root = folder / "project"
    root.mkdir(parents=True)
    sources = list(_sources())
    written, copy = 0, 0
    while written < FILES:
        for place, data in sources:
            target = root / f"part{copy:02d}" / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            written += 1
            if written >= FILES:
                break
        copy += 1
    _sized(root)
    _history(root)
    return root


def _sources() -> Iterator[tuple[str, bytes]]:
    for base in (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")):
        for path in sorted(Path(base).rglob("*")):
            if path.suffix in _SUFFIXES and path.is_file() and not path.is_symlink():
                place = path.relative_to(base).as_posix()
                if path.stat().st_size <= _LARGEST and "site-packages" not in place and _is_served(place):
                    yield f"{Path(base).name}/{place}".replace("site-packages", "library"), path.read_bytes()


def _is_served(place: str) -> bool:
    """Whether fumehood neither denies it nor takes it for generated."""
    return not any(map(generated.is_generated, place.split("/"))) and not Denylist().denies(place.encode())


def _sized(root: Path) -> None:
    """Files of exactly the sizes that are read: prose in lines of ordinary length, and source full of telling words."""
    words = Path(os.__file__).read_text(encoding="utf-8").split()
    library = Path(sysconfig.get_path("stdlib"))
    source = "".join((library / f"{name}.py").read_text(encoding="utf-8") for name in _MODULES)
    for number in range(COPIES):
        text = _prose(words[number:] * 40)
        for name, size in SIZES.items():
            (root / f"{name}{number:02d}.txt").write_text(text[: size - 1] + "\n", encoding="utf-8")
        lines = source[: SIZES["medium"] + number * 64].splitlines()
        (root / f"source{number:02d}.py").write_text("\n".join(lines[number:]) + "\n", encoding="utf-8")
    flat = root / "flat"
    flat.mkdir()
    for number in range(200):
        (flat / f"entry{number:03d}.txt").write_text("x\n", encoding="utf-8")


def _prose(words: list[str]) -> str:
    lines, line = [], ""
    for word in words:
        if len(line) + 1 + len(word) > _LINE - 1:
            lines.append(line.ljust(_LINE - 1))
            line = ""
        line = f"{line} {word}".strip()[: _LINE - 1]
    return "\n".join(lines)


def _history(root: Path) -> None:
    """Forty commits, and a change that is not committed."""
    environment = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _WHO.items()},
    }

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(root), *words], check=True, env=environment, capture_output=True)

    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-q", "-m", "Begin")
    notes = root / "notes.txt"
    for number in range(_COMMITS):
        with notes.open("a", encoding="utf-8") as file:
            file.write(f"note {number}\n" * 5)
        git("add", "notes.txt")
        git("commit", "-q", "-m", f"Note {number}")
    with notes.open("a", encoding="utf-8") as file:
        file.write("not committed\n" * 20)


_WHO = {"NAME": "Ada Example", "EMAIL": "ada@example.org", "DATE": "2026-01-01T00:00:00+00:00"}
