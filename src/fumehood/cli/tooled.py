"""Run one program with the tools of a gateway: its servers are started for it, and its calls pass the one gate.

Invariants: the program has the rights of who comes without a token (`gateway.local_role`), and nothing of a server
beyond that; a call that needs a person's word asks the person at the terminal, and is refused where nobody sits there;
saved tools, and tools for clients, are not made.
"""

import contextlib
import os
import secrets
from dataclasses import replace
from pathlib import Path

import msgspec

from fumehood.cli import approving, gatewaying
from fumehood.cli.coding import Asked, RunJob
from fumehood.code.job import Job, JobLimits, JobResult
from fumehood.core import limits
from fumehood.core.errors import RefusedError
from fumehood.core.sections import Settings
from fumehood.gateway import run as gateway
from fumehood.gateway.audit import calls
from fumehood.gateway.codemode.inner import Inner
from fumehood.gateway.gate import scopes
from fumehood.gateway.gate.model import Calls, Guest, Rights, Way
from fumehood.gateway.gate.scopes import Granted, Nothing
from fumehood.gateway.topology import load
from fumehood.gateway.topology.load import Loaded
from fumehood.gateway.topology.model import Gateway, Topology
from fumehood.wire.published import LOCAL


class NoRoleError(RefusedError):
    """Who runs the program may use nothing of this gateway."""

    code = "no_role"


async def run(asked: Asked, config: Path, run_job: RunJob, settings: Settings) -> JobResult:
    """What came of it. Errors: those of `gateway.run.assembled`, `NoRoleError`."""
    loaded = _bare(load.load(config))
    rights_of(loaded.topology)  # before anything is started
    blueprint = gatewaying.blueprint(loaded, str(config), settings)
    async with gateway.assembled(blueprint) as assembled:
        await assembled.upstreams.settled(limits.GATEWAY_SETTLE_SECONDS)
        return await perform(asked, loaded.topology, assembled.gate, run_job)


async def perform(asked: Asked, topology: Topology, gate: Calls, run_job: RunJob) -> JobResult:
    """Run it with every tool that its user may use."""
    guest = Guest(who=calls.user(os.getuid()), rights=rights_of(topology), run=secrets.token_hex(8), program=True)
    every = gate.offered(guest)[: limits.CODE_TOOLS]
    way = Way(ask=approving.ask if approving.at_terminal() else None)
    seconds = limits.CODE_WALL_SECONDS if way.ask is None else limits.CODE_WALL_SECONDS_MAX
    job = Job(
        code=asked.program,
        input=asked.value,
        tools=tuple(one.name for one in every),
        limits=JobLimits(wall_seconds=seconds),
    )
    with contextlib.closing(Inner(gate, guest, every, way)) as inner:
        return await run_job(job, inner)


def rights_of(topology: Topology) -> Rights:
    """What the user of this process may use. Errors: `NoRoleError`."""
    match scopes.decide(topology, LOCAL):
        case Granted(rights=rights):
            return rights
        case Nothing(reason=reason):
            raise NoRoleError(f"the program may call nothing: {reason}", remedy="name a role in gateway.local_role")


def _bare(loaded: Loaded) -> Loaded:
    """The same servers and roles, without what is for clients."""
    plain: Gateway = msgspec.structs.replace(loaded.topology.gateway, show="direct")
    return replace(loaded, topology=msgspec.structs.replace(loaded.topology, gateway=plain, tools={}))
