"""The relay's bounds as one value, so that a test can make each of them small."""

from dataclasses import dataclass

from fumehood.core import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayBounds:
    """Bounds of one sandbox's egress; the reasons stand in `core.limits`."""

    connections: int = limits.RELAY_CONNECTIONS
    names: int = limits.RELAY_NAMES  # that get an address, and lookups outside
    records: int = limits.RELAY_RECORDS
    up_bytes: int = limits.RELAY_UP_BYTES
    down_bytes: int = limits.RELAY_DOWN_BYTES
    first_bytes: int = limits.RELAY_FIRST_BYTES
    first_reads: int = limits.RELAY_FIRST_READS
    first_seconds: float = limits.RELAY_FIRST_SECONDS
    kept_bytes: int = limits.RELAY_KEPT_BYTES
    refused_seconds: float = limits.RELAY_REFUSED_SECONDS
    resolve_seconds: float = limits.RELAY_RESOLVE_SECONDS
    lookups: int = limits.RELAY_LOOKUPS
    dial_seconds: float = limits.RELAY_DIAL_SECONDS
    dial_each_seconds: float = limits.RELAY_DIAL_EACH_SECONDS
    idle_seconds: float = limits.RELAY_IDLE_SECONDS
    life_seconds: float = limits.RELAY_LIFE_SECONDS
    chunk_bytes: int = limits.RELAY_CHUNK_BYTES
    turn_seconds: float = limits.RELAY_TURN_SECONDS
    questions: int = limits.RELAY_QUESTIONS
    dns_connections: int = limits.RELAY_DNS_CONNECTIONS
    dns_seconds: float = limits.RELAY_DNS_SECONDS
    packets: int = limits.RELAY_PACKETS
    datagrams: int = limits.RELAY_DATAGRAMS
    zones: int = limits.RELAY_ZONES
    body_bytes: int = limits.RELAY_BODY_BYTES
    bodies_bytes: int = limits.RELAY_BODIES_BYTES
    evidence_bytes: int = limits.RELAY_EVIDENCE_BYTES
    evidence_floor_bytes: int = limits.RELAY_EVIDENCE_FLOOR_BYTES
    raw_bytes: int = limits.RELAY_RAW_BYTES
    requests: int = limits.RELAY_REQUESTS
    requests_kept: int = limits.RELAY_REQUESTS_KEPT
    requests_total: int = limits.RELAY_REQUESTS_TOTAL
    answered_seconds: float = limits.RELAY_ANSWERED_SECONDS
    silent_seconds: float = limits.RELAY_SILENT_SECONDS
    farewell_seconds: float = limits.RELAY_FAREWELL_SECONDS
    answered_bytes: int = limits.RELAY_ANSWERED_BYTES
    pause_seconds: float = limits.RELAY_PAUSE_SECONDS
