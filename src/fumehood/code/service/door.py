"""What a connection of a link may cost, whoever is at its other end.

Invariants:
- It is read in pieces of at most CODE_LINK_CHUNK_BYTES, one of each connection in a turn of the loop. It says at most
  CODE_LINK_CONTROLS times what is no message (pings, their answers), and before it has a run no more than one job.
- What waits to be sent to who does not read is bounded by CODE_LINK_UNREAD_BYTES; then it is given up.
- Of those in a room there are at most so many; the oldest gives way.
- Large messages are read one after the other, with time for everybody else in between.

Not promised: a fair share of the processor between those that have a run; only that none of them has all of it.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import ServerConnection
from websockets.frames import CTRL_OPCODES, Frame
from websockets.protocol import Event, State

from fumehood.core import limits


class _Bounded(Connection):
    """One connection, either end."""

    controls = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # 256 KiB otherwise: 40,000 frames of nothing, which are all made before anybody else has a turn.
        transport.max_size = limits.CODE_LINK_CHUNK_BYTES  # type: ignore[attr-defined]  # of asyncio's own transports
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Read, and give up whoever does not: each ping is answered, and nothing else bounds the answers."""
        super().data_received(data)
        if (
            self.controls > limits.CODE_LINK_CONTROLS
            or self.transport.get_write_buffer_size() > limits.CODE_LINK_UNREAD_BYTES
        ):
            self.transport.abort()

    def process_event(self, event: Event) -> None:
        if isinstance(event, Frame) and event.opcode in CTRL_OPCODES:
            self.controls += 1
        super().process_event(event)


class Dialed(_Bounded, ClientConnection):
    """A connection to a runner."""


class Link(_Bounded, ServerConnection):
    """A connection of somebody, from the moment it was accepted."""

    room: "Room"
    heard_bytes = 0
    begun = False  # it has, or had, a run

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody is there."""
        super().connection_made(transport)
        self.room.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self.room.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what a job may have, and no more before there is one."""
        self.heard_bytes += len(data)
        if not self.begun and self.heard_bytes > limits.CODE_LINK_STRANGER_BYTES:
            self.transport.abort()
        else:
            super().data_received(data)


class Room:
    """Connections without a run; the oldest gives way."""

    def __init__(self) -> None:
        """Nobody is inside."""
        self._inside: dict[Link, None] = {}  # in the order in which they came

    def __len__(self) -> int:
        """How many are inside."""
        return len(self._inside)

    def enter(self, one: Link) -> None:
        """Let one in, if need be in the place of another."""
        if len(self._inside) >= limits.CODE_LINK_WAITING:
            oldest = next(iter(self._inside))
            self.leave(oldest)
            oldest.transport.abort()
        one.room = self
        self._inside[one] = None

    def close(self) -> None:
        """Give up everybody who has not even asked for a WebSocket: nobody waits for their deadlines."""
        for one in [*self._inside]:
            if one.state is State.CONNECTING:
                one.transport.abort()

    def leave(self, one: Link) -> None:
        """One is gone, or has a run; a second time it does nothing."""
        self._inside.pop(one, None)


class Lane:
    """Where large messages wait for their turn: to read one takes time, and nobody else has the loop meanwhile."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._free = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[None]:
        """Read in the block, without a wait there. The next has its turn CODE_LINK_PAUSES times as much time later."""
        if size < limits.CODE_LINK_LARGE_BYTES:
            yield
            return
        await self._free.acquire()
        began = time.monotonic()
        try:
            yield
        finally:
            pause = limits.CODE_LINK_PAUSES * (time.monotonic() - began)
            asyncio.get_running_loop().call_later(pause, self._free.release)
