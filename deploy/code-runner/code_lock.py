"""Print the part of requirements.lock that `fumehood[code]` needs, with its hashes.

Read from what is installed beside this script's Python, which `scripts/setup` made from the same lock.
"""

import importlib.metadata
import re
import sys
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

_ENTRY = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==.*(?:\n[ ]+.*)*", re.MULTILINE)
_EXTRA = "code"


def needed() -> set[NormalizedName]:
    """Every distribution that `fumehood[code]` brings along on Linux."""
    found: set[NormalizedName] = set()
    waiting: list[tuple[str, str]] = [("fumehood", _EXTRA)]
    while waiting:
        name, extra = waiting.pop()
        for requirement in map(Requirement, importlib.metadata.requires(name) or []):
            other = canonicalize_name(requirement.name)
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
                continue
            if other not in found:
                found.add(other)
                waiting.append((other, ""))
    return found


def part(lock: str, names: set[NormalizedName]) -> str:
    """The entries of these distributions; every one has to be there."""
    entries = {canonicalize_name(entry["name"]): entry[0] for entry in _ENTRY.finditer(lock)}
    return "".join(f"{entries[name]}\n" for name in sorted(names))


if __name__ == "__main__":
    sys.stdout.write(part(Path(sys.argv[1]).read_text(encoding="utf-8"), needed()))
