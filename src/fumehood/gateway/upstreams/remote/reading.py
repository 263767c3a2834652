"""The messages in one answer of HTTP: a JSON body, or events of a stream, one after the other.

Invariants: a message is one strict JSON object within FRAME_BYTES; a body is refused as soon as it is larger; whatever
is no message ends the answer by an error. A large message is parsed in a thread, so that it holds up nobody.
"""

import asyncio
from collections import deque
from typing import TypeAlias

from fumehood.core import limits
from fumehood.gateway.upstreams.model import UpstreamError
from fumehood.gateway.upstreams.remote import heads
from fumehood.gateway.upstreams.remote.channel import Received
from fumehood.gateway.upstreams.remote.events import EventReader
from fumehood.gateway.upstreams.remote.heads import Content
from fumehood.gateway.upstreams.remote.place import Place
from fumehood.wire import frames
from fumehood.wire.lines import Line

Message: TypeAlias = frames.Request | frames.Notification | frames.Response | frames.ErrorResponse


class Reading:
    """One answer that is being read. Whoever has it closes it."""

    def __init__(self, received: Received, place: Place) -> None:
        """Judge the head. Errors: `UpstreamError`; the answer is then still open."""
        self.head = received.head
        self.content = heads.content(received.head, place)
        self._received = received
        self._chunks = received.chunks()
        self._reader = EventReader()
        self._waiting: deque[bytes] = deque()
        self._ended = self.content is Content.NOTHING

    @property
    def retry_seconds(self) -> float:
        """How long a server wants to be left alone once this stream has ended."""
        return (self._reader.retry_milliseconds or 0) / 1000

    async def next(self) -> Message | None:
        """The next message, None at the end. Errors: `UpstreamError`."""
        while not self._waiting and not self._ended:
            await self._more()
        return await _message(self._waiting.popleft()) if self._waiting else None

    async def rest(self) -> None:
        """Read the few bytes that end an answer, so that its connection can be used again, and close it."""
        left = limits.REMOTE_REST_BYTES
        try:
            async with asyncio.timeout(limits.REMOTE_REST_SECONDS):
                while left > 0 and (chunk := await anext(self._chunks, None)) is not None:
                    left -= len(chunk)
        except (TimeoutError, UpstreamError):
            pass
        finally:
            await self.close()

    async def close(self) -> None:
        """Let go of the answer. For a server of the modern era that cancels the request."""
        await self._chunks.aclose()
        await self._received.close()

    async def _more(self) -> None:
        if self.content is Content.MESSAGE:
            self._waiting.append(await self._body())
            self._ended = True
        elif (chunk := await anext(self._chunks, None)) is None:
            self._ended = True
        else:
            self._waiting.extend(one.data for one in self._reader.feed(chunk) if one.kind == b"message" and one.data)

    async def _body(self) -> bytes:
        body = bytearray()
        async for chunk in self._chunks:
            if len(body) + len(chunk) > limits.FRAME_BYTES:
                raise UpstreamError("the server's answer is larger than is read")
            body += chunk
        return bytes(body)


async def _message(data: bytes) -> Message:
    line = Line(data=data.strip(b"\n"))
    large = len(data) > limits.FRAME_INLINE_BYTES
    frame = await asyncio.to_thread(frames.classify, line) if large else frames.classify(line)
    if isinstance(frame, frames.Request | frames.Notification | frames.Response | frames.ErrorResponse):
        return frame
    raise UpstreamError("the server sent what is no message of JSON-RPC")
