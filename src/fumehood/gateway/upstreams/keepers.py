"""Every server of a topology, each kept by a task of its own: the `Upstreams` of the gateway.

Invariants: no server waits for another, neither at the start nor at the end; `fumehood.lock` is looked at once in
LOCK_LOOK_SECONDS, and every server is judged again when it is another one; when the block is left every server was
told to end, all at once, and within UPSTREAM_STOP_SECONDS it returns.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from fumehood.core import limits
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.upstreams.calls import Call
from fumehood.gateway.upstreams.keeper import Keeper
from fumehood.gateway.upstreams.model import Listed, Standing
from fumehood.gateway.upstreams.shared import Shared, Upstream
from fumehood.wire.hosting import ReportProgress

Watcher = Callable[[str, str], None]
_LOG: Final = logging.getLogger(__name__)
_LEFT: Final = "fumehood: not ended in time:"


class Keepers:
    """Implements `Upstreams`. Made by `keeping`."""

    def __init__(self, servers: Sequence[Upstream], shared: Shared) -> None:
        """Nothing is started."""
        self._watchers: list[Watcher] = []
        made = sorted((Keeper(one, shared, self._tell) for one in servers), key=lambda keeper: keeper.name)
        self._keepers = {keeper.name: keeper for keeper in made}
        self._shared = shared
        self._began = 0.0  # when they were started

    @property
    def servers(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(self._keepers)

    def standing(self, server: str) -> Standing:
        """How one stands. `KeyError` for none of ours."""
        return self._keepers[server].standing

    def listed(self, server: str) -> Listed:
        """The tools of one; none where it is not `Up`."""
        return self._keepers[server].listed

    async def settled(self, seconds: float) -> None:
        """Wait until no server is starting for the first time, or until so long after they were started."""
        starting = [keeper for keeper in self._keepers.values() if not keeper.settled.is_set()]
        if not starting:  # asked before every request
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._began + seconds):
                for keeper in starting:
                    await keeper.settled.wait()

    async def ask(
        self, server: str, method: str, params: JsonObject, *, seconds: float, progress: ReportProgress | None = None
    ) -> JsonObject:
        """One request. Errors as `Connection.ask`, and `UpstreamError` at once where the server is not `Up`."""
        call = Call(method=method, params=params, seconds=seconds, progress=progress)
        return await self._keepers[server].ask(call)

    def watch(self, changed: Watcher) -> Callable[[], None]:
        """Have `changed(server, what)` called; what is returned ends that."""
        self._watchers.append(changed)

        def end() -> None:
            with contextlib.suppress(ValueError):
                self._watchers.remove(changed)

        return end

    def tasks(self) -> list[asyncio.Task[None]]:
        """A task for each server, which is its owner's to end, and one that looks at the lock."""
        self._began = asyncio.get_running_loop().time()
        made = [asyncio.create_task(keeper.run(), name=name) for name, keeper in self._keepers.items()]
        made.append(asyncio.create_task(self._look(), name="fumehood.lock"))
        for task in made:
            task.add_done_callback(_logged)
        return made

    async def _look(self) -> None:
        seen = self._shared.pins.stamp()
        while True:
            await asyncio.sleep(limits.LOCK_LOOK_SECONDS)
            now = await self._shared.work(self._shared.pins.stamp)
            if now != seen:
                seen = now
                for keeper in self._keepers.values():
                    keeper.look_again()

    def _tell(self, server: str, what: str) -> None:
        for watcher in [*self._watchers]:
            watcher(server, what)


def _logged(task: asyncio.Task[None]) -> None:
    """Nothing is raised there but what is a fault of ours."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.error("the task of an upstream server ended", exc_info=error)


@contextlib.asynccontextmanager
async def keeping(servers: Sequence[Upstream], shared: Shared) -> AsyncIterator[Keepers]:
    """Start every server; none is waited for. Leaving ends them all."""
    keepers = Keepers(servers, shared)
    tasks = keepers.tasks()
    try:
        yield keepers
    finally:
        for task in tasks:
            task.cancel()
        _, left = await asyncio.wait(tasks, timeout=limits.UPSTREAM_STOP_SECONDS)
        for task in sorted(left, key=lambda task: task.get_name()):
            shared.say(f"{_LEFT} {task.get_name()}")
