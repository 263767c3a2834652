"""What the parts of one sandbox's egress share: policy, names, records, the meter, the way out."""

import asyncio
import contextlib
import socket
import struct

from fumehood.sandbox.egress import Inspect, Policy
from fumehood.sandbox.names import Names
from fumehood.sandbox.relay.bounds import RelayBounds
from fumehood.sandbox.relay.outside import Outside, World
from fumehood.sandbox.relay.records import Records

_SO_ORIGINAL_DST = 80  # linux/netfilter_ipv4.h and, at the level of IPv6, netfilter_ipv6/ip6_tables.h


class CutError(Exception):
    """A connection is ended by us, for the reason given in a word."""


class Engine:
    """Shared by the relay, its connections, our DNS and the packet recorder."""

    def __init__(self, policy: Policy, inspect: Inspect, world: World, bounds: RelayBounds) -> None:
        """Start the clock of the records."""
        self.policy, self.inspect, self.bounds = policy, inspect, bounds
        self.names = Names(bounds.names)
        self.records = Records(bounds.records, bounds.zones)
        self.outside = Outside(world, bounds)
        self.clock = world.clock
        self._started = self.clock.monotonic()
        self.started_at = self.clock.now().timestamp()
        self._up = self._down = 0
        self._evidence = 0
        self.requests = 0  # that were kept, of all connections

    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.clock.monotonic() - self._started

    def meter(self, *, up: int = 0, down: int = 0) -> None:
        """Count bytes of all connections together. Raises `CutError` beyond a bound."""
        self._up += up
        self._down += down
        if self._up > self.bounds.up_bytes:
            raise CutError("up_limit")
        if self._down > self.bounds.down_bytes:
            raise CutError("down_limit")

    def grant(self, wanted: int, have: int) -> int:
        """How many of `wanted` bytes one connection may keep besides `have`; they then count as kept.

        Each may keep a little, whatever others did.
        """
        left = self.bounds.evidence_bytes - self._evidence
        granted = max(0, min(wanted, max(left, self.bounds.evidence_floor_bytes - have)))
        self._evidence += granted
        return granted


async def readable(client: socket.socket) -> None:
    """Wait until a socket that nobody else waits for can be read. Takes no bytes, so none is lost to a deadline."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    loop.add_reader(client, _fire, done)
    try:
        await done
    finally:
        loop.remove_reader(client)


def _fire(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def reset(client: socket.socket) -> None:
    """Close with a reset: no TIME_WAIT of ours, and the other side learns that it was cut."""
    with contextlib.suppress(OSError):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def wanted(client: socket.socket) -> tuple[str, int]:
    """The address and port that a client wanted: before the redirect, or without one its own name for this end."""
    six = client.family == socket.AF_INET6
    level, size = (socket.IPPROTO_IPV6, 28) if six else (socket.IPPROTO_IP, 16)
    try:
        raw = client.getsockopt(level, _SO_ORIGINAL_DST, size)
    except OSError:
        address, port = client.getsockname()[:2]
        return str(address), int(port)
    packed = raw[8:24] if six else raw[4:8]
    return socket.inet_ntop(client.family, packed), int.from_bytes(raw[2:4], "big")
