"""The outer guard of the HTTP listener: an ASGI application around the one that speaks MCP.

Invariants: no byte of a request reaches the inner application before head, credential, rate and body have been judged,
in this order; every wait for the other side has a deadline; every request has its own `Presence`, its own body and its
own way out, so that nothing of one client can reach another; when a connection is gone or a request's time is over,
the inner task is cancelled and whatever followed the request is told; no answer carries a CORS header, a server
name or a permission to be stored.

Against A4 of the threat model (another process, a page in a browser), under a listener that `wire.exposure` allowed.
Not promised: anything about who holds a right token, or about a client that floods below its rates.
"""

import asyncio
import contextvars
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fumehood.core import limits
from fumehood.core.errors import BusyError
from fumehood.core.jsonio import JsonObject
from fumehood.wire import httpbody, httpchecks, jsonrpc, presence
from fumehood.wire.asgi import Application, Message, Receive, Scope, Send
from fumehood.wire.auth import Authenticator
from fumehood.wire.httpchecks import Head, Headers, Policy, Refusal
from fumehood.wire.presence import Presence
from fumehood.wire.published import CALLER_KEY, Caller

_log = logging.getLogger(__name__)
_STOP_SECONDS = 2.0  # for a cancelled application to end; then it is left to the loop
_CLOSE = (b"connection", b"close")
_AFTER = (b"retry-after", b"1")  # seconds; who has a rate below one a second is told again
_OURS: Headers = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_DROPPED = (b"access-control-", b"cache-control", b"pragma", b"server", b"set-cookie", b"x-content-type-options")


class Rates(Protocol):
    """Counts what each principal has in flight and in a minute (`wire.admission`)."""

    def enter(self, principal: str) -> None:
        """Let one request in. Errors: `BusyError`."""
        ...

    def leave(self, principal: str) -> None:
        """Take it out."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarding:
    """What a guard is told at the start. Without authenticators everybody is a local caller."""

    policy: Policy
    rates: Rates  # in requests
    authenticators: Sequence[Authenticator] = ()
    documents: Mapping[str, bytes] = field(default_factory=dict)  # path → JSON that anybody may read
    ready: Callable[[], bool] = lambda: True
    body_seconds: float = limits.HTTP_BODY_SECONDS
    send_seconds: float = limits.HTTP_SEND_SECONDS
    request_seconds: float | None = None  # else the policy's


class GoneError(ConnectionError):
    """The other side is not there any more, or does not take what is sent."""


class HttpGuard:
    """The application that a listener runs."""

    def __init__(self, app: Application, guarding: Guarding) -> None:
        """Stand around `app`."""
        self._app = app
        self._is = guarding

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hand it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        way = _Outgoing(send, self._is.send_seconds)
        try:
            if scope["type"] == "http":
                await self._request(scope, receive, way)
            else:  # a listener without WebSockets never comes here
                await send({"type": "websocket.close", "code": 1008})
        except GoneError:
            _log.info("a client left or did not take its answer")

    async def _request(self, scope: Scope, receive: Receive, way: "_Outgoing") -> None:
        head = Head(
            method=scope["method"],
            path=scope["path"],
            query=scope.get("query_string", b""),
            headers=tuple((bytes(name), bytes(value)) for name, value in scope["headers"]),
        )
        refused = httpchecks.judge(head, self._is.policy)
        if refused:
            await way.refuse(refused)
        elif head.path in self._is.policy.open_paths:
            await self._open(head.path, way)
        else:
            await self._authenticated(head, scope, receive, way)

    async def _open(self, path: str, way: "_Outgoing") -> None:
        """A probe or a document: the same for everybody."""
        if path in self._is.documents:
            await way.reply(200, self._is.documents[path])
        elif path == "/readyz" and not self._ready():
            await way.reply(503, b'{"status":"not ready"}')
        else:
            await way.reply(200, b'{"status":"ok"}')

    def _ready(self) -> bool:
        known = self._is.authenticators
        return self._is.ready() and (not known or any(one.ready() for one in known))

    async def _authenticated(self, head: Head, scope: Scope, receive: Receive, way: "_Outgoing") -> None:
        caller = self._caller(head, scope)
        if caller is None:
            wrong = head.one(b"authorization") is not None
            challenge = self._challenge(error="invalid_token" if wrong else "")
            await way.refuse(Refusal(status=401, message="a valid bearer token is needed", headers=challenge))
            return
        try:
            self._is.rates.enter(caller.principal)
        except BusyError:
            await way.refuse(Refusal(status=429, message="too many requests", headers=(_AFTER,)))
            return
        try:
            await self._admitted(head, scope, receive, way, caller)
        finally:
            self._is.rates.leave(caller.principal)

    def _caller(self, head: Head, scope: Scope) -> Caller | None:
        if not self._is.authenticators:
            client = scope.get("client")
            return Caller(principal=f"local {client[0] if client else 'socket'}")
        token = httpchecks.bearer(head)
        if token is None:
            return None
        found = [one.caller(token) for one in self._is.authenticators]  # all of them: no early end
        return next((caller for caller in found if caller), None)

    def _challenge(self, *, error: str = "", scope: str = "") -> Headers:
        said = [one.challenge for one in self._is.authenticators if one.challenge]
        said += [f'error="{error}"'] if error else []
        said += [f'scope="{scope}"'] if scope else []
        return ((b"www-authenticate", " ".join(["Bearer", ", ".join(['realm="fumehood"', *said])]).encode("ascii")),)

    async def _admitted(self, head: Head, scope: Scope, receive: Receive, way: "_Outgoing", caller: Caller) -> None:
        body = b""
        stands = head.method == "GET"
        if head.method == "POST":
            read = await _body(receive, self._is.policy.request_bytes, self._is.body_seconds)
            message = read if isinstance(read, Refusal) else httpbody.parse(read, self._is.policy.request_bytes)
            refused = message if isinstance(message, Refusal) else self._judge_body(head, message, caller)
            if refused or isinstance(read, Refusal) or isinstance(message, Refusal):
                await way.refuse(refused or httpchecks.too_large())
                return
            body, stands = read, httpbody.stands(message)
        scope[CALLER_KEY] = caller
        way.seconds = self._seconds(stands=stands)
        await self._run(scope, _Incoming(body, receive), way, Presence(caller=caller))

    def _seconds(self, *, stands: bool) -> float:
        policy = self._is.policy
        return self._is.request_seconds or (policy.stream_seconds if stands else policy.request_seconds)

    def _judge_body(self, head: Head, message: JsonObject, caller: Caller) -> Refusal | None:
        uncovered = httpbody.check_scope(message, caller) if self._is.policy.judges_tools else None
        if uncovered:
            refusal, scope = uncovered
            challenge = self._challenge(error="insufficient_scope", scope=scope)
            return Refusal(status=403, message=refusal.message, headers=challenge, ident=refusal.ident)
        return httpbody.check_agreement(head, message)

    async def _run(self, scope: Scope, incoming: "_Incoming", way: "_Outgoing", sender: Presence) -> None:
        """The inner application in a task of its own, until it ends, the client leaves, or the time is over."""
        own = contextvars.copy_context()
        own.run(presence.current.set, sender)
        work = asyncio.create_task(_ended(self._app(scope, incoming.receive, way.send)), context=own)
        watch = asyncio.create_task(incoming.until_gone())
        try:
            await asyncio.wait({work, watch}, timeout=way.seconds, return_when=asyncio.FIRST_COMPLETED)
            if way.finished:  # what is behind the answer may take its time, but not all of it
                await asyncio.wait({work}, timeout=_STOP_SECONDS)
            late, left = not work.done() and not watch.done(), watch.done()
        finally:
            sender.leave()
            work.cancel()
            watch.cancel()
            await asyncio.wait({work, watch}, timeout=_STOP_SECONDS)
        if not left:
            await self._conclude(work, way, late=late)

    async def _conclude(self, work: asyncio.Task[None], way: "_Outgoing", *, late: bool) -> None:
        """Say what went wrong, in words that hold nothing of it."""
        error = None if not work.done() or work.cancelled() else work.exception()
        if error is not None and not isinstance(error, GoneError):
            _log.error("the application of a listener failed", exc_info=error)
        if way.started or way.gone:
            return  # an answer that is not finished is cut off by the server below
        if late:
            await way.refuse(Refusal(status=503, message="the request took too long", headers=(_AFTER,)))
        else:
            await way.refuse(Refusal(status=500, message="Internal error", code=jsonrpc.INTERNAL_ERROR))


async def _ended(work: Awaitable[None]) -> None:
    await work


async def _body(receive: Receive, size: int, seconds: float) -> bytes | Refusal:
    """A whole body of at most `size` bytes, or why there is none. Errors: `GoneError`."""
    parts = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise GoneError
                parts += message.get("body", b"")
                if len(parts) > size:
                    return httpchecks.too_large()
                if not message.get("more_body", False):
                    return bytes(parts)
    except TimeoutError:
        return Refusal(status=408, message="the body did not come in time")


class _Incoming:
    """What the inner application receives: the body that was judged, then word that the client is gone."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        self._receive = receive
        self._gone = asyncio.Event()

    async def receive(self) -> Message:
        if self._left:
            return self._left.pop()
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def until_gone(self) -> None:
        while (await self._receive())["type"] == "http.request":
            pass  # of a request without a body only its end comes
        self._gone.set()


class _Outgoing:
    """The way out for one request: bounded waits, headers of ours, and what became of it."""

    def __init__(self, send: Send, seconds: float) -> None:
        self._send = send
        self._seconds = seconds
        self.seconds = limits.HTTP_REQUEST_SECONDS  # for all of the answer
        self.started = False
        self.finished = False
        self.gone = False

    async def send(self, message: Message) -> None:
        if self.gone:
            raise GoneError
        if message["type"] == "http.response.start":
            self.started = True
            message = {**message, "headers": _fit(message.get("headers", ()))}
        try:
            async with asyncio.timeout(self._seconds):
                await self._send(message)
        except TimeoutError:
            self.gone = True
            raise GoneError from None
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.finished = True

    async def reply(self, status: int, body: bytes, headers: Headers = ()) -> None:
        kind = (b"content-type", b"application/json")
        length = (b"content-length", str(len(body)).encode("ascii"))
        await self.send({"type": "http.response.start", "status": status, "headers": [kind, length, *headers]})
        await self.send({"type": "http.response.body", "body": body})

    async def refuse(self, refusal: Refusal) -> None:
        """A refusal also ends the connection: what is left of a body is not read."""
        error = {"code": refusal.code, "message": refusal.message}
        body = json.dumps({"jsonrpc": "2.0", "id": refusal.ident, "error": error}).encode("ascii")
        await self.reply(refusal.status, body, (*refusal.headers, _CLOSE))


def _fit(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """An answer's headers with ours, and without those that only we decide about."""
    kept = [(name, value) for name, value in headers if not name.lower().startswith(_DROPPED)]
    return [*kept, *_OURS]
