"""Which resource limits a child gets, and setting them on it while it is blocked.

They are set on bwrap's blocked child, so that they count inside its namespaces: RLIMIT_NPROC before bwrap makes an
ordinary user's bwrap fail. RLIMIT_AS is unusable (Node's WebAssembly reserves more than 8 GiB of addresses).
"""

import os
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeAlias

from fumehood.sandbox import launch
from fumehood.sandbox.spec import ProcessLimits

Pairs: TypeAlias = tuple[tuple[int, int], ...]

_OPTIONS: Final = {
    resource.RLIMIT_NOFILE: "nofile",
    resource.RLIMIT_NPROC: "nproc",
    resource.RLIMIT_FSIZE: "fsize",
    resource.RLIMIT_CPU: "cpu",
    resource.RLIMIT_CORE: "core",
    resource.RLIMIT_DATA: "data",
}


def pairs(limits: ProcessLimits, *, memory_by_cgroup: bool) -> Pairs:
    """The limits as (resource, value): one value for soft and hard, so that a child cannot raise it again.

    RLIMIT_DATA bounds each process where no cgroup bounds the tree; a core dump would be a file that nobody asked for.
    """
    values = [
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_NPROC, limits.processes),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_CORE, 0),
    ]
    if not memory_by_cgroup:
        values.append((resource.RLIMIT_DATA, limits.memory_bytes))
    return tuple(values)


def apply(pid: int, wanted: Pairs, *, setpriv: Path, uid: int) -> dict[int, str]:
    """Set the limits of `pid`, never above what it has; return those that could not be set, and why.

    Without CAP_SYS_RESOURCE even root may not set those of another uid (prlimit(2)): then `prlimit` does it as that
    uid.
    """
    failed: dict[int, str] = {}
    left: list[tuple[int, int]] = []
    for number, value in wanted:
        try:
            present = resource.prlimit(pid, number)[1]
            bound = value if present == resource.RLIM_INFINITY else min(value, present)
            resource.prlimit(pid, number, (bound, bound))
        except PermissionError:
            left.append((number, value))
        except (OSError, ValueError) as error:
            failed[number] = str(error)
    if left:
        why = _as_uid(pid, left, setpriv, uid)
        failed |= {number: why for number, _ in left if why}
    return failed


def _as_uid(pid: int, wanted: Sequence[tuple[int, int]], setpriv: Path, uid: int) -> str:
    """Hand the limits to prlimit(1) under the child's own uid, which may lower them."""
    if os.geteuid() != 0:
        return "not permitted"
    options = [f"--{_OPTIONS[number]}={value}" for number, value in wanted]
    drop = [str(setpriv), f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all", "--"]
    done = launch.run_tool([*drop, "/usr/bin/prlimit", "--pid", str(pid), *options])
    return done.stderr.decode(errors="replace").strip()[:200] if done.status else ""
