"""`make bench-gateway`: calls through the gateway beside the server alone and FastMCP's proxy, interleaved in one run.

Added latency is that of a call through somebody less that of the same call of the server alone, over stdio; each side
keeps its server running. Then a hundred clients at once over HTTP, memory, and how many bytes of descriptions a model
is given for 200 tools. The gateway has its defaults: walls, pins and content controls are on; no audit log is named.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import gatewaysides as sides
import mcphttp
import peers
from gatewaysides import Asked, Listening, Server
from mcpclient import Client, below, proportional
from measure import machine

ALONE, PROXY, PROXY_HTTP = "alone, stdio", "FastMCP proxy, stdio", "FastMCP proxy, HTTP"
OURS, OURS_HTTP = "gateway, stdio", "gateway, HTTP"
CALLS, CLIENTS, EACH, TOOLS, COPIES = 50, 100, 20, 200, 5
AIM_MILLISECONDS, AIM_RATIO, AIM_BYTES = 3.0, 5.0, 20.0


def main() -> int:
    """Measure; 1 when a peer is missing."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rounds", type=int, default=20)
    rounds = asked.parse_args().rounds
    print(f"fumehood gateway beside its peers: {machine()}, Python {sys.version.split()[0]}")
    lines: list[str] = []
    whole = True
    with tempfile.TemporaryDirectory(prefix="fumehood-bench-") as place, asyncio.Runner() as runner:
        folder = Path(place)
        servers = [sides.plain()]
        try:
            servers.insert(0, sides.everything())
            peers.fetched_code()
        except (OSError, subprocess.SubprocessError) as error:
            print(f"a peer is left out: {error}")
            whole = False
        for server in servers:
            lines += latencies(folder, server, runner, rounds, peer=whole)
        lines += crowds(folder, servers[0], runner, peer=whole)
        lines += memory(folder, servers[0])
        lines += described(folder)
    print("\nBeside the aims")
    for line in lines:
        print(f"  {line}")
    print(f"load at the end: {os.getloadavg()[0]:.1f}")
    return 0 if whole else 1


def latencies(folder: Path, server: Server, runner: asyncio.Runner, rounds: int, *, peer: bool) -> list[str]:
    """One call after the other through each side, in turns."""
    with contextlib.ExitStack() as stack:
        ways: dict[str, Asked] = {ALONE: stack.enter_context(sides.alone(server))}
        ways[OURS] = stack.enter_context(sides.gateway(folder, server))
        listening = stack.enter_context(sides.gateway_http(folder, server))
        ways[OURS_HTTP] = stack.enter_context(sides.asking(listening, runner))
        if peer:
            ways[PROXY] = stack.enter_context(sides.proxied(server))
            listening = stack.enter_context(sides.proxied_http(server))
            ways[PROXY_HTTP] = stack.enter_context(sides.asking(listening, runner))
        times = _in_turns(ways, rounds)
    _table(f"one `echo` of {server.name}", times, rounds)
    base = statistics.median(times[ALONE])
    said = []
    for ours, theirs in ((OURS, PROXY), (OURS_HTTP, PROXY_HTTP)):
        added = statistics.median(times[ours]) - base
        words = f"{server.name}: {ours} adds {added * 1e3:.2f} ms (aim: at most {AIM_MILLISECONDS})"
        if theirs in times:
            ratio = (statistics.median(times[theirs]) - base) / added
            words += f", {theirs} {ratio:.1f} times that (aim: {AIM_RATIO})"
        said.append(words)
    return said


def _in_turns(ways: Mapping[str, Asked], rounds: int) -> dict[str, list[float]]:
    """Seconds of each call; a first round does not count."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    chance = random.Random(1)
    for number in range(rounds + 1):
        names = list(ways)
        chance.shuffle(names)
        for name in names:
            taken = [_timed(ways[name]) for _ in range(CALLS)]
            times[name] += taken if number else []
    return times


def _timed(way: Asked) -> float:
    begun = time.perf_counter()
    way.call("echo", message="hello")
    return time.perf_counter() - begun


def _table(title: str, times: Mapping[str, list[float]], rounds: int) -> None:
    print(f"\n{title}  ({rounds} rounds of {CALLS} calls, interleaved; ms)")
    print(f"  {'':<24}{'p50':>8}{'p95':>8}{'least':>8}{'added p50':>12}{'added p95':>12}")
    base = times[ALONE]
    for name, taken in times.items():
        p50, p95 = statistics.median(taken), _p95(taken)
        added = (
            "" if name == ALONE else f"{(p50 - statistics.median(base)) * 1e3:>12.2f}{(p95 - _p95(base)) * 1e3:>12.2f}"
        )
        print(f"  {name:<24}{p50 * 1e3:>8.2f}{p95 * 1e3:>8.2f}{min(taken) * 1e3:>8.2f}{added}")


def _p95(taken: list[float]) -> float:
    return sorted(taken)[int(len(taken) * 0.95)]


def crowds(folder: Path, server: Server, runner: asyncio.Runner, *, peer: bool) -> list[str]:
    """A hundred clients at once, each with a session of its own."""
    print(f"\n{CLIENTS} clients at once over HTTP, {EACH} calls each, `echo` of {server.name}; three runs in turns")
    print(f"  {'':<24}{'calls/s':>9}{'p50 ms':>9}{'p95 ms':>9}{'errors':>8}{'MiB before':>12}{'MiB after':>11}")
    found: dict[str, list[float]] = {}
    with contextlib.ExitStack() as stack:
        ways = {OURS_HTTP: stack.enter_context(sides.gateway_http(folder, server))}
        if peer:
            ways[PROXY_HTTP] = stack.enter_context(sides.proxied_http(server))
        for _ in range(3):
            for name, listening in ways.items():
                found.setdefault(name, []).append(_crowd(name, listening, runner))
    most = {name: max(series) for name, series in found.items()}
    beside = f", FastMCP's proxy {most[PROXY_HTTP]:.0f}" if peer else ""
    return [f"{CLIENTS} clients at once: {most[OURS_HTTP]:.0f} calls a second{beside}"]


def _crowd(name: str, listening: Listening, runner: asyncio.Runner) -> float:
    before = proportional(listening.pid)
    herd = runner.run(mcphttp.many(listening.port, CLIENTS, EACH, "echo", message="hello"))
    after = proportional(listening.pid)
    times = herd.calls or [0.0]
    rate = len(herd.calls) / herd.seconds
    cells = f"{rate:>9.0f}{statistics.median(times) * 1e3:>9.1f}{_p95(times) * 1e3:>9.1f}{len(herd.errors):>8}"
    print(f"  {name:<24}{cells}{before / 1024:>12.1f}{after / 1024:>11.1f}")
    for words in sorted(set(herd.errors))[:3]:
        print(f"    {words}")
    return rate


def memory(folder: Path, server: Server) -> list[str]:
    """What one more server costs the gateway itself, and what its walls cost beside the bare server (PSS)."""
    with contextlib.ExitStack() as stack:  # as many as behind the gateway: what they share is divided alike
        clients = [stack.enter_context(sides.alone(server)) for _ in range(COPIES)]
        for client in clients:
            client.call("echo", message="hello")
        bare = sum(_tree(client)[1] for client in clients) / COPIES
    own: dict[int, tuple[int, int]] = {}
    for copies in (1, COPIES):
        with sides.gateway(folder, *[server] * copies) as client:
            for number in range(1, copies + 1):
                client.call("echo" if copies == 1 else f"s{number}__echo", message="hello")
            own[copies] = _tree(client)
    growth = (own[COPIES][0] - own[1][0]) / (COPIES - 1)
    confined = own[COPIES][1] / COPIES
    mib = 1024
    return [
        f"memory: the gateway has {own[1][0] / mib:.0f} MiB with one server, {growth / mib:.2f} for each further one",
        f"memory: a confined {server.name} with its walls {confined / mib:.0f} MiB, bare {bare / mib:.0f} MiB",
    ]


def _tree(client: Client) -> tuple[int, int]:
    """PSS in KiB of the process that was started, and of all below it (of the server itself where that is it)."""
    pid = client.pid
    inside = sum(proportional(one) for one in below(pid))
    return proportional(pid), inside or proportional(pid)


def described(folder: Path) -> list[str]:
    """The bytes of tool descriptions that a model is given for 200 tools, direct and through three tools."""
    server = sides.plain(TOOLS)
    sizes = {}
    for show in ("direct", "code"):
        with sides.gateway(folder, server, show=show) as client:
            listed = list(_tools(client))
            sizes[show] = len(json.dumps(listed, separators=(",", ":"), ensure_ascii=False).encode())
            print(f"\n{show}: {len(listed)} tools, {sizes[show]} bytes")
    ratio = sizes["direct"] / sizes["code"]
    return [f"{TOOLS} tools: {ratio:.0f} times fewer bytes in code mode (aim: {AIM_BYTES:.0f})"]


def _tools(client: Client) -> Iterator[object]:
    """Every page of the list."""
    cursor = None
    while True:
        page = client.request("tools/list", {} if cursor is None else {"cursor": cursor})
        yield from page["tools"]
        cursor = page.get("nextCursor")
        if cursor is None:
            return


if __name__ == "__main__":
    sys.exit(main())
