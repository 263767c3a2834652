"""What `bench/code.py` measures of many children: memory, what waiting costs, and how many short runs there are."""

import asyncio
import os
import statistics
from collections.abc import Mapping, Sequence

from codepeer import HELD
from codesides import Sides, once
from codeways import RUNS, WARM, Fresh, Pooled, Served
from mcpclient import below, proportional, resident
from measure import Sample, interleaved, used

from fumehood.code.pool import Pool

MANY = 48  # short runs, for how many there are in a second
AT_ONCE = (2, 4, 8)
BURST = 16  # as many as wait in the larger pool
TIMES = 4  # other work of the machine only takes away: the best of them tells most
IDLE_CHILDREN, IDLE_SECONDS = 8, 3.0
AIM_RUNS = 100


def memory(sides: Sides) -> list[str]:
    """Of what was started for one run, while it waits for a tool; and of a child that waits for a program."""
    _, said = sides.runner.run(once(Fresh(sides.ground), HELD))
    lines = [f"memory of a run, with all around it: {_held(said)}", *sides.runner.run(_idle(sides))]
    if sides.peer:
        for name, who in (("FastMCP", "fastmcp"), ("monty, new worker", "new")):
            said = sides.peer.request("run", {"who": who, "program": HELD})
            lines.append(f"memory of a run, {name}: {_held(said)}")
        lines.append(f"memory of the process with both peers: {sides.peer.resident_kib() / 1024:.0f} MiB resident")
    return lines


def _held(said: Mapping[str, float]) -> str:
    return f"{said['resident_kib'] / 1024:.0f} MiB resident, {said['proportional_kib'] / 1024:.0f} proportional"


async def _idle(sides: Sides) -> list[str]:
    """What a pool has more with children than without, and the processor time that it takes."""
    totals, spent = [], []
    for warm in (0, IDLE_CHILDREN):
        known = set(below(os.getpid()))
        async with Pool(sides.ground, runs=1, warm=warm) as pool:
            await Pooled(pool, warm).settle()
            started = set(below(os.getpid())) - known
            totals.append((sum(map(resident, started)), sum(map(proportional, started))))
            before = used()
            await asyncio.sleep(IDLE_SECONDS)
            spent.append((used() - before) / IDLE_SECONDS)
    whole, part = ((of[1] - of[0]) / IDLE_CHILDREN / 1024 for of in zip(*totals, strict=True))
    busy = (spent[1] - spent[0]) / IDLE_CHILDREN * 1e3
    return [
        f"memory of a child that waits: {whole:.0f} MiB resident, {part:.0f} proportional (beside {IDLE_CHILDREN - 1})",
        f"processor time of a child that waits: {busy:.2f} ms a second",
    ]


def many(sides: Sides, service: Served) -> list[str]:
    """Short runs a second: as long as one likes, and at once."""
    fresh = Fresh(sides.ground)
    with sides.pool(RUNS, WARM) as pool, sides.pool(BURST, BURST) as large:
        runs = {
            "new child, 4 at once": sides.several(fresh, MANY, 4),
            **{f"pool, {some} at once": sides.several(pool, MANY, some) for some in AT_ONCE},
            "service, 4 at once": sides.several(service, MANY, 4),
            **{f"bare Deno, {some} at once": sides.bare_several(MANY, some) for some in AT_ONCE[:2]},
        }
        bursts = {
            f"pool, {WARM} that wait": (sides.several(pool, WARM, WARM), WARM),
            f"pool, {BURST} that wait": (sides.several(large, BURST, BURST), BURST),
        }
        if sides.peer:
            whose = {"FastMCP execute": "fastmcp", "monty, new worker": "new", "monty, pool": "warm"}
            runs |= {f"{name}, 4 at once": sides.foreign_several(who, MANY, 4) for name, who in whose.items()}
            bursts["FastMCP execute"] = sides.foreign_several("fastmcp", BURST, BURST), BURST
        many, few = interleaved(runs, TIMES), interleaved({name: one for name, (one, _) in bursts.items()}, 2 * TIMES)
    lines = [f"runs a second, {name}: {_rate(many[name], MANY)}" for name in runs]
    lines += [f"runs a second: the aim with a pool is {AIM_RUNS}"]
    return [*lines, *(f"a burst of {size}, {name}: {_burst(few[name], size)}" for name, (_, size) in bursts.items())]


def _rate(samples: Sequence[Sample], runs: int) -> str:
    walls = [one.wall for one in samples]
    median, best = runs / statistics.median(walls), runs / min(walls)
    return f"{median:.0f} (most {best:.0f}), CPU {min(one.cpu for one in samples) / runs * 1e3:.1f} ms each"


def _burst(samples: Sequence[Sample], size: int) -> str:
    walls = [one.wall for one in samples]
    median, best = statistics.median(walls), min(walls)
    return f"{median * 1e3:.0f} ms (least {best * 1e3:.0f}), as {size / median:.0f} a second (most {size / best:.0f})"
