"""One answer over HTTP that may become a stream: messages on their way to one client that waits.

Invariants: what waits for a client to read is bounded, and what is over the bound is dropped, but never the answer
itself; an answer with nothing before it is one JSON document; a stream shows a sign of life every HTTP_PING_SECONDS.

Source: the MCP specification, Streamable HTTP; the HTML standard, server-sent events.
"""

import asyncio
from collections import deque

from fumehood.core import limits
from fumehood.wire.asgi import Scope, Send
from fumehood.wire.httpchecks import Headers
from fumehood.wire.published import Caller

_STREAM: Headers = ((b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no"))
_JSON: Headers = ((b"content-type", b"application/json"),)
PING = b": ping\n\n"


class Exchange:
    """Whoever answers puts messages in; whoever holds the request takes them out."""

    def __init__(self, caller: Caller, *, streams: bool) -> None:
        """`streams`: the client takes more than one document."""
        self.caller = caller
        self.streams = streams
        self._moved = asyncio.Event()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._last: bytes | None = None

    def push(self, line: bytes) -> bool:
        """Have a message sent before the answer; whether there is room for it."""
        if not self.streams or self._last is not None or self._waiting_bytes + len(line) > limits.HTTP_UNREAD_BYTES:
            return False
        self._waiting.append(line)
        self._waiting_bytes += len(line)
        self._moved.set()
        return True

    def finish(self, line: bytes) -> None:
        """The answer; empty where there is none, and only the stream ends."""
        if self._last is None:
            self._last = line
            self._moved.set()

    async def send(self, send: Send, headers: Headers = ()) -> None:
        """Send everything, as it comes, until the answer is out."""
        started = False
        while True:
            taken = self._take()
            if self._last is not None and not started and not taken:
                await reply(send, 200, self._last, headers)
                return
            if taken and not started:
                started = await start(send, headers)
            for line in taken:
                await part(send, event(line))
            if self._last is not None and not self._waiting:
                await part(send, event(self._last) if self._last else b"", more=False)
                return
            if not await self._wait() and self.streams:
                started = started or await start(send, headers)
                await part(send, PING)

    async def stand(self, send: Send, headers: Headers = ()) -> None:
        """The same for a stream that has no answer and begins at once, for HTTP_STREAM_SECONDS."""
        await start(send, headers)
        end = asyncio.get_running_loop().call_later(limits.HTTP_STREAM_SECONDS, self.finish, b"")
        try:
            while self._last is None:
                for line in self._take():
                    await part(send, event(line))
                if not await self._wait():
                    await part(send, PING)
        finally:
            end.cancel()
        await part(send, b"", more=False)

    def _take(self) -> list[bytes]:
        self._moved.clear()
        taken = list(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        return taken

    async def _wait(self) -> bool:
        """Until something moves, or a sign of life is due (False)."""
        if self._waiting or self._last is not None:
            return True
        try:
            async with asyncio.timeout(limits.HTTP_PING_SECONDS):
                return await self._moved.wait()
        except TimeoutError:
            return False


def takes_stream(scope: Scope) -> bool:
    """Whether Accept names event streams, or everything."""
    accepted = b",".join(value for key, value in scope["headers"] if key == b"accept").lower()
    kinds = {one.partition(b";")[0].strip() for one in accepted.split(b",")}
    return not kinds.isdisjoint({b"text/event-stream", b"text/*", b"*/*"})


async def reply(send: Send, status: int, body: bytes, headers: Headers = ()) -> None:
    """One document, or nothing."""
    kind = _JSON if body else ()
    length = (b"content-length", str(len(body)).encode("ascii"))
    await send({"type": "http.response.start", "status": status, "headers": [*kind, length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def start(send: Send, headers: Headers) -> bool:
    """Begin a stream; True."""
    await send({"type": "http.response.start", "status": 200, "headers": [*_STREAM, *headers]})
    return True


async def part(send: Send, data: bytes, *, more: bool = True) -> None:
    """A part of it."""
    await send({"type": "http.response.body", "body": data, "more_body": more})


def event(line: bytes) -> bytes:
    """One message; JSON of ours has no line break inside."""
    return b"event: message\ndata: " + line.rstrip(b"\n") + b"\n\n"
