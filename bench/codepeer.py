"""FastMCP's CodeMode and `pydantic-monty` in one process, each asked to run a program: the peers of `bench/code.py`.

It speaks as little JSON-RPC as `mcpclient.Client` needs, and measures itself: what its client costs is in no figure.
The packages are looked up by name, for they are in a folder of the benchmark's own and no dependency of fumehood.
"""

import asyncio
import contextlib
import importlib
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from mcpclient import below, proportional, resident

ONE, SEQUENCE, PARALLEL, WAITING, HELD = "one", "sequence", "parallel", "waiting", "held"
CALLS = 50
WAIT_SECONDS = 0.01
_CALL = "await call_tool('{}', {{'value': 1}})\n"
_GATHER = "import asyncio\nawait asyncio.gather(*[call_tool('{}', {{'value': i}}) for i in range({})])\n"
_MARK = _CALL.format("echo")
PROGRAMS = {
    ONE: "",
    SEQUENCE: f"for i in range({CALLS + 1}):\n    {_MARK}",
    PARALLEL: _MARK + _GATHER.format("echo", CALLS) + _MARK,
    WAITING: _GATHER.format("wait", CALLS),
    HELD: _CALL.format("measure"),
}


class Tools:
    """What programs call, and when they did."""

    def __init__(self) -> None:
        """Nothing was called."""
        self.times: list[float] = []
        self.resident_kib = self.proportional_kib = 0
        self._known: set[int] = set()

    def begin(self, program: str) -> None:
        """Forget the run before."""
        self.times.clear()
        self._known = set(below(os.getpid())) if program == HELD else set()

    async def echo(self, value: int) -> dict[str, int]:
        """Give back what it is given."""
        self.times.append(time.perf_counter())
        return {"value": value}

    async def wait(self, value: int) -> dict[str, int]:
        """The same a little later, as a tool that does something."""
        await asyncio.sleep(WAIT_SECONDS)
        return {"value": value}

    async def measure(self, value: int) -> dict[str, int]:
        """Look at the memory of what was started for this run."""
        started = set(below(os.getpid())) - self._known
        self.resident_kib = sum(resident(pid) for pid in started)
        self.proportional_kib = sum(proportional(pid) for pid in started)
        return {"value": value}

    async def call(self, name: str, value: int) -> dict[str, int]:
        """One of them by its name."""
        named = {"echo": self.echo, "wait": self.wait, "measure": self.measure}
        return await named[name](value)

    def said(self, wall: float) -> dict[str, float]:
        """What a run came to; `span` is from the first call to the last, in seconds."""
        span = self.times[-1] - self.times[0] if self.times else 0.0
        memory = {"resident_kib": self.resident_kib, "proportional_kib": self.proportional_kib}
        return {"wall": wall, "span": span, "calls": len(self.times), **memory}


async def main() -> None:
    """Answer until stdin ends."""
    fastmcp, monty = importlib.import_module("fastmcp"), importlib.import_module("pydantic_monty")
    mode = importlib.import_module("fastmcp.experimental.transforms.code_mode")
    tools = Tools()
    server = fastmcp.FastMCP("bench", transforms=[mode.CodeMode(max_tool_calls=None)])
    for tool in (tools.echo, tools.wait, tools.measure):
        server.tool(tool)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(fastmcp.Client(server))
        warm = await stack.enter_async_context(monty.AsyncMonty())

        async def call_tool(name: str, arguments: dict[str, int]) -> dict[str, int]:
            return await tools.call(name, arguments["value"])

        async def by_fastmcp(program: str) -> None:
            await client.call_tool("execute", {"code": f"{program}return 1"})

        async def by_warm(program: str, pool: Any = warm) -> None:  # noqa: ANN401 - typed only where it is installed
            async with pool.checkout() as session:
                if await session.feed_run(f"{program}1", external_lookup={"call_tool": call_tool}) != 1:
                    raise RuntimeError("a program gave something else")

        async def by_new(program: str) -> None:
            async with monty.AsyncMonty() as pool:
                await by_warm(program, pool)

        ways = {"fastmcp": by_fastmcp, "warm": by_warm, "new": by_new}
        for line in iter(sys.stdin.readline, ""):  # nothing else is to be done meanwhile
            message = json.loads(line)
            asked = message["params"]
            way, program = ways[asked["who"]], PROGRAMS[asked["program"]]
            tools.begin(asked["program"])
            begun = time.perf_counter()
            if message["method"] == "many":
                await _many(way, program, asked["runs"], asked["at_once"])
            else:
                await way(program)
            said = tools.said(time.perf_counter() - begun)
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": said}) + "\n")
            sys.stdout.flush()


async def _many(way: Callable[[str], Awaitable[None]], program: str, runs: int, at_once: int) -> None:
    gate = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with gate:
            await way(program)

    await asyncio.gather(*(one() for _ in range(runs)))


if __name__ == "__main__":
    asyncio.run(main())
