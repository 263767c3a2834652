"""Servers behind walls as the gateway keeps them: a ground in this process, over a hall's servers."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from e2e.bench import NOWHERE
from e2e.guarded import PYTHON, Hall
from fumehood.core.clock import SystemClock
from fumehood.core.sections import Settings
from fumehood.gateway.guard.acquire import Shop
from fumehood.gateway.guard.policy import GuardPolicy
from fumehood.gateway.topology.model import Server
from fumehood.gateway.upstreams.confined import Confined
from fumehood.gateway.upstreams.ground import Ground
from fumehood.gateway.upstreams.model import Connection
from fumehood.review.operator import Sources
from fumehood.review.plan import Remote
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.station import Station


@dataclass(kw_only=True)
class Grounded:
    """A hall, and what is said in it."""

    hall: Hall
    ground: Ground
    said: list[str]
    told: list[tuple[str, Any]] = field(default_factory=list)

    def dial(self, *words: str, name: str = "one", folder: str | None = None, **policy: Any) -> Confined:
        """The fixture server, so called."""
        allowed = GuardPolicy(**{"allow_read": (self.hall.server,), **policy})
        server = Server(command=(PYTHON, self.hall.server, *words), policy=allowed, folder=folder)
        return Confined(name, server, self.ground)

    def over(self, **changes: Any) -> "Grounded":
        """The same on another ground."""
        return replace(self, ground=replace(self.ground, **changes))

    def used(self, dial: Confined, work: Callable[[Connection], Awaitable[Any]]) -> Any:
        """What work gives with one server, within a minute."""

        async def go() -> Any:
            async with asyncio.timeout(60), dial(lambda *one: self.told.append(one)) as made:
                return await work(made)

        return asyncio.run(go())

    def pids(self) -> list[int]:
        """The servers of this hall that run, by the interpreter's own process."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0] == PYTHON.encode() and self.hall.server.encode() in words:
                found.append(int(path.parent.name))
        return found


async def attempt(made: Connection, what: str, argument: str = "") -> str:
    """What the server says of one attempt."""
    asked: Any = {"name": "attempt", "arguments": {"what": what, "argument": argument}}
    result: Any = await made.ask("tools/call", asked, seconds=60)
    return str(result["structuredContent"]["text"])


def ground(hall: Hall, host: HostFacts, station: Station, said: list[str], environ: Mapping[str, str]) -> Ground:
    """A ground without a registry."""
    sources = Sources(registry=Remote.parse(NOWHERE), forge=Remote.parse(NOWHERE), ca_file=None)
    settings = Settings()
    clock = SystemClock()
    shop = Shop(
        cache=hall.place / "cache" / "fumehood" / "packages",
        host=host,
        settings=settings,
        sources=lambda: sources,
        clock=clock,
        say=said.append,
    )
    return Ground(
        host=host,
        settings=settings,
        settings_file=None,
        environ={"HOME": str(hall.place / "home"), "PATH": os.defpath, **environ},
        variables=frozenset({"OWN_TOKEN"}),
        files=(str(hall.place / "gateway.toml"),),
        folder="/",
        station=station,
        shop=shop,
        clock=clock,
        say=said.append,
    )
