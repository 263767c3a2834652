"""One connection that is answered here: an alert to TLS, a constant to HTTP, an open ear for everything else.

Invariants: nothing is dialled and nothing is resolved; no byte of the client comes back to it; each wait has a bound;
what was read is there for the record at any moment, also when the connection is cut.

Not promised: that a client takes an answer for a real one.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence

from fumehood.sandbox.egress import Heard
from fumehood.sandbox.relay.engine import CutError, Engine, readable
from fumehood.sandbox.relay.hearing import Hearing
from fumehood.sandbox.relay.replies import CONTINUE, TLS_ALERT, reply


class Sinkhole:
    """Answers one client; its owner closes the socket."""

    def __init__(self, engine: Engine, client: socket.socket, touch: Callable[[], None]) -> None:
        """`touch` is called whenever bytes come."""
        self._engine, self._client, self._touch = engine, client, touch
        self._loop = asyncio.get_running_loop()
        self._raw = bytearray()
        self.hearing = Hearing(engine)
        self.up = self.down = 0
        self.end: str | None = None  # once everything was said

    @property
    def first(self) -> bytes:
        """The client's first bytes, unless they stand in the requests already."""
        return b"" if self.hearing.is_whole else bytes(self._raw)

    async def serve(self, kind: str, head: bytes) -> str:
        """Answer to the end, in a word. `head` was read already; `kind` is what the inspector made of it.

        Raises `CutError` at a bound, OSError when the client is gone.
        """
        try:
            if kind == "tls":
                self._take(head)
                await self._say(TLS_ALERT)
                return await self._part("alert")
            if kind == "http" or (kind == "partial" and head[:1].isalpha()):
                return await self._exchange(head)
            self._take(head)
            return await self._listen(self._engine.bounds.answered_seconds)
        except TimeoutError:
            return "idle" if self.up else "silent"

    def take(self, piece: bytes) -> None:
        """Keep what came besides: what waits in a socket that is being cut is evidence."""
        self._keep(piece)
        self.hearing.feed(piece)

    async def _exchange(self, head: bytes) -> str:
        """Answer requests until the client ends, goes silent, or stops speaking HTTP."""
        piece = head
        while piece:
            self._keep(piece)
            heard = self.hearing.feed(piece)  # before the meter may cut: it is evidence
            self._spend(piece)
            spent = self.hearing.count >= self._engine.bounds.requests
            said = b"".join(self._replies(heard, spent=spent))
            if self.hearing.take_continue():
                said += CONTINUE
            if said:
                await self._say(said)
            if not self.hearing.is_reading:
                return await self._tunnel() if heard and heard[-1].tunnel else await self._part("malformed")
            if spent:
                return await self._part("request_limit")
            if any(request.closes for request in heard):
                return await self._part("closed")
            piece = await self._read(self._engine.bounds.answered_seconds)
        return "closed"

    def _replies(self, heard: Sequence[Heard], *, spent: bool) -> list[bytes]:
        """The answers up to the last request that is answered."""
        said: list[bytes] = []
        for request in heard:
            said.append(reply(request, last=spent and request is heard[-1]))
            if request.closes:
                break
        return said

    async def _tunnel(self) -> str:
        """What follows CONNECT: TLS is ended inside it as outside."""
        piece = await self._read(self._engine.bounds.silent_seconds)
        self._take(piece)
        hello = self._engine.inspect.hello(piece) if piece else None
        if hello is not None and hello.kind == "tls":
            await self._say(TLS_ALERT)
            return await self._part("alert")
        return await self._listen(self._engine.bounds.answered_seconds) if piece else "closed"

    async def _listen(self, seconds: float) -> str:
        """Take what comes, until the client ends or is silent for so long."""
        while piece := await self._read(seconds):
            self._take(piece)
        return "closed"

    async def _part(self, end: str) -> str:
        """Say that nothing more comes, and let the client read that before the socket is closed."""
        self.end = end
        with contextlib.suppress(OSError, TimeoutError):
            self._client.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(self._engine.bounds.farewell_seconds):
                await self._listen(self._engine.bounds.farewell_seconds)
        return end

    async def _read(self, seconds: float) -> bytes:
        async with asyncio.timeout(seconds):
            await readable(self._client)
        return self._client.recv(self._engine.bounds.answered_bytes)

    async def _say(self, data: bytes) -> None:
        """Send, to a client that may not read."""
        self._engine.meter(down=len(data))
        try:
            async with asyncio.timeout(self._engine.bounds.answered_seconds):
                await self._loop.sock_sendall(self._client, data)
        except TimeoutError:
            raise CutError("unread") from None
        self.down += len(data)

    def _take(self, piece: bytes) -> None:
        self._keep(piece)
        self._spend(piece)

    def _spend(self, piece: bytes) -> None:
        self._touch()
        self._engine.meter(up=len(piece))

    def _keep(self, piece: bytes) -> None:
        self.up += len(piece)
        self._raw += piece[: max(0, self._engine.bounds.raw_bytes - len(self._raw))]
