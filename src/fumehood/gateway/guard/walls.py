"""One guarded server as a sandbox. Pure: the same values give the same walls.

Invariants: it sees the system read-only, the places of its policy, a home and a tmp of its own in memory, and nothing
else of the host; its environment is what stands here and the variables that were named; it has no network but the
hosts and ports of its policy; memory, processes, files and time are bounded.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from fumehood.core import limits
from fumehood.gateway.guard import places
from fumehood.gateway.guard.installed import Installed
from fumehood.gateway.guard.policy import GuardPolicy
from fumehood.sandbox.spec import Bind, Bounds, Identity, ProcessLimits, Profile, SandboxSpec

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NODE: Final = "/.node/bin/node"  # of its own, so that whatever is allowed lies beside it
_PACKAGE: Final = "/.package"
_STDERR_BYTES: Final = 16 * limits.KIB  # kept for the words of a start that failed; all of it is handed on as it comes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A server that was decided about, in all its parts."""

    argv: tuple[str, ...]  # the program as an absolute path
    policy: GuardPolicy
    binds: tuple[Bind, ...] = ()
    passed: Mapping[str, str] = field(default_factory=dict)  # variables that were named, and are set
    folder: str = ""  # the operator's current folder
    search: str = _PATH


def package(found: Installed, ready: Ready) -> Ready:
    """A package that was acquired, with the rest of a decision."""
    inside = f"{_PACKAGE}/node_modules/{found.record.name}/{found.record.program}"
    shown = (Bind(source=Path(found.node), target=_NODE), Bind(source=Path(found.folder), target=_PACKAGE))
    return replace(
        ready,
        argv=(_NODE, inside, *found.arguments),
        binds=(*ready.binds, *shown),
        search=f"{posixpath.dirname(_NODE)}:{_PATH}",
    )


def spec(ready: Ready, uid: int) -> SandboxSpec:
    """The confined child."""
    identity = Identity(uid=uid, user="user", host="localhost")
    workdir = ready.folder if places.is_shown(ready.folder, ready.binds) else identity.home
    policy = ready.policy
    environment = {
        "PATH": ready.search,
        "HOME": identity.home,
        "USER": identity.user,
        "LOGNAME": identity.user,
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
        "PWD": workdir,
        **ready.passed,
    }
    return SandboxSpec(
        argv=ready.argv,
        environment=tuple(environment.items()),
        workdir=workdir,
        identity=identity,
        profile=Profile.REVIEW,
        limits=ProcessLimits(
            memory_bytes=policy.memory_bytes,
            processes=policy.processes,
            cpu_seconds=limits.GUARD_CPU_SECONDS,
        ),
        binds=ready.binds,
        network=policy.network,
    )


def bounds() -> Bounds:
    """What is enforced from outside."""
    return Bounds(wall_seconds=limits.GUARD_WALL_SECONDS, stdout_bytes=None, stderr_bytes=_STDERR_BYTES)
