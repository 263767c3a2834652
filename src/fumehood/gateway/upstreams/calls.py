"""The calls of one server: how many at once, for how long, and whether at all.

Invariants: of one server at most UPSTREAM_RUNNING calls run and UPSTREAM_QUEUED wait, the next is refused; a call's
deadline counts from when it was asked, its wait included; a call that the breaker refuses waits for nothing; whatever
ends a call gives its place back, and the breaker hears of it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from fumehood.core import limits
from fumehood.core.errors import BusyError, TimedOutError
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.upstreams.breaker import Admitted, Breaker, Refusing
from fumehood.gateway.upstreams.model import Connection, ServerRefusedError, UpstreamError
from fumehood.wire.hosting import ReportProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What is asked."""

    method: str
    params: JsonObject
    seconds: float
    progress: ReportProgress | None = None


@dataclass(slots=True, kw_only=True)
class _Passed:
    """How far one call got."""

    breaker: Breaker  # of the connection that it went to
    admitted: Admitted | None = None  # once it may be passed on
    told: bool = False  # whether the breaker knows how it ended


class Calls:
    """Of one server, over all its connections."""

    def __init__(self, server: str, chance: Callable[[], float], troubled: Callable[[], None]) -> None:
        """`troubled` is called when calls begin to be refused."""
        self._server = server
        self._chance = chance
        self._troubled = troubled
        self._breaker = Breaker()
        self._inside = 0
        self._places = asyncio.Semaphore(limits.UPSTREAM_RUNNING)

    def begin_again(self) -> None:
        """There is another connection: what the one before did says nothing of it."""
        self._breaker = Breaker()

    async def ask(self, call: Call, ready: Callable[[], Awaitable[Connection]]) -> JsonObject:
        """One call, once `ready` gives the connection for it. Errors as `Connection.ask`, with the server's name."""
        passed = _Passed(breaker=self._breaker)
        try:
            async with asyncio.timeout(call.seconds):
                return await self._passed(call, ready, passed)
        except (TimeoutError, TimedOutError):
            why = f"no answer within {call.seconds:g} s"
            self._failed(passed, why)
            raise TimedOutError(f"{self._server}: {why}", remedy="ask for less") from None
        except (UpstreamError, BusyError) as error:
            if passed.admitted is None:
                raise  # ours, and says whose it is
            self._failed(passed, error.message)
            raise type(error)(f"{self._server}: {error.message}", remedy=error.remedy) from None
        except ServerRefusedError:
            self._answered(passed)
            raise
        finally:
            if passed.admitted is not None and not passed.told:
                passed.breaker.left(passed.admitted)

    async def _passed(self, call: Call, ready: Callable[[], Awaitable[Connection]], passed: _Passed) -> JsonObject:
        until = _now() + call.seconds
        async with self._place():
            connection = await ready()
            passed.breaker = self._breaker
            match passed.breaker.admit(_now()):
                case Refusing(reason=reason, again_seconds=seconds):
                    words = f"{self._server}: not asked: {reason}; one call may try in {seconds:.1f} s"
                    raise UpstreamError(words, remedy="ask again then")
                case Admitted() as admitted:
                    passed.admitted = admitted
            left = max(until - _now(), 0.001)
            result = await connection.ask(call.method, call.params, seconds=left, progress=call.progress)
            self._answered(passed)
            return result

    @contextlib.asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        if self._inside >= limits.UPSTREAM_RUNNING + limits.UPSTREAM_QUEUED:
            words = f"{self._server}: {limits.UPSTREAM_RUNNING} calls run and {limits.UPSTREAM_QUEUED} wait"
            raise BusyError(words, remedy="ask again in a moment")
        self._inside += 1
        try:
            async with self._places:
                yield
        finally:
            self._inside -= 1

    def _answered(self, passed: _Passed) -> None:
        if passed.admitted is not None:
            passed.told = True
            passed.breaker.answered(passed.admitted, _now())

    def _failed(self, passed: _Passed, why: str) -> None:
        if passed.admitted is None:
            return
        passed.told = True
        was_open = passed.breaker.is_open
        passed.breaker.failed(passed.admitted, why, _now(), self._chance())
        if passed.breaker.is_open and not was_open and passed.breaker is self._breaker:
            self._troubled()


def _now() -> float:
    return asyncio.get_running_loop().time()
