"""The endpoint of a host over HTTP: sessions for the legacy era, beside the application of the modern one.

Invariants: a session's id is 256 random bits and good for the principal that opened it alone; another's is as unknown
as none; of one principal at most SESSIONS_EACH are open, in all SESSIONS; one that nobody used for
SESSION_IDLE_SECONDS ends; `wire.httpguard` stands before it, and has judged head, sender and body.

Source: the MCP specification, 2025-03-26 to 2025-11-25, Streamable HTTP. Streams cannot be resumed: there are no event
ids, and no server of the specification has to have them.
"""

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable

from fumehood.core import limits
from fumehood.core.errors import BusyError
from fumehood.wire import exchange, inbound, jsonrpc, revisions
from fumehood.wire.asgi import Application, Message, Receive, Scope, Send
from fumehood.wire.channel import Channel
from fumehood.wire.exchange import Exchange
from fumehood.wire.flight import DuplicateError
from fumehood.wire.httpchecks import Headers
from fumehood.wire.inbound import Answered, Asked, Refused, Told
from fumehood.wire.published import CALLER_KEY, LOCAL, Caller
from fumehood.wire.session import Session

_LOG = logging.getLogger(__name__)
_SESSION = b"mcp-session-id"
_TOLD = (b"progressToken", b"subscriptions/listen")  # in what asks for more than an answer


class Sessions:
    """The application. Used in one event loop."""

    def __init__(
        self, converse: Callable[[Channel], Awaitable[None]], *, plain: Application, streaming: Application
    ) -> None:
        """`converse` serves one session until its end; the others answer requests of the other era.

        `plain` answers with one document; `streaming` those that may be told something before their answer.
        """
        self._converse = converse
        self._plain = plain
        self._streaming = streaming
        self._open: dict[str, Session] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many sessions are open."""
        return len(self._open)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        version = _header(scope, b"mcp-protocol-version")
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif version is not None and version not in revisions.LEGACY:
            await self._modern(scope, receive, send)
        elif scope["method"] == "POST":
            await self._post(scope, receive, send)
        elif (session := self._find(scope)) is None:
            await _refuse(send, *_unknown(scope))
        elif scope["method"] == "GET":
            await self._get(session, scope, send)
        else:
            self._close(session)
            await exchange.reply(send, 204, b"")

    def drain(self) -> None:
        """End what stands open for what may come."""
        for session in self._open.values():
            session.drain()

    async def close(self) -> None:
        """End every session."""
        if self._sweep is not None:
            self._sweep.cancel()
        for session in tuple(self._open.values()):
            self._close(session)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=limits.FLUSH_SECONDS)
        for task in self._tasks:
            task.cancel()

    async def _modern(self, scope: Scope, receive: Receive, send: Send) -> None:
        first = [await receive()] if scope["method"] == "POST" else []
        body = first[0].get("body", b"") if first else b""

        async def again() -> Message:
            return first.pop() if first else await receive()

        app = self._streaming if any(word in body for word in _TOLD) else self._plain
        await app(scope, again, send)

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = inbound.read((await receive())["body"])
        opens = isinstance(message, Asked) and message.method == "initialize" and _header(scope, _SESSION) is None
        try:
            session = self._begin(_caller(scope)) if opens else self._find(scope)
            if isinstance(message, Refused):
                await _refuse(send, 400, message.message, message.code)
            elif session is None:
                await _refuse(send, *_unknown(scope))
            elif isinstance(message, Asked):
                await self._ask(session, message, scope, send)
            else:
                _take(session, message)
                await exchange.reply(send, 202, b"")
        except BusyError as error:
            await _refuse(send, 503, str(error))
        except DuplicateError:
            await _refuse(send, 400, "Invalid request: a request with this id is in flight")

    async def _ask(self, session: Session, asked: Asked, scope: Scope, send: Send) -> None:
        """One request, until it is answered; who waits for it is gone when this is cancelled."""
        opens = asked.method == "initialize"
        answer = Exchange(_caller(scope), streams=exchange.takes_stream(scope) and not opens)
        number = session.begin(asked, answer)
        answered = False
        try:
            await answer.send(send, _named(session) if opens else ())
            answered = True
        finally:
            session.end(number)
            if opens and not (answered and session.opened):
                self._close(session)

    async def _get(self, session: Session, scope: Scope, send: Send) -> None:
        """The stream for what is about no request."""
        if not exchange.takes_stream(scope):
            await _refuse(send, 406, "Accept has to name text/event-stream")
            return
        stream = Exchange(_caller(scope), streams=True)
        if not session.stand(stream):
            await _refuse(send, 409, "this session has a stream already")
            return
        try:
            await stream.stand(send, _named(session))
        finally:
            session.stand(None)

    def _find(self, scope: Scope) -> Session | None:
        session = self._open.get(_header(scope, _SESSION) or "")
        return session if session is not None and session.principal == _caller(scope).principal else None

    def _begin(self, caller: Caller) -> Session:
        """A new session, in a task of its own. Errors: `BusyError`."""
        self._make_room(caller.principal)
        session = Session(caller.principal)
        self._open[session.key] = session
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._run(session), context=contextvars.Context())  # nobody's, and no request's
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        if self._sweep is None:
            self._sweep = loop.call_later(limits.SESSION_SWEEP_SECONDS, self._look)
        return session

    def _make_room(self, principal: str) -> None:
        """Where a principal has all that it may, the one that it used longest ago ends. Errors: `BusyError`."""
        mine = [session for session in self._open.values() if session.principal == principal]
        if len(mine) >= limits.SESSIONS_EACH:
            oldest = max(mine, key=lambda session: session.idle_seconds)
            if not oldest.idle_seconds:
                raise BusyError("too many sessions are open", remedy="end one")
            self._close(oldest)
        elif len(self._open) >= limits.SESSIONS:
            raise BusyError("too many sessions are open", remedy="try again later")

    async def _run(self, session: Session) -> None:
        try:
            await self._converse(session)
        finally:
            self._close(session)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a session failed", exc_info=error)

    def _close(self, session: Session) -> None:
        self._open.pop(session.key, None)
        session.close()

    def _look(self) -> None:
        self._sweep = None
        for session in tuple(self._open.values()):
            if session.idle_seconds > limits.SESSION_IDLE_SECONDS:
                self._close(session)
        if self._open:
            loop = asyncio.get_running_loop()
            self._sweep = loop.call_later(limits.SESSION_SWEEP_SECONDS, self._look)


async def _live(receive: Receive, send: Send) -> None:
    """Whoever made this has everything open already, and closes it."""
    while (message := await receive())["type"] == "lifespan.startup":
        await send({"type": "lifespan.startup.complete"})
    await send({"type": f"{message['type']}.complete"})


def _take(session: Session, message: Told | Answered) -> None:
    if isinstance(message, Told):
        session.told(message)
    else:
        session.answered(message)


def _named(session: Session) -> Headers:
    return ((_SESSION, session.key.encode("ascii")),)


def _caller(scope: Scope) -> Caller:
    caller = scope.get(CALLER_KEY)
    return caller if isinstance(caller, Caller) else LOCAL


def _header(scope: Scope, name: bytes) -> str | None:
    """A header that occurs once; empty, which fits nothing, where it does so more often."""
    found = [value for key, value in scope.get("headers", ()) if key == name]
    if len(found) > 1:
        return ""
    return found[0].decode("latin-1") if found else None


def _unknown(scope: Scope) -> tuple[int, str]:
    """What is said where there is no session: the same for one that is another's."""
    if _header(scope, _SESSION) is None:
        return 400, "Mcp-Session-Id is missing: begin with initialize"
    return 404, "there is no such session"


async def _refuse(send: Send, status: int, message: str, code: int = jsonrpc.INVALID_REQUEST) -> None:
    await exchange.reply(send, status, jsonrpc.error_response(None, code, message).rstrip(b"\n"))
