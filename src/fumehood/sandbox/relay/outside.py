"""The way to the outer network: names resolved with a deadline, every address judged, the judged one dialled.

Invariants: a name is resolved once, so the address that is dialled is one that was judged; one address that is not
public refuses the name, an operator's rule excepted; an address of this host counts as loopback, also a public one.
"""

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from fumehood.core.addresses import ANYWHERE, parse_address, refusal
from fumehood.core.clock import Clock, SystemClock
from fumehood.sandbox.egress import Dial
from fumehood.sandbox.relay.bounds import RelayBounds

_NO_SUCH_NAME = {socket.EAI_NONAME, socket.EAI_NODATA}


class Resolver(Protocol):
    """What finds a name's addresses. It may block, and raises OSError."""

    def __call__(self, name: str, *, absolute: bool) -> Iterable[str]:
        """The addresses of a name; an absolute one is not completed by the host's search list."""
        ...


def system_resolver(name: str, *, absolute: bool) -> list[str]:
    """Ask the resolver of this host."""
    found = socket.getaddrinfo(f"{name}." if absolute else name, None, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def tcp_connect(address: str, port: int) -> socket.socket:
    """A connected, non-blocking socket."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.settimeout(0)
        await asyncio.get_running_loop().sock_connect(opened, (address, port))
    except BaseException:
        opened.close()
        raise
    return opened


def is_own(address: str) -> bool:
    """Whether an address is one of this host's. Sends nothing: connecting a datagram socket only looks up the route."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
            return bool(ipaddress.ip_address(probe.getsockname()[0]) == ipaddress.ip_address(address))
        except (OSError, ValueError):
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What reaches beyond the sandbox, as arguments, so that no test can dial by accident."""

    resolver: Resolver = system_resolver
    connect: Callable[[str, int], Awaitable[socket.socket]] = tcp_connect
    is_own: Callable[[str], bool] = is_own
    clock: Clock = SystemClock()


class LookupFailedError(Exception):
    """A name has no answer: `absent` when there is no such name, else the resolver failed."""

    def __init__(self, why: str, *, absent: bool = False) -> None:
        """Say why, in a word."""
        super().__init__(why)
        self.absent = absent


class DialRefusedError(Exception):
    """An address may not be dialled; `address` is the one."""

    def __init__(self, why: str, address: str | None = None) -> None:
        """Say why, in a word."""
        super().__init__(why)
        self.address = address


class DialFailedError(Exception):
    """Nothing outside answered."""


class Outside:
    """Resolves and dials for one sandbox."""

    def __init__(self, world: World, bounds: RelayBounds) -> None:
        """Start with nothing resolved."""
        self._world = world
        self._bounds = bounds
        self._answers: dict[str, asyncio.Future[tuple[str, ...] | OSError]] = {}
        self._running = 0
        self._started = 0

    async def addresses(self, name: str, *, operator: bool = False) -> tuple[str, ...]:
        """The addresses of a name, the same at every call. Raises `LookupFailedError`."""
        if name not in self._answers:
            self._look_up(name, absolute=not operator)
        answer = self._answers[name]
        try:
            async with asyncio.timeout(self._bounds.resolve_seconds):
                found = await asyncio.shield(answer)
        except TimeoutError:
            raise LookupFailedError("lookup_timed_out") from None
        if isinstance(found, OSError):
            absent = found.errno in _NO_SUCH_NAME
            raise LookupFailedError("no_such_name" if absent else "lookup_failed", absent=absent) from found
        return found

    async def dial(self, order: Dial) -> tuple[socket.socket, str]:
        """Connect to the first address that answers. Raises `DialRefusedError`, `DialFailedError`."""
        addresses = await self._judged(order)
        why = "dial_timed_out"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._bounds.dial_seconds):
                for address in addresses:
                    try:
                        async with asyncio.timeout(self._bounds.dial_each_seconds):
                            return await self._world.connect(address, order.port), address
                    except TimeoutError:
                        why = "dial_timed_out"
                    except OSError as error:
                        why = f"dial: {error.strerror or type(error).__name__}"
        raise DialFailedError(why)

    async def _judged(self, order: Dial) -> tuple[str, ...]:
        """The addresses to dial, each of them acceptable, IPv4 first."""
        literal = parse_address(order.host)
        if order.pins:
            addresses = order.pins
        elif literal is not None:
            addresses = (str(literal),)
        else:
            try:
                addresses = await self.addresses(order.host, operator=order.operator)
            except LookupFailedError as error:
                raise DialFailedError(str(error)) from error
        why = refusal(addresses, ANYWHERE if order.operator else ())
        if why is not None:
            word, _, address = why.partition(" ")
            raise DialRefusedError(word, address or None)
        own = None if order.operator else next((a for a in addresses if self._world.is_own(a)), None)
        if own is not None:
            raise DialRefusedError("own_address", own)
        return tuple(sorted(dict.fromkeys(addresses), key=lambda address: ":" in address))

    def _look_up(self, name: str, *, absolute: bool) -> None:
        """Start a lookup in a thread of its own: one that hangs can only be abandoned, so they are few."""
        loop = asyncio.get_running_loop()
        if self._running >= self._bounds.lookups or self._started >= self._bounds.names:
            raise LookupFailedError("too_many_lookups")
        answer: asyncio.Future[tuple[str, ...] | OSError] = loop.create_future()
        self._answers[name] = answer
        self._running += 1
        self._started += 1

        def finish(found: tuple[str, ...] | OSError) -> None:
            self._running -= 1
            if isinstance(found, OSError) and found.errno not in _NO_SUCH_NAME:
                self._answers.pop(name, None)  # the resolver failed, not the name: a client may ask again
            if not answer.done():
                answer.set_result(found)

        def work() -> None:
            found: tuple[str, ...] | OSError
            try:
                found = tuple(self._world.resolver(name, absolute=absolute))
            except OSError as error:
                found = error
            except UnicodeError:  # a label that IDNA refuses
                found = OSError(socket.EAI_NONAME, "no such name")
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(finish, found)

        threading.Thread(target=work, name="fumehood-lookup", daemon=True).start()
