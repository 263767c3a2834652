"""The SDK's lowlevel `Server`, which speaks both eras, over a published server of ours. Only this package imports it.

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
import logging
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import mcp_types
from mcp.server.context import HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from fumehood.core import limits
from fumehood.core.budget import Budget
from fumehood.core.errors import BusyError, UnknownToolError
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.wire import jsonrpc, presence, scopes
from fumehood.wire.admission import Admission, Bounds
from fumehood.wire.descriptors import Wire
from fumehood.wire.guarded import Guarded
from fumehood.wire.published import LOCAL, Caller
from fumehood.wire.sdk.streams import OPENINGS, Context, complete, converse, guard, is_modern, opening
from fumehood.wire.server_stdio import Connection, Ended

_UNKNOWN = "Unknown tool"
_HARNESS = 5  # the exit status of a fault of ours
_LOG = logging.getLogger(__name__)


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

    async def list_tools(self, ctx: Context, params: mcp_types.PaginatedRequestParams) -> HandlerResult:
        """Every tool that the caller may use, on one page and always in the same order."""
        if params.cursor is not None:
            raise MCPError(code=jsonrpc.INVALID_PARAMS, message="Invalid cursor")
        caller, _ = _sender()
        tools: list[JsonValue] = [dict(one) for one in self.guarded.definitions if scopes.may(caller, str(one["name"]))]
        return complete(ctx, {"tools": tools, **_cached(ctx, caller)})

    async def call_tool(self, ctx: Context, params: mcp_types.CallToolRequestParams) -> HandlerResult:
        """One call, in a thread."""
        caller, follow = _sender()
        if not scopes.may(caller, params.name):  # the guard of HTTP has said so in its own words before
            raise MCPError(code=jsonrpc.INVALID_PARAMS, message=_UNKNOWN)
        try:
            self._admission.enter(caller.principal)
        except BusyError as error:
            return complete(ctx, self.guarded.published.refused(error))
        budget = _LateBudget(self.call_seconds)
        future = self._pool.submit(self._run, params.name, dict(params.arguments or {}), budget, caller)
        self._running.add(future)
        future.add_done_callback(partial(self._leave, caller.principal))
        follow(budget.cancel)
        try:
            return complete(ctx, await asyncio.wrap_future(future))
        except UnknownToolError:
            raise MCPError(code=jsonrpc.INVALID_PARAMS, message=_UNKNOWN) from None
        except asyncio.CancelledError:
            budget.cancel()
            raise

    def close(self) -> bool:
        """Start no further call, and wait for those that run; whether all have ended."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        return not wait(self._running, limits.FLUSH_SECONDS).not_done

    def described(self, method: str, result: HandlerResult) -> HandlerResult:
        """The answer to an opening says in `_meta` which walls stand."""
        return opening(result, self.guarded.published.discover()) if method in OPENINGS else result

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
    guard(server, handlers.described)
    return server


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


def _sender() -> tuple[Caller, Callable[[Callable[[], None]], None]]:
    """Who sent the request that is answered here, and how to hear that this one waits no more."""
    sender = presence.current.get()
    return (LOCAL, lambda _: None) if sender is None else (sender.caller, sender.follow)


def _cached(ctx: Context, caller: Caller) -> dict[str, JsonValue]:
    """How long a list may be kept, and by whom; legacy revisions have no word for it."""
    if not is_modern(ctx):
        return {}
    return {"ttlMs": limits.TOOLS_TTL_MILLISECONDS, "cacheScope": "private" if scopes.is_limited(caller) else "public"}
