"""One connection of the confined child: decided, judged by its first bytes, relayed, recorded.

Invariants: no byte of the client leaves before its hello was judged (the server's bytes are never held: SSH, SMTP and
git speak second); what is cut is reset; each wait has a bound.
"""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Awaitable, Callable
from typing import assert_never

from fumehood.sandbox.egress import Answer, Dial, EgressRecord, EgressRequest, Hello, Refuse, decide, disagreement
from fumehood.sandbox.relay.engine import CutError, Engine, readable, reset, wanted
from fumehood.sandbox.relay.hearing import Hearing
from fumehood.sandbox.relay.outside import DialFailedError, DialRefusedError
from fumehood.sandbox.relay.sinkhole import Sinkhole


class Connection:
    """A client that was accepted. `run` serves it to its end and records it once."""

    def __init__(self, engine: Engine, client: socket.socket) -> None:
        """Take over the client's socket."""
        self._engine = engine
        self._client = client
        self._loop = asyncio.get_running_loop()
        self.born = self.active = engine.clock.monotonic()
        self.cut_because = "stopped"  # what a cancellation means
        self.has_begun = self.is_leaving = False  # served; cut to make room
        self._at = engine.elapsed()
        self.address, self.port = wanted(client)
        self._name = engine.names.name(self.address)
        self._decision = "failed"
        self._why: str | None = None
        self._peer: str | None = None
        self._end: str | None = None
        self._hello: Hello | None = None
        self._note: str | None = None
        self._head = b""
        self._up = self._down = 0
        self._sinkhole: Sinkhole | None = None
        self._hearing: Hearing | None = None

    async def run(self) -> None:
        """Serve the client; return when it is closed and recorded."""
        self.has_begun = True
        try:
            await self._serve()
        except asyncio.CancelledError:
            self._end = (self._sinkhole and self._sinkhole.end) or self.cut_because
            self._take_waiting()
        finally:
            reset(self._client)
            self._record()

    def refuse(self, why: str) -> None:
        """Record and reset a client that cannot be served, with the bytes that it has sent already."""
        self._decision, self._why = "refused", why
        self._take_waiting()
        reset(self._client)
        self._record()

    async def _serve(self) -> None:
        decision = decide(self._engine.policy, self._name, self.address, self.port)
        match decision:
            case Answer():
                await self._answer()
                return
            case Refuse():
                self._decision, self._why = "refused", decision.why
            case Dial():
                try:
                    server, self._peer = await self._engine.outside.dial(decision)
                except DialRefusedError as error:
                    self._decision, self._why, self._peer = "refused", str(error), error.address
                except DialFailedError as error:
                    self._why = str(error)
                else:
                    await self._relay(decision, server)
                    return
            case _:
                assert_never(decision)
        try:
            complete = await self._hear(self._engine.bounds.refused_seconds)
        except OSError as error:
            self._end = error.strerror
        else:
            self._end = None if complete else "silent"

    async def _answer(self) -> None:
        """Answer here; a client that never spoke is told apart, so that a flood of them hides nobody who did."""
        self._decision = "answered"
        self._sinkhole = Sinkhole(self._engine, self._client, self._touch)
        try:
            complete = await self._hear(self._engine.bounds.silent_seconds)
            if complete or self._head:
                self._end = await self._sinkhole.serve(self._kind, self._head)
            else:
                self._end = "silent"
        except CutError as error:
            self._end = str(error)
        except OSError as error:
            self._end = error.strerror or "connection error"
        else:
            self._client.close()

    def _touch(self) -> None:
        self.active = self._engine.clock.monotonic()

    async def _relay(self, order: Dial, server: socket.socket) -> None:
        self._decision = "relayed"
        try:
            for end in (self._client, server):
                with contextlib.suppress(OSError):  # a matter of speed, and `connect` may give another kind of socket
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._upwards(order, server))
                both.create_task(self._downwards(server))
        except* CutError as group:
            self._end = str(_first_of(group))
        except* OSError as group:
            self._end = getattr(_first_of(group), "strerror", None) or "connection error"
        else:
            self._end = "closed"
            self._client.close()  # an ordinary end; a reset on a closed socket does nothing
            server.close()
        finally:
            reset(server)

    async def _upwards(self, order: Dial, server: socket.socket) -> None:
        complete = await self._hear(None)
        head, why = self._head, self._judge(complete=complete)
        if order.strict and why is not None:
            self._decision, self._why = "refused", why
            raise CutError("hello")
        self._note = self._note or why

        async def send(piece: bytes | memoryview) -> None:
            self._engine.meter(up=len(piece))
            await self._loop.sock_sendall(server, piece)
            self._up += len(piece)
            await self._overhear(piece)

        self._hearing = Hearing(self._engine, relayed=True) if self._kind == "http" else None
        await send(head)
        if head:
            await self._pump(self._client, send)
        _half_close(server)

    async def _overhear(self, piece: bytes | memoryview) -> None:
        """Read the requests in what was sent on already, in slices: a thousand tiny ones hold nobody up."""
        size = self._engine.bounds.answered_bytes
        for at in range(0, len(piece), size):
            if self._hearing is None or not self._hearing.is_reading:
                return
            self._hearing.feed(bytes(piece[at : at + size]))
            if at + size < len(piece):
                await asyncio.sleep(0)

    async def _downwards(self, server: socket.socket) -> None:
        async def send(piece: memoryview) -> None:
            self._engine.meter(down=len(piece))
            await self._loop.sock_sendall(self._client, piece)
            self._down += len(piece)

        await self._pump(server, send)
        _half_close(self._client)

    async def _pump(self, source: socket.socket, send: Callable[[memoryview], Awaitable[None]]) -> None:
        """Send on what arrives, until the end of input."""
        clock, bounds = self._engine.clock, self._engine.bounds
        buffer = memoryview(bytearray(bounds.chunk_bytes))
        turn = clock.monotonic()
        while count := await self._loop.sock_recv_into(source, buffer):
            await send(buffer[:count])
            now = self.active = clock.monotonic()
            if now - turn > bounds.turn_seconds:  # asyncio's socket calls do not yield while they can go on
                await asyncio.sleep(0)
                turn = now

    async def _hear(self, seconds: float | None) -> bool:
        """Take a client's first bytes: true once a hello could be read or the client ended, false at a bound.

        `seconds` is for the whole; None waits for the first byte as long as the connection may be idle, since a server
        may speak first, and then `first_seconds`. Bytes are only taken once they are there, so none is lost to a
        deadline.
        """
        bounds = self._engine.bounds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds) as deadline:
                for _ in range(bounds.first_reads):
                    await readable(self._client)
                    if not self._head and seconds is None:
                        deadline.reschedule(self._loop.time() + bounds.first_seconds)
                    if not self._take(bounds.first_bytes) or self._hello is not None:
                        return True
                    if len(self._head) >= bounds.first_bytes:
                        break
        return False

    def _take(self, bound: int) -> bool:
        """Take what waits, up to `bound` first bytes in all, and have the inspector read them; false at the end."""
        piece = self._client.recv(bound - len(self._head))
        self._head += piece
        self._hello = self._engine.inspect.hello(self._head) if self._head else None
        if self._hello is not None:
            self._note = self._hello.note or None
        return bool(piece)

    def _take_waiting(self) -> None:
        """Take what a client sent that nobody waits for any more: it is evidence."""
        if self._sinkhole is not None and self._hello is not None:
            with contextlib.suppress(OSError):
                self._sinkhole.take(self._client.recv(self._engine.bounds.answered_bytes))
            return
        bound = self._engine.bounds.kept_bytes
        if self._hello is None and len(self._head) < bound:
            with contextlib.suppress(OSError):
                self._take(bound)

    def _judge(self, *, complete: bool) -> str | None:
        """Why the first bytes do not fit the name, or None. A client that ends without a byte fits."""
        if self._name is None or (complete and not self._head):
            return None
        return disagreement(self._name, self._hello)

    @property
    def _kind(self) -> str:
        """What the first bytes are."""
        if self._hello is not None:
            return self._hello.kind
        return "partial" if self._head else "none"

    def _record(self) -> None:
        engine, hello, local = self._engine, self._hello, self._sinkhole
        engine.records.add(
            EgressRecord(
                kind="tcp",
                at_seconds=self._at,
                name=self._name,
                address=self.address,
                port=self.port,
                decision=self._decision,
                why=self._why,
                peer=self._peer,
                hello=self._kind,
                server_name=hello.server_name if hello else None,
                request_line=hello.request_line if hello else None,
                note=self._note,
                first=self._first(),
                requests=self._requests(),
                up_bytes=local.up if local else self._up,
                down_bytes=local.down if local else self._down,
                seconds=engine.clock.monotonic() - self.born,
                end=self._end,
            )
        )

    def _first(self) -> bytes:
        """The first bytes, where nothing says better what was sent."""
        bounds = self._engine.bounds
        if self._sinkhole is not None:
            raw = self._sinkhole.first or (b"" if self._sinkhole.up else self._head[: bounds.raw_bytes])
            return raw[: self._engine.grant(len(raw), 0)]
        told = self._decision == "relayed" and self._kind in ("tls", "http")
        return b"" if told else self._head[: bounds.kept_bytes]

    def _requests(self) -> tuple[EgressRequest, ...]:
        """The requests that were read; of a client that was refused, as far as its first bytes go."""
        hearing = self._sinkhole.hearing if self._sinkhole is not None else self._hearing
        if hearing is None and self._kind == "http":
            hearing = Hearing(self._engine)
            hearing.feed(self._head)
        if hearing is None:
            return ()
        hearing.finish()
        return hearing.requests


def _half_close(sink: socket.socket) -> None:
    try:
        sink.shutdown(socket.SHUT_WR)
    except OSError as error:
        if error.errno != errno.ENOTCONN:  # the other side was gone already: an ordinary end
            raise


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
