"""Which way out a confined child has: values and decisions, no input or output."""

import enum
from dataclasses import dataclass, field


class Mode(enum.StrEnum):
    """The network modes. Each is an own network namespace; nothing of the host's network is reachable from it."""

    NONE = "NONE"
    ALLOWLIST = "ALLOWLIST"
    OPEN = "OPEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One host and port that may be reached."""

    host: str  # a lower-case name without trailing dot, or an address
    port: int
    operator: bool = False  # named by the operator's settings: may be private, loopback, or plain http
    pins: tuple[str, ...] = ()  # dial these addresses instead of resolving the name


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What one sandbox may reach."""

    mode: Mode = Mode.NONE
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressRecord:
    """One thing that the engine saw: a question to our DNS, a TCP connection, or a stray packet."""

    kind: str  # "dns", "tcp", "packet"
    at_seconds: float  # since the sandbox was released
    name: str | None = None
    address: str | None = None
    port: int | None = None
    protocol: str | None = None  # of a packet: "tcp", "udp", or the number
    query_type: int | None = None
    response_code: int | None = None
    decision: str | None = None  # "relayed", "refused"
    why: str | None = None
    peer: str | None = None  # the address that was dialled
    hello: str | None = None  # "tls", "http", "other", "partial", "none"
    server_name: str | None = None  # SNI, or the Host of the first request
    request_line: str | None = None
    first: bytes = b""
    up_bytes: int = 0
    down_bytes: int = 0
    seconds: float | None = None
    end: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressReport:
    """Everything the engine recorded for one sandbox."""

    records: tuple[EgressRecord, ...] = ()
    lost: dict[str, int] = field(default_factory=dict)  # "kind decision" → how many were not kept
    notes: tuple[str, ...] = ()  # what could not be set up, and why
