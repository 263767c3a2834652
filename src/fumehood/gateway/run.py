"""The whole gateway, put together: servers kept, one gate before them, tools of ours, and the host that clients reach.

Invariants: the parts are made here and nowhere else; whatever is started is ended when the block is left, the programs
first, then the servers, then the audit log; a wrong configuration is told before anything is started.
"""

import asyncio
import contextlib
import importlib.metadata
import random
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fumehood.code import attest
from fumehood.content.control import Controls
from fumehood.core import limits
from fumehood.core.clock import Clock
from fumehood.core.sections import Settings
from fumehood.gateway.audit import writer
from fumehood.gateway.audit.writer import AuditLog
from fumehood.gateway.codemode import mode, place, savedtools
from fumehood.gateway.codemode.mode import CodeMode
from fumehood.gateway.gate import host as hosting
from fumehood.gateway.gate.gate import Gate
from fumehood.gateway.gate.host import GatewayHost
from fumehood.gateway.gate.passing import Parts, Passing
from fumehood.gateway.gate.reading import Reading
from fumehood.gateway.guard.acquire import Shop
from fumehood.gateway.topology.load import Loaded
from fumehood.gateway.topology.model import Server
from fumehood.gateway.upstreams import ground, keeping
from fumehood.gateway.upstreams.confined import Confined
from fumehood.gateway.upstreams.ground import Ground
from fumehood.gateway.upstreams.identity import identity
from fumehood.gateway.upstreams.keeper import Around, Kept
from fumehood.gateway.upstreams.kept import Who, pins_of
from fumehood.gateway.upstreams.model import Dial, Upstreams
from fumehood.gateway.upstreams.served import ServedFolder
from fumehood.gateway.upstreams.unfenced import workspace
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.relay.outside import World
from fumehood.sandbox.station import open_station


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a gateway is made of: the file, and everything of this process that it goes by."""

    loaded: Loaded
    config: str  # how the file was named
    settings: Settings
    settings_file: Path | None
    environ: Mapping[str, str]
    host: Callable[[], HostFacts]  # asked only where a command is to be confined. Errors: `UnsupportedError`
    shop: Callable[[HostFacts], Shop]
    controls: Controls
    trial: attest.Wanted  # where the record of the self test of programs lies
    uid: int
    clock: Clock
    say: Callable[[str], None]  # a line of words for the operator; it waits for nobody
    world: World = World()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """A gateway that runs."""

    host: GatewayHost
    gate: Gate
    upstreams: Upstreams
    mode: CodeMode


@contextlib.asynccontextmanager
async def assembled(wanted: Wanted) -> AsyncIterator[Assembled]:
    """The gateway, until the block is left. No server is waited for.

    Errors: `TopologyError`, `LockError`, `AuditPlaceError`, `SavedToolError`, those of the host and of the settings.
    """
    topology = wanted.loaded.topology
    pins = pins_of(wanted.loaded, wanted.clock, config=wanted.config)
    pins.check()
    async with contextlib.AsyncExitStack() as stack:
        audit = await stack.enter_async_context(_audit(wanted))
        dials = await asyncio.to_thread(_dials, wanted, stack)
        around = Around(
            pins=pins,
            controls=wanted.controls,
            say=wanted.say,
            chance=random.random,
            work=asyncio.to_thread,
        )
        kept = [
            Kept(who=Who(name=name, identity=identity(topology.servers[name], wanted.loaded.folder)), dial=dial)
            for name, dial in dials.items()
        ]
        upstreams = await stack.enter_async_context(keeping.keeping(kept, around))
        parts = Parts(topology=topology, upstreams=upstreams, controls=wanted.controls, clock=wanted.clock, audit=audit)
        passing = Passing(parts)
        gate = Gate(parts, passing)
        stack.callback(upstreams.watch(_left_out(gate, wanted.say)))
        host = hosting.host(parts, gate, Reading(parts, passing), wanted.uid)
        lock_file = Path(topology.gateway.lock_file or Path(wanted.loaded.folder) / "fumehood.lock")
        own = await stack.enter_async_context(
            mode.opened(
                mode.Parts(
                    topology=topology,
                    calls=gate,
                    controls=wanted.controls,
                    pinned=savedtools.pinned(pins, lock_file),
                    settled=partial(upstreams.settled, limits.GATEWAY_SETTLE_SECONDS),
                    fresh=hosting.run,
                    say=wanted.say,
                    changed=host.tools_changed,
                ),
                place.Wanted(settings=wanted.settings, trial=wanted.trial, changed=host.tools_changed),
            )
        )
        gate.furnish(own.tools)
        host.introduce(lambda: own.instructions)
        yield Assembled(host=host, gate=gate, upstreams=upstreams, mode=own)


def _left_out(gate: Gate, say: Callable[[str], None]) -> Callable[[str, str], None]:
    """Tell the operator, once, which tools are left out of the catalogue and why."""
    told: set[str] = set()

    def changed(server: str, what: str) -> None:
        del server, what
        for line in gate.said:
            if line not in told and len(told) < limits.GUARD_SAID:
                told.add(line)
                say(f"fumehood: {line}")

    return changed


@contextlib.asynccontextmanager
async def _audit(wanted: Wanted) -> AsyncIterator[AuditLog | None]:
    """The log that the topology names, else that of the settings, if any."""
    named = wanted.loaded.topology.gateway.audit_file or wanted.settings.log.audit_file
    if named is None:
        yield None
        return
    async with writer.opened(Path(named), wanted.clock) as log:
        yield log


def _dials(wanted: Wanted, stack: contextlib.AsyncExitStack) -> dict[str, Dial]:
    """How each server is started or reached; a command also has its seat."""
    servers = {name: one for name, one in wanted.loaded.topology.servers.items() if one.enabled}
    local = any(one.command is not None for one in servers.values())
    standing = _ground(wanted, stack) if local else None
    return {name: _dial(name, one, wanted, standing) for name, one in servers.items()}


def _ground(wanted: Wanted, stack: contextlib.AsyncExitStack) -> Ground:
    """What every command stands on."""
    topology, folder = wanted.loaded.topology, wanted.loaded.folder
    facts = wanted.host()
    station = stack.enter_context(open_station(facts, ground.seats(topology)))
    return Ground(
        host=facts,
        settings=wanted.settings,
        settings_file=wanted.settings_file,
        environ=wanted.environ,
        variables=ground.own_variables(topology),
        files=ground.own_files(topology, wanted.loaded.path),
        folder=folder,
        station=station,
        shop=wanted.shop(facts),
        clock=wanted.clock,
        say=wanted.say,
        world=wanted.world,
    )


def _dial(name: str, server: Server, wanted: Wanted, standing: Ground | None) -> Dial:
    if server.url is not None:
        return _remote(server, wanted)
    if server.workspace is not None:
        return _served(server.workspace, wanted)
    if standing is None:
        raise AssertionError(name)
    return Confined(name, server, standing)


def _remote(server: Server, wanted: Wanted) -> Dial:
    from fumehood.gateway.upstreams.remote import dialing  # noqa: PLC0415 - brings an HTTP library

    ca_file = wanted.settings.review.ca_file
    around = dialing.Surroundings(
        folder=Path(wanted.loaded.folder),
        environment=wanted.environ,
        version=importlib.metadata.version("fumehood"),
        ca_file=None if ca_file is None else Path(ca_file),
        world=wanted.world,
    )
    return dialing.remote(server, around)


def _served(folder: str, wanted: Wanted) -> Dial:
    asked = ServedFolder(folder=Path(folder), settings_file=wanted.settings_file, environ=wanted.environ)
    return partial(workspace, asked)
