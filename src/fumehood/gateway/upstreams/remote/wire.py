"""Messages of one era to one server: a POST for each, its answer picked out of what comes back.

Invariants: an answer counts where its id is that of the request and it is the first; an answer to anything else is a
fault of the server, never somebody's result. What else comes in the same stream is handed to `heard`. A session belongs
to the conversation that it was begun for, and is ended with it.

Sources: the MCP specification, Streamable HTTP, 2025-11-25 (sessions, GET, DELETE) and 2026-07-28.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from fumehood.core import limits
from fumehood.core.errors import BusyError, TooLargeError
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.upstreams.envelope import Speaks
from fumehood.gateway.upstreams.model import UpstreamError
from fumehood.gateway.upstreams.remote import heads
from fumehood.gateway.upstreams.remote.channel import Channel, Order, Received
from fumehood.gateway.upstreams.remote.credentials import Credentials, Header
from fumehood.gateway.upstreams.remote.heads import Content, StatusError
from fumehood.gateway.upstreams.remote.place import Place
from fumehood.gateway.upstreams.remote.reading import Message, Reading
from fumehood.wire import frames, jsonrpc

Heard: TypeAlias = Callable[[frames.Request | frames.Notification], None]
Answer: TypeAlias = frames.Response | frames.ErrorResponse

_LOG: Final = logging.getLogger(__name__)
_GONE: Final = 404  # of a session: it is over
_BAD: Final = 400


class SessionOverError(UpstreamError):
    """The server ended the session; a new one has to be begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as it goes out."""

    ident: jsonrpc.Id
    method: str
    params: JsonObject  # with the era's envelope
    headers: tuple[Header, ...] = ()  # further ones


class Wire:
    """One server, spoken to in one era and session at a time."""

    def __init__(self, place: Place, known: Credentials, speaks: Speaks, channels: tuple[Channel, Channel]) -> None:
        """`channels`: for calls, and for what must not wait behind them."""
        self.place = place
        self.speaks = speaks
        self.session: bytes | None = None
        self.introduced = False  # until then a refusal may only mean the other era
        self._known = known
        self._calls, self._control = channels
        self._finishing: set[asyncio.Task[None]] = set()

    async def ask(self, asked: Asked, heard: Heard) -> tuple[Answer, Reading]:
        """The answer to one request, whose reading is closed. The caller bounds the time.

        Errors: `UpstreamError`, of them `UnreachableError`, `SessionOverError` and `StatusError`; `BusyError`.
        """
        body = self._body(asked)
        headers = (*heads.mirrored(self.speaks, asked.method, asked.params), *asked.headers)
        reading = await self._post(self._calls, body, headers)
        finished = False
        try:
            answer = await self._answer(reading, asked.ident, heard)
            finished = True
        finally:
            if not finished:
                await reading.close()
        self._finish(reading)
        return answer, reading

    async def listen(self, asked: Asked | None) -> Reading:
        """A stream of what the server tells by itself: by a request in the modern era, by GET in the legacy one."""
        if asked is not None:
            headers = heads.mirrored(self.speaks, asked.method, asked.params)
            return await self._post(self._control, self._body(asked), headers, limits.REMOTE_SILENT_SECONDS)
        order = Order(method="GET", headers=(*self._common(heads.STREAM), *self._in_session(), *self._version()))
        received = await self._control.send(
            order, wait_seconds=limits.REMOTE_NOTE_SECONDS, silent_seconds=limits.REMOTE_SILENT_SECONDS
        )
        return await self._judged(received)  # 404 says nothing of the session: many servers know no GET

    async def tell(self, method: str, params: JsonObject) -> None:
        """A notification. Errors as of `ask`."""
        await self._hand_over(jsonrpc.notification(method, params or None), heads.mirrored(self.speaks, method, params))

    async def reply(self, message: bytes) -> None:
        """An answer of ours to a request of a server of the legacy era. Errors as of `ask`."""
        await self._hand_over(message, self._version())

    async def end(self) -> None:
        """End the session, if there is one; whether the server likes it or not."""
        session, self.session = self.session, None
        if session is None:
            return
        headers = (*self._common(heads.BOTH), (heads.SESSION, session), *self._version())
        with contextlib.suppress(TimeoutError, UpstreamError, BusyError):
            async with asyncio.timeout(limits.REMOTE_END_SECONDS):
                received = await self._control.send(
                    Order(method="DELETE", headers=headers), wait_seconds=limits.REMOTE_END_SECONDS
                )
                await received.close()

    async def close(self) -> None:
        """Let go of every connection."""
        for task in self._finishing:
            task.cancel()
        await asyncio.gather(*self._finishing, return_exceptions=True)
        await self._calls.close()
        await self._control.close()

    async def _hand_over(self, message: bytes, headers: tuple[Header, ...]) -> None:
        async with asyncio.timeout(limits.REMOTE_NOTE_SECONDS):
            reading = await self._post(self._control, message.rstrip(b"\n"), headers)
            await reading.rest()
        if reading.head.status >= _BAD:
            raise heads.unexplained(reading.head.status)

    async def _post(
        self, channel: Channel, body: bytes, headers: tuple[Header, ...], silent_seconds: float | None = None
    ) -> Reading:
        every = (*self._common(heads.BOTH), *heads.described(body), *self._in_session(), *headers)
        order = Order(method="POST", headers=every, body=body)
        received = await channel.send(order, wait_seconds=limits.REMOTE_OPEN_SECONDS, silent_seconds=silent_seconds)
        if received.head.status == _GONE and self.session is not None:
            await received.close()
            raise SessionOverError("the server ended the session")
        return await self._judged(received)

    async def _judged(self, received: Received) -> Reading:
        try:
            return Reading(received, self.place)
        except UpstreamError as error:
            await self._say(received, error)
            await received.close()
            raise

    async def _say(self, received: Received, error: UpstreamError) -> None:
        """What a server says beside a status that is none of the protocol, into the log."""
        if not isinstance(error, StatusError):
            return
        with contextlib.suppress(TimeoutError, UpstreamError):
            async with asyncio.timeout(limits.REMOTE_REST_SECONDS):
                async with contextlib.aclosing(received.chunks()) as chunks:
                    words = heads.shown(await anext(chunks, b""))
                level = logging.WARNING if self.introduced else logging.DEBUG
                _LOG.log(level, "the server %s answered %d: %s", self.place.origin, error.status, words)

    async def _answer(self, reading: Reading, ident: jsonrpc.Id, heard: Heard) -> Answer:
        status = reading.head.status
        if status >= _BAD:
            return await _refusal(reading, ident, status)
        while (message := await reading.next()) is not None:
            if isinstance(message, frames.Response | frames.ErrorResponse):
                return _own(message, ident)
            heard(message)
        if reading.content is Content.EVENTS:
            raise UpstreamError("the server ended the stream without an answer")
        raise UpstreamError("the server took the request and gave no answer")

    def _finish(self, reading: Reading) -> None:
        """Read what ends an answer, while its caller goes on."""
        task = asyncio.create_task(reading.rest())
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)

    def _body(self, asked: Asked) -> bytes:
        body = jsonrpc.request(asked.ident, asked.method, asked.params or None).rstrip(b"\n")
        if len(body) > limits.FRAME_BYTES:
            raise TooLargeError(f"a request of more than {limits.FRAME_BYTES} bytes is not sent")
        return body

    def _common(self, accept: bytes) -> tuple[Header, ...]:
        return heads.common(self.place, self._known, self.speaks.version, accept)

    def _in_session(self) -> tuple[Header, ...]:
        return ((heads.SESSION, self.session),) if self.session is not None else ()

    def _version(self) -> tuple[Header, ...]:
        return ((b"MCP-Protocol-Version", self.speaks.revision.encode("ascii")),)


def _own(message: Answer, ident: jsonrpc.Id) -> Answer:
    if not jsonrpc.same_id(message.id, ident):
        raise UpstreamError("the server answered what was not asked")
    return message


async def _refusal(reading: Reading, ident: jsonrpc.Id, status: int) -> Answer:
    """The error of JSON-RPC that explains a status; without one, the status itself is the error."""
    message: Message | None
    try:
        message = await reading.next()
    except StatusError:
        raise
    except UpstreamError:
        message = None
    if isinstance(message, frames.ErrorResponse) and (message.id is None or jsonrpc.same_id(message.id, ident)):
        return message
    raise heads.unexplained(status)
