"""The whole gateway, put together: servers kept, one gate before them, tools of ours, and the host that clients reach.

Invariants: the parts are made here and nowhere else; whatever is started is ended when the block is left, the programs
first, then the servers, then the audit log; a wrong configuration is told before anything is started.
"""

import asyncio
import contextlib
import importlib.metadata
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fumehood.code import attest
from fumehood.content.control import Controls
from fumehood.core import limits
from fumehood.core.clock import Clock
from fumehood.core.errors import RefusedError
from fumehood.core.sections import Settings
from fumehood.gateway.audit import writer
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
from fumehood.gateway.upstreams import ground, keepers
from fumehood.gateway.upstreams.accepted import Who, pins_of
from fumehood.gateway.upstreams.confined import Confined
from fumehood.gateway.upstreams.ground import Ground
from fumehood.gateway.upstreams.identity import identity
from fumehood.gateway.upstreams.model import Connection, Dial, Notified, Upstreams
from fumehood.gateway.upstreams.served import ServedFolder
from fumehood.gateway.upstreams.shared import Shared, Upstream
from fumehood.gateway.upstreams.unfenced import workspace
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.relay.outside import World
from fumehood.sandbox.station import open_station


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
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
async def assembled(blueprint: Blueprint) -> AsyncIterator[Assembled]:
    """The gateway, until the block is left. No server is waited for.

    Errors: `TopologyError`, `LockError`, `AuditPlaceError`, `SavedToolError`, those of the host and of the settings.
    """
    topology = blueprint.loaded.topology
    pins = pins_of(blueprint.loaded, blueprint.clock, config=blueprint.config)
    pins.load()
    async with contextlib.AsyncExitStack() as stack:
        named = topology.gateway.audit_file or blueprint.settings.log.audit_file
        audit = await stack.enter_async_context(writer.named(named, blueprint.clock))
        dials = await asyncio.to_thread(_dials, blueprint, stack)
        shared = Shared(
            pins=pins,
            controls=blueprint.controls,
            say=blueprint.say,
            chance=random.random,
            work=asyncio.to_thread,
        )
        servers = [
            Upstream(who=Who(name=name, identity=identity(topology.servers[name], blueprint.loaded.folder)), dial=dial)
            for name, dial in dials.items()
        ]
        upstreams = await stack.enter_async_context(keepers.keeping(servers, shared))
        parts = Parts(
            topology=topology, upstreams=upstreams, controls=blueprint.controls, clock=blueprint.clock, audit=audit
        )
        passing = Passing(parts)
        gate = Gate(parts, passing)
        stack.callback(upstreams.watch(_left_out(gate, blueprint.say)))
        host = hosting.host(parts, gate, Reading(parts, passing), blueprint.uid)
        own = await stack.enter_async_context(
            mode.opened(
                mode.Parts(
                    topology=topology,
                    calls=gate,
                    controls=blueprint.controls,
                    pinned=savedtools.pinned(pins),
                    settled=partial(upstreams.settled, limits.GATEWAY_SETTLE_SECONDS),
                    fresh=hosting.fresh_run,
                    say=blueprint.say,
                    changed=host.tools_changed,
                ),
                place.Wanted(settings=blueprint.settings, trial=blueprint.trial, changed=host.tools_changed),
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


def _dials(blueprint: Blueprint, stack: contextlib.AsyncExitStack) -> dict[str, Dial]:
    """How each server is started or reached; a command also has its seat."""
    servers = {name: one for name, one in blueprint.loaded.topology.servers.items() if one.enabled}
    local = any(one.command is not None for one in servers.values())
    standing = _ground(blueprint, stack) if local else None
    return {name: _dial(name, one, blueprint, standing) for name, one in servers.items()}


def _ground(blueprint: Blueprint, stack: contextlib.AsyncExitStack) -> Ground:
    """What every command stands on."""
    topology, folder = blueprint.loaded.topology, blueprint.loaded.folder
    facts = blueprint.host()
    station = stack.enter_context(open_station(facts, ground.seats(topology)))
    return Ground(
        host=facts,
        settings=blueprint.settings,
        settings_file=blueprint.settings_file,
        environ=blueprint.environ,
        variables=ground.own_variables(topology),
        files=ground.own_files(topology, blueprint.loaded.path),
        folder=folder,
        station=station,
        shop=blueprint.shop(facts),
        clock=blueprint.clock,
        say=blueprint.say,
        world=blueprint.world,
    )


def _dial(name: str, server: Server, blueprint: Blueprint, standing: Ground | None) -> Dial:
    if server.url is not None:
        return _remote(server, blueprint)
    if server.workspace is not None:
        return _served(server.workspace, blueprint)
    if standing is None:
        raise AssertionError(name)
    return Confined(name, server, standing)


def _remote(server: Server, blueprint: Blueprint) -> Dial:
    from fumehood.gateway.upstreams.remote import dialing  # noqa: PLC0415 - brings an HTTP library

    ca_file = blueprint.settings.review.ca_file
    reach = dialing.Reach(
        folder=Path(blueprint.loaded.folder),
        environment=blueprint.environ,
        version=importlib.metadata.version("fumehood"),
        ca_file=None if ca_file is None else Path(ca_file),
        world=blueprint.world,
    )
    try:
        return dialing.remote(server, reach)
    except RefusedError as error:
        return _refusing(error)


def _refusing(error: RefusedError) -> Dial:
    """What its own entry does not allow to be reached: it is down with that reason, and no other server is."""

    def dial(notified: Notified) -> AbstractAsyncContextManager[Connection]:
        del notified
        raise error

    return dial


def _served(folder: str, blueprint: Blueprint) -> Dial:
    asked = ServedFolder(folder=Path(folder), settings_file=blueprint.settings_file, environ=blueprint.environ)
    return partial(workspace, asked)
