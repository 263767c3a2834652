"""Runs of programs behind every wall, beside a bare Deno, `pydantic-monty` and FastMCP's CodeMode, interleaved.

In a child that is started for the run, in one that waited in a pool, and at a runner through its WebSocket. The tools
are fake and answer at once; a peer is asked from inside its own process, as fumehood is here, the runner excepted.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import codemany
import ground
import peers
from codepeer import CALLS, ONE, PARALLEL, SEQUENCE, WAITING
from codesides import Sides
from codeways import RUNS, WARM, Fresh, Pooled, Served, service
from mcpclient import Client
from measure import Samples, beside, interleaved, is_counted, machine, ratio

from fumehood.code.run import prepare
from fumehood.sandbox.probe import runtime

NEW, POOL, SERVICE = "fumehood, new child", "fumehood, pool", "fumehood, service"
NEW_GATED, POOL_GATED, SERVICE_GATED = "new child, gate", "pool, gate", "service, gate"
BARE, UNWALLED = "bare Deno", "same flags, no walls"
FASTMCP, WORKER, WORKERS = "FastMCP execute", "monty, new worker", "monty, pool"
AIM_COLD, AIM_CALL = 1.3, 5


@dataclass(frozen=True, slots=True)
class Ways:
    """Those of fumehood."""

    new: Fresh
    pool: Pooled
    service: Served


def main() -> int:
    """Measure; 1 when nothing can be run here."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rounds", type=int, default=15)
    rounds = asked.parse_args().rounds
    print(f"fumehood code beside its peers: {machine()}, Python {sys.version.split()[0]}")
    host, mine = ground.host_and_settings()
    found = runtime.find(mine.sandbox.tools)
    if found.runtime is None or not host.routes:
        print(f"nothing can be run here: {found.problem or 'no route to a sandbox'}")
        return 1
    print(f"route {host.routes[0]}, pool of {WARM} for {RUNS} runs at once, Deno {found.runtime.tool.version}")
    if not is_counted():
        print("no cgroup counts the processor time: that of sandboxes is too low below")
    with asyncio.Runner() as runner, contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fumehood-bench-")))
        sides = Sides(runner, prepare(host, found.runtime), folder, stack.enter_context(_peer()))
        lines = []
        with service(folder, host.run_root) as begun:
            lines.append(f"the runner's start with its self test: {begun.seconds:.1f} s")
        lines += codemany.memory(sides)  # nobody else has children yet
        begun = stack.enter_context(service(folder, host.run_root))
        lines.append(f"the runner's start with a record of it: {begun.seconds:.2f} s")
        with sides.pool(RUNS, WARM) as pool:
            ways = Ways(Fresh(sides.ground), pool, begun.way)
            lines += [*_whole(sides, ways, rounds), *_calls(sides, ways, rounds), *_fan(sides, ways, rounds)]
        lines += codemany.many(sides, begun.way)
    print("\nBeside the aims: medians, and the least of each")
    for line in lines:
        print(f"  {line}")
    print(f"load at the end: {os.getloadavg()[0]:.1f}")
    return 0


@contextlib.contextmanager
def _peer() -> Iterator[Client | None]:
    """A process with FastMCP and `pydantic-monty`; None, with one line, where they cannot be had."""
    with contextlib.ExitStack() as stack:
        client = None
        try:
            client = _started(peers.fetched_code(), stack)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            print(f"FastMCP and pydantic-monty are left out: {error}")
        yield client


def _started(library: Path, stack: contextlib.ExitStack) -> Client:
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(library),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MONTY_BIN": str(library / "bin" / "monty"),
    }
    script = str(Path(__file__).with_name("codepeer.py"))
    client = Client(peers.as_ordinary_user([sys.executable, script]), environment=environment)
    stack.callback(client.close)
    client.request("run", {"who": "fastmcp", "program": ONE})
    kept = {one.metadata["Name"].lower(): one.version for one in metadata.distributions(path=[str(library)])}
    print("peers: " + ", ".join(f"{name} {kept[name]}" for name in ("fastmcp", "pydantic-monty") if name in kept))
    return client


def _whole(sides: Sides, ways: Ways, rounds: int) -> list[str]:
    """From nothing, or from a child that waits, to the value of `return 1`."""
    candidates = {
        NEW: sides.ours(ways.new, ONE),
        POOL: sides.ours(ways.pool, ONE),
        SERVICE: sides.ours(ways.service, ONE),
        BARE: sides.bare(),
        UNWALLED: sides.unwalled(),
        **sides.foreigners({FASTMCP: "fastmcp", WORKER: "new", WORKERS: "warm"}, ONE),
    }
    samples = interleaved(candidates, rounds)
    beside("return 1 (the CPU of a pool's run is with the start of the next child)", samples, NEW)
    lines = [
        f"cold: {_times(samples, NEW, BARE)} (aim: at most {AIM_COLD})",
        f"cold: {_times(samples, NEW, UNWALLED)}",
    ]
    if sides.peer:
        lines += [
            f"pre-warmed: {_times(samples, POOL, FASTMCP)} (aim: below 1)",
            f"pre-warmed: {_times(samples, SERVICE, FASTMCP)}",
            f"pre-warmed: {_times(samples, POOL, WORKERS)}",
        ]
    return lines


def _calls(sides: Sides, ways: Ways, rounds: int) -> list[str]:
    """One call of a tool that answers at once."""
    said = []
    for title, program in (("in sequence", SEQUENCE), (f"{CALLS} in parallel", PARALLEL)):
        candidates = {
            NEW: sides.ours(ways.new, program, span=True),
            NEW_GATED: sides.ours(ways.new, program, gated=True, span=True),
            POOL_GATED: sides.ours(ways.pool, program, gated=True, span=True),
            SERVICE_GATED: sides.ours(ways.service, program, gated=True, span=True),
            **sides.foreigners({FASTMCP: "fastmcp", WORKERS: "warm"}, program, span=True),
        }
        samples = interleaved(candidates, rounds)
        beside(f"one call, {title} (the CPU is that of the whole run)", samples, NEW_GATED)
        if sides.peer:
            said += [_slower(title, samples, ours) for ours in (NEW, NEW_GATED, POOL_GATED, SERVICE_GATED)]
    return said


def _fan(sides: Sides, ways: Ways, rounds: int) -> list[str]:
    """Whole runs with tools that take a while."""
    candidates = {
        NEW_GATED: sides.ours(ways.new, WAITING, gated=True),
        POOL_GATED: sides.ours(ways.pool, WAITING, gated=True),
        SERVICE_GATED: sides.ours(ways.service, WAITING, gated=True),
        **sides.foreigners({FASTMCP: "fastmcp", WORKERS: "warm"}, WAITING),
    }
    samples = interleaved(candidates, rounds)
    beside(f"a whole run: {CALLS} calls at once of a tool that takes 10 ms", samples, POOL_GATED)
    return [f"fan-out: {_times(samples, POOL_GATED, peer)}" for peer in samples if peer in {FASTMCP, WORKERS}]


def _slower(title: str, samples: Samples, ours: str) -> str:
    median, least = ratio(samples, FASTMCP, ours, "wall")
    mine, theirs = (
        [kind(one.wall for one in samples[name]) * 1e6 for kind in (statistics.median, min)] for name in (ours, FASTMCP)
    )
    took = f"{mine[0]:.0f} us (least {mine[1]:.0f}), FastMCP {theirs[0]:.0f} ({theirs[1]:.0f})"
    return f"call {title}, {ours}: {took}: {median:.1f} (least {least:.1f}) x less (aim: at least {AIM_CALL})"


def _times(samples: Samples, ours: str, peer: str) -> str:
    median, least = ratio(samples, ours, peer, "wall")
    return f"{ours}: {median:.2f} (least {least:.2f}) x {peer}"


if __name__ == "__main__":
    sys.exit(main())
