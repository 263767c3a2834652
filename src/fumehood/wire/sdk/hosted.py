"""The SDK's lowlevel `Server` over a host of ours: both eras, asking back, progress, lists that change.

Invariants: every request runs in a task of its own, which is cancelled when nobody waits for it any more: cancelled by
the client, its connection gone, or (where it waits for an answer that comes with another request) at its deadline; of
one principal at most `Bounds.running + Bounds.queued` requests are under way; no report of progress comes after its
answer; what is kept for one connection is nobody else's; a failure reaches no client but in words of ours.

Nothing is offered that a host does not have: no logging, no subscriptions to single resources.
"""

import fumehood.wire.lean  # noqa: F401 - what it does has to stand before what follows
from fumehood.core.jsonio import JsonObject

# isort: split
import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import mcp_types
from mcp.server.context import HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from fumehood.core import limits
from fumehood.core.clock import SystemClock
from fumehood.core.errors import BusyError
from fumehood.wire import jsonrpc, parking, presence, questions
from fumehood.wire.admission import Admission, Bounds
from fumehood.wire.channel import Channel
from fumehood.wire.hosting import CannotAskError, Host, HostError, Question, Request
from fumehood.wire.parking import Parking, Ticket
from fumehood.wire.principals import Principals
from fumehood.wire.progress import Progress
from fumehood.wire.published import LOCAL, Caller
from fumehood.wire.sdk import asking, replies, streams
from fumehood.wire.sdk.changes import Changes
from fumehood.wire.sdk.streams import OPENINGS, Context
from fumehood.wire.turns import Turns

_LOG = logging.getLogger(__name__)
_TRACE = ("traceparent", "tracestate", "baggage")  # W3C, as SEP-414 has them in `_meta`
_ROUND_TRIP = ("inputResponses", "requestState")
_METHODS: dict[str, type[mcp_types.RequestParams]] = {
    **dict.fromkeys(replies.LISTS, mcp_types.PaginatedRequestParams),
    "tools/call": mcp_types.CallToolRequestParams,
    "prompts/get": mcp_types.GetPromptRequestParams,
    "resources/read": mcp_types.ReadResourceRequestParams,
    "completion/complete": mcp_types.CompleteRequestParams,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sender:
    caller: Caller
    connection: Hashable


class Hosted:
    """A host that clients of any transport can reach. Used in one event loop, inside of `running`."""

    def __init__(self, host: Host, bounds: Bounds | None = None) -> None:
        """Nothing runs before `running`."""
        self.host = host
        self.bounds = bounds or Bounds()
        self.changes = Changes()
        self._admission = Admission(self.bounds)
        self._parking: Parking[Turns] = Parking(partial(secrets.token_urlsafe, 32), SystemClock())
        self._principals = Principals(self._left)
        self._works: set[asyncio.Task[JsonObject]] = set()
        self.server = self._build()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve connections inside of this; at its end what still runs is cancelled."""
        unwatch = self.host.watch(self.changes.note)
        try:
            yield
        finally:
            unwatch()
            self.changes.close()
            self._principals.close()
            for work in self._works:
                work.cancel()
            if self._works:
                await asyncio.wait(self._works, timeout=limits.FLUSH_SECONDS)

    async def converse(self, channel: Channel) -> None:
        """Serve one connection until its end."""
        try:
            await streams.converse(self.server, channel, changes=True)
        finally:
            self.changes.leave(channel)
            self._left(channel.connection)

    def _build(self) -> Server[Any]:
        server: Server[Any] = Server(
            self.host.name,
            version=self.host.version,
            title=self.host.title,
            instructions=self.host.instructions,
            get_tool_input_schema=_no_schema,
        )
        for method, params in _METHODS.items():
            server.add_request_handler(method, params, self._answer)
        server.add_request_handler("subscriptions/listen", mcp_types.SubscriptionsListenRequestParams, self._listen)
        server.add_notification_handler("notifications/initialized", mcp_types.NotificationParams, self._initialized)
        streams.guard(server, self._described)
        return server

    def _described(self, method: str, result: HandlerResult) -> HandlerResult:
        """The answer to an opening says what the host says of itself, and offers nothing that there is not."""
        if method not in OPENINGS:
            return result
        described = streams.opening(result, self.host.discover())
        if isinstance(described, dict) and isinstance(found := described.get("capabilities"), dict):
            resources = {**found.get("resources", {}), "subscribe": False}
            words = {"instructions": self.host.instructions} if "instructions" in described else {}  # as they are now
            return described | words | {"capabilities": found | {"resources": resources}}
        return described

    async def _initialized(self, ctx: Context, params: mcp_types.NotificationParams) -> None:
        del ctx, params
        if (channel := streams.current.get()) is not None:
            self.changes.tell(channel)

    async def _listen(self, ctx: Context, params: mcp_types.SubscriptionsListenRequestParams) -> HandlerResult:
        with self._sender(ctx) as sender, replies.refusing():
            return await self.changes.listen(ctx, params, sender.caller.principal)

    async def _answer(self, ctx: Context, params: mcp_types.RequestParams) -> HandlerResult:
        """Any request that goes to the host."""
        del params  # checked; what the host gets is what the client wrote
        with self._sender(ctx) as sender:
            try:
                self._admission.enter(sender.caller.principal)
            except BusyError as error:
                return replies.busy(ctx, error)
            progress = _progress(ctx)
            try:
                with replies.refusing():
                    result = await self._in_turns(ctx, sender, progress)
                if progress is not None:
                    await progress.close()
                return result
            finally:
                if progress is not None:
                    progress.stop()
                self._admission.leave(sender.caller.principal)

    async def _in_turns(self, ctx: Context, sender: _Sender, progress: Progress | None) -> JsonObject:
        """The result of a request, or the question that it waits with."""
        given = dict(ctx.params or {})
        rest = {name: value for name, value in given.items() if name not in _ROUND_TRIP and name != "_meta"}
        if streams.is_modern(ctx) and any(given.get(name) is not None for name in _ROUND_TRIP):
            turns = self._resume(given, _ticket(ctx, sender, rest))
            turns.progress = progress
        else:
            turns = Turns()
            turns.progress = progress
            work = turns.begin(self._run(self._request(ctx, sender, rest, turns)))
            self._works.add(work)
            work.add_done_callback(self._works.discard)
        while (question := await turns.next()) is not None:
            try:
                return self._park(question, _ticket(ctx, sender, rest), turns)
            except BusyError as error:
                turns.answer(CannotAskError(error.message, remedy=error.remedy))
        return replies.stamped(ctx, turns.result())

    async def _run(self, request: Request) -> JsonObject:
        return await self.host.answer(request)

    def _request(self, ctx: Context, sender: _Sender, params: JsonObject, turns: Turns) -> Request:
        meta = ctx.params.get("_meta") if ctx.params else None
        meta = meta if isinstance(meta, dict) else {}
        return Request(
            method=ctx.method,
            params=params,
            caller=sender.caller,
            connection=sender.connection,
            era="modern" if streams.is_modern(ctx) else "legacy",
            trace={name: value for name in _TRACE if isinstance(value := meta.get(name), str)},
            progress=turns.report if turns.progress is not None else None,
            ask=asking.way(ctx, turns),
        )

    def _park(self, question: Question, ticket: Ticket, turns: Turns) -> JsonObject:
        """Have it wait for another request, for so long."""
        state = self._parking.park(ticket, turns)
        turns.progress = None
        turns.deadline = asyncio.get_running_loop().call_later(limits.PARKED_SECONDS, self._expire, state)
        return questions.input_required(question, state)

    def _resume(self, given: JsonObject, ticket: Ticket) -> Turns:
        state, responses = given.get("requestState"), given.get("inputResponses")
        turns = self._parking.look(state, ticket)
        if turns.question is None or not isinstance(responses, dict) or set(responses) != {questions.KEY}:
            raise HostError("inputResponses answers other questions than were asked")
        try:
            reply = questions.reply(turns.question, responses[questions.KEY])
        except CannotAskError as error:
            raise HostError(error.message, remedy="answer again") from None
        self._parking.take(str(state), ticket)
        if turns.deadline is not None:
            turns.deadline.cancel()
        turns.answer(reply)
        return turns

    def _expire(self, state: str) -> None:
        if (turns := self._parking.drop(state)) is not None:
            turns.cancel()

    def _left(self, connection: Hashable) -> None:
        for turns in self._parking.leave(connection):
            turns.cancel()
        self.host.left(connection)

    @contextlib.contextmanager
    def _sender(self, ctx: Context) -> Iterator[_Sender]:
        """Who sent a message, and what it shares state with."""
        channel, sender = streams.current.get(), presence.current.get()
        if channel is not None:
            number = ctx.request_id if isinstance(ctx.request_id, int) else 0
            yield _Sender(caller=channel.caller(number), connection=channel.connection)
            return
        caller = LOCAL if sender is None else sender.caller
        try:
            using = contextlib.ExitStack()
            connection = using.enter_context(self._principals.using(caller.principal))
        except BusyError as error:
            raise MCPError(code=replies.REFUSED, message=str(error)) from None
        with using:
            yield _Sender(caller=caller, connection=connection)


def _progress(ctx: Context) -> Progress | None:
    """Reports, where the client gave a token for them."""
    meta = ctx.params.get("_meta") if ctx.params else None
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    if not jsonrpc.is_id(token):
        return None

    async def send(report: JsonObject) -> None:
        params = mcp_types.ProgressNotificationParams.model_validate({**report, "progressToken": token})
        await ctx.session.send_notification(
            mcp_types.ProgressNotification(params=params), related_request_id=ctx.request_id
        )

    return Progress(send)


def _no_schema(name: str) -> None:
    """The SDK would list all tools at each call, to compare Mcp-Param headers: nobody here decides by these."""
    del name


def _ticket(ctx: Context, sender: _Sender, params: JsonObject) -> Ticket:
    """What a request has to bring that comes back; made when one waits or returns, as most never do."""
    return Ticket(caller=sender.caller, connection=sender.connection, digest=parking.digest(ctx.method, params))
