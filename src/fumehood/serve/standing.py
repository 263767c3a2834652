"""What `fumehood doctor` says of serving: which walls can stand here, tried by doing, and what production would refuse.

Holds: every process of a server is listed with every wall of its; nothing is left behind; nothing is served.
"""

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fumehood.core.budget import Budget
from fumehood.core.errors import FumehoodError
from fumehood.core.sections import Settings
from fumehood.sandbox import confine, landlock, launch, starter
from fumehood.sandbox.containment import Containment, Wall, WallState
from fumehood.sandbox.hostfacts import Probe
from fumehood.sandbox.probe import served
from fumehood.sandbox.probe.tools import Candidate
from fumehood.sandbox.proof import processes
from fumehood.sandbox.proof.processes import Confined, Ground
from fumehood.sandbox.proof.proving import Proven
from fumehood.sandbox.spec import Profile
from fumehood.serve import ground, invariants, walls
from fumehood.serve.invariants import Broken

SYMBOLS: Final = "symbols"  # the record of the walls of the child that parses source text
AUDIT: Final = "audit"  # and of the process that writes the audit log, where one is named
_NOWHERE: Final = "/workspace"  # stands for the folder that a flag will name: no home, no root
_REMEDY: Final = "use Linux 6.12 or newer with Landlock, or set workspace.unsafe_without_walls"
_VERSION: Final = ("--version",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Serving on this host, with these settings."""

    containments: tuple[Containment, ...]  # one for each kind of process
    programs: tuple[Candidate, ...]  # git and ripgrep, those that would be used
    checks: tuple[Probe, ...]
    warnings: tuple[Broken, ...]  # production's invariants that do not hold, were it served over HTTP
    proofs: tuple[tuple[str, tuple[Proven, ...]], ...] | None  # of each kind of process; None: not asked for

    @property
    def stands(self) -> bool:
        """Whether a start would not be refused for a wall."""
        every = [wall for one in self.containments for wall in one.walls if wall.name in walls.NEEDED]
        return all(wall.state is WallState.ENFORCED for wall in every) and all(one.ok for one in self.checks)


def look(settings: Settings, *, prove: bool) -> Standing:
    """Look at this host; with `prove` try each wall, and the same acts without it."""
    found = served.find(settings.sandbox.tools)
    root = Path(settings.workspace.root or _NOWHERE)
    place = ground.of(root, http=True, authenticated=_authenticated(settings))
    with processes.ground() as planted:
        descriptor = os.open(planted.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with launch.closing(descriptor):
            confined = tuple(_confined(descriptor, settings, found.paths))
            checks = [*found.problems, *_checks(descriptor, confined[0], planted, found.paths)]
            proofs = tuple((one.name, tuple(_proven(one, planted))) for one in confined) if prove else None
    return Standing(
        containments=tuple(Containment(route=one.name, walls=_foreseen(one)) for one in confined),
        programs=tuple(found.programs.values()),
        checks=tuple(checks),
        warnings=invariants.broken(settings, place),
        proofs=proofs,
    )


def _authenticated(settings: Settings) -> bool:
    return settings.http.token_file is not None or settings.http.oauth_issuer is not None


def _confined(root: int, settings: Settings, programs: dict[str, Path]) -> Iterator[Confined]:
    """Each kind of process with its walls."""
    yield Confined(name=walls.ROUTE, ruleset=walls.ruleset(root, settings, http=False), profile=Profile.SERVE_STDIO)
    yield Confined(name=starter.ROUTE, ruleset=starter.ruleset(root, programs), profile=Profile.GIT)
    yield Confined(name=SYMBOLS, ruleset=landlock.NOTHING, profile=Profile.WORKER)
    if settings.log.audit_file is not None:
        kept = landlock.Ruleset(kept=(str(Path(settings.log.audit_file).parent),))
        yield Confined(name=AUDIT, ruleset=kept, profile=Profile.AUDIT)


def _foreseen(confined: Confined) -> tuple[Wall, ...]:
    ruleset = confined.ruleset or landlock.NOTHING
    if confined.name == starter.ROUTE and platform.system() == "Linux":
        return starter.foresee(ruleset, confine.landlock_abi())
    return walls.foresee(ruleset)


def _checks(root: int, serving: Confined, planted: Ground, programs: dict[str, Path]) -> Iterator[Probe]:
    """Two things, by doing them: a process behind the serving walls, and a git behind the starter's."""
    if platform.system() != "Linux":
        return
    wanted = {"read_inside": str(planted.root / "inside"), "read_outside": str(planted.outside), "make_socket": 0}
    outcome = processes.attempt(serving, wanted)
    worked = {act for act, (did, _) in outcome.acts.items() if did}
    told = outcome.problem or ", ".join(f"{act}: {detail}" for act, (_, detail) in outcome.acts.items())
    right = len(outcome.acts) == len(wanted) and worked == {"read_inside"}
    yield Probe(name="serving_walls", ok=right, detail=told, remedy="" if right else _REMEDY)
    try:
        with starter.start(root, programs) as running:
            running.ready()
            told = ", ".join(_answers(running, name) for name in programs)
    except FumehoodError as error:
        yield Probe(name="starter", ok=False, detail=error.message, remedy=error.remedy or _REMEDY)
    else:
        yield Probe(name="starter", ok=True, detail=told or "starts; neither git nor ripgrep was found")


def _answers(running: starter.Starter, name: str) -> str:
    with running.start(name, _VERSION, {}, Budget()) as child:
        said = b"".join(child.chunks()).decode("utf-8", "replace").partition("\n")[0]
        status = child.wait().status
    return said if status == 0 else f"{name} ended with {status}"


def _proven(confined: Confined, planted: Ground) -> Iterator[Proven]:
    shown = processes.prove(confined, planted)
    yield from shown
    names = {one.wall for one in shown}
    yield from processes.unproven(
        {wall.name: processes.UNPROVABLE[wall.name] for wall in _foreseen(confined) if wall.name not in names}
    )
