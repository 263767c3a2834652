"""Which resource limits a child gets. Pure.

`limiting` sets them on bwrap's blocked child, so that they count inside its namespaces:
RLIMIT_NPROC before bwrap makes an ordinary user's bwrap fail. RLIMIT_AS is unusable: Node's WebAssembly reserves more
than 8 GiB of addresses.
"""

import resource
from typing import TypeAlias

from fumehood.sandbox.spec import ProcessLimits

Pairs: TypeAlias = tuple[tuple[int, int], ...]


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
