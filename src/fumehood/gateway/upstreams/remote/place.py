"""Where a remote server is, and which of its addresses may be dialled. Pure: nothing is resolved here.

Invariants: TLS, but where the operator named the host as private; no userinfo, no fragment, nothing outside ASCII; the
same text leads to the same host for us and for whoever reads the request. An address that belongs to the metadata
service of a cloud, or to this link only, is dialled for nobody: `allow_private` means the networks of a house. A URL
that names this machine needs no further word, and leads nowhere else.

Sources: RFC 3986, 3.2; RFC 9110, 4.2.4 (userinfo); `core.addresses` for what is public.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from fumehood.core import limits
from fumehood.core.addresses import Network, parse_address, parse_endpoint, refusal
from fumehood.core.errors import RefusedError
from fumehood.gateway.topology.urls import is_loopback

_URL: Final = re.compile(r"(https?)://([A-Za-z0-9_.:\[\]-]+)((?:[/?][A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]*)?)")
_PORTS: Final = {"http": 80, "https": 443}
_BARE: Final = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)")  # a host without a port


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(one) for one in texts)


# What may be dialled beside public addresses.
NOTHING: Final[tuple[Network, ...]] = ()
MACHINE: Final = _networks("127.0.0.0/8", "::1/128")  # where the URL itself names this machine
HOUSE: Final = (  # where the operator said so
    *MACHINE,
    *_networks("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),  # RFC 1918
    *_networks("100.64.0.0/10"),  # RFC 6598: overlay networks of a team live there
    *_networks("fc00::/7"),  # RFC 4193
)
_METADATA: Final = frozenset({"100.100.100.200", "fd00:ec2::254", "fd20:ce::254"})  # of clouds, inside of the above


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One server."""

    scheme: str
    host: str  # a lower-case name, or a canonical address
    port: int
    target: str  # path and query, as they are sent
    allowed: tuple[Network, ...] = NOTHING  # addresses that may be dialled although they are not public

    @property
    def private(self) -> bool:
        """Whether its address may be one that is not public."""
        return bool(self.allowed)

    @property
    def authority(self) -> str:
        """As the Host header says it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"{self.scheme}://{self.authority}"


def read_place(url: str, *, allow_private: bool = False) -> Place:
    """The place that a URL of the operator names. Errors: `RefusedError`."""
    place = _read(url)
    if place is None:
        remedy = "write https://HOST[:PORT]/PATH in ASCII, without user, password and fragment"
        raise RefusedError("url: is no URL of a server that is reached by HTTP", remedy=remedy)
    place = replace(place, allowed=HOUSE if allow_private else MACHINE if is_loopback(place.host) else NOTHING)
    if place.scheme == "http" and not place.private:
        remedy = "write https, or set allow_private where the server is in a network of yours"
        raise RefusedError("url: http is not encrypted", remedy=remedy)
    if parse_address(place.host) is not None and (why := judge([place.host], place.allowed)):
        raise RefusedError(f"url: the server is not dialled: {why}")
    return place


def judge(addresses: Iterable[str], allowed: tuple[Network, ...]) -> str | None:
    """Why a host with these addresses is not dialled, in a sentence, or None. One bad address refuses the host."""
    found = tuple(addresses)
    why = refusal(found, allowed)
    if why is None:
        bad = next((one for one in found if str(parse_address(one)) in _METADATA), None)
        return f"{bad} is the address of a cloud's metadata service" if bad else None
    word, _, address = why.partition(" ")
    if word == "no_address":
        return "its name has no address"
    if word == "not_an_address":
        return "its name has an address that is none"
    if allowed == HOUSE or refusal([address], HOUSE) is not None:
        return f"{address} is no address of a server"
    return f"{address} is not a public address, and allow_private is not set"


def origin_of(location: bytes, place: Place) -> str:
    """The origin that a Location leads to, in characters of origins alone, or words of ours."""
    text = location.decode("latin-1")
    if text.startswith("/") and not text.startswith("//"):
        return "the same origin"
    there = _read(text.partition("#")[0])
    if there is None:
        return "what is no HTTP origin"
    return "the same origin" if there.origin == place.origin else there.origin


def _read(url: str) -> Place | None:
    found = _URL.fullmatch(url) if len(url) <= limits.REMOTE_URL_CHARACTERS else None
    if found is None:
        return None
    scheme, authority, target = found.groups()
    bare = _BARE.fullmatch(authority)
    endpoint = parse_endpoint(f"{authority}:{_PORTS[scheme]}" if bare else authority)
    if endpoint is None:
        return None
    target = target if target.startswith("/") else f"/{target}"
    return Place(scheme=scheme, host=endpoint.host, port=endpoint.port, target=target)
