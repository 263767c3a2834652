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
    pause_seconds: float = limits.RELAY_PAUSE_SECONDS
