"""The runner as a service: one WebSocket a run, behind a token.

Invariants:
- Before its token is known a connection costs little (`door`): at most CODE_LINK_WAITING of them without a run, the
  oldest of which gives way; the handshake and the first message each have a deadline; no compression; one path; nobody
  who sends an `Origin`, for only browsers do.
- A run is cancelled as soon as its socket is gone, breaks the protocol, or does not answer a ping; its place is free
  once its child is gone. Whoever asks and does not read is given up.
- On SIGTERM and SIGINT no more runs begin, those that run may finish within CODE_DRAIN_SECONDS and are cancelled then;
  a second signal cancels at once.
- No line of the log has a word of a program, of a token, or of a peer's request.

Not promised: that who is at the other end is who should be, beyond its token; anything about the way there: in the
clear, whoever can read it has programs, answers and token. Against A4 and A9 of the threat model.
"""

import asyncio
import contextlib
import functools
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response
from websockets.protocol import State

from fumehood.code.backend import ToolBackend
from fumehood.code.job import Job, JobResult
from fumehood.code.service.door import Lane, Link, Room
from fumehood.code.service.remotetools import RemoteTools
from fumehood.code.service.runnerend import Answered, Begin, Broken, Cancelled, Heard, RunnerEnd, Turned
from fumehood.code.service.standing import Standing
from fumehood.core import limits
from fumehood.core.errors import FailedError

RunJob: TypeAlias = Callable[[Job, ToolBackend, asyncio.Event | None], Awaitable[JobResult]]

PATH: Final = "/run"
HEALTH: Final = "/healthz"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_LOG: Final = logging.getLogger(__name__)
# The library's own log shows frames at DEBUG, tokens and programs in them, and a line for each handshake of anybody.
_QUIET: Final = logging.getLogger(f"{__name__}.frames")
_QUIET.setLevel(logging.CRITICAL + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What is served."""

    run: RunJob
    standing: Standing
    announce: Callable[[str], None]  # a line for the operator


async def serve_on(sockets: Sequence[socket.socket], service: Service) -> int:
    """Serve until a signal, drain, and return the signal. The sockets are bound, and closed at the end."""
    return await _Runner(service).serve(sockets)


class _Runner:
    """The service while it is up."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._standing = service.standing
        self._room = Room()
        self._ending = Room()  # their runs are over: nobody without a token pushes them out
        self._lane = Lane()
        self._told: list[int] = []  # signals
        self._signalled = asyncio.Event()
        self._hurried = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._cancels: set[asyncio.Event] = set()

    async def serve(self, sockets: Sequence[socket.socket]) -> int:
        with self._heeding():
            servers = [await self._listen(one) for one in sockets]
            for one in sockets:
                self._service.announce(f"running programs at {_place(one)}")
            await self._signalled.wait()
            await self._drain()
            self._room.close()
            for server in servers:
                server.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limits.CODE_STOP_SECONDS):
                    await asyncio.gather(*(server.wait_closed() for server in servers))
        return self._told[0]

    async def _listen(self, listening: socket.socket) -> Server:
        # asyncio takes as many connections in a row as its `backlog` says, without a look at those it has; where no
        # descriptor is left it logs, and sets a timer, for each of them. So one; the kernel's queue is longer.
        server = await serve(
            self._hold,
            sock=listening,
            backlog=1,
            compression=None,
            process_request=self._judge,
            server_header=None,
            open_timeout=limits.CODE_LINK_OPEN_SECONDS,
            ping_interval=limits.CODE_LINK_PING_SECONDS,
            ping_timeout=limits.CODE_LINK_PONG_SECONDS,
            close_timeout=limits.CODE_LINK_CLOSE_SECONDS,
            max_size=limits.CODE_LINK_JOB_BYTES,
            max_queue=limits.CODE_LINK_FRAMES,
            write_limit=limits.CODE_LINK_WRITE_BYTES,
            logger=_QUIET,
            create_connection=functools.partial(_linked, self._room),  # type: ignore[arg-type]  # it makes one of them
        )
        listening.listen(limits.CODE_LINK_BACKLOG)
        return server

    def _judge(self, connection: ServerConnection, request: Request) -> Response | None:
        """An answer of HTTP, or none for whoever may go on to speak WebSocket."""
        if request.path == HEALTH:
            if request.method != "GET":
                return connection.respond(405, "GET\n")
            health = self._standing.health()
            response = connection.respond(health.status, health.body.decode("ascii"))
            del response.headers["Content-Type"]
            response.headers["Content-Type"] = "application/json"
            response.headers["Cache-Control"] = "no-store"
            return response
        if request.path != PATH:
            return connection.respond(404, f"{PATH} or {HEALTH}\n")
        if "Origin" in request.headers:
            return connection.respond(403, "no browsers\n")
        return None

    # --- one connection

    async def _hold(self, connection: ServerConnection) -> None:
        end = RunnerEnd(self._standing.admit)
        try:
            async with asyncio.timeout(limits.CODE_LINK_FIRST_SECONDS):
                said = await connection.recv()
        except TimeoutError:
            await connection.close(CloseCode.POLICY_VIOLATION, "no job")
            return
        except ConnectionClosed:
            return
        async with self._lane.turn(len(said)):
            heard = _heard(end, said)
        match heard:  # without a wait in between: who was let in has a run
            case Turned(data=data, code=code):
                _LOG.info("a job was turned down", extra={"reason": code})
                with contextlib.suppress(FailedError):
                    await _send(connection, data)
            case Begin(job=job):
                await self._run(cast("Link", connection), end, job)
            case _:
                pass

    async def _run(self, connection: Link, end: RunnerEnd, job: Job) -> None:
        """One run, from its job to its result."""
        tools = RemoteTools(end, functools.partial(_send, connection))
        cancel = asyncio.Event()
        result: JobResult | None = None
        self._begin(connection, cancel)
        reading = asyncio.ensure_future(self._read(connection, end, tools, cancel))
        try:
            result = await self._service.run(job, tools, cancel)
        except Exception:  # said here and raised on: the logger of websockets, which would say it, is silent
            _LOG.exception("a run failed in a way that it does not name")
            raise
        finally:
            self._end(connection, cancel, result)
            if result is None:
                reading.cancel()
        with contextlib.suppress(FailedError):
            await _send(connection, end.finish(result))
        await connection.close()
        reading.cancel()  # only now: a socket that is closed with answers unread takes our last words with it

    async def _read(self, connection: Link, end: RunnerEnd, tools: RemoteTools, cancel: asyncio.Event) -> None:
        """Hear the backend until it is gone; then its run is not wanted any more."""
        try:
            while True:
                said = await connection.recv()
                async with self._lane.turn(len(said)):
                    heard = _heard(end, said)
                match heard:
                    case Answered() as answer:
                        tools.answered(answer)
                    case Cancelled():
                        cancel.set()
                    case Broken(reason=reason):
                        _LOG.warning("a backend broke the protocol: %s", reason)
                        cancel.set()
                        await connection.close(CloseCode.POLICY_VIOLATION, "not the protocol")
                        return
                    case _:
                        pass
        except ConnectionClosed:
            pass
        finally:
            cancel.set()
            tools.gone()

    def _begin(self, connection: Link, cancel: asyncio.Event) -> None:
        self._room.leave(connection)
        connection.begun = True
        self._standing.begin()
        self._cancels.add(cancel)
        self._idle.clear()
        if self._hurried.is_set():
            cancel.set()
        _LOG.info("a run began", extra={"running": self._standing.running})

    def _end(self, connection: Link, cancel: asyncio.Event, result: JobResult | None) -> None:
        self._standing.end(result)
        if connection.state is State.OPEN:
            self._ending.enter(connection)
        self._cancels.discard(cancel)
        if not self._cancels:
            self._idle.set()
        state = result.state.value if result else "none"
        _LOG.info("a run ended", extra={"state": state, "running": self._standing.running})

    # --- the end

    @contextlib.contextmanager
    def _heeding(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._tell, number)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def _tell(self, number: int) -> None:
        if self._told:
            self._hurried.set()
        self._told.append(number)
        self._signalled.set()

    async def _drain(self) -> None:
        """Whoever comes is told so until the last run has ended."""
        self._standing.drain()
        _LOG.info("draining", extra={"running": self._standing.running})
        waiting = [asyncio.ensure_future(self._idle.wait()), asyncio.ensure_future(self._hurried.wait())]
        await asyncio.wait(waiting, timeout=limits.CODE_DRAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:
            one.cancel()
        self._hurried.set()
        for cancel in self._cancels:
            cancel.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limits.CODE_STOP_SECONDS + limits.CODE_LINK_SEND_SECONDS):
                await self._idle.wait()


def _linked(room: Room, *words: Any, **named: Any) -> Link:  # noqa: ANN401 - the library's own arguments
    made = Link(*words, **named)
    made.room = room
    return made


def _heard(end: RunnerEnd, said: str | bytes) -> Heard:
    return end.hear(said.encode()) if isinstance(said, str) else end.hear_binary()


async def _send(connection: ServerConnection, data: bytes) -> None:
    """Write one message. `FailedError` where nobody is there, or nobody reads."""
    if not data:
        return
    try:
        async with asyncio.timeout(limits.CODE_LINK_SEND_SECONDS):
            await connection.send(data, text=True)
    except ConnectionClosed:
        raise FailedError("whoever answers calls is gone") from None
    except TimeoutError:
        connection.transport.abort()
        raise FailedError("whoever answers calls does not read") from None


def _place(listening: socket.socket) -> str:
    address, port = listening.getsockname()[:2]
    return f"ws://{f'[{address}]' if ':' in address else address}:{port}{PATH}"
