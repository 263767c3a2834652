"""Code mode together: three tools, the saved ones, where programs run, and who looks at their pins.

Invariants: what `gateway.show` hides is not made, and where nothing runs a program no place for one is looked for; when
the block is left no program runs and no look goes on.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from fumehood.content.control import Controls
from fumehood.gateway.codemode import offers, place, savedtools
from fumehood.gateway.codemode.engine import Engine, Place
from fumehood.gateway.codemode.reading import DescribeTools, SearchTools
from fumehood.gateway.codemode.running import RunCode
from fumehood.gateway.codemode.savedtools import Pinned, SavedTool, Standing, Watch
from fumehood.gateway.gate.model import Calls, OwnTool
from fumehood.gateway.topology.model import SAVED, Topology

_BOTH: Final = "Each tool can be called by itself, too."


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What code mode stands on."""

    topology: Topology
    calls: Calls
    controls: Controls
    pinned: Pinned
    settled: Callable[[], Awaitable[None]]  # waits, for a bounded time, until the servers were listed
    fresh: Callable[[], str]  # 16 hex digits, each time others
    say: Callable[[str], None]  # a line of words for the operator
    changed: Callable[[], None]  # called when the list of tools is another one


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeMode:
    """The tools of ours, in the order of a list; `engine` runs programs for whoever else has any."""

    tools: tuple[OwnTool, ...]
    engine: Engine
    show: offers.Show

    @property
    def instructions(self) -> str:
        """What a client is told about it; nothing where it is hidden."""
        if self.show == "direct":
            return ""
        ways = f"{offers.SEARCH} finds tools of many servers, {offers.DESCRIBE} says how they are called, "
        ways += f"{offers.RUN} runs a program that calls them and returns what you need of their results."
        if reason := self.engine.unavailable:
            ways = f"{offers.SEARCH} and {offers.DESCRIBE} tell of the tools of many servers. "
            ways += f"{offers.RUN} is not offered here: {reason}."
        return f"{ways} {_BOTH}" if self.show == "both" else ways


@contextlib.asynccontextmanager
async def opened(parts: Parts, wanted: place.Wanted) -> AsyncIterator[CodeMode]:
    """Code mode, until the block is left. Errors: `SavedToolError`, `SettingsError`."""
    show = parts.topology.gateway.show
    loaded = await asyncio.to_thread(savedtools.load, parts.topology)
    async with contextlib.AsyncExitStack() as stack:
        where: Place = place.NOWHERE
        if loaded or show != "direct":
            where = await stack.enter_async_context(place.opened(wanted))
        engine = Engine(parts.calls, where, parts.controls, parts.fresh)
        standing = Standing()
        saved = [SavedTool(one, parts.topology, engine, standing) for one in loaded]
        three: list[OwnTool] = [
            SearchTools(parts.calls, parts.controls),
            DescribeTools(parts.calls, parts.controls),
            RunCode(engine),
        ]
        tools = [one for one in (*three, *saved) if offers.is_shown(show, one.offered)]
        watch = Watch(
            topology=parts.topology,
            loaded=loaded,
            pinned=parts.pinned,
            standing=standing,
            settled=parts.settled,
            say=parts.say,
            changed=parts.changed,
        )
        watching = asyncio.create_task(watch.keep(), name=SAVED)
        try:
            yield CodeMode(tools=tuple(tools), engine=engine, show=show)
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
