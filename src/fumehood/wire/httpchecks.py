"""What the head of an HTTP request must be before anything of it is believed. Pure.

Invariants: the checks run in the order of `CHECKS`, and the first that refuses answers; Host and Origin are judged
before anything that depends on a credential, so that no page in a browser can learn whether a token is right (threat
T9); a header that decides anything occurs at most once; nothing of a request is repeated in an answer.

Sources: RFC 9110, 7.2 (Host), 15.5.20 (421); the Fetch standard (Origin; a body of `text/plain` needs no preflight);
the MCP specification, Streamable HTTP; RFC 6750 (bearer tokens); RFC 6585 (431).
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from fumehood.core import limits
from fumehood.core.addresses import Endpoint, parse_endpoint
from fumehood.wire import jsonrpc

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]  # names in lower case, as ASGI has them

ENDPOINT = "/mcp"
PROBES = ("/healthz", "/readyz")
_DEFAULT_PORTS = (80, 443)
_DIGITS = re.compile(rb"[0-9]{1,16}")
_BEARER = re.compile(rb"(?i:bearer) +([A-Za-z0-9._~+/-]+=*)")  # RFC 6750, 2.1: b64token
_ORIGIN = re.compile(r"(https?)://([^/?#@\\\s]+)")
_OTHER_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]{0,40}://[a-zA-Z0-9._~:\[\]-]{1,253}")
_JSON = re.compile(r"application/json(?: *; *charset=\"?utf-8\"?)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An answer that ends a request. `message` is ours and names nothing of the request."""

    status: int
    message: str
    headers: Headers = ()
    code: int = jsonrpc.INVALID_REQUEST
    ident: jsonrpc.Id | None = None


class Repeated:
    """A header that occurs more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Method, path and headers of one request."""

    method: str
    path: str
    query: bytes = b""
    headers: Headers = ()

    def one(self, name: bytes) -> bytes | Repeated | None:
        """The value of a header that may occur once."""
        found = [value for key, value in self.headers if key == name]
        if len(found) > 1:
            return Repeated()
        return found[0] if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a listener lets in. `hosts` and `origins` are in the form that `host_key` and `origin_key` give."""

    hosts: frozenset[str]
    origins: frozenset[str] = frozenset()
    methods: frozenset[str] = frozenset({"POST"})  # GET and DELETE only where the server keeps sessions
    judges_tools: bool = True  # by the scopes of a token; a host does it itself, by more than these
    request_seconds: float = limits.HTTP_REQUEST_SECONDS  # all of one request
    stream_seconds: float = limits.HTTP_REQUEST_SECONDS  # of one that stands open for what may come
    open_paths: frozenset[str] = frozenset(PROBES)  # answered without a token
    request_bytes: int = limits.REQUEST_BYTES


def judge(head: Head, policy: Policy) -> Refusal | None:
    """The first refusal of a head, or None: it may be authenticated then."""
    for check in CHECKS:
        refused = check(head, policy)
        if refused:
            return refused
    return None


def check_size(head: Head, _: Policy) -> Refusal | None:
    """A head has at most HTTP_HEADERS headers of HTTP_HEAD_BYTES together."""
    if len(head.path) + len(head.query) > limits.HTTP_TARGET_CHARACTERS:
        return Refusal(status=414, message="the request target is too long")
    if len(head.headers) > limits.HTTP_HEADERS:
        return Refusal(status=431, message="too many headers")
    if sum(len(name) + len(value) for name, value in head.headers) > limits.HTTP_HEAD_BYTES:
        return Refusal(status=431, message="the headers are too large")
    return None


def check_host(head: Head, policy: Policy) -> Refusal | None:
    """Host is there once and names this listener: else a page whose name was rebound to our address asks."""
    value = head.one(b"host")
    key = host_key(_ascii(value))
    if key is None or key not in policy.hosts:
        return Refusal(status=421, message="this listener does not answer to that Host")
    return None


def check_origin(head: Head, policy: Policy) -> Refusal | None:
    """Origin, which browsers send, is absent or one that the operator listed."""
    value = head.one(b"origin")
    if value is None:
        return None
    key = origin_key(_ascii(value))
    if key is None or key not in policy.origins:
        return Refusal(status=403, message="requests of that Origin are not answered")
    return None


def check_route(head: Head, policy: Policy) -> Refusal | None:
    """The path is one of ours, exactly, and the method one of its own."""
    if head.path in policy.open_paths:
        return None if head.method in {"GET", "HEAD"} else _not_allowed(("GET", "HEAD"))
    if head.path != ENDPOINT:
        return Refusal(status=404, message=f"there is nothing here: MCP is spoken at {ENDPOINT}")
    return None if head.method in policy.methods else _not_allowed(sorted(policy.methods))


def check_body_kind(head: Head, _: Policy) -> Refusal | None:
    """What is posted says that it is JSON, which a page of another origin cannot do without asking first."""
    if head.method != "POST":
        return None
    kind = _ascii(head.one(b"content-type"))
    if not _JSON.fullmatch(kind.strip(" \t")):
        return Refusal(status=415, message="Content-Type is not application/json")
    if head.one(b"content-encoding") is not None:
        return Refusal(status=415, message="a body is taken without Content-Encoding only")
    return None


def check_body_size(head: Head, policy: Policy) -> Refusal | None:
    """A body that says its size says no more than may be, and says it in one way.

    Two ways are how one request is made two of by whoever reads the other (RFC 9112, sections 6.1 and 11.2).
    """
    value = head.one(b"content-length")
    if value is None:
        return None
    if head.one(b"transfer-encoding") is not None:
        return Refusal(status=400, message="Content-Length stands beside Transfer-Encoding")
    if isinstance(value, Repeated) or not _DIGITS.fullmatch(value):
        return Refusal(status=400, message="Content-Length is not one number")
    return too_large() if int(value) > policy.request_bytes else None


Check: TypeAlias = Callable[[Head, Policy], Refusal | None]
CHECKS: tuple[Check, ...] = (check_size, check_host, check_origin, check_route, check_body_kind, check_body_size)


def too_large() -> Refusal:
    """The answer to a body over the bound, announced or sent."""
    return Refusal(status=413, message="the body is too large")


def bearer(head: Head) -> str | None:
    """The bearer token of a request; None where there is none, more than one, or no token in it."""
    value = head.one(b"authorization")
    if value is None or isinstance(value, Repeated) or len(value) > limits.HTTP_TOKEN_CHARACTERS:
        return None
    found = _BEARER.fullmatch(value.strip(b" \t"))
    return found[1].decode("ascii") if found else None


def host_key(text: str) -> str | None:
    """The canonical form of a Host header, `name:port` or `name`; None when it is none.

    A port that is a scheme's default counts as none: clients leave it out or not, as they like.
    """
    endpoint = parse_endpoint(text)
    if endpoint is None and not text.endswith(":"):
        endpoint = parse_endpoint(f"{text}:{_DEFAULT_PORTS[0]}")
    return _key(endpoint) if endpoint else None


def origin_key(text: str) -> str | None:
    """The canonical form of an Origin header; None for `null` and for what is no origin."""
    web = _ORIGIN.fullmatch(text)
    if web:
        host = host_key(web[2])
        return f"{web[1]}://{host}" if host else None
    return text if _OTHER_ORIGIN.fullmatch(text) and not text.startswith("http") else None


def hosts_of(addresses: Iterable[tuple[str, int]]) -> frozenset[str]:
    """The Host values of a listener at these addresses. One that listens everywhere has no name but loopback's."""
    found: set[str] = set()
    for address, port in addresses:
        unspecified = address in {"0.0.0.0", "::"}  # noqa: S104 - compared with, not bound
        loopback = unspecified or address.startswith("127.") or address == "::1"
        names = [] if unspecified else [f"[{address}]" if ":" in address else address]
        names += ["localhost", "127.0.0.1", "[::1]"] if loopback else []
        found |= {key for name in names if (key := host_key(f"{name}:{port}"))}
    return frozenset(found)


def _key(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return host if endpoint.port in _DEFAULT_PORTS else f"{host}:{endpoint.port}"


def _ascii(value: bytes | Repeated | None) -> str:
    """A header's text; empty for what is not there once, or not ASCII."""
    if value is None or isinstance(value, Repeated) or not value.isascii():
        return ""
    return value.decode("ascii")


def _not_allowed(methods: Iterable[str]) -> Refusal:
    allow = ", ".join(methods).encode("ascii")
    return Refusal(status=405, message="that method is not answered here", headers=((b"allow", allow),))
