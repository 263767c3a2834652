"""A sensor that dies, or sees more than it keeps, says so: the state, or how much was lost."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.bench import Bench
from fumehood.sandbox import lineage

pytestmark = pytest.mark.sandbox
Make = Callable[..., Path]
WAITS = 'require("node:fs").writeFileSync("began.txt", ""); setInterval(() => {}, 1000);'
AFTER_ANSWER = """
const { spawn } = require("node:child_process");
require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id } = JSON.parse(line);
  const serverInfo = { name: "waits", version: "1" };
  const result = { protocolVersion: "2025-06-18", capabilities: {}, serverInfo };
  if (id === undefined) spawn(process.execPath, ["hook.js", "MARK"], { stdio: "ignore" });
  else process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\\n");
});
"""
FILES = 200_000
MANY = f"""
const fs = require("node:fs");
for (let one = 0; one < {FILES}; one++) {{
  if (one % 1000 === 0) fs.mkdirSync(`many-${{one / 1000}}`);
  fs.writeFileSync(`many-${{Math.floor(one / 1000)}}/${{one}}`, "");
}}
require("node:fs").writeFileSync(require("node:os").homedir() + "/.bashrc", "# last\\n");
"""


@contextmanager
def killer_of_the_tracer(mark: str) -> Iterator[list[int]]:
    """Meanwhile, kill the strace above whatever child of ours has `mark` as its last word."""
    over = threading.Event()
    killed: list[int] = []

    def look() -> None:
        while not over.wait(0.02) and not killed:
            for pid in lineage.tree(os.getpid()):
                if _words(pid)[-1:] == [mark.encode()] and (tracer := _tracer_above(pid)):
                    os.kill(tracer, signal.SIGKILL)
                    killed.append(tracer)
                    return

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield killed
    finally:
        over.set()
        looking.join()


def _words(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    except OSError:
        return []


def _tracer_above(pid: int) -> int | None:
    above: int | None = pid
    while above and above != os.getpid():
        if Path(os.fsdecode((_words(above) or [b""])[0])).name == "strace":
            return above
        above = lineage.parent(above)
    return None


@pytest.mark.threat("R4")
@pytest.mark.parametrize(
    ("phase", "files", "hook"),
    [
        ("INSTALL", {"hook.js": WAITS}, "node hook.js MARK"),
        ("EXERCISE", {"hook.js": WAITS, "server.js": AFTER_ANSWER}, ""),
    ],
)
def test_a_tracer_that_is_killed_is_told_and_what_it_saw_is_kept(
    bench: Bench, target: Make, phase: str, files: dict[str, str], hook: str
) -> None:
    place = target(files, **({"scripts": {"postinstall": hook}} if hook else {"scripts": {}}))
    with killer_of_the_tracer("MARK") as killed:
        review = bench.folder(place, linger_seconds=5)
    assert killed
    assert review.ended == ("HARNESS_ERROR", "sensor_lost")
    assert review.result["errors"][0]["step"] == phase.lower()
    sensor = review.collector("strace", phase)
    assert (sensor["state"], "killed" in sensor["why"]) == ("degraded", True)
    assert review.details("process.exec", phase)[0]["outcome"] == "started"
    assert review.collector("layer", phase)["state"] == "active"


@pytest.mark.long
def test_two_hundred_thousand_files_hide_nothing_and_are_counted(bench: Bench, target: Make) -> None:
    review = bench.folder(target({"hook.js": MANY}))
    assert review.ended == ("COMPLETED", "")
    lost: dict[tuple[Any, ...], int] = {
        (one["phase"], one["type"]): one["count"] for one in review.result["observations"]["lost"]
    }
    kept = len(review.rows("filesystem.created", "INSTALL"))
    assert kept + lost["INSTALL", "filesystem.created"] >= FILES
    assert f"{review.home}/.bashrc" in review.changes("INSTALL")
    assert review.collector("layer", "INSTALL")["counts"]["changes"] >= FILES
