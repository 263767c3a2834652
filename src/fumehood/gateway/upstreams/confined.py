"""A command as a server: behind the walls that `fumehood guard` puts up around one, for as long as it is kept.

Invariants: nothing is run that guard would not run, and nothing with more rights: the command is read, its policy
decided about and its walls demanded by the same code; each server has a seat of its own (`sandbox.station`), and as
root a uid; a start has a deadline; when the block is left, the whole tree is gone. Why it ended early is in the error:
its status, and none of its words, for clients and their models read it. What it says on stderr is the operator's.

In which era it is asked, and why a start may be made twice, says `eras`; the era that it answered in is remembered.

Not promised: that a server ends by itself. Its input is closed, and it has a second.
"""

import asyncio
import contextlib
import importlib.metadata
import signal
from collections.abc import AsyncIterator
from typing import Final

from fumehood.core import limits
from fumehood.core.errors import FumehoodError
from fumehood.gateway.guard import acquire, command, places, surroundings
from fumehood.gateway.guard.cell import Cell, confined
from fumehood.gateway.guard.command import Package, Plain
from fumehood.gateway.guard.installed import Installed
from fumehood.gateway.guard.surroundings import Surroundings
from fumehood.gateway.guard.voice import Voice
from fumehood.gateway.guard.walls import Ready
from fumehood.gateway.topology.model import Server
from fumehood.gateway.upstreams import envelope, eras
from fumehood.gateway.upstreams.aside import aside
from fumehood.gateway.upstreams.eras import OtherEraError
from fumehood.gateway.upstreams.ground import Ground
from fumehood.gateway.upstreams.model import Connection, Notified, UpstreamError
from fumehood.gateway.upstreams.session import Conversation, Pipes, conversation
from fumehood.sandbox.spec import End, Exit
from fumehood.sandbox.supervise import Running
from fumehood.wire.hosting import Era

_VERSION: Final = importlib.metadata.version("fumehood")


class Confined:
    """A `Dial` for one command. `name` is the server's own in gateway.toml."""

    def __init__(self, name: str, server: Server, ground: Ground) -> None:
        """Nothing is started. `server.command` is there."""
        self._name = name
        self._server = server
        self._ground = ground
        self._era: Era = "legacy"
        self._noted: frozenset[str] = frozenset()  # each note is said once, however often it starts

    @contextlib.asynccontextmanager
    async def __call__(self, notified: Notified) -> AsyncIterator[Connection]:
        """Start it. Errors: those of `guard`, of the sandbox, `UpstreamError`, `TimedOutError`."""
        wanted = await self._wanted()
        async with contextlib.AsyncExitStack() as stack:
            yield await self._either(stack, wanted, notified)

    async def _wanted(self) -> Plain | Installed:
        """What is to be run; a package is brought here first."""
        typed = command.read(self._server.command or ())
        shop = self._ground.shop
        return await aside(lambda: acquire.get(typed, shop)) if isinstance(typed, Package) else typed

    async def _either(
        self, stack: contextlib.AsyncExitStack, wanted: Plain | Installed, notified: Notified
    ) -> Conversation:
        """A conversation in the era that it answered in last, or else in the other one."""
        first = self._era
        try:
            return await stack.enter_async_context(self._started(wanted, first, notified))
        except OtherEraError:
            self._era = eras.other(first)
        try:
            return await stack.enter_async_context(self._started(wanted, self._era, notified))
        except OtherEraError as error:
            self._era = first
            raise UpstreamError(f"the server speaks neither era of MCP: {error.message}") from None

    @contextlib.asynccontextmanager
    async def _started(self, wanted: Plain | Installed, era: Era, notified: Notified) -> AsyncIterator[Conversation]:
        """One start, and one era."""
        speaks = (envelope.legacy if era == "legacy" else envelope.modern)("fumehood", _VERSION)
        with self._ground.station.run() as run:
            ready = await self._decided(wanted, run.uid)
            cell = Cell(
                ready=ready,
                host=self._ground.host,
                run=run,
                clock=self._ground.clock,
                say=self._ground.say,
                voice=Voice(f"{self._name}| ", self._name),
                world=self._ground.world,
            )
            async with confined(cell) as running, contextlib.AsyncExitStack() as stack:
                pipes = Pipes(read=running.read, write=running.write, cause=lambda: _cause(running))
                yield await stack.enter_async_context(conversation(pipes, speaks, notified))
                await stack.aclose()
                await _leave(running)

    async def _decided(self, wanted: Plain | Installed, uid: int) -> Ready:
        """Everything of it, as guard decides; what is to be said of it is said once."""
        ground, policy = self._ground, self._server.policy
        around = Surroundings(
            host=ground.host,
            settings=ground.settings,
            environ=ground.environ_for(policy.env),
            folder=self._server.folder or ground.folder,
            files=ground.files,
            uid=uid,
            spelling=places.KEYS,
        )
        ready, notes = await asyncio.to_thread(surroundings.decide, wanted, policy, around)
        for note in notes:
            if note not in self._noted:
                ground.say(f"fumehood: {self._name}: {note}")
        self._noted |= frozenset(notes)
        return ready


async def _cause(running: Running) -> str:
    """Why its output ended, once it has ended as well, or was ended."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limits.UPSTREAM_CAUSE_SECONDS):
            await running.wait()
    try:
        ended = await running.end()
    except FumehoodError as error:
        return error.message
    return f"the server {_how(ended)}"


def _how(ended: Exit) -> str:
    match ended.end:
        case End.EXITED:
            return f"ended with {ended.status}"
        case End.SIGNALLED:
            return f"was ended by {_signal(ended.signal or 0)}"
        case End.STOPPED | End.CANCELLED:
            return "closed its output"
        case _:
            return f"was ended: {ended.end.value}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


async def _leave(running: Running) -> None:
    """Close its input, and let it end by itself for a moment."""
    running.close_stdin()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limits.UPSTREAM_LEAVE_SECONDS):
            await running.wait()
