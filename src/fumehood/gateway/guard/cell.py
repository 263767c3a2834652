"""One confined server: behind every wall or not at all, and what it says on stderr in words for a person.

Invariants: it runs only where each wall that it needs stands; its relay leads to no service of this machine's loopback;
its words are inert, marked as its own and bounded in rate (`voice`); when the block is left, nothing of it is.
"""

import contextlib
import dataclasses
import errno
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final

from fumehood.core.addresses import parse_address
from fumehood.core.clock import Clock
from fumehood.core.errors import UnsupportedError
from fumehood.gateway.guard import walls
from fumehood.gateway.guard.voice import Voice
from fumehood.gateway.guard.walls import Ready
from fumehood.observe.dns import parse_question
from fumehood.observe.hello import parse_hello
from fumehood.sandbox.containment import WallState
from fumehood.sandbox.egress import Inspect
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.relay.outside import World
from fumehood.sandbox.runs import Run
from fumehood.sandbox.supervise import Running, Wiring, sandbox

_INSPECT: Final = Inspect(question=parse_question, hello=parse_hello)


class WallError(UnsupportedError):
    """A wall that a guarded server needs cannot stand here."""

    code = "no_wall"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What one server is given."""

    ready: Ready
    host: HostFacts
    run: Run
    clock: Clock
    say: Callable[[str], None]  # a line of words; it waits for nobody
    voice: Voice = field(default_factory=Voice)
    world: World = World()  # resolver, connect and clock of the relay


@contextlib.asynccontextmanager
async def confined(cell: Cell) -> AsyncIterator[Running]:
    """The server, running. Errors: `WallError`, those of the sandbox."""

    def spoken(data: bytes) -> None:
        for line in cell.voice.feed(data, cell.clock.monotonic()):
            cell.say(line)

    spec = walls.spec(cell.ready, cell.run.uid)
    wiring = Wiring(stderr=spoken, inspect=_INSPECT, world=_without_loopback(cell.world))
    try:
        async with sandbox(spec, cell.host, cell.run, walls.bounds(), wiring) as running:
            _demand_walls(running)
            yield running
    finally:
        for line in cell.voice.close(cell.clock.monotonic()):
            cell.say(line)


def _demand_walls(running: Running) -> None:
    lacking = [f"{wall.name} ({wall.why})" for wall in running.containment.walls if wall.state is WallState.UNAVAILABLE]
    if lacking:
        raise WallError(f"not run: {', '.join(lacking)}", remedy="fumehood doctor says what each wall needs")


def _without_loopback(world: World) -> World:
    """The same world, in which no name leads to a service of this machine's loopback, an operator's rule or not."""

    async def connect(address: str, port: int) -> socket.socket:
        found = parse_address(address)
        if found is None or found.is_loopback or found.is_unspecified:
            raise OSError(errno.EACCES, "an address of loopback")
        return await world.connect(address, port)

    return dataclasses.replace(world, connect=connect)
