"""(e) Whole reviews of the demo server, from the request to the result, by what is asked of them.

Their linger is 0, so that nothing but work is counted. Each is an ordinary review, with every wall and sensor.
"""

import asyncio
import random
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ground
from measure import Candidate, Ran, beyond, interleaved, ratio, table

from fumehood.core.clock import SystemClock
from fumehood.core.sections import Settings
from fumehood.review import operator, request, result
from fumehood.review.folder import OutputFolder
from fumehood.review.run import Job, review
from fumehood.review.states import State
from fumehood.sandbox.hostfacts import HostFacts

PLAIN = "mcp_initialize, NONE"
CANDIDATES: Mapping[str, Mapping[str, Any]] = {
    PLAIN: {},
    "+ SINKHOLE": {"network_mode": "SINKHOLE"},
    "+ canaries": {"network_mode": "SINKHOLE", "canaries": True},
    "mcp_list": {"network_mode": "SINKHOLE", "canaries": True, "action_profile": "mcp_list"},
    "mcp_call": {"network_mode": "SINKHOLE", "canaries": True, "action_profile": "mcp_call"},
    "mcp_call, both eras": {
        "network_mode": "SINKHOLE",
        "canaries": True,
        "action_profile": "mcp_call",
        "protocol_era": "both",
    },
    "mcp_call, repeat 3": {
        "network_mode": "SINKHOLE",
        "canaries": True,
        "action_profile": "mcp_call",
        "repeat": 3,
    },
}


class Reviews:
    """Reviews of the demo server, each with a folder of its own that goes again."""

    def __init__(self, host: HostFacts, mine: Settings, place: Path) -> None:
        """Results lie below `place`."""
        self._host = host
        self._mine = mine
        self._place = place
        self._environ: Mapping[str, str] = {}

    def of(self, changes: Mapping[str, Any]) -> Candidate:
        """One kind of request."""
        return Candidate(run=lambda: self._review(changes), after=lambda: shutil.rmtree(self._place / "out"))

    def _review(self, changes: Mapping[str, Any]) -> Ran:
        fields = {
            "schema_version": 2,
            "target": {"kind": "dir", "path": ground.DEMO.name},
            "adapter": "node_stdio",
            "action_profile": "mcp_initialize",
            "network_mode": "NONE",
            "credentials": "NONE",
            "question": "what does it cost?",
            "evidence": ["process", "network", "filesystem", "protocol"],
            "entrypoint": "server.js",
            "timeout_seconds": 60,
            "linger_seconds": 0,
            "canaries": False,
            **changes,
        }
        job = Job(
            request=request.convert(fields),
            beside=ground.DEMO.parent,
            host=self._host,
            settings=self._mine,
            sources=operator.sources(self._mine, self._host, self._environ),
            clock=SystemClock(),
            chance=random.Random(),
            progress=lambda _: None,
        )
        with OutputFolder(self._place / "out") as folder:
            finished = asyncio.run(review(job, folder))
            folder.finish(result.encode(finished))
        if finished.execution.status is not State.COMPLETED:
            raise RuntimeError(f"{changes}: {finished.execution.status} {finished.errors}")
        return Ran(beyond=sum(step.cpu_seconds or 0.0 for step in finished.execution.steps))


def bench(rounds: int) -> list[str]:
    """Every kind of request, beside the least one."""
    host, mine = ground.host_and_settings()
    with tempfile.TemporaryDirectory() as place:
        reviews = Reviews(host, mine, Path(place))
        samples = interleaved({name: reviews.of(changes) for name, changes in CANDIDATES.items()}, rounds)
    table("a whole review of the demo server", samples, PLAIN)
    costs = ", ".join(f"{name} {ratio(samples, name, PLAIN, 'wall')[0]:.2f}" for name in CANDIDATES if name != PLAIN)
    sinkhole, least = beyond(samples, "+ SINKHOLE", PLAIN)
    return [
        f"whole reviews, as times of {PLAIN}: {costs}",
        f"SINKHOLE in a whole review of four sandboxes: {sinkhole * 1e3:.0f} ms more (least {least * 1e3:.0f})",
    ]
