"""Programs that a wheel puts into the environment's `bin`, found through its RECORD without importing anything.

Holds: such a program has the digest that the wheel's RECORD names, and belongs to root or to the invoking user.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fumehood.core.limits import RECORD_BYTES
from fumehood.sandbox.probe.tools import DIGESTS, Candidate, ownership_problem, recorded_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The program's name in `bin`, and the wheel that brings it."""

    name: str
    distribution: str  # as the folder of its metadata spells it


def of_wheel(script: Script, places: Sequence[str], uid: int) -> Iterator[Candidate]:
    """The program of the first wheel of that name below `places` (as `sys.path`)."""
    for place in places:
        for info in sorted(Path(place).glob(f"{script.distribution}-*.dist-info")) if place else ():
            yield _candidate(script, info, uid)
            return


def _candidate(script: Script, info: Path, uid: int) -> Candidate:
    name = script.name
    try:
        with (info / "RECORD").open("rb") as file:
            record = file.read(RECORD_BYTES)
    except OSError:
        record = b""
    entries = (line.split(b",")[0] for line in record.splitlines())
    entry = next(
        (one for one in entries if one == b"bin/" + name.encode() or one.endswith(b"/bin/" + name.encode())), b""
    )
    path = Path(os.path.normpath(info.parent / os.fsdecode(entry or name.encode())))
    recorded = recorded_digest(record, os.fsdecode(entry)) if entry else ""
    problem = "" if recorded else f"the wheel's RECORD in {info} names no {name}"
    problem = problem or ownership_problem(path, uid)
    if not problem and DIGESTS.of(path) != recorded:
        problem = f"{path} is not the file that the wheel's RECORD names"
    version = info.name.removesuffix(".dist-info").rpartition("-")[2]
    return Candidate(name=name, path=path, origin="wheel", version=version, recorded=recorded, problem=problem)
