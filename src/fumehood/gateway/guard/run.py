"""One guarded server from its start to its end: its walls, and the lines between it and its client.

Invariants: the server runs only where every wall stands; what each side says passes `traffic` before the other gets it;
each direction waits for its reader, so that memory is bounded by a frame on either side, whatever is sent; a record is
kept before what it is about is done; when this returns nothing of the server is left, also when its client is gone.

The status is the server's own, 128 + n for a signal; 0 when its client left first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fumehood.core.clock import Clock
from fumehood.core.errors import LimitError
from fumehood.gateway.audit.writer import AuditLog
from fumehood.gateway.guard.between import Between, Ends
from fumehood.gateway.guard.cell import Cell, confined
from fumehood.gateway.guard.clientend import ClientEnd
from fumehood.gateway.guard.traffic import Traffic
from fumehood.gateway.guard.walls import Ready
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.relay.outside import World
from fumehood.sandbox.runs import Run
from fumehood.sandbox.spec import End, Exit

_SIGNALLED: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What one guarded server is given."""

    ready: Ready
    host: HostFacts
    run: Run
    client: ClientEnd
    traffic: Traffic
    audit: AuditLog | None
    clock: Clock
    world: World = World()  # resolver, connect and clock of the relay
    say: Callable[[str], None]  # a line of words; it waits for nobody


async def guard(session: Session) -> int:
    """Run the server until it, or its client, has ended. Errors: `WallError`, those of the sandbox and of the audit."""
    cell = Cell(
        ready=session.ready,
        host=session.host,
        run=session.run,
        clock=session.clock,
        say=session.say,
        world=session.world,
    )
    async with confined(cell) as running:
        between = Between(Ends(client=session.client, server=running), session.traffic, session.audit, session.say)
        await between.hold()
        ended = await running.end()
    return _status(ended, between.signalled, session.say)


def _status(ended: Exit, number: int | None, say: Callable[[str], None]) -> int:
    """The status of the guard. `number` is the signal that it was told to end with, if any."""
    match ended.end:
        case End.EXITED:
            return ended.status or 0
        case End.SIGNALLED:
            return _SIGNALLED + (ended.signal or 0)
        case End.STOPPED | End.CANCELLED:
            return 0 if number is None else _SIGNALLED + number
        case _:
            say(f"fumehood: the server was ended: {ended.end.value}")
            return LimitError.exit_status
