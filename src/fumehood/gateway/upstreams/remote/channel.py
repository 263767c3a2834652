"""Requests of HTTP to one server, over few connections that are kept: bytes in, a head and chunks out.

Invariants: one origin, no redirect, no proxy, no cookie, nothing decompressed; a request that waits for a connection
longer than it may is told `busy`; every answer is closed by whoever took it, and a connection whose answer was not read
to its end is not used again. The library logs what it reads, so it is not heard.

Not promised: that a request which failed did not reach the server; nothing is sent twice.
"""

import logging
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import httpcore2

from fumehood.core import limits
from fumehood.core.errors import BusyError
from fumehood.gateway.upstreams.model import UpstreamError
from fumehood.gateway.upstreams.remote.address import UnreachableError
from fumehood.gateway.upstreams.remote.credentials import Header
from fumehood.gateway.upstreams.remote.heads import Answered
from fumehood.gateway.upstreams.remote.link import Backend, Stream
from fumehood.gateway.upstreams.remote.place import Place

logging.getLogger("httpcore2").setLevel(logging.WARNING)  # at DEBUG it shows headers, and a session's id in one

_BROKEN: Final = "the server broke the connection off"
_NO_HTTP: Final = "the server does not speak HTTP as it should"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One request."""

    method: str
    headers: tuple[Header, ...]
    body: bytes = b""


class Received:
    """The head of an answer that came, and its body that has not been read."""

    def __init__(self, response: httpcore2.Response) -> None:
        """Own the response."""
        self._response = response
        self.head = Answered(status=response.status, headers=tuple(response.headers))

    def begin(self) -> None:
        """Let the body come."""
        stream = self._response.extensions["network_stream"]
        if isinstance(stream, Stream):  # one that was upgraded has no body: nothing of it is read
            stream.head_came()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes. Errors: `UpstreamError`."""
        try:
            async with aclosing(self._response.aiter_stream()) as every:
                async for chunk in every:
                    yield chunk
        except httpcore2.ReadTimeout:
            raise UpstreamError("the server fell silent") from None
        except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError):
            raise UpstreamError(_BROKEN) from None

    async def close(self) -> None:
        """Let go of it: the connection is kept where everything was read."""
        await self._response.aclose()


class Channel:
    """Some connections to one server."""

    def __init__(self, place: Place, backend: Backend, context: ssl.SSLContext, *, connections: int) -> None:
        """Nothing is dialled yet."""
        self._url = httpcore2.URL(
            scheme=place.scheme.encode("ascii"),
            host=place.host.encode("ascii"),
            port=place.port,
            target=place.target.encode("ascii"),
        )
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            max_connections=connections,
            keepalive_expiry=limits.REMOTE_KEPT_SECONDS,
            network_backend=backend,
        )

    async def send(self, order: Order, *, wait_seconds: float, silent_seconds: float | None = None) -> Received:
        """The answer of the server, closed by the caller, who also bounds the time.

        `wait_seconds`: for a connection to be free; `silent_seconds`: between two pieces of the answer.
        Errors: `BusyError`, `UnreachableError`, `UpstreamError`.
        """
        request = httpcore2.Request(
            method=order.method,
            url=self._url,
            headers=list(order.headers),
            content=order.body,
            extensions={
                "timeout": {
                    "pool": wait_seconds,
                    "connect": limits.REMOTE_CONNECT_SECONDS,
                    "read": silent_seconds,
                    "write": None,
                }
            },
        )
        try:
            received = Received(await self._pool.handle_async_request(request))
        except httpcore2.PoolTimeout:
            raise BusyError("every connection to the server is in use", remedy="ask again later") from None
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
            raise UnreachableError("the server was not reached") from None
        except httpcore2.RemoteProtocolError as error:  # the library has one class for both
            raise UpstreamError(_BROKEN if "disconnected" in str(error) else _NO_HTTP) from None
        except (httpcore2.NetworkError, httpcore2.TimeoutException):
            raise UpstreamError(_BROKEN) from None
        received.begin()
        return received

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.aclose()
