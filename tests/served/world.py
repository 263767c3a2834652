"""A workspace and what lies outside it: every test of an escape starts here.

Outside hold two names of one length: `MARKED` exists and holds `MARK`, `ABSENT` does not exist. Whatever tells the
two apart is an oracle, whatever holds `MARK` or `SIZE` is a leak.
"""

import os
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

MARK = "mark-7f3a9c51e2"
MARKED, ABSENT = "marked_outside.txt", "absent_outside.txt"
SIZE = 48_611  # of the marked file: no other number in a world is this one
FOLDER = "folder_outside"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A workspace `root` below `base`; everything else below `base` is outside."""

    base: Path
    root: Path


def make(base: Path) -> World:
    """Write it."""
    root = base / "root"
    for folder in (root / "src", base / FOLDER, base / "root_sibling"):
        folder.mkdir(parents=True)
    content = (f"{MARK}\ndef {function()}(): ...\n" * SIZE)[:SIZE]
    for place in (base / MARKED, base / FOLDER / MARKED, base / "root_sibling" / MARKED):
        place.write_text(content, encoding="ascii")
    (root / "src" / "main.py").write_text("def main():\n    return 1\n", encoding="ascii")
    (root / "README.md").write_text("# A project\n", encoding="ascii")
    _links(base, root)
    _repository(root)
    return World(base=base, root=root)


def function() -> str:
    """The name of the function that only the marked file defines."""
    return MARK.replace("-", "_")


def _links(base: Path, root: Path) -> None:
    links = {
        "link_file": base / MARKED,
        "link_absent": base / ABSENT,
        "link_folder": base / FOLDER,
        "link_relative": Path("..") / MARKED,
        "link_up": Path(".."),
        "link_root": Path("/"),
        "link_self": Path("link_self"),
        "link_to_link": Path("link_file"),
        "link_proc": Path("/proc/self/root"),
        "src/link_deep": Path("../..") / MARKED,
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    os.link(base / MARKED, root / "hard.txt")
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "sock")) if len(str(root)) < 90 else os.mkfifo(root / "sock")


def _repository(root: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/"}
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "src", "README.md"], ["commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *who, *words], cwd=root, env=environment, check=True, capture_output=True)


def shapes(world: World, target: str) -> dict[str, str]:
    """Every way in which `target`, one of MARKED and ABSENT, is asked for."""
    base, root = str(world.base), str(world.root)
    up = base.count("/") + 3
    plain = {
        "parent": f"../{target}",
        "parent of a folder": f"src/../../{target}",
        "dot and parent": f"./../{target}",
        "doubled slashes": f"..//{target}",
        "inside a folder outside": f"../{FOLDER}/{target}",
        "a sibling with the root as prefix": f"../root_sibling/{target}",
        "an absolute sibling": f"{root}_sibling/{target}",
        "absolute": f"{base}/{target}",
        "absolute through the root": f"{root}/../{target}",
        "absolute through a folder": f"{root}/src/../../{target}",
        "absolute with doubled slashes": f"//{base}/{target}",
        "up to the top and down": "../" * up + base.strip("/") + f"/{target}",
        "many parents": "../" * 400 + base.strip("/") + f"/{target}",
        "through a missing folder": f"nothing/../../{target}",
        "through a file": f"README.md/../../{target}",
        "through a FIFO": f"fifo/../../{target}",
        "backslashes": f"..\\{target}",
        "mixed slashes": f"..\\../{target}",
        "percent": f"%2e%2e/{target}",
        "percent slash": f"..%2f{target}",
        "double percent": f"%252e%252e%252f{target}",
        "full-width dots": f"\uff0e\uff0e/{target}",
        "one dot leader": f"\u2024\u2024/{target}",
        "division slash": f"..\u2215{target}",
        "four dots": f"....//{target}",
        "spaces": f" ../{target}",
        "trailing dot": f"../{target}.",
        "trailing slash": f"../{target}/",
        "a home": f"~/../..{base}/{target}",
        "a variable": f"$HOME/../{target}",
        "a URL": f"file://{base}/{target}",
        "a UNC path": f"\\\\?\\{base}\\{target}",
        "a drive": f"C:{base}/{target}",
        "an alternate stream": f"../{target}::$DATA",
        "NUL in the middle": f"README.md\0/../../{target}",
        "NUL at the end": f"../{target}\0.md",
        "through /proc": f"/proc/self/cwd/../{target}",
        "through the root of /proc": f"/proc/self/root{base}/{target}",
        "through a descriptor": f"/dev/fd/3/../{target}",
        "a line feed": f"../{target}\n",
        "an option": f"--no-index=../{target}",
        "a pathspec": f":(top)../{target}",
        "a glob": f"../{target[:-1]}?",
    }
    linked = {
        "a link to a folder": f"link_folder/{target}",
        "a link upwards": f"link_up/{target}",
        "a link to the top": f"link_root/{base.strip('/')}/{target}",
        "a link into /proc": f"link_proc/{base.strip('/')}/{target}",
        "a link and back": f"link_folder/../{target}",
        "a link to a file": {MARKED: "link_file", ABSENT: "link_absent"}[target],
    }
    return plain | linked


def inner_shapes() -> dict[str, str]:
    """Names inside that lead outside, or would block, and have no absent twin."""
    return {
        "a relative link": "link_relative",
        "a deep link": "src/link_deep",
        "a link to a link": "link_to_link",
        "a link to itself": "link_self",
        "a link below itself": "link_self/x",
        "a hard link": "hard.txt",
        "a FIFO": "fifo",
        "a socket": "sock",
        "a very long name": "a" * 300,
        "a very long path": "a/" * 2000 + "a",
    }
