"""Which way out a confined child has: values and decisions, no input or output.

Invariants: a decision is made about a name that our own DNS handed out, or about a raw address, never about what the
client says of itself. An address that is not public is dialled for an operator's rule only; `core.addresses` judges
it, `sandbox.relay.outside` asks. Where a list of hosts decides, the client's hello must name the host that was decided
about.

Not promised: what a listed host does with what it is sent; later requests on a connection that named another host.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from fumehood.core.addresses import parse_address


class Mode(enum.StrEnum):
    """The network modes. Each is an own network namespace; nothing of the host's network is reachable from it."""

    NONE = "NONE"
    SINKHOLE = "SINKHOLE"  # everything is answered by us; nothing is dialled
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
class EgressRequest:
    """One HTTP request that was read whole or in part: of hostile bytes, and bounded."""

    method: str
    target: str
    host: str | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()  # as they came, names in lower case
    headers_lost: int = 0
    body: bytes = b""  # its first bytes
    body_bytes: int = 0  # how many came
    body_sha256: str | None = None  # of all that came
    complete: bool = True
    note: str = ""  # why it is malformed, or what is odd about its host
    at_seconds: float = 0.0  # when it was read so far, on the clock of the records


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressRecord:
    """One thing that the engine saw: a question to our DNS, a TCP connection, or a stray packet."""

    kind: str  # "dns", "tcp", "packet"
    at_seconds: float  # since the sandbox was released
    name: str | None = None
    address: str | None = None
    port: int | None = None
    protocol: str | None = None  # of a packet or a question: "tcp", "udp", or the number
    query_type: int | None = None
    response_code: int | None = None
    decision: str | None = (
        None  # "relayed", "answered" (here), "refused", "failed" (outside); of a question also "malformed"
    )
    why: str | None = None
    peer: str | None = (
        None  # the address that was dialled, or would have been; of a question, the server that was asked
    )
    hello: str | None = None  # "tls", "http", "other", "partial", "none"
    server_name: str | None = None  # SNI, or the Host of the first request
    request_line: str | None = None
    first: bytes = b""
    requests: tuple[EgressRequest, ...] = ()
    up_bytes: int = 0
    down_bytes: int = 0
    seconds: float | None = None
    end: str | None = None
    note: str | None = None  # of the hello: "ech", "malformed", "name_differs", …


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressReport:
    """Everything the engine recorded for one sandbox."""

    records: tuple[EgressRecord, ...] = ()
    lost: dict[str, int] = field(default_factory=dict)  # "kind decision" → how many were not kept
    notes: tuple[str, ...] = ()  # what could not be set up, and why
    started_at: float | None = None  # the wall clock's seconds when `at_seconds` was 0; None: nothing was served

    def moment(self, at_seconds: float) -> float | None:
        """The wall clock's seconds of something that came `at_seconds` after the release."""
        return None if self.started_at is None else self.started_at + at_seconds


class Question(Protocol):
    """A question to our DNS, as an inspector reads it."""

    @property
    def name(self) -> str:
        """Lower-case, without trailing dot."""
        ...

    @property
    def query_type(self) -> int:
        """1 for A, 28 for AAAA."""
        ...

    @property
    def end(self) -> int:
        """Where the question section ends."""
        ...


class Hello(Protocol):
    """The first bytes of a client, as an inspector reads them."""

    @property
    def kind(self) -> str:
        """One of tls, http, other."""
        ...

    @property
    def server_name(self) -> str | None:
        """SNI or Host."""
        ...

    @property
    def request_line(self) -> str | None:
        """Of HTTP."""
        ...

    @property
    def note(self) -> str:
        """What was odd about it."""
        ...


class Heard(Protocol):
    """A request, as an inspector reads it; the names say the same as those of `EgressRequest`."""

    @property
    def method(self) -> str:
        """Of a malformed request as much as could be read."""
        ...

    @property
    def target(self) -> str:
        """As the request line has it."""
        ...

    @property
    def host(self) -> str | None:
        """Lower-case, without port."""
        ...

    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """Names in lower case, and values."""
        ...

    @property
    def headers_lost(self) -> int:
        """How many more there were."""
        ...

    @property
    def body(self) -> bytes:
        """What was kept of it."""
        ...

    @property
    def body_bytes(self) -> int:
        """How many came."""
        ...

    @property
    def body_sha256(self) -> str | None:
        """Of all that came."""
        ...

    @property
    def complete(self) -> bool:
        """Whether its end came, and it is not malformed."""
        ...

    @property
    def note(self) -> str:
        """What is odd about it."""
        ...

    @property
    def closes(self) -> bool:
        """Whether the connection ends after the answer."""
        ...

    @property
    def tunnel(self) -> bool:
        """Whether what follows is no HTTP."""
        ...


class Reader(Protocol):
    """Reads the requests of one connection. Takes any bytes, and never raises."""

    @property
    def is_reading(self) -> bool:
        """Whether a further request could be read."""
        ...

    def feed(self, data: bytes) -> Sequence[Heard]:
        """The requests that these bytes complete."""
        ...

    def finish(self) -> Sequence[Heard]:
        """The request that was under way."""
        ...

    def take_continue(self) -> bool:
        """Whether the client waits for `100 Continue`."""
        ...


class Requests(Protocol):
    """Makes readers: `keep(have, more)` says how many further bytes of a body to keep."""

    def __call__(self, keep: Callable[[int, int], int], *, relayed: bool = False) -> Reader:
        """A reader for one connection; `relayed` when somebody else answers."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspect:
    """The parsers that the relay is given. All take any bytes and never raise."""

    question: Callable[[bytes], Question | None]  # None: not a question
    hello: Callable[[bytes], Hello | None]  # None: more bytes are needed
    requests: Requests | None = None  # None: requests are not read, and SINKHOLE answers none


@dataclass(frozen=True, slots=True, kw_only=True)
class Dial:
    """Relay to this host and port."""

    host: str
    port: int
    operator: bool  # any address will do; otherwise each must be public
    pins: tuple[str, ...]
    strict: bool  # the client's hello must name the host


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Record what the client wanted, then reset."""

    why: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer here, as far as a constant can, and record what was sent."""


Decision: TypeAlias = Dial | Refuse | Answer


def decide(policy: Policy, name: str | None, address: str, port: int) -> Decision:
    """What happens to a connection. `name` is None when our DNS never handed the address out."""
    if policy.mode is Mode.NONE:
        return Refuse(why="network_none")
    if policy.mode is Mode.SINKHOLE:
        return Answer()  # whatever the rules say
    host = name or address
    for rule in policy.rules:
        if (rule.host, rule.port) == (host, port):
            return Dial(host=host, port=port, operator=rule.operator, pins=rule.pins, strict=name is not None)
    if policy.mode is Mode.ALLOWLIST:
        return Refuse(why="not_listed" if name else "raw_address")
    return Dial(host=host, port=port, operator=False, pins=(), strict=False)


def listed(policy: Policy, name: str) -> bool:
    """Whether a rule names this host, on whatever port."""
    return any(rule.host == name for rule in policy.rules)


def literals(policy: Policy) -> tuple[str, ...]:
    """The addresses, in canonical form, that rules name as such."""
    found = (parse_address(rule.host) for rule in policy.rules)
    return tuple(dict.fromkeys(str(address) for address in found if address is not None))


def disagreement(name: str, hello: Hello | None) -> str | None:
    """Why a hello does not fit the name that was decided about, or None. `hello` is None when it stayed incomplete.

    Protocols that carry no name (SSH, git, SMTP) pass: the address that is dialled belongs to the name anyway.
    """
    if hello is None:
        return "hello_incomplete"
    if hello.kind == "other" or hello.server_name == name:
        return None
    return f"{hello.kind}_without_name" if hello.server_name is None else f"{hello.kind}_name_differs"
