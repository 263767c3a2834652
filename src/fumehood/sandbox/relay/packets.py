"""What a packet that crossed the namespace's loopback tried to reach. Pure, bounded, never raises on any bytes.

It shows what no listener sees: UDP, other protocols, and connections that the kernel refused. Not shown: what follows
IPv6 extension headers (the header's number is given instead), and fragments after the first.
"""

import ipaddress
from dataclasses import dataclass

TCP, UDP, ICMP, ICMP6 = 6, 17, 1, 58
DNS_PORT = 53
SHOWN_BYTES = 512  # a statistics datagram, or a question to a resolver, fits
_SYN, _SYN_ACK = 0x02, 0x12
_ECHO = {ICMP: 8, ICMP6: 128}
_V4_BYTES, _V6_BYTES, _TCP_FLAGS = 20, 40, 13


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A packet that was on its way out. `first` is the head of a datagram."""

    protocol: str
    address: str
    port: int | None
    first: bytes = b""


def parse_packet(packet: bytes) -> Attempt | None:
    """The attempt in one IP packet, or None: loopback, answers, DNS, all of TCP but its first packet, ICMP but echo."""
    split = _split(packet)
    if split is None:
        return None
    number, destination, payload = split
    if destination.is_loopback:
        return None
    address = str(destination)
    if number in (ICMP, ICMP6):
        asks = payload[:1] == bytes([_ECHO[number]])  # the rest is the kernel's own talk
        return (
            Attempt(protocol="icmp", address=address, port=None, first=payload[8 : 8 + SHOWN_BYTES]) if asks else None
        )
    if number not in (TCP, UDP):
        return Attempt(protocol=str(number), address=address, port=None, first=payload[:SHOWN_BYTES])
    return _segment(number, address, payload)


def _segment(number: int, address: str, payload: bytes) -> Attempt | None:
    source, port = int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:4], "big")
    if DNS_PORT in (source, port):
        return None  # answered, and recorded, by our DNS
    if number == UDP:
        return Attempt(protocol="udp", address=address, port=port, first=payload[8 : 8 + SHOWN_BYTES])
    if len(payload) <= _TCP_FLAGS or payload[_TCP_FLAGS] & _SYN_ACK != _SYN:
        return None
    return Attempt(protocol="tcp", address=address, port=port)


def _split(packet: bytes) -> tuple[int, ipaddress.IPv4Address | ipaddress.IPv6Address, bytes] | None:
    """Protocol number, destination and payload."""
    version = packet[0] >> 4 if packet else 0
    if version == 4 and len(packet) >= _V4_BYTES:  # noqa: PLR2004 - the version field
        header = (packet[0] & 15) * 4
        later = int.from_bytes(packet[6:8], "big") & 0x1FFF
        if header < _V4_BYTES or later:
            return None
        return packet[9], ipaddress.IPv4Address(packet[16:20]), packet[header:]
    if version == 6 and len(packet) >= _V6_BYTES:  # noqa: PLR2004 - the version field
        return packet[6], ipaddress.IPv6Address(packet[24:40]), packet[_V6_BYTES:]
    return None
