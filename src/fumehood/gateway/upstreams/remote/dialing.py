"""Reaches one remote server: who it is, in which era it speaks, and the conversation with it.

The modern era is tried first, as the specification advises; what does not answer `server/discover` as a server of that
era is asked to `initialize`. Whoever refuses for another reason (no token, too often, broken) is not asked twice.

Invariants: everything that an operator wrote is checked when the `Dial` is made, before anything is dialled; entering
takes at most REMOTE_OPEN_SECONDS; leaving ends the session, within REMOTE_END_SECONDS, and closes every connection. A
file that holds a token is read again for each conversation, so that it can be replaced.
"""

import asyncio
import os
import ssl
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from fumehood.core import limits
from fumehood.core.errors import RefusedError, TimedOutError
from fumehood.core.jsonio import JsonValue
from fumehood.gateway.topology.model import Server
from fumehood.gateway.upstreams import envelope
from fumehood.gateway.upstreams.envelope import Next
from fumehood.gateway.upstreams.model import Connection, Dial, Introduction, Notified, ServerRefusedError, UpstreamError
from fumehood.gateway.upstreams.remote import heads
from fumehood.gateway.upstreams.remote.address import Way
from fumehood.gateway.upstreams.remote.channel import Channel
from fumehood.gateway.upstreams.remote.conversation import Conversation
from fumehood.gateway.upstreams.remote.credentials import Credentials, credentials
from fumehood.gateway.upstreams.remote.heads import StatusError
from fumehood.gateway.upstreams.remote.link import Backend, tls
from fumehood.gateway.upstreams.remote.listening import Pause, listen
from fumehood.gateway.upstreams.remote.place import Place, read_place
from fumehood.gateway.upstreams.remote.wire import Answer, Asked, Wire
from fumehood.sandbox.relay.outside import World
from fumehood.wire import frames, revisions

_NAME: Final = "fumehood"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What every remote server is reached with, beside its own entry."""

    folder: Path  # that `token_file` is relative to
    environment: Mapping[str, str]
    version: str  # of fumehood
    ca_file: Path | None = None  # certificates of the operator's, besides those of the system
    world: World = World()
    pause: Pause = asyncio.sleep


def remote(server: Server, reach: Reach) -> Dial:
    """A `Dial` for a server with a `url`. Errors: `RefusedError`, which names the key."""
    if server.url is None:
        raise RefusedError("url: is not set")
    place = read_place(server.url, allow_private=server.allow_private)
    try:
        context = tls(reach.ca_file)
    except OSError:
        raise RefusedError("the file of certificates holds none, or cannot be read", remedy="review.ca_file") from None
    _known(server, reach)
    return _Remote(server, place, context, reach)


class _Remote:
    """One server, reached anew by each call."""

    def __init__(self, server: Server, place: Place, context: ssl.SSLContext, reach: Reach) -> None:
        self._server = server
        self._place = place
        self._context = context
        self._reach = reach

    def __call__(self, notified: Notified) -> AbstractAsyncContextManager[Connection]:
        return self._dial(notified)

    @asynccontextmanager
    async def _dial(self, notified: Notified) -> AsyncIterator[Connection]:
        async with AsyncExitStack() as stack:
            wire = self._wire(_known(self._server, self._reach))
            stack.push_async_callback(wire.close)
            try:
                async with asyncio.timeout(limits.REMOTE_OPEN_SECONDS):
                    introduction = await _introduced(wire)
            except TimeoutError:
                raise UpstreamError("the server did not say who it is in time") from None
            finally:
                stack.push_async_callback(wire.end)
            conversation = Conversation(wire, introduction, notified)
            stack.push_async_callback(conversation.close)
            listening = asyncio.create_task(listen(conversation, self._reach.pause))
            stack.push_async_callback(_ended, listening)
            yield conversation

    def _wire(self, known: Credentials) -> Wire:
        backend = Backend(Way(self._place, self._reach.world))
        # A few beyond those who have a turn: connections whose last bytes are still being read.
        calls = Channel(self._place, backend, self._context, connections=limits.REMOTE_CONNECTIONS + 4)
        control = Channel(self._place, backend, self._context, connections=limits.REMOTE_CONTROL_CONNECTIONS)
        return Wire(self._place, known, envelope.modern(_NAME, self._reach.version), (calls, control))


async def _introduced(wire: Wire) -> Introduction:
    """Who the server is; afterwards `wire` speaks its era."""
    found = await _discovered(wire)
    if found is None:
        found = await _initialized(wire)
    wire.introduced = True
    return found


async def _discovered(wire: Wire) -> Introduction | None:
    """Who a server of the modern era is; None for one that may be of the legacy era."""
    params = envelope.wrap({}, wire.speaks)
    try:
        async with asyncio.timeout(limits.REMOTE_DISCOVER_SECONDS):
            answer, _ = await wire.ask(Asked(ident=1, method=envelope.DISCOVER, params=params), _ignore)
    except TimeoutError:
        return None  # "may stay silent"
    except StatusError as error:
        if heads.is_legacy_refusal(error.status):
            return None
        raise
    if isinstance(answer, frames.Response):
        return envelope.discovered(answer.result)
    if envelope.after_discover(answer.code, answer.data) is Next.INITIALIZE:
        return None
    if answer.code == revisions.UNSUPPORTED_PROTOCOL_VERSION:
        raise UpstreamError("the server speaks none of the revisions of MCP that are spoken here")
    raise ServerRefusedError(answer.code, answer.message)


async def _initialized(wire: Wire) -> Introduction:
    wire.speaks = replace(wire.speaks, era="legacy", revision=envelope.LEGACY)
    asked = Asked(ident=2, method=envelope.INITIALIZE, params=envelope.initialize_params(wire.speaks))
    answer, reading = await wire.ask(asked, _ignore)
    found = envelope.initialized(_result(answer))
    wire.session = heads.session_of(reading.head)
    wire.speaks = replace(wire.speaks, revision=found.revision)
    try:
        await wire.tell(envelope.INITIALIZED, {})
    except TimeoutError:
        raise TimedOutError("the server did not take the end of the handshake in time") from None
    return found


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _result(answer: Answer) -> JsonValue:
    if isinstance(answer, frames.ErrorResponse):
        raise ServerRefusedError(answer.code, answer.message)
    return answer.result


def _ignore(message: frames.Request | frames.Notification) -> None:
    """Before a server has said who it is, nothing that it tells or asks counts."""


def _known(server: Server, reach: Reach) -> Credentials:
    """What the server is sent so that it knows us. Errors: `RefusedError`."""
    data = _read(reach.folder / server.token_file) if server.token_file is not None else None
    return credentials(server, reach.environment, data)


def _read(path: Path) -> bytes:
    """A small regular file that nobody else may read or write."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError):
        raise RefusedError("token_file: names a file that cannot be read") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise RefusedError("token_file: names no regular file")
        if found.st_uid not in {0, os.geteuid()} or found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            remedy = "chown it to you and chmod 600 it"
            raise RefusedError("token_file: names a file that others may read or write", remedy=remedy)
        return os.read(descriptor, limits.HTTP_TOKEN_CHARACTERS + 3)
    finally:
        os.close(descriptor)
