"""The process that writes an audit log for another one (`gateway.audit.scribe`).

Invariants: it takes records of `serve` alone, so that nobody behind those walls can speak for another part of
fumehood; a message that is none ends the connection that it came on; a record is answered when it is kept, on the disk
where it is durable, or when it cannot be. It ends when every connection has ended, with everything synced: 0, or 1
where something could not be. Its walls are put up before the first record: it opens, makes and renames files
in the folder of the log and nowhere else, starts nothing, reaches nobody.

Threats: an asker that has been taken over (it can add, as fast as the disk takes it; it can neither change nor remove),
one that is killed at any moment, one that sends nonsense.
"""

import asyncio
import concurrent.futures.thread  # noqa: F401 - loaded when first used, which is behind the walls
import contextlib
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from fumehood.core import limits
from fumehood.core.clock import SystemClock
from fumehood.core.errors import FumehoodError
from fumehood.gateway.audit import writer
from fumehood.gateway.audit.faults import AuditHeldError, AuditPlaceError
from fumehood.gateway.audit.record import Call
from fumehood.gateway.audit.saying import ANSWER, KEPT, NUMBER, UNKEPT, Said
from fumehood.gateway.audit.writer import AuditLog, Wiring
from fumehood.sandbox import confine, landlock
from fumehood.sandbox.containment import Wall
from fumehood.sandbox.spec import Profile

_SOURCE: Final = "serve"
_DECODER: Final = msgspec.json.Decoder(Call)
_STEP_SECONDS: Final = 0.05  # until it is looked again whether another process still has the log
_TRIES: Final = 2  # a peer that left an answer unread gives one error (unix(7)); what it had sent comes after that
_ENDED_BY_US: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # who asks ends us, by closing its ends


def main(file: str, descriptors: list[int], wiring: Wiring | None = None) -> int:
    """Write until nobody asks any more."""
    for number in _ENDED_BY_US:
        signal.signal(number, signal.SIG_IGN)
    sockets = [socket.socket(fileno=one) for one in descriptors]
    for one in sockets:
        one.settimeout(0)
    try:
        asyncio.run(_write(Path(file), sockets, wiring))
    except FumehoodError:  # it was said, or nobody is there to hear it
        return 1
    finally:
        for one in sockets:
            one.close()
    return 0


async def _write(file: Path, sockets: list[socket.socket], wiring: Wiring | None) -> None:
    say = _to(sockets[0])
    async with contextlib.AsyncExitStack() as held:
        try:
            log = await _opened(file, wiring, held)
        except FumehoodError as error:
            refused = isinstance(error, AuditPlaceError)
            say(msgspec.json.encode(Said(words=error.message, remedy=error.remedy, refused=refused)))
            raise
        say(msgspec.json.encode(Said(walls=_walls(log.folder))))
        await asyncio.gather(*(_serve(one, log) for one in sockets))


async def _opened(file: Path, wiring: Wiring | None, held: contextlib.AsyncExitStack) -> AuditLog:
    """The log. Where another process has it, wait a little: one that was killed leaves a writer that syncs and ends."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limits.AUDIT_TURN_SECONDS
    while True:
        try:
            return await held.enter_async_context(writer.opened(file, SystemClock(), wiring))
        except AuditHeldError:
            if loop.time() >= deadline:
                raise
        await asyncio.sleep(_STEP_SECONDS)


def _walls(folder: int) -> tuple[Wall, ...]:
    """Take every right but that of writing in the log's folder; say which walls stand."""
    ruleset = landlock.Ruleset(kept=(folder,))
    return confine.confine(confine.Walls(ruleset=ruleset, profile=Profile.AUDIT))


def _to(one: socket.socket) -> Callable[[bytes], None]:
    """Sends a message; one that nobody takes is dropped."""

    def say(message: bytes) -> None:
        with contextlib.suppress(OSError):
            one.send(message, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    return say


async def _serve(one: socket.socket, log: AuditLog) -> None:
    """Keep what comes on one connection, one after the other, until its end."""
    say = _to(one)
    while message := await _message(one):
        event = _event(message)
        if event is None:
            one.shutdown(socket.SHUT_RDWR)
            return
        say(await _kept(log, message[: NUMBER.size], event))


async def _message(one: socket.socket) -> bytes:
    """The next message; empty at the end."""
    loop = asyncio.get_running_loop()
    for _ in range(_TRIES):
        with contextlib.suppress(ConnectionResetError):
            return await loop.sock_recv(one, limits.AUDIT_LINE_BYTES)
    return b""


def _event(message: bytes) -> Call | None:
    try:
        event = _DECODER.decode(message[NUMBER.size :])
    except (msgspec.DecodeError, RecursionError):
        return None
    return event if event.source == _SOURCE else None


async def _kept(log: AuditLog, number: bytes, event: Call) -> bytes:
    """The answer to a record."""
    (own,) = NUMBER.unpack(number)
    try:
        await log.record(event)
    except FumehoodError as error:
        return ANSWER.pack(own, UNKEPT) + error.message.encode()
    except ValueError:  # no reader would take it
        return ANSWER.pack(own, UNKEPT) + b"the audit log failed: it takes no such record"
    return ANSWER.pack(own, KEPT)
