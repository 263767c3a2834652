"""What SINKHOLE adds to the launch of a sandbox, until /bin/true has run: beside the same sandbox in NONE."""

import asyncio
import dataclasses

import ground
from launching import Ladder
from measure import Candidate, beyond, interleaved, table

from fumehood.sandbox.egress import Mode, Policy

AIM_MS = 200
PEER, SINKHOLE, OPEN = "NONE", "SINKHOLE", "OPEN"


def bench(rounds: int) -> list[str]:
    """Print the table; what the aim says of it."""
    host, mine = ground.host_and_settings()
    with ground.opened(host, mine, registry=False) as work, asyncio.Runner() as runner:
        ladder = Ladder(work, runner)
        samples = interleaved({name: _in(ladder, Mode(name)) for name in (PEER, SINKHOLE, OPEN)}, rounds)
    table(f"Launch in each network mode (route {host.routes[0].value})", samples, PEER, wall="has run")
    median, least = beyond(samples, SINKHOLE, PEER)
    whole = min(one.wall for one in samples[SINKHOLE])
    more = f"{median * 1e3:.1f} ms (least {least * 1e3:.1f}) more than in NONE"
    return [f"sinkhole: {more}, {whole * 1e3:.1f} ms at the least for the whole launch; aim: {AIM_MS}"]


def _in(ladder: Ladder, mode: Mode) -> Candidate:
    spec = dataclasses.replace(ladder.spec, network=Policy(mode=mode))
    return ladder.observed(spec)
