"""What a sensor says: observations, their fidelity, and what each collector could not see."""

import enum
from dataclasses import dataclass, field
from typing import TypeAlias

Scalar: TypeAlias = str | int | float | bool | None
Value: TypeAlias = "Scalar | list[Value] | dict[str, Value]"


class Phase(enum.StrEnum):
    """The phases of a review, in order."""

    ACQUIRE = "ACQUIRE"  # git, dir; for npm LOCK and FETCH
    FETCH = "FETCH"
    INSTALL = "INSTALL"
    PREPARE = "PREPARE"
    EXERCISE = "EXERCISE"


class Kind(enum.StrEnum):
    """The types of observation: `category.name`."""

    PROCESS_EXEC = "process.exec"
    PROCESS_EXIT = "process.exit"
    PROCESS_REFUSED = "process.refused"
    NETWORK_DNS = "network.dns"
    NETWORK_CONNECT = "network.connect"
    NETWORK_TLS = "network.tls"
    NETWORK_HTTP = "network.http"
    NETWORK_OTHER = "network.other"
    FILE_CREATED = "filesystem.created"
    FILE_CHANGED = "filesystem.changed"
    FILE_DELETED = "filesystem.deleted"
    FILE_READ = "filesystem.read"
    FILE_REFUSED = "filesystem.refused"
    PROTOCOL_FRAME = "protocol.frame"
    PROTOCOL_NOISE = "protocol.noise"
    PROTOCOL_FACT = "protocol.fact"
    OUTPUT_TEXT = "output.text"
    CANARY_READ = "canary.read"
    CANARY_SENT = "canary.sent"


class Fidelity(enum.StrEnum):
    """How much a sensor can vouch for."""

    ATTEMPTED = "attempted"  # the call was made; whether it worked was not visible
    OBSERVED = "observed"  # the act and its outcome were seen
    SNAPSHOTTED = "snapshotted"  # the state afterwards was read


class CollectorState(enum.StrEnum):
    """Whether a collector worked."""

    ACTIVE = "active"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One fact. `detail` holds text that a control has already made inert; its keys are listed in docs/reference."""

    phase: Phase
    step: str
    kind: Kind
    collector: str  # "strace", "egress", "layer", "protocol", "output"
    fidelity: Fidelity
    detail: dict[str, Value]
    moment: float | None = None  # when it happened first, in seconds of the wall clock; None: the sensor cannot say


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """One sensor in one phase: what it did, what it lost, what it cannot see."""

    name: str
    phase: Phase
    state: CollectorState
    lost: int = 0
    why: str = ""
    limitations: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
