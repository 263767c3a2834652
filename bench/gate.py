"""What the gate of the gateway costs for one allowed call, without the server: `.venv/bin/python bench/gate.py`.

A server in memory answers at once, so that what is measured is ours: the decision, the record, the controls. With a log
on the disk a call that may write waits for two fsyncs; that row is the disk's.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from fumehood.content.control import Controls
from fumehood.core.clock import SystemClock
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.audit import writer
from fumehood.gateway.gate.gate import Gate
from fumehood.gateway.gate.model import EVERYTHING, Guest, Way
from fumehood.gateway.gate.passing import Parts, Passing
from fumehood.gateway.gate.recording import Audit
from fumehood.gateway.topology.model import Server, Topology
from fumehood.gateway.upstreams.model import Introduction, Listed, Standing, Up
from fumehood.wire.hosting import ReportProgress

CALLS = 2000
WRITES = 100
TOOLS = 200
SCHEMA: JsonObject = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
ANSWERS = {"4 B": "fine", "1 KB": "a word " * 150, "10 KB": "def f(x):\n    return x\n" * 420}


class Memory:
    """A server with many tools that answers at once."""

    def __init__(self) -> None:
        """All of them are the same but for their names."""
        tools: list[JsonObject] = [
            {"name": f"t{number:03d}", "description": "Reads a file.", "inputSchema": SCHEMA} for number in range(TOOLS)
        ]
        self._listed = Listed(tools=tuple(tools), shown=tuple(tools))
        self.words = ""

    @property
    def servers(self) -> tuple[str, ...]:
        """One."""
        return ("fs",)

    def standing(self, server: str) -> Standing:
        """It is up."""
        assert server == "fs"
        return Up(introduction=Introduction(era="legacy", revision="2025-11-25"))

    def listed(self, server: str) -> Listed:
        """Its tools."""
        assert server == "fs"
        return self._listed

    async def settled(self, seconds: float) -> None:
        """At once."""
        assert seconds >= 0

    async def ask(
        self, server: str, method: str, params: JsonObject, *, seconds: float, progress: ReportProgress | None = None
    ) -> JsonObject:
        """The words of the moment."""
        assert (server, method, progress) == ("fs", "tools/call", None)
        assert seconds > 0
        assert params
        return {"content": [{"type": "text", "text": self.words}], "structuredContent": {"bytes": 4}}

    def watch(self, changed: Callable[[str, str], None]) -> Callable[[], None]:
        """Nothing changes."""
        del changed
        return lambda: None


async def main() -> None:
    """Print a row for each size, without and with a log, then a list and a call that may write."""
    print(f"{'':<34}{'p50':>10}{'p99':>10}")
    for reads in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            async with writer.opened(Path(folder, "audit.jsonl"), SystemClock()) as log:
                for audit in (None, log) if reads else (log,):
                    await _measure(audit, reads=reads)


async def _measure(audit: Audit | None, *, reads: bool) -> None:
    memory = Memory()
    topology = Topology(servers={"fs": Server(command=("fs",), reads=("*",) if reads else (), egress=())})
    parts = Parts(
        topology=topology, upstreams=memory, controls=Controls(key=os.urandom(32)), clock=SystemClock(), audit=audit
    )
    gate = Gate(parts, Passing(parts))
    guest = Guest(who="uid:0", rights=EVERYTHING, run="0" * 16)
    kept = "no log" if audit is None else "a log on the disk"
    for size, words in ANSWERS.items():
        memory.words = words
        times = []
        for _ in range(CALLS if reads else WRITES):
            guest.tainted_by.clear()  # the server is not trusted, and nobody is there to be asked
            begun = time.perf_counter()
            result = await gate.call(guest, "fs__t007", {"path": "a"}, Way())
            times.append(time.perf_counter() - begun)
            assert "isError" not in result
        _print(f"{'a read' if reads else 'a write'}, {size}, {kept}", times)
    if audit is None:
        times = []
        for _ in range(WRITES):
            begun = time.perf_counter()
            gate.page(guest, None)
            times.append(time.perf_counter() - begun)
        _print(f"a list of {TOOLS} tools", times)


def _print(what: str, times: list[float]) -> None:
    cut = statistics.quantiles(times, n=100)
    print(f"{what:<34}{cut[49] * 1e3:>7.2f} ms{cut[98] * 1e3:>7.2f} ms")


if __name__ == "__main__":
    asyncio.run(main())
