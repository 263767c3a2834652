"""Say what is in this container that should not be there: JSON, one list for each question.

Run inside, with Python alone. Folders in memory and those of the kernel are left out.
"""

import json
import os
import stat
import sys
from pathlib import Path

_KERNELS = {Path("/proc"), Path("/sys"), Path("/dev"), Path("/run")}
_EXPECTED: dict[str, set[str]] = {"/usr/bin": {"python3", "python3.11", "setpriv"}, "/usr/sbin": set()}


def look() -> dict[str, list[str]]:
    """What was found."""
    found: dict[str, list[str]] = {"owned": [], "writable": [], "set_id": [], "programs": [], "written": []}
    waiting = [Path("/")]
    while waiting:
        folder = waiting.pop()
        for path in folder.iterdir():
            facts = path.lstat()
            if path in _KERNELS:
                continue
            if stat.S_ISDIR(facts.st_mode):
                waiting.append(path)
            for what in judged(facts):
                found[what].append(str(path))
        if written(folder):
            found["written"].append(str(folder))
    for place, names in _EXPECTED.items():
        found["programs"] += [str(path) for path in Path(place).iterdir() if path.name not in names]
    found["interfaces"] = [path.name for path in Path("/sys/class/net").iterdir() if path.name != "lo"]
    return found


def judged(facts: os.stat_result) -> list[str]:
    """What is wrong with one file or folder."""
    checks = {
        "owned": facts.st_uid != 0 or facts.st_gid != 0,
        "writable": not stat.S_ISLNK(facts.st_mode) and facts.st_mode & 0o022 and not facts.st_mode & stat.S_ISVTX,
        "set_id": stat.S_ISREG(facts.st_mode) and facts.st_mode & 0o6000,
    }
    return [name for name, wrong in checks.items() if wrong]


def written(folder: Path) -> bool:
    """Whether a file can be made in a folder."""
    try:
        (folder / "written").touch()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    json.dump(look(), sys.stdout)
