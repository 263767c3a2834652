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

from fumehood.sandbox.egress import Dial, EgressRecord, Hello, Refuse, decide, disagreement
from fumehood.sandbox.relay.engine import CutError, Engine, readable, reset, wanted
from fumehood.sandbox.relay.outside import DialFailedError, DialRefusedError


class Connection:
    """A client that was accepted. `run` serves it to its end and records it once."""

    def __init__(self, engine: Engine, client: socket.socket) -> None:
        """Take over the client's socket."""
        self._engine = engine
        self._client = client
        self._loop = asyncio.get_running_loop()
        self.born = self.active = engine.clock.monotonic()
        self.cut_because = "stopped"  # what a cancellation means
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

    async def run(self) -> None:
        """Serve the client; return when it is closed and recorded."""
        try:
            await self._serve()
        except asyncio.CancelledError:
            self._end = self.cut_because
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

        await send(head)
        if head:
            await self._pump(self._client, send)
        _half_close(server)

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
        engine, hello = self._engine, self._hello
        told = self._decision == "relayed" and self._kind in ("tls", "http")  # name and request line say it better
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
                first=b"" if told else self._head[: engine.bounds.kept_bytes],
                up_bytes=self._up,
                down_bytes=self._down,
                seconds=engine.clock.monotonic() - self.born,
                end=self._end,
            )
        )


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
