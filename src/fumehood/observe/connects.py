"""Network attempts in a trace: to which address and port, and how each ended. Pure.

A connect that does not wait answers EINPROGRESS; its outcome is what getsockopt(SO_ERROR) says later on the same
socket, see connect(2). Inside a sandbox whose listeners are ours, "connected" means that *we* took the connection: what
became of it stands in the records of the egress engine.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from fumehood.core import limits
from fumehood.observe import arguments
from fumehood.observe.processes import Process
from fumehood.observe.strace import Call

CALLS = frozenset({"socket", "connect", "bind", "sendto", "sendmsg", "sendmmsg", "getsockopt"})
_ADDRESS = re.compile(
    rb"\{sa_family=AF_(INET6?|UNIX)(?:"
    rb", sin_port=htons\((\d{1,5})\), sin_addr=inet_addr\(\"([0-9.]{7,15})\"\)"
    rb"|, sin6_port=htons\((\d{1,5})\), sin6_flowinfo=htonl\(\d+\), inet_pton\(AF_INET6, \"([0-9a-f:.]{2,45})\""
    rb"|, sun_path=(@?\"(?:[^\"\\]|\\.)*\"))"
)
# Which argument holds the address, and what stands before it.
_WHERE = {
    "connect": (1, b""),
    "bind": (1, b""),
    "sendto": (4, b""),
    "sendmsg": (1, b"{msg_name="),
    "sendmmsg": (1, b"[{msg_hdr={msg_name="),
}
_ERROR = re.compile(rb"SOL_SOCKET, SO_ERROR, \[(?:(E[A-Z0-9]+)|(\d+))\]")
_UNDER_WAY = ("EINPROGRESS", "EALREADY", "EINTR")
_TYPES = {b"SOCK_STREAM": "tcp", b"SOCK_DGRAM": "udp", b"SOCK_RAW": "raw"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to: an address and port, or the path of a Unix socket."""

    family: str  # "inet", "inet6", "unix"
    host: str = ""
    port: int = 0
    path: bytes = b""
    abstract: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Attempt:
    """One call, or as many alike, that named an address."""

    process: Process
    call: str
    address: Address
    protocol: str | None  # None: the socket's making was not seen
    outcome: str | None  # "connected", "bound", "sent", the error, "in progress"; None: it did not return
    moment: float | None = None  # of the first
    count: int = 1


class Connects:
    """Every attempt so far, alike ones counted together."""

    def __init__(self, activity: Callable[[float | None], str]) -> None:
        """None yet. Only what was tried in the same `activity` is counted together."""
        self._activity = activity
        self._protocols: dict[object, str] = {}
        self._under_way: dict[object, Attempt] = {}
        self._known: dict[object, Attempt] = {}
        self.lost = 0

    def take(self, process: Process, call: Call) -> None:
        """Look at one call out of CALLS."""
        match call.name:
            case "socket":
                self._made(process, call)
            case "getsockopt":
                self._asked(process, call)
            case "connect":
                self._connected(process, call)
            case "bind":
                self._named(process, call, "bound")
            case _:
                self._named(process, call, "sent")

    def finish(self) -> None:
        """The trace is at its end: what is still under way says so."""
        for attempt in self._under_way.values():
            self._keep(attempt)
        self._under_way.clear()

    def attempts(self) -> list[Attempt]:
        """All of them, in the order in which they ended."""
        return list(self._known.values())

    def _made(self, process: Process, call: Call) -> None:
        words = arguments.split(call.arguments)
        if call.result is None or call.result < 0 or len(words) < 2:  # noqa: PLR2004 - family and type
            return
        protocol = next((p for word, p in _TYPES.items() if words[1].startswith(word)), None)
        if protocol is not None and words[0] in (b"AF_INET", b"AF_INET6"):
            if len(self._protocols) >= limits.TRACE_RECORDS:
                self._protocols.clear()  # old sockets are closed ones; a protocol is only a remark
            self._protocols[call.path or (process.number, call.result)] = protocol

    def _connected(self, process: Process, call: Call) -> None:
        address = _address(call)
        if address is None:
            return
        socket = _socket(process, call)
        before = self._under_way.pop(socket, None)
        attempt = self._attempt(process, call, address, socket, "connected")
        if before is not None and before.address != address:
            self._keep(before)
        if attempt.outcome in _UNDER_WAY:
            attempt.outcome = "in progress"
            if len(self._under_way) < limits.TRACE_RECORDS:
                self._under_way[socket] = attempt
                return
        elif attempt.outcome == "EISCONN":
            attempt.outcome = "connected"
        self._keep(attempt)

    def _asked(self, process: Process, call: Call) -> None:
        error = _ERROR.search(call.arguments)
        attempt = self._under_way.pop(_socket(process, call), None) if error else None
        if error is None or attempt is None:
            return
        attempt.outcome = error[1].decode() if error[1] else "connected" if error[2] == b"0" else error[2].decode()
        self._keep(attempt)

    def _named(self, process: Process, call: Call, done: str) -> None:
        address = _address(call)
        if address is not None:
            self._keep(self._attempt(process, call, address, _socket(process, call), done))

    def _attempt(self, process: Process, call: Call, address: Address, socket: object, done: str) -> Attempt:
        outcome = None if call.result is None else call.error or done
        protocol = None if address.family == "unix" else self._protocols.get(socket)
        return Attempt(
            process=process, call=call.name, address=address, protocol=protocol, outcome=outcome, moment=call.moment
        )

    def _keep(self, attempt: Attempt) -> None:
        activity = self._activity(attempt.moment)
        key = (attempt.process.number, attempt.call, attempt.address, attempt.protocol, attempt.outcome, activity)
        known = self._known.get(key)
        if known is not None:
            known.count += 1
        elif len(self._known) >= limits.TRACE_RECORDS:
            self.lost += 1
        else:
            self._known[key] = attempt


def _socket(process: Process, call: Call) -> object:
    """What a socket is known by: `socket:[inode]` where strace says it, which forks share; else process and number."""
    number, path = arguments.descriptor(call.arguments) or (None, None)
    return path or (process.number, number)


def _address(call: Call) -> Address | None:
    """The address among a call's arguments. Never one inside the data that is sent: those are the target's words."""
    at, before = _WHERE[call.name]
    words = arguments.split(call.arguments)
    if len(words) <= at or not words[at].startswith(before):
        return None
    found = _ADDRESS.match(words[at], len(before))
    if found is None:
        return None
    _, port, host, port6, host6, path = found.groups()
    if path is not None:
        read = arguments.string(path)
        return Address(family="unix", path=read[0] if read else b"", abstract=path.startswith(b"@"))
    if port is not None:
        return Address(family="inet", host=host.decode(), port=int(port))
    return Address(family="inet6", host=host6.decode(), port=int(port6))
