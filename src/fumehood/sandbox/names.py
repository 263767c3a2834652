"""Names that our DNS hands out, each with an address of its own, and the answers. Pure, bounded.

The addresses come from 198.18.0.0/15 (RFC 2544), which is routed nowhere. A limitation: a target can recognise it.
"""

import enum
import ipaddress

from fumehood.core import limits
from fumehood.core.addresses import is_host_name
from fumehood.sandbox.egress import Mode, Policy, listed

POOL = ipaddress.IPv4Network("198.18.0.0/15")
_FIRST = 256  # .0.x stays free: an address there is none of ours
OVERFLOW = str(POOL[1])  # shared by the names that got no address of their own, where we answer ourselves
_TTL = (60).to_bytes(4, "big")
HEADER_BYTES = 12
LOOPBACK = "127.0.0.1"


class Code(enum.IntEnum):
    """Response codes (RFC 1035, 4.1.1)."""

    NOERROR = 0
    FORMERR = 1
    SERVFAIL = 2
    NXDOMAIN = 3


class QueryType(enum.IntEnum):
    """The one type that gets an address."""

    A = 1


class Names:
    """Names and addresses, both ways. An address is never given to a second name."""

    def __init__(self, limit: int = limits.RELAY_NAMES) -> None:
        """Hand out at most `limit` addresses."""
        self._limit = min(limit, POOL.num_addresses - _FIRST)
        self._by_name: dict[str, str] = {}
        self._by_address: dict[str, str] = {}

    def address(self, name: str) -> str | None:
        """The address of a name; None when they have run out."""
        known = self._by_name.get(name)
        if known is not None or len(self._by_name) >= self._limit:
            return known
        address = str(POOL[_FIRST + len(self._by_name)])
        self._by_name[name] = address
        self._by_address[address] = name
        return address

    def name(self, address: str) -> str | None:
        """The name that has this address."""
        return self._by_address.get(address)


def local_answer(policy: Policy, name: str) -> Code | str | None:
    """What is answered without an address of the pool: a code, or the loopback address. None: the name gets one.

    In every mode but NONE each well-formed name gets an address, listed or not, so that the connection that follows
    shows what was wanted of it. In SINKHOLE that goes for each name that can be written, also for one label, since
    nobody outside is asked.
    """
    if name == "localhost" or name.endswith(".localhost"):
        return LOOPBACK  # RFC 6761, 6.3
    if policy.mode is Mode.SINKHOLE:
        return Code.NXDOMAIN if not name or "\\" in name or name.endswith(".arpa") else None
    if policy.mode is Mode.NONE or not is_host_name(name) or name.endswith(".arpa"):
        return Code.NXDOMAIN
    if "." not in name and not listed(policy, name):
        return Code.NXDOMAIN
    return None


def build_reply(query: bytes, end: int, code: Code = Code.NOERROR, address: str | None = None) -> bytes:
    """Answer a query of at least 12 bytes whose question section ends at `end` (12: echo none).

    Identifier, RD and the question come back byte for byte (0x20 case randomisation). No OPT record: clients then
    stay at 512 bytes, which an echo of one question and one A record never exceeds. `address` is IPv4.
    """
    flags = 0x8080 | (query[2] & 1) << 8 | code
    answer = b""
    if address is not None:
        packed = ipaddress.IPv4Address(address).packed
        answer = b"\xc0\x0c\0\1\0\1" + _TTL + b"\0\4" + packed  # a pointer to the question, A, IN
    counts = bytes([0, end > HEADER_BYTES, 0, bool(answer), 0, 0, 0, 0])
    return query[:2] + flags.to_bytes(2, "big") + counts + query[HEADER_BYTES:end] + answer
