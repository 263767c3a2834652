"""A host over standard input and output, or over HTTP, inside of a loop that runs already."""

import fumehood.wire.lean  # noqa: F401 - what it does has to stand before what follows

# isort: split
import contextlib
import dataclasses
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from fumehood.core import limits
from fumehood.wire.admission import Admission, Bounds
from fumehood.wire.descriptors import Wire
from fumehood.wire.httpchecks import Policy
from fumehood.wire.opening import Opened
from fumehood.wire.patience import Patient
from fumehood.wire.sdk import streams
from fumehood.wire.sdk.hosted import Hosted
from fumehood.wire.server_stdio import Connection, Ended
from fumehood.wire.sessions import Sessions

_METHODS = frozenset({"POST", "GET", "DELETE"})
_SLACK_SECONDS = 10.0  # for a stream to end by itself before it is cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What a listener is told besides; see `wire.listener.Served`."""

    ready: Callable[[], bool] = lambda: True
    announce: Callable[[str], None] | None = None
    stop: threading.Event = field(default_factory=threading.Event)


async def stdio(hosted: Hosted, wire: Wire) -> Ended:
    """Serve the one client of standard input and output until its end, and say why it ended."""
    calls = hosted.bounds.running + hosted.bounds.queued
    async with hosted.running():
        return await Connection(wire, calls=calls, asks=True).run(hosted.converse)


async def http(hosted: Hosted, opened: Opened, serving: Serving | None = None) -> int:
    """Serve over HTTP until SIGTERM or SIGINT, and return the signal (0 after `stop`)."""
    from fumehood.wire import listener  # noqa: PLC0415 - uvicorn, which nothing over stdio needs

    told = serving or Serving()
    async with hosted.running(), endpoint(hosted) as sessions:

        def drain() -> None:
            sessions.drain()
            hosted.changes.end_streams()

        served = listener.Served(
            app=sessions,
            rates=Admission(rates(hosted.bounds)),
            ready=told.ready,
            announce=told.announce,
            stop=told.stop,
            draining=drain,
        )
        return await listener.serve(dataclasses.replace(opened, policy=policy(opened.policy)), served)


@contextlib.asynccontextmanager
async def endpoint(hosted: Hosted) -> AsyncIterator[Sessions]:
    """The application of a host, for both eras."""
    async with (
        streams.modern_app(hosted.server, stream=False) as plain,
        streams.modern_app(hosted.server, stream=True) as streaming,
    ):
        sessions = Sessions(hosted.converse, plain=Patient(plain), streaming=streaming)
        try:
            yield sessions
        finally:
            await sessions.close()


def policy(given: Policy) -> Policy:
    """What a listener lets in that has a host behind it: sessions, streams, and tools that the host judges itself."""
    return dataclasses.replace(
        given,
        methods=_METHODS,
        judges_tools=False,
        request_seconds=limits.HTTP_HOST_SECONDS,
        stream_seconds=limits.HTTP_STREAM_SECONDS + _SLACK_SECONDS,
    )


def rates(bounds: Bounds) -> Bounds:
    """How many requests of HTTP one principal may have: its calls, and beside them streams, answers and notices."""
    return dataclasses.replace(
        bounds,
        queued=bounds.queued + limits.CONTROL_IN_FLIGHT + limits.SESSIONS_EACH,
        calls_a_minute=bounds.calls_a_minute * 2,
    )
