"""The SDK's loop over channels of ours, what surrounds every message of it, and its application for HTTP.

Invariants: a request's `_meta` is bounded before anything else looks at it; an exception that is no refusal of the
protocol reaches no client as text, which the SDK would do in the legacy era; an answer of a client is passed on only
where a channel knows that it was asked.
"""

import fumehood.wire.lean  # noqa: F401 - what it does has to stand before what follows

# isort: split
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self

import anyio
import mcp_types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from fumehood.core import limits
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.wire import jsonrpc
from fumehood.wire.asgi import Application
from fumehood.wire.channel import Channel
from fumehood.wire.inbound import Answered, Told

_LOG = logging.getLogger(__name__)
_SECURITY = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # `wire.httpguard` judged both before
Context = ServerRequestContext[Any, Any]
OPENINGS = ("initialize", "server/discover")

current: ContextVar[Channel | None] = ContextVar("fumehood_channel", default=None)  # of whoever answers a message


async def converse(server: Server[Any], channel: Channel, *, changes: bool = False) -> None:
    """Serve one connection until its end. The first request decides its era. `changes`: lists are told to change."""
    current.set(channel)
    told = NotificationOptions(tools_changed=changes, prompts_changed=changes, resources_changed=changes)
    await server.run(_Reading(channel), _Writing(channel), server.create_initialization_options(told))


def guard(server: Server[Any], described: Callable[[str, HandlerResult], HandlerResult]) -> None:
    """Make ours the only middleware: the SDK's own default is for telemetry, which fumehood does not send.

    `described` may add to the result of an opening.
    """

    async def check(ctx: Context, call_next: CallNext) -> HandlerResult:
        """Bounds before, nothing of a failure after."""
        if not _bounded_meta(ctx.params):
            if ctx.request_id is None:
                return None  # a notification: there is nobody to tell, and the log is not a client's to fill
            raise MCPError(
                code=jsonrpc.INVALID_PARAMS, message=f"_meta is an object of {limits.META_BYTES} bytes at most"
            )
        try:
            return described(ctx.method, await call_next(ctx))
        except (MCPError, ValidationError):  # the protocol's own refusals
            raise
        except Exception:  # noqa: BLE001 - raised again without its text, which the SDK would tell a legacy client
            _LOG.exception("a request of %s failed", ctx.method)
            raise MCPError(code=jsonrpc.INTERNAL_ERROR, message="Internal error") from None

    server.middleware = [check]


def opening(result: HandlerResult, found: Mapping[str, JsonValue]) -> HandlerResult:
    """The answer to an opening with `found` in its `_meta`."""
    return result | {"_meta": (result.get("_meta") or {}) | dict(found)} if isinstance(result, dict) else result


def http_app(server: Server[Any]) -> Any:  # noqa: ANN401 - Starlette
    """The SDK's ASGI application. `wire.httpguard` stands before it: the SDK checks Host and Origin after auth.

    Its own check of both is off, for it knows only loopback's names. Each legacy request stands alone, as each modern
    one does, and is answered with one JSON document; a host has sessions (`wire.sessions`).
    """
    return server.streamable_http_app(
        streamable_http_path="/mcp",
        stateless_http=True,
        json_response=True,
        transport_security=_SECURITY,
        max_request_body_size=limits.REQUEST_BYTES,
    )


@contextlib.asynccontextmanager
async def modern_app(server: Server[Any], *, stream: bool) -> AsyncIterator[Application]:
    """The SDK's handling of modern requests alone: with one JSON document, or with a stream where something is told."""
    manager = StreamableHTTPSessionManager(
        server,
        json_response=not stream,
        stateless=True,
        security_settings=_SECURITY,
        max_request_body_size=limits.REQUEST_BYTES,
    )
    async with manager.run():
        yield manager.handle_request


def is_modern(ctx: Context) -> bool:
    """Whether a message is of the modern era."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def complete(ctx: Context, result: JsonObject) -> dict[str, JsonValue]:
    """A result as its era has it."""
    return {**result, "resultType": "complete"} if is_modern(ctx) else dict(result)


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
        if isinstance(message, Answered):
            return SessionMessage(_answered(message))
        number, asked = message

        async def unanswered() -> None:
            self._channel.unanswered(number)

        return SessionMessage(
            mcp_types.JSONRPCRequest(jsonrpc="2.0", id=number, method=asked.method, params=asked.params),
            metadata=ServerMessageMetadata(
                on_request_unanswered=unanswered, can_send_request=self._channel.can_ask(number)
            ),
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
            self._channel.tell(message.method, message.params, _about(item))
        elif isinstance(message, mcp_types.JSONRPCRequest):
            self._channel.ask(_number(message.id), message.method, message.params, _about(item))


def _answered(answer: Answered) -> mcp_types.JSONRPCResponse | mcp_types.JSONRPCError:
    """What a client said to a request of ours; whatever is neither a result nor a refusal is a refusal."""
    ident = answer.id if answer.id is not None else 0
    if isinstance(answer.result, dict):
        return mcp_types.JSONRPCResponse(jsonrpc="2.0", id=ident, result=answer.result)
    refused = mcp_types.ErrorData(code=jsonrpc.INTERNAL_ERROR, message="the client refused")
    return mcp_types.JSONRPCError(jsonrpc="2.0", id=ident, error=refused)


def _about(item: SessionMessage) -> int | None:
    related = item.metadata.related_request_id if isinstance(item.metadata, ServerMessageMetadata) else None
    return related if isinstance(related, int) else None


def _number(ident: mcp_types.RequestId | None) -> int:
    return ident if isinstance(ident, int) else 0
