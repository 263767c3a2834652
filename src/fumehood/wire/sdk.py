"""The one place that imports the SDK: its lowlevel `Server`, which speaks both eras, over a published server of ours.

Invariants: a call runs in a thread of its own with a budget that is cancelled when nobody waits for the answer any
more; at most `Bounds.running` calls of one caller run at once, and who is beyond `Bounds.queued` gets `busy` as the
tool's refusal; an exception that is no refusal reaches the client as -32603 without detail, in both eras (the SDK
would tell a legacy client its text), and the log with its traceback; `_meta` of a request is bounded.

Results are plain objects: the SDK checks and stamps them (15 microseconds), and builds no models of them.

Loading this module takes most of a second. It is imported where a server starts, never for `--help` or `call`.
"""

import fumehood.wire.lean  # noqa: F401 - what it does has to stand before what follows

# isort: split
import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self

import anyio
import mcp_types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from fumehood.core import limits
from fumehood.core.budget import Budget
from fumehood.core.errors import BusyError, UnknownToolError
from fumehood.core.jsonio import JsonValue
from fumehood.wire import jsonrpc, presence, scopes
from fumehood.wire.admission import Admission, Bounds
from fumehood.wire.guarded import Guarded
from fumehood.wire.inbound import Asked, Told
from fumehood.wire.published import LOCAL, Caller, JsonObject
from fumehood.wire.server_stdio import Connection, Ended, Wire

_UNKNOWN = "Unknown tool"
_HARNESS = 5  # the exit status of a fault of ours
_LOG = logging.getLogger(__name__)
_Context = ServerRequestContext[Any, Any]


class Channel(Protocol):
    """One connection as the SDK's loop needs it: requests have numbers of ours, which are never used twice."""

    async def receive(self) -> tuple[int, Asked] | Told | None:
        """The next message of the client; None at its end."""
        ...

    def answer(self, number: int, member: str, value: JsonValue) -> None:
        """Send the `result` or the `error` of a request."""
        ...

    def tell(self, method: str, params: JsonValue) -> None:
        """Send a notification."""
        ...

    def unanswered(self, number: int) -> None:
        """A request is over, and gets no answer: the client has cancelled it."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class Handlers:
    """What the SDK calls. One of these serves every connection of a process."""

    guarded: Guarded
    bounds: Bounds = field(default_factory=Bounds)
    call_seconds: float = limits.CALL_SECONDS
    _admission: Admission = field(init=False)
    _pool: ThreadPoolExecutor = field(init=False)
    _running: set[Future[JsonObject]] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        """Take the threads; none is started before the first call."""
        self._admission = Admission(self.bounds)
        self._pool = ThreadPoolExecutor(self.bounds.running, thread_name_prefix="call")

    async def list_tools(self, ctx: _Context, params: mcp_types.PaginatedRequestParams) -> HandlerResult:
        """Every tool that the caller may use, on one page and always in the same order."""
        if params.cursor is not None:
            raise MCPError(code=jsonrpc.INVALID_PARAMS, message="Invalid cursor")
        caller, _ = _sender()
        tools: list[JsonValue] = [dict(one) for one in self.guarded.definitions if scopes.may(caller, str(one["name"]))]
        return _complete(ctx, {"tools": tools, **_cached(ctx, caller)})

    async def call_tool(self, ctx: _Context, params: mcp_types.CallToolRequestParams) -> HandlerResult:
        """One call, in a thread."""
        caller, follow = _sender()
        if not scopes.may(caller, params.name):  # the guard of HTTP has said so in its own words before
            raise MCPError(code=jsonrpc.INVALID_PARAMS, message=_UNKNOWN)
        try:
            self._admission.enter(caller.principal)
        except BusyError as error:
            return _complete(ctx, self.guarded.published.refused(error))
        budget = _LateBudget(self.call_seconds)
        future = self._pool.submit(self._run, params.name, dict(params.arguments or {}), budget, caller)
        self._running.add(future)
        future.add_done_callback(partial(self._leave, caller.principal))
        follow(budget.cancel)
        try:
            return _complete(ctx, await asyncio.wrap_future(future))
        except UnknownToolError:
            raise MCPError(code=jsonrpc.INVALID_PARAMS, message=_UNKNOWN) from None
        except asyncio.CancelledError:
            budget.cancel()
            raise

    async def check(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        """The middleware around every message: bounds before, nothing of a failure after."""
        if not _bounded_meta(ctx.params):
            if ctx.request_id is None:
                return None  # a notification: there is nobody to tell, and the log is not a client's to fill
            raise MCPError(
                code=jsonrpc.INVALID_PARAMS, message=f"_meta is an object of {limits.META_BYTES} bytes at most"
            )
        try:
            return self._described(ctx.method, await call_next(ctx))
        except (MCPError, ValidationError):  # the protocol's own refusals
            raise
        except Exception:  # noqa: BLE001 - raised again without its text, which the SDK would tell a legacy client
            _LOG.exception("a request of %s failed", ctx.method)
            raise MCPError(code=jsonrpc.INTERNAL_ERROR, message="Internal error") from None

    def close(self) -> bool:
        """Start no further call, and wait for those that run; whether all have ended."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        return not wait(self._running, limits.FLUSH_SECONDS).not_done

    def _described(self, method: str, result: HandlerResult) -> HandlerResult:
        """The answer to an opening says in `_meta` which walls stand."""
        if method in {"initialize", "server/discover"} and isinstance(result, dict):
            return result | {"_meta": (result.get("_meta") or {}) | self.guarded.published.discover()}
        return result

    def _leave(self, principal: str, future: Future[JsonObject]) -> None:
        self._running.discard(future)
        self._admission.leave(principal)

    def _run(self, name: str, arguments: JsonObject, budget: "_LateBudget", caller: Caller) -> JsonObject:
        return self.guarded.call(name, arguments, budget.begin(), caller)


class _LateBudget:
    """A budget whose time begins when its call leaves the queue, and which can be cancelled before."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._budget: Budget | None = None
        self._cancelled = False

    def begin(self) -> Budget:
        """Called once, by the thread that runs the call."""
        self._budget = Budget(self._seconds)
        if self._cancelled:  # set before, or between: either side sees the other's mark
            self._budget.cancel()
        return self._budget

    def cancel(self) -> None:
        """Called by any other thread."""
        self._cancelled = True
        if self._budget is not None:
            self._budget.cancel()


def build(handlers: Handlers) -> Server[Any]:
    """The SDK's server over what we publish, for any transport."""
    published = handlers.guarded.published
    server: Server[Any] = Server(
        published.name,
        version=published.version,
        title=published.title,
        instructions=published.instructions,
        get_tool_input_schema=handlers.guarded.input_schemas.get,
    )
    server.add_request_handler("tools/list", mcp_types.PaginatedRequestParams, handlers.list_tools)
    server.add_request_handler("tools/call", mcp_types.CallToolRequestParams, handlers.call_tool)
    guard(server, handlers.check)
    return server


def guard(server: Server[Any], check: Any) -> None:  # noqa: ANN401 - the SDK's type of a middleware is a protocol
    """Make ours the only middleware: the SDK's own default is for telemetry, which fumehood does not send."""
    server.middleware = [check]


async def converse(server: Server[Any], channel: Channel) -> None:
    """Serve one connection until its end. The first request decides its era."""
    await server.run(_Reading(channel), _Writing(channel), server.create_initialization_options())


def serve_stdio(handlers: Handlers, wire: Wire) -> Ended:
    """Serve the one client of standard input and output until its end, and say why it ended.

    A call that does not end when its budget is cancelled does not keep the process: it is left at once then.
    """
    server = build(handlers)

    async def main() -> Ended:
        connection = Connection(wire, calls=handlers.bounds.running + handlers.bounds.queued)
        return await connection.run(partial(converse, server))

    try:
        return asyncio.run(main())
    finally:
        leave(handlers)


def leave(handlers: Handlers) -> None:
    """Wait for calls that run; a process whose call does not end is left at once."""
    if not handlers.close():
        _LOG.error("a call does not end")
        os._exit(_HARNESS)


def http_app(server: Server[Any], *, path: str = "/mcp", sessions: bool = False) -> Any:  # noqa: ANN401 - Starlette
    """The SDK's ASGI application. `wire.httpguard` stands before it: the SDK checks Host and Origin after auth.

    Its own check of both is off, for it knows only loopback's names. Without sessions each legacy request stands alone,
    as each modern one does, and is answered with one JSON document.
    """
    return server.streamable_http_app(
        streamable_http_path=path,
        stateless_http=not sessions,
        json_response=not sessions,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=limits.REQUEST_BYTES,
        session_idle_timeout=limits.SESSION_IDLE_SECONDS if sessions else None,
        max_sessions=limits.PRINCIPALS if sessions else None,
    )


def _complete(ctx: _Context, result: JsonObject) -> dict[str, JsonValue]:
    """A result as its era has it."""
    return {**result, "resultType": "complete"} if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else dict(result)


def _sender() -> tuple[Caller, Callable[[Callable[[], None]], None]]:
    """Who sent the request that is answered here, and how to hear that this one waits no more."""
    sender = presence.current.get()
    return (LOCAL, lambda _: None) if sender is None else (sender.caller, sender.follow)


def _cached(ctx: _Context, caller: Caller) -> dict[str, JsonValue]:
    """How long a list may be kept, and by whom; legacy revisions have no word for it."""
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return {}
    return {"ttlMs": limits.TOOLS_TTL_MILLISECONDS, "cacheScope": "private" if scopes.is_limited(caller) else "public"}


def _bounded_meta(params: Mapping[str, Any] | None) -> bool:
    meta = params.get("_meta") if params else None
    return meta is None or (isinstance(meta, dict) and len(json.dumps(meta)) <= limits.META_BYTES)


class _Stream:
    """What both halves have in common; closing ends nothing, the transport outlives the SDK's loop."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def aclose(self) -> None:
        """Nothing to do."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Reading(_Stream):
    """The SDK's `ReadStream` over a channel."""

    async def receive(self) -> SessionMessage:
        message = await self._channel.receive()
        if message is None:
            raise anyio.EndOfStream
        if isinstance(message, Told):
            return SessionMessage(
                mcp_types.JSONRPCNotification(jsonrpc="2.0", method=message.method, params=message.params)
            )
        number, asked = message

        async def unanswered() -> None:
            self._channel.unanswered(number)

        return SessionMessage(
            mcp_types.JSONRPCRequest(jsonrpc="2.0", id=number, method=asked.method, params=asked.params),
            metadata=ServerMessageMetadata(on_request_unanswered=unanswered, can_send_request=False),
        )

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class _Writing(_Stream):
    """The SDK's `WriteStream` over a channel. It never waits: the channel bounds what it holds by reading less."""

    async def send(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, mcp_types.JSONRPCResponse):
            self._channel.answer(_number(message.id), "result", message.result)
        elif isinstance(message, mcp_types.JSONRPCError):
            self._channel.answer(_number(message.id), "error", message.error.model_dump(exclude_none=True))
        elif isinstance(message, mcp_types.JSONRPCNotification):
            self._channel.tell(message.method, message.params)


def _number(ident: mcp_types.RequestId | None) -> int:
    return ident if isinstance(ident, int) else 0
