"""The HTTP listener: uvicorn behind our own door, around the guard.

Invariants: at most HTTP_CONNECTIONS connections at once, TLS handshakes included, and whoever has no request in flight
gives way to whoever comes, the oldest first; a handshake, the head of a request, an idle connection and the last bytes
of an answer each have a deadline; on a Unix socket a peer whose uid is not listed is closed before a byte is read; no
line of the log and no header of an answer names the program or a path of a request.

uvicorn has no deadline for heads and handshakes, refuses the newcomer instead of the idler, and judges no peer: hence
the door. Its HTTP parser is h11. Against A4 of the threat model.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from fumehood.core import limits
from fumehood.core.errors import HarnessError
from fumehood.wire import sockets
from fumehood.wire.asgi import Application
from fumehood.wire.httpguard import Guarding, HttpGuard, Rates
from fumehood.wire.opening import Opened

_log = logging.getLogger(__name__)
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What a listener serves. `announce` gets a line for each note and place; a set `stop` ends it as SIGTERM does."""

    app: Application
    rates: Rates
    ready: Callable[[], bool] = lambda: True
    announce: Callable[[str], None] | None = None  # else they go to stderr
    draining: Callable[[], None] = lambda: None  # told when no more is accepted: what stands open has to end
    stop: threading.Event = field(default_factory=threading.Event)


def run(opened: Opened, served: Served) -> int:
    """Serve until SIGTERM or SIGINT, finish what is in flight, and return the signal (0 after `stop`)."""
    return asyncio.run(serve(opened, served))


async def serve(opened: Opened, served: Served) -> int:
    """The same inside a loop."""
    guarding = Guarding(
        policy=opened.policy,
        rates=served.rates,
        authenticators=opened.authenticators,
        documents=opened.documents,
        ready=served.ready,
    )
    server = _Server(opened, HttpGuard(served.app, guarding), served)
    await server.serve()
    return server.signalled


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - words for the operator go to stderr


class _Connection(H11Protocol):
    """One connection, from the moment it was accepted."""

    def __init__(self, server: "_Server", config: uvicorn.Config) -> None:
        super().__init__(config, server.server_state, server.lifespan.state)
        self.access_log = False  # uvicorn's names paths and addresses
        self.starting: asyncio.Task[None] | None = None
        self._room = server.room
        self._made = False
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Whether a request is in flight."""
        return self.cycle is not None and not self.cycle.response_complete

    def abort(self) -> None:
        """End it at once."""
        if self._made:
            self.transport.abort()
        elif self.starting is not None:
            self.starting.cancel()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn narrows it
        """The handshake is over; the head of a request is due."""
        super().connection_made(transport)
        self._made = True
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """A piece of a request."""
        super().data_received(data)
        if self.busy:
            self._forget_deadline()
        elif self._deadline is None:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._forget_deadline()
        self._room.leave(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """An answer is written; where it was the last, its bytes have a deadline."""
        super().on_response_complete()
        self._close_in_time()

    def timeout_keep_alive_handler(self) -> None:
        """Nobody asks any more."""
        super().timeout_keep_alive_handler()
        self._close_in_time()

    def _close_in_time(self) -> None:
        if self.transport.is_closing():
            self.loop.call_later(limits.HTTP_CLOSE_SECONDS, self.transport.abort)

    def _expect_head(self) -> None:
        self._deadline = self.loop.call_later(limits.HTTP_HEAD_SECONDS, self.abort)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Room:
    """The connections that there may be at once; the oldest idle one gives way."""

    def __init__(self, most: int) -> None:
        """Nobody is inside."""
        self._most = most
        self._inside: dict[_Connection, None] = {}  # in the order in which they came

    def enter(self, connection: _Connection) -> bool:
        """Let one in, if need be in the place of another."""
        if len(self._inside) >= self._most:
            idle = next((one for one in self._inside if not one.busy), None)
            if idle is None:
                return False
            self.leave(idle)
            idle.abort()
        self._inside[connection] = None
        return True

    def leave(self, connection: _Connection) -> None:
        """One is gone; a second time it does nothing."""
        self._inside.pop(connection, None)

    def __len__(self) -> int:
        """How many are inside."""
        return len(self._inside)


class _Server(uvicorn.Server):
    """uvicorn's server with a door of ours."""

    lifespan: Any

    def __init__(self, opened: Opened, guard: HttpGuard, served: Served) -> None:
        super().__init__(
            uvicorn.Config(
                guard,
                http="h11",
                ws="none",
                lifespan="on",
                interface="asgi3",
                loop="asyncio",
                log_config=None,
                log_level="error",  # its warnings are one for each broken request of anybody
                access_log=False,
                proxy_headers=False,  # X-Forwarded-For is whatever a client writes
                server_header=False,
                limit_concurrency=2 * limits.HTTP_CONNECTIONS,  # never reached: the door is narrower
                timeout_keep_alive=int(limits.HTTP_IDLE_SECONDS),
                timeout_graceful_shutdown=int(limits.HTTP_DRAIN_SECONDS),
                h11_max_incomplete_event_size=limits.HTTP_HEAD_BYTES,
            )
        )
        self.room = Room(limits.HTTP_CONNECTIONS)
        self.signalled = 0
        self.servers = []
        self._opened = opened
        self._announce = served.announce or _to_stderr
        self._stop_asked = served.stop
        self._draining = served.draining
        self._tasks: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin the application, then open the door."""
        del sockets
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise HarnessError("the application of the listener did not start")
        for one in self._opened.sockets:
            self._own(self._accept(one)).add_done_callback(self._deaf)
        for note in self._opened.notes:
            self._announce(f"fumehood: {note}")
        for place in self._opened.places:
            self._announce(f"fumehood: serving at {place}")
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the door, finish what is in flight, end the application."""
        for task in self._tasks:
            task.cancel()
        self._draining()
        await super().shutdown(sockets)
        self._opened.close()

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        self.should_exit = self.should_exit or self._stop_asked.is_set()
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT drain; a second one does not wait. They are not raised again: the caller gets to know."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._stop, number)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def _stop(self, number: int) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
        self.signalled = self.signalled or number

    def _own(self, work: Any) -> asyncio.Task[None]:  # noqa: ANN401 - a coroutine
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _deaf(self, task: asyncio.Task[None]) -> None:
        """A door that nobody opens any more ends the server: it must not seem to serve."""
        if not task.cancelled():
            _log.error("the listener accepts no more", exc_info=task.exception())
            self.should_exit = True

    async def _accept(self, listening: socket.socket) -> None:
        """Take connections for as long as the door is open."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as error:  # EMFILE, ENFILE, ENOMEM, or a peer that left before it was taken
                _log.error("a connection was not accepted: %s", error.strerror)
                await asyncio.sleep(limits.HTTP_PAUSE_SECONDS)
                continue
            connection = _Connection(self, self.config)
            if not self._is_known(accepted) or not self.room.enter(connection):
                accepted.close()
                continue
            connection.starting = self._own(self._begin(connection, accepted))

    def _is_known(self, accepted: socket.socket) -> bool:
        """Whether a peer may speak at all: on a Unix socket its uid says so."""
        try:
            return self._opened.peers is None or sockets.peer_uid(accepted) in self._opened.peers
        except OSError:
            return False

    async def _begin(self, connection: _Connection, accepted: socket.socket) -> None:
        """The handshake of one connection."""
        tls = self._opened.tls
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=tls,
                ssl_handshake_timeout=limits.HTTP_HANDSHAKE_SECONDS if tls else None,
                ssl_shutdown_timeout=limits.HTTP_CLOSE_SECONDS if tls else None,
            )
        except (OSError, asyncio.CancelledError):  # not TLS, too slow, gone, or made to give way
            self.room.leave(connection)
            accepted.close()
