"""A batch of sixteen on two workers beside the same on one: how near to twice as fast it is."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REQUESTS = 16
AIM = 0.9
DEMO = Path(__file__).parents[1] / "src/fumehood/data/demo/safe"


def bench(rounds: int) -> list[str]:
    """Measure, print, and say how it stands beside the aim."""
    walls: dict[int, list[float]] = {1: [], 2: []}
    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _copy(place / "safe")
        listed = place / "requests.jsonl"
        listed.write_text("".join(json.dumps(_request(n)) + "\n" for n in range(REQUESTS)), encoding="utf-8")
        for number in range(rounds):
            for workers in (1, 2) if number % 2 else (2, 1):
                out = place / f"out-{number}-{workers}"
                began = time.perf_counter()
                argv = [sys.executable, "-m", "fumehood", "review", "batch", str(listed), "--out", str(out), "--json"]
                done = subprocess.run([*argv, "--workers", str(workers)], capture_output=True, check=False)
                walls[workers].append(time.perf_counter() - began)
                summary = json.loads(done.stdout)
                if summary["states"] != {"COMPLETED": REQUESTS}:
                    raise SystemExit(f"a batch did not complete: {summary['states']}")
                seconds += [row["facts"]["seconds"] for row in summary["rows"]]
    one, two = statistics.median(walls[1]), statistics.median(walls[2])
    linear = one / two / 2
    print(f"\nbatch of {REQUESTS}, {rounds} rounds, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"  one worker   {one:7.1f} s   {one / REQUESTS:.2f} s a review")
    print(f"  two workers  {two:7.1f} s   {two / REQUESTS:.2f} s a review")
    print(f"  seconds of a review's steps: median {statistics.median(seconds):.2f}")
    return [f"batch on two workers: {linear:.2f} of linear (aim {AIM})"]


def _copy(folder: Path) -> None:
    """The bundled server, where nobody changes it meanwhile."""
    folder.mkdir()
    for path in DEMO.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())


def _request(number: int) -> dict[str, object]:
    return {
        "schema_version": 2,
        "target": {"kind": "dir", "path": "safe"},
        "adapter": "node_stdio",
        "action_profile": "mcp_initialize",
        "network_mode": "NONE",
        "credentials": "NONE",
        "question": f"batch {number}",
        "entrypoint": "server.js",
        "evidence": ["process", "network", "filesystem", "protocol"],
        "timeout_seconds": 60,
        "linger_seconds": 0,
    }
