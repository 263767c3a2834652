"""One server, for as long as the gateway runs: started, listed, judged, watched, and started again when it is lost.

Invariants:
- Whatever a server does, only its own keeper waits for it: its start, its list and its end have deadlines, and what is
  raised in its life ends that life and nothing else.
- No call reaches a server whose tools were not judged: after it says that they are others now, a call of a tool waits
  until they were read and judged again; where they are not those that were accepted, nothing of it is asked.
- It is lost in the moment in which its connection says so: calls are refused then, before anything is tidied up.
- How often it is started, listed again and told of is bounded (`breaker`), however it ends or floods.

The life of a server is explained in `docs/explanation/a-server-behind-the-gateway.md`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from fumehood.core import limits
from fumehood.core.errors import BusyError, FumehoodError, RefusedError, TimedOutError, UnsupportedError
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.guard import listing as guarded
from fumehood.gateway.guard.listing import Judgement
from fumehood.gateway.upstreams import eras, listing, report
from fumehood.gateway.upstreams.breaker import RELISTS, Backoff
from fumehood.gateway.upstreams.calls import Call, Calls
from fumehood.gateway.upstreams.listing import Prepared
from fumehood.gateway.upstreams.model import (
    Connection,
    Down,
    Listed,
    ServerRefusedError,
    Standing,
    Starting,
    Up,
    UpstreamError,
    Withheld,
)
from fumehood.gateway.upstreams.shared import Shared, Upstream

_LOG: Final = logging.getLogger(__name__)
_ALIVE: Final = {"legacy": "ping", "modern": "server/discover"}  # 2026-07-28 has no ping


class Keeper:
    """One server. `run` is its task."""

    def __init__(self, upstream: Upstream, shared: Shared, tell: Callable[[str, str], None]) -> None:
        """Nothing is started. `tell(server, what)` is called as `Upstreams.watch` has it."""
        self.name = upstream.who.name
        self.settled = asyncio.Event()  # once it is not starting for the first time
        self._upstream = upstream
        self._shared = shared
        self._tell = tell
        self._calls = Calls(self.name, shared.chance, self._troubled)
        self._standing: Standing = Starting()
        self._again_at: float | None = None  # of a server that is down
        self._up_at: float | None = None
        self._repeats = report.Repeats()
        self._restarts = Backoff(shared.restarts)
        self._relists = Backoff(RELISTS)
        self._relisted = float("-inf")
        self._connection: Connection | None = None
        self._found: tuple[JsonValue, ...] = ()
        self._prepared: tuple[tuple[JsonValue, ...], Prepared] | None = None  # and of which list
        self._wake = asyncio.Event()
        self._changed: set[str] = set()
        self._told = 0  # how often it said that its tools are others
        self._judged = 0  # of these, how many the last judgement covers
        self._news = asyncio.Event()  # set, and replaced, at each judgement
        self._look = self._ping = False

    @property
    def standing(self) -> Standing:
        """How it stands now."""
        if isinstance(self._standing, Down) and self._again_at is not None:
            return replace(self._standing, again_seconds=max(0.0, self._again_at - _now()))
        return self._standing

    @property
    def listed(self) -> Listed:
        """Its tools; none where it is not up."""
        if not isinstance(self._standing, Up) or self._prepared is None:
            return Listed()
        return self._prepared[1].listed

    @property
    def _shown(self) -> int:
        return len(self.listed.shown)

    def look_again(self) -> None:
        """`fumehood.lock` is another one."""
        self._look = True
        self._wake.set()

    async def ask(self, call: Call) -> JsonObject:
        """As `Upstreams.ask`."""
        try:
            self._open()
            return await self._calls.ask(call, lambda: self._ready(call.method))
        except UpstreamError:
            await asyncio.sleep(0)  # who asks again at once keeps no task from seeing what was lost
            raise

    async def run(self) -> None:
        """Keep it, until this is cancelled, or it cannot be started on this host or as it is configured."""
        while True:
            life = asyncio.create_task(self._live())
            try:
                await asyncio.wait({life})
            finally:
                if not life.done():
                    life.cancel()
                    await asyncio.wait({life})
            self._ended(life)
            if self._again_at is None:
                return
            await asyncio.sleep(max(0.0, self._again_at - _now()))

    # --- one life

    async def _live(self) -> None:
        self._up_at = self._again_at = None
        self._stand(Starting())
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(limits.UPSTREAM_DIAL_SECONDS):
                    connection = await stack.enter_async_context(self._upstream.dial(self._notified))
            except TimeoutError:
                raise UpstreamError(f"it was not there within {limits.UPSTREAM_DIAL_SECONDS:g} s") from None
            lost = asyncio.ensure_future(connection.lost())
            try:
                await self._serve(connection, lost)
            except FumehoodError as error:
                self._fall(str(error))  # at once: what follows takes a while
            finally:
                lost.cancel()
                self._connection = None

    async def _serve(self, connection: Connection, lost: asyncio.Future[str]) -> None:
        """Until it is lost, which is raised."""
        self._changed, self._look, self._ping = set(), False, False
        self._calls.begin_again()
        self._connection = connection
        await self._list(connection)
        while True:
            woken = asyncio.ensure_future(self._wake.wait())
            either: set[asyncio.Future[Any]] = {lost, woken}
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                woken.cancel()
            self._wake.clear()
            if not lost.done():
                await self._attend(connection, lost)
            if lost.done():
                raise UpstreamError(lost.result())

    async def _attend(self, connection: Connection, lost: asyncio.Future[str]) -> None:
        if self._ping:
            self._ping = False
            await self._prove(connection)
        if self._changed:
            wait = self._relists.failed(_now() - self._relisted, 0.0)
            await asyncio.wait({lost}, timeout=wait)
            self._relisted = _now()
            changed, self._changed = self._changed, set()
            if lost.done():
                return
            if "tools" in changed:
                await self._list(connection)
            for what in sorted(changed - {"tools"}):
                self._tell(self.name, what)
        if self._look:
            await self._judge(self._judged)

    async def _list(self, connection: Connection) -> None:
        told = self._told
        try:
            async with asyncio.timeout(limits.UPSTREAM_LIST_SECONDS):
                self._found = await listing.read(connection)
        except (TimeoutError, TimedOutError):
            words = f"its tools were not listed within {limits.UPSTREAM_LIST_SECONDS:g} s"
            raise UpstreamError(words) from None
        await self._judge(told)

    async def _prove(self, connection: Connection) -> None:
        """Whether it lives, after calls without an answer."""
        method = _ALIVE[connection.introduction.era]
        with contextlib.suppress(ServerRefusedError):
            try:
                await connection.ask(method, {}, seconds=limits.UPSTREAM_PING_SECONDS)
            except (TimedOutError, BusyError):
                words = f"it answers nothing any more, {method} neither"
                raise UpstreamError(words) from None

    # --- judging

    async def _judge(self, told: int) -> None:
        self._look = False
        found = self._found
        try:
            judgement, prepared = await self._shared.work(lambda: self._decide(found))
        except FumehoodError as error:
            judgement = guarded.Withheld(reason=f"they cannot be held against their pin: {error}")
            prepared = None
        self._judged = told
        self._up_at = _now() if self._up_at is None else self._up_at
        if isinstance(judgement, guarded.Withheld) or prepared is None:
            words = judgement.reason if isinstance(judgement, guarded.Withheld) else ""
            self._stand(Withheld(reason=words, difference=judgement.said))
        else:
            self._take(found, prepared, judgement.said)
        self._news.set()
        self._news = asyncio.Event()

    def _decide(self, found: Sequence[JsonValue]) -> tuple[Judgement, Prepared | None]:
        """In a thread: a lock and two thousand definitions take a while."""
        judgement = self._shared.pins.judge(self._upstream.who, found)
        if isinstance(judgement, guarded.Withheld):
            return judgement, None
        if self._prepared is not None and self._prepared[0] == found:
            return judgement, self._prepared[1]
        return judgement, listing.prepare(found, self._shared.controls)

    def _take(self, found: tuple[JsonValue, ...], prepared: Prepared, said: tuple[str, ...]) -> None:
        before = self.listed
        is_new = self._prepared is None or self._prepared[1] is not prepared
        self._prepared = (found, prepared)
        for line in (*said, *(prepared.said if is_new else ())):
            self._shared.say(f"fumehood: {self.name}: {line}")
        if isinstance(self._standing, Up) and before != self.listed:
            self._tell(self.name, "tools")
        if self._connection is not None:
            self._stand(Up(introduction=self._connection.introduction))

    # --- what others see

    def _stand(self, now: Standing) -> None:
        before, self._standing = self._standing, now
        if not isinstance(now, Starting):
            self.settled.set()
        if before == now:
            return
        if self._repeats.tells(now):
            for line in report.lines(self.name, self.standing, self._shown, self._repeats.more):
                self._shared.say(f"fumehood: {line}")
        if isinstance(before, Up) is not isinstance(now, Up):
            self._tell(self.name, "tools")
        self._tell(self.name, "standing")

    def _fall(self, why: str) -> None:
        """It is lost; when it is tried again."""
        now = _now()
        well = 0.0 if self._up_at is None else now - self._up_at
        self._again_at = now + self._restarts.failed(well, self._shared.chance())
        self._connection = None
        self._stand(Down(reason=why, again_seconds=self._again_at - now))
        self._news.set()  # whoever waits for a judgement
        self._news = asyncio.Event()

    def _ended(self, life: asyncio.Task[None]) -> None:
        """Say how a life ended, where nothing of it did."""
        error = None if life.cancelled() else life.exception()
        why = ""
        match error:
            case FumehoodError():
                why = str(error)
            case OSError():
                why = f"the system refused: {error.strerror or type(error).__name__}"
            case None if self._again_at is not None:
                pass
            case _:
                why = "an error of fumehood's own; the log has the traceback"
                _LOG.error("the life of an upstream server ended", exc_info=error)
        if self._again_at is not None:
            return
        if isinstance(error, RefusedError | UnsupportedError):
            self._stand(Down(reason=why))
        else:
            self._fall(why)

    def _open(self) -> Connection:
        if self._connection is None or not isinstance(self._standing, Up):
            raise report.refused(self.name, self.standing)
        return self._connection

    async def _ready(self, method: str) -> Connection:
        """The connection, once the list of tools that was last told of is judged. Errors: `UpstreamError`."""
        need = self._told
        while method == "tools/call" and self._judged < need and self._connection is not None:
            await self._news.wait()
        return self._open()

    # --- what the server says

    def _notified(self, method: str, params: JsonObject) -> None:
        del params
        what = eras.CHANGED.get(method)
        if what is None:
            return
        if what == "tools":
            self._told += 1
        self._changed.add(what)
        self._wake.set()

    def _troubled(self) -> None:
        """Calls have no answers: find out whether it lives."""
        self._ping = True
        self._wake.set()


def _now() -> float:
    return asyncio.get_running_loop().time()
