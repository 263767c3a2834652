"""One TCP or TLS connection under the HTTP library, of which nothing is read beyond its bounds.

Invariants: the connection goes where `Way` dialled, whatever host the library names; TLS is of version 1.2 or newer and
its certificate is for the host of the URL; what one request may be answered with is bounded in bytes, interim answers
and framing included; bytes that come while nobody asked make a connection unfit to be used again. Closing never waits.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpcore2

from fumehood.core import limits
from fumehood.gateway.upstreams.model import UpstreamError
from fumehood.gateway.upstreams.remote.address import UnreachableError, Way

_HELD_BYTES = 64 * limits.KIB  # as much as the library reads at once


def tls(ca_file: Path | None = None) -> ssl.SSLContext:
    """Certificates of the system and, besides, of the operator's file. Errors: OSError."""
    # Checks names; unlike the default context it writes no keys to the file that SSLKEYLOGFILE names.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_default_certs()
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    return context


class _Link(asyncio.Protocol):
    """What came and was not read yet."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.held = bytearray()
        self.ended = False
        self._wake: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - create_connection makes no other
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.held += data
        if len(self.held) > _HELD_BYTES and self.transport is not None:
            self.transport.pause_reading()
        self._awake()

    def eof_received(self) -> bool:
        self.ended = True
        self._awake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        self.ended = True
        self._writable.set()
        self._awake()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def take(self, size: int) -> bytes:
        taken = bytes(self.held[:size])
        del self.held[:size]
        if len(self.held) <= _HELD_BYTES and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()
        return taken

    async def something(self) -> None:
        """Wait until there is something to read, or the end."""
        while not self.held and not self.ended:
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake

    async def written(self) -> None:
        """Wait until what was written is on its way."""
        await self._writable.wait()

    def _awake(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


class Stream(httpcore2.AsyncNetworkStream):
    """A connected socket, spoken over in plain or, once `start_tls` was called, in TLS."""

    def __init__(self, opened: socket.socket, answer_bytes: int) -> None:
        """Own the socket."""
        self._socket: socket.socket | None = opened
        self._link = _Link()
        self._answer_bytes = answer_bytes
        self._left_bytes = 0

    def head_came(self) -> None:
        """The head of the answer is complete: from here on its body counts."""
        self._left_bytes = self._answer_bytes

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's
    ) -> "Stream":
        """The same stream, once the server has shown a certificate for the name. Errors: `UnreachableError`."""
        try:
            async with asyncio.timeout(timeout):
                await self._open(ssl_context, server_hostname)
        except ssl.SSLCertVerificationError as error:
            raise UnreachableError(
                f"the server's certificate is not trusted: {error.verify_message}",
                remedy="name the certificate of who signed it in review.ca_file",
            ) from None
        except TimeoutError:
            raise UnreachableError("the server was not reached: TLS took too long") from None
        except OSError as error:
            words = error.reason if isinstance(error, ssl.SSLError) else error.strerror
            raise UnreachableError(f"the server was not reached: TLS failed: {words}") from None
        finally:
            if self._link.transport is None:
                await self.aclose()
        return self

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the library's
        """What came; nothing at the end. Errors: `httpcore2.ReadTimeout`, `UpstreamError`."""
        await self._opened()
        try:
            async with asyncio.timeout(timeout):
                await self._link.something()
        except TimeoutError:
            raise httpcore2.ReadTimeout from None
        if self._left_bytes <= 0:
            raise UpstreamError("the server's answer is larger than is read")
        taken = self._link.take(max_bytes)
        self._left_bytes -= len(taken)
        return taken

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the library's
        """Hand bytes to the system. Errors: `httpcore2.WriteError`."""
        transport = await self._opened()
        if transport.is_closing():
            raise httpcore2.WriteError
        self._left_bytes = limits.REMOTE_HEAD_BYTES
        transport.write(buffer)
        try:
            async with asyncio.timeout(timeout):
                await self._link.written()
        except TimeoutError:
            raise httpcore2.WriteTimeout from None

    async def aclose(self) -> None:
        """Let go of the connection at once."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._link.transport is not None:
            self._link.transport.abort()
        self._link.ended = True

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - the library's
        """Whether the connection is unfit to be used again; of everything else, nothing."""
        return bool(self._link.held) or self._link.ended if info == "is_readable" else None

    async def _opened(self) -> asyncio.Transport:
        if self._link.transport is None:
            await self._open(None, None)
        assert self._link.transport is not None  # noqa: S101 - connection_made was called
        return self._link.transport

    async def _open(self, context: ssl.SSLContext | None, name: str | None) -> None:
        if self._socket is None:
            raise httpcore2.ReadError
        opened, self._socket = self._socket, None
        # Head and body are two writes: without this the second waits 40 ms for the first to be acknowledged.
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: self._link, sock=opened, ssl=context, server_hostname=name
            )
        except BaseException:
            opened.close()
            raise


class Backend(httpcore2.AsyncNetworkBackend):
    """Connects the library's pool by a `Way`."""

    def __init__(self, way: Way, answer_bytes: int = limits.REMOTE_ANSWER_BYTES) -> None:
        """`answer_bytes`: of what one request is answered with."""
        self._way = way
        self._answer_bytes = answer_bytes

    async def connect_tcp(
        self,
        host: str,  # noqa: ARG002 - the way knows where it leads
        port: int,  # noqa: ARG002 - likewise
        timeout: float | None = None,  # noqa: ASYNC109 - the library's
        local_address: str | None = None,  # noqa: ARG002 - the library's
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002 - the library's
    ) -> Stream:
        """A stream to the server. Errors: `UnreachableError`."""
        try:
            async with asyncio.timeout(timeout):
                return Stream(await self._way.connect(), self._answer_bytes)
        except TimeoutError:
            raise UnreachableError("the server was not reached in time") from None
