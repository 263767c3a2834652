"""An application that answers with one document, and a client that is shown signs of life while it waits long.

Invariants: an answer within HTTP_PING_SECONDS goes out as it is; after these the answer is a stream, of which the
document is the one message: a proxy between does not take the silence for an end. Who takes no stream gets none.

Why: an application that can stream costs each request half a millisecond more, and hardly any needs it.
"""

import asyncio

from fumehood.core import limits
from fumehood.wire.asgi import Application, Message, Receive, Scope, Send
from fumehood.wire.exchange import PING, event, part, start, takes_stream


class Patient:
    """Stands around `app`."""

    def __init__(self, app: Application) -> None:
        """`app` sends its answers whole."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if not takes_stream(scope):
            await self._app(scope, receive, send)
            return
        answer = _Answer(send)
        due = asyncio.get_running_loop().call_later(limits.HTTP_PING_SECONDS, answer.wait)
        try:
            await self._app(scope, receive, answer.send)
        finally:
            due.cancel()
            answer.stop()


class _Answer:
    """The way out of one request."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun = False  # by the application
        self._streams = False
        self._pinging: asyncio.Task[None] | None = None

    def wait(self) -> None:
        if not self._begun:
            self._streams = True
            self._pinging = asyncio.get_running_loop().create_task(self._ping())

    def stop(self) -> None:
        if self._pinging is not None:
            self._pinging.cancel()

    async def send(self, message: Message) -> None:
        self._begun = True
        if not self._streams:
            await self._send(message)
        elif message["type"] == "http.response.body":
            self.stop()
            await part(self._send, event(message.get("body", b"")), more=False)

    async def _ping(self) -> None:
        await start(self._send, ())
        while not self._begun:
            await part(self._send, PING)
            await asyncio.sleep(limits.HTTP_PING_SECONDS)
