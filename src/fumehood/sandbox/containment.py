"""Which walls stood: one record in every outcome, so that no wall is missing in silence."""

import enum
from dataclasses import dataclass


class WallState(enum.StrEnum):
    """Whether a wall stood."""

    ENFORCED = "enforced"
    UNAVAILABLE = "unavailable"
    NOT_REQUESTED = "not_requested"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wall:
    """One wall, its state, and for an unavailable one the reason and the remedy."""

    name: str  # one of WALLS
    state: WallState
    how: str = ""  # the mechanism, e.g. "cgroup v1", "RLIMIT_DATA and RSS poll"
    why: str = ""
    remedy: str = ""


WALLS = (
    "user_namespace",
    "uid",
    "pid_namespace",
    "ipc_namespace",
    "uts_namespace",
    "network_namespace",
    "mount_namespace",
    "capabilities",
    "no_new_privileges",
    "seccomp",
    "processes",
    "open_files",
    "file_size",
    "cpu_time",
    "memory",
    "layer_size",
    "deadline",
    "parent_death",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Containment:
    """The walls of one sandbox, by the route it took."""

    route: str
    walls: tuple[Wall, ...]
