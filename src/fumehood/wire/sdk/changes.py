"""Lists that change, and who is told: legacy connections, and streams that modern clients opened.

Invariants: changes within CHANGED_SECONDS are one; for each client at most one notice of each kind waits, so that one
that does not read loses repetitions and grows nothing; a client is told of what it asked for, and of nothing else; of
one principal at most LISTENERS_EACH streams stand open, in all LISTENERS.
"""

import fumehood.wire.lean  # noqa: F401 - what it does has to stand before what follows

# isort: split
import asyncio
import contextlib
from collections import Counter
from typing import Any, TypeAlias

import mcp_types
from mcp.shared.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
    event_to_notification,
)

from fumehood.core import limits
from fumehood.core.errors import BusyError
from fumehood.wire.channel import Channel
from fumehood.wire.hosting import Changed
from fumehood.wire.sdk import streams
from fumehood.wire.sdk.streams import Context

_Event: TypeAlias = ToolsListChanged | PromptsListChanged | ResourcesListChanged
_EVENTS: dict[Changed, _Event] = {
    Changed.TOOLS: ToolsListChanged(),
    Changed.PROMPTS: PromptsListChanged(),
    Changed.RESOURCES: ResourcesListChanged(),
}


class _Listener:
    """One stream."""

    def __init__(self, wanted: frozenset[Changed]) -> None:
        self.wanted = wanted
        self.over = False
        self.moved = asyncio.Event()
        self._waiting: set[Changed] = set()

    def note(self, what: Changed) -> None:
        if what in self.wanted:
            self._waiting.add(what)
            self.moved.set()

    def end(self) -> None:
        self.over = True
        self.moved.set()

    def take(self) -> list[Changed]:
        self.moved.clear()
        taken, self._waiting = self._waiting, set()
        return [what for what in Changed if what in taken]


class Changes:
    """Who is told."""

    def __init__(self) -> None:
        """Nobody yet."""
        self._channels: set[Channel] = set()
        self._listeners: dict[_Listener, str] = {}
        self._held: Counter[str] = Counter()
        self._noted: set[Changed] = set()
        self._due: asyncio.TimerHandle | None = None

    def note(self, what: Changed) -> None:
        """A list is another one."""
        self._noted.add(what)
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(limits.CHANGED_SECONDS, self._publish)

    def tell(self, channel: Channel) -> None:
        """A legacy connection wants to know from now on."""
        self._channels.add(channel)

    def leave(self, channel: Channel) -> None:
        """One is over."""
        self._channels.discard(channel)

    def end_streams(self) -> None:
        """End every stream, each with its result."""
        for listener in self._listeners:
            listener.end()

    def close(self) -> None:
        """Tell nobody any more."""
        if self._due is not None:
            self._due.cancel()
        self._channels.clear()
        self.end_streams()

    async def listen(
        self, ctx: Context, params: mcp_types.SubscriptionsListenRequestParams, principal: str
    ) -> mcp_types.SubscriptionsListenResult:
        """Answer `subscriptions/listen`: acknowledge, then tell until the client goes. Errors: `BusyError`."""
        if len(self._listeners) >= limits.LISTENERS or self._held[principal] >= limits.LISTENERS_EACH:
            raise BusyError("too many streams of changes are open", remedy="close one")
        honoured = _honoured(params.notifications)
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: _ident(ctx)}
        listener = _Listener(_wanted(honoured))
        self._listeners[listener] = principal
        self._held[principal] += 1
        try:
            acknowledged = mcp_types.SubscriptionsAcknowledgedNotificationParams(notifications=honoured, _meta=meta)
            await ctx.session.send_notification(
                mcp_types.SubscriptionsAcknowledgedNotification(params=acknowledged), related_request_id=ctx.request_id
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_seconds()):
                    await _pass_on(ctx, listener, meta)
        finally:
            del self._listeners[listener]
            self._held[principal] -= 1
            if not self._held[principal]:
                del self._held[principal]
        return mcp_types.SubscriptionsListenResult(_meta=meta)

    def _publish(self) -> None:
        self._due = None
        noted, self._noted = self._noted, set()
        for what in Changed:
            if what in noted:
                for channel in tuple(self._channels):
                    channel.tell(f"notifications/{what.value}/list_changed", None)
                for listener in self._listeners:
                    listener.note(what)


async def _pass_on(ctx: Context, listener: _Listener, meta: dict[str, Any]) -> None:
    while not listener.over:
        await listener.moved.wait()
        for what in listener.take():
            await ctx.session.send_notification(
                event_to_notification(_EVENTS[what], meta), related_request_id=ctx.request_id
            )


def _ident(ctx: Context) -> str | int:
    """The client's own id of a request, and note that it stands open."""
    channel, number = streams.current.get(), ctx.request_id
    if channel is None or not isinstance(number, int):
        return number if number is not None else 0
    channel.stands(number)
    return channel.ident(number)


def _seconds() -> float | None:
    """How long a stream stands: over a pipe as long as that, for it costs no connection of its own."""
    return None if streams.current.get() is not None else limits.HTTP_STREAM_SECONDS


def _honoured(asked: mcp_types.SubscriptionFilter) -> mcp_types.SubscriptionFilter:
    """What is honoured of what was asked: lists, and no single resources."""
    return mcp_types.SubscriptionFilter(
        tools_list_changed=True if asked.tools_list_changed else None,
        prompts_list_changed=True if asked.prompts_list_changed else None,
        resources_list_changed=True if asked.resources_list_changed else None,
    )


def _wanted(honoured: mcp_types.SubscriptionFilter) -> frozenset[Changed]:
    named = {
        Changed.TOOLS: honoured.tools_list_changed,
        Changed.PROMPTS: honoured.prompts_list_changed,
        Changed.RESOURCES: honoured.resources_list_changed,
    }
    return frozenset(what for what, is_wanted in named.items() if is_wanted)
