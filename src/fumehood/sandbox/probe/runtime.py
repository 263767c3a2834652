"""Find the Deno that runs programs, and what it needs to start in a root of a few files.

Holds: as in `probe.scripts`: the wheel's Deno has the digest of the wheel's RECORD. A Deno of the system is not taken:
another version may judge permissions and modules otherwise; an operator may name one, and answers for it.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fumehood.sandbox.hostfacts import Probe, Tool
from fumehood.sandbox.probe import scripts
from fumehood.sandbox.probe.libraries import LibraryError, libraries_of
from fumehood.sandbox.probe.query import ask
from fumehood.sandbox.probe.tools import Candidate, ownership_problem, tool

NAME: Final = "deno"
_SCRIPT: Final = scripts.Script(name=NAME, distribution="deno")
_MISSING: Final = "pip install 'fumehood[code]', or name a Deno by sandbox.deno"
_OTHER: Final = "let sandbox.deno name Deno's own program, or leave it out"
_UNFIT: Final = "reinstall the wheel as root or as the user who runs fumehood; or name another program in [sandbox]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Deno as a program of this host, and its files by name; the loader's name is its whole path."""

    tool: Tool
    libraries: Mapping[str, Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The runtime, or why there is none."""

    runtime: Runtime | None
    problem: Probe | None = None


def find(choices: Mapping[str, Path]) -> Found:
    """Find it. `choices` are the operator's programs (`Settings.sandbox.tools`); a choice stands alone."""
    uid = os.getuid()
    found = next(iter(_candidates(choices, uid)), None)
    if found is None:
        return Found(runtime=None, problem=Probe(name=NAME, ok=False, detail="not found", remedy=_MISSING))
    name = f"{NAME} ({found.origin})"
    if found.problem:
        return Found(runtime=None, problem=Probe(name=name, ok=False, detail=found.problem, remedy=_UNFIT))
    try:
        libraries = libraries_of(found.path)
    except LibraryError as error:
        return Found(runtime=None, problem=Probe(name=name, ok=False, detail=error.message, remedy=error.remedy))
    if not found.version and not ask([found.path, "--version"]).stdout.startswith("deno "):
        words = f"{found.path} does not say that it is Deno"
        return Found(runtime=None, problem=Probe(name=name, ok=False, detail=words, remedy=_OTHER))
    return Found(runtime=Runtime(tool=tool(found, digest=True), libraries=libraries))


def _candidates(choices: Mapping[str, Path], uid: int) -> list[Candidate]:
    if NAME not in choices:
        return list(scripts.of_wheel(_SCRIPT, sys.path, uid))
    chosen = choices[NAME]
    problem = ownership_problem(chosen, uid) if chosen.is_absolute() else f"{chosen} is not an absolute path"
    return [Candidate(name=NAME, path=chosen, origin="operator", problem=problem)]
