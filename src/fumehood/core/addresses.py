"""Which addresses are public, and what `host:port` means. Pure: no name is resolved here.

The table is our own, because `ipaddress.is_global` changes between patch releases of Python and knows no cloud's
metadata service. IPv6 is public only inside 2000::/3, so that an assignment nobody thought of is refused
(IANA's special-purpose registries for IPv4 and IPv6, as of October 2026; RFC 6890).

Not promised: a translator (NAT64, RFC 6052) that a network put at a prefix of its own inside 2000::/3 cannot be told
from a public address.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

NON_PUBLIC_V4 = (
    "0.0.0.0/8",  # this network, RFC 791; Linux takes 0.0.0.0 for loopback
    "10.0.0.0/8",  # private, RFC 1918
    "100.64.0.0/10",  # carrier-grade NAT, RFC 6598; one cloud's metadata is 100.100.100.200
    "127.0.0.0/8",  # loopback
    "168.63.129.16/32",  # a cloud's metadata and control service, on an otherwise public address
    "169.254.0.0/16",  # link-local, RFC 3927; most clouds' metadata is 169.254.169.254
    "172.16.0.0/12",  # private, RFC 1918
    "192.0.0.0/24",  # protocol assignments, RFC 6890; one cloud's metadata is 192.0.0.192
    "192.0.2.0/24",  # documentation, RFC 5737
    "192.88.99.0/24",  # 6to4 relays, deprecated by RFC 7526
    "192.168.0.0/16",  # private, RFC 1918
    "198.18.0.0/15",  # benchmarking, RFC 2544; the engine's own names live here
    "198.51.100.0/24",  # documentation, RFC 5737
    "203.0.113.0/24",  # documentation, RFC 5737
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved, and broadcast
)
NON_PUBLIC_V6 = (
    "::/3",  # unspecified, loopback, mapped and compatible IPv4, NAT64 (64:ff9b::/96, 64:ff9b:1::/48), discard
    "2001::/23",  # protocol assignments: Teredo, benchmarking, ORCHID
    "2001:db8::/32",  # documentation, RFC 3849
    "2002::/16",  # 6to4: an IPv4 address inside, RFC 7526
    "3fff::/20",  # documentation, RFC 9637
    "4000::/2",  # never assigned
    "8000::/1",  # never assigned; unique local (two clouds' metadata among them), link-local, site-local, multicast
)
_NON_PUBLIC: tuple[Network, ...] = tuple(ipaddress.ip_network(n) for n in (*NON_PUBLIC_V4, *NON_PUBLIC_V6))
ANYWHERE: tuple[Network, ...] = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))

HOST_CHARACTERS = 253  # RFC 1035, without the trailing dot
ENDPOINT_CHARACTERS = HOST_CHARACTERS + len(":65535")
HIGHEST_PORT = 65535
# Underscores occur in names of the field; a label neither begins nor ends with a hyphen.
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
# inet_aton reads `127.1`, `0x7f.1` and `2130706433` as addresses: a last label like these is no name.
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A host, as a lower-case name without trailing dot or as a canonical address, and a port."""

    host: str
    port: int


def parse_address(text: str) -> Address | None:
    """The address that `text` writes, IPv4 in its mapped form taken out, a zone dropped; None when it writes none."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def is_public(address: str) -> bool:
    """Whether `address` is an address of the public internet. What is no address is not public."""
    parsed = parse_address(address)
    return parsed is not None and not _within(parsed, _NON_PUBLIC)


def refusal(addresses: Iterable[str], allow: Iterable[Network] = ()) -> str | None:
    """Why a name with these addresses may not be dialled, or None when it may.

    Each address must be public or inside one of `allow`: one private answer among public ones refuses the name, or a
    second lookup could choose it (DNS rebinding). No address at all is a refusal too.
    """
    allowed = tuple(allow)
    empty = True
    for text in addresses:
        empty = False
        parsed = parse_address(text)
        if parsed is None:
            return "not_an_address"
        if _within(parsed, _NON_PUBLIC) and not _within(parsed, allowed):
            return f"forbidden_address {parsed}"
    return "no_address" if empty else None


def is_host_name(text: str) -> bool:
    """Whether `text` is a lower-case host name, without trailing dot, that no resolver takes for an address."""
    if not 0 < len(text) <= HOST_CHARACTERS:
        return False
    labels = text.split(".")
    return all(_LABEL.fullmatch(label) for label in labels) and not _NUMERIC.fullmatch(labels[-1])


def parse_endpoint(text: str) -> Endpoint | None:
    """Read `host:port` or `[address]:port`; None when it is neither. Names are made lower-case, addresses canonical.

    A name outside ASCII is refused: its owner writes the A-label (`xn--…`), which cannot be confused with another.
    """
    if len(text) > ENDPOINT_CHARACTERS or not text.isascii():
        return None
    host, separator, digits = text.rpartition(":")
    if not separator or not re.fullmatch(r"[1-9][0-9]{0,4}", digits) or int(digits) > HIGHEST_PORT:
        return None
    if host.startswith("[") or ":" in host:
        inner = re.fullmatch(r"\[([0-9A-Fa-f:.]+)\]", host)
        address = parse_address(inner[1]) if inner and ":" in inner[1] else None
        return Endpoint(host=str(address), port=int(digits)) if address else None
    address = parse_address(host) if "%" not in host else None
    name = str(address) if address else host.lower().removesuffix(".")
    return Endpoint(host=name, port=int(digits)) if address or is_host_name(name) else None


def _within(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(address in network for network in networks if network.version == address.version)
