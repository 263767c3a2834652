"""What a remote server tells by itself: that a list is another one now.

In the legacy era a GET opens a stream for it, in the modern one a request that is answered by notifications. A stream
that ends is asked for again, later each time; what changed in between was not told, so every list counts as changed.

Not promised: that a server which offers no such stream is heard: its lists are then read again only when somebody asks.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from fumehood.core import limits
from fumehood.core.errors import FumehoodError
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.upstreams import envelope, eras
from fumehood.gateway.upstreams.model import UpstreamError
from fumehood.gateway.upstreams.remote.address import UnreachableError
from fumehood.gateway.upstreams.remote.conversation import Conversation
from fumehood.gateway.upstreams.remote.heads import Content, StatusError
from fumehood.gateway.upstreams.remote.reading import Reading
from fumehood.gateway.upstreams.remote.wire import Asked, SessionOverError
from fumehood.wire import frames

_LATER: Final = 429
_NEVER: Final = frozenset({*range(300, 500), 501}) - {408, _LATER}  # statuses that say that there is no such stream
_HONOURED: Final = frozenset({*eras.CHANGED, "notifications/message"})

Pause = Callable[[float], Awaitable[object]]


class _NotOfferedError(Exception):
    """There is no such stream."""


async def listen(conversation: Conversation, pause: Pause = asyncio.sleep) -> None:
    """Hear what a server tells, until the conversation is lost or there is nothing to hear. Owned by who calls."""
    told = eras.changes(conversation.introduction)
    wait = limits.REMOTE_LISTEN_SECONDS
    clock = asyncio.get_running_loop().time
    opened = False
    while told:
        began, asks = clock(), 0.0
        try:
            reading = await _open(conversation, told)
            if opened:
                _missed(conversation, told)
            opened = True
            asks = await _hear(conversation, reading)
        except _NotOfferedError:
            return
        except SessionOverError as error:
            conversation.lose(error.message)
            return
        except UnreachableError:
            conversation.reached(yes=False)
        except (FumehoodError, TimeoutError):
            pass  # the next request says what is wrong with the server
        if clock() - began > limits.REMOTE_LISTEN_SECONDS_MAX:
            wait = limits.REMOTE_LISTEN_SECONDS
        await pause(min(max(wait, asks), limits.REMOTE_LISTEN_SECONDS_MAX))
        wait = min(2 * wait, limits.REMOTE_LISTEN_SECONDS_MAX)


async def _open(conversation: Conversation, told: Mapping[str, str]) -> Reading:
    async with asyncio.timeout(limits.REMOTE_OPEN_SECONDS):
        try:
            reading = await conversation.wire.listen(_request(conversation, told))
        except StatusError as error:
            raise (_NotOfferedError() if error.status in _NEVER else error) from None
    conversation.reached(yes=True)
    if reading.content is Content.EVENTS:
        return reading
    await reading.close()
    if reading.head.status == _LATER:
        raise UpstreamError("the server was asked too often")
    raise _NotOfferedError


def _request(conversation: Conversation, told: Mapping[str, str]) -> Asked | None:
    if conversation.introduction.era == "legacy":
        return None
    params = envelope.wrap({"notifications": JsonObject.fromkeys(told, True)}, conversation.wire.speaks)
    return Asked(ident=envelope.LISTEN, method=envelope.LISTEN, params=params)


async def _hear(conversation: Conversation, reading: Reading) -> float:
    """Hand on what is told; how long the server wants to be left alone afterwards."""
    try:
        while (message := await reading.next()) is not None:
            match message:
                case frames.Request():
                    conversation.heard(message)
                case frames.Notification(method=method) if method in _HONOURED or method == envelope.PROGRESS:
                    conversation.heard(message)
                case frames.ErrorResponse() if conversation.introduction.era == "modern":
                    raise _NotOfferedError
                case frames.Response() if conversation.introduction.era == "modern":
                    break
                case frames.Response() | frames.ErrorResponse():
                    raise UpstreamError("the server answered what was not asked")
                case _:
                    pass
        return reading.retry_seconds
    finally:
        await reading.close()


def _missed(conversation: Conversation, told: Mapping[str, str]) -> None:
    for method in told.values():
        conversation.heard(frames.Notification(method=method))
