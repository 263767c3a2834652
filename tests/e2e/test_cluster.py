"""A scheduler and two workers as processes, and one of them is killed in the middle of a review."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.batched import BatchCommand, all_ended, below, held, wait_for
from e2e.bench import Command, left_below, request_for

pytestmark = pytest.mark.sandbox
LATE = 'setTimeout(() => require("./real.js"), 4000);\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Where its scheduler listens, and its two workers."""

    address: str
    workers: tuple["subprocess.Popen[bytes]", "subprocess.Popen[bytes]"]


@pytest.fixture
def cluster(command: Command, tmp_path: Path) -> Iterator[Cluster]:
    """Without nannies: what is killed stays dead."""
    where = tmp_path / "scheduler.json"
    with contextlib.ExitStack() as stack, (tmp_path / "dask.log").open("wb") as log:

        def start(*words: str) -> "subprocess.Popen[bytes]":
            argv = [sys.executable, "-P", "-m", "dask", *words, "--host", "127.0.0.1", "--no-dashboard"]
            process = subprocess.Popen(
                argv,
                env=command.environment(TMPDIR=str(tmp_path)),
                cwd=tmp_path,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        start("scheduler", "--port", "0", "--scheduler-file", str(where))
        wait_for(where.exists)
        address = wait_for(lambda: where.stat().st_size and json.loads(where.read_text())["address"])
        offer = ("--nthreads", "1", "--no-nanny", "--resources", "review=1", "--local-directory", str(tmp_path / "w"))
        workers = start("worker", address, *offer), start("worker", address, *offer)
        yield Cluster(address=address, workers=workers)


def reviewing(worker: "subprocess.Popen[bytes]") -> bool:
    """Whether a target runs below it."""
    return any(below(one, "server.js") for one in below(worker.pid, "review run"))


@pytest.mark.threat("R5", "R40")
def test_a_review_whose_worker_is_killed_is_run_again_under_another_number(
    cluster: Cluster, command: Command, target: Callable[..., Path], safe: str
) -> None:
    batch = BatchCommand(command=command)
    for name in ("one", "two"):
        target({"server.js": LATE, "real.js": safe}, name=name)
    batch.write(*(request_for({"kind": "dir", "path": name}) for name in ("one", "two")))
    with contextlib.ExitStack() as stack, batch.start("--scheduler", cluster.address, "--json") as process:
        stack.callback(process.kill)
        wait_for(lambda: all(map(reviewing, cluster.workers)), lambda: (command.place / "dask.log").read_text()[-3000:])
        victim, survivor = cluster.workers
        descriptors = held(victim.pid, stack)
        os.kill(victim.pid, 9)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert all_ended(descriptors)  # its child, its sandbox, its target, its janitor
        assert below(survivor.pid, "review run") == []
    summary: dict[str, Any] = json.loads(out)
    assert summary["states"] == {"COMPLETED": 2}
    assert sorted(row["attempts"] for row in summary["rows"]) == [1, 2]  # the control: the other ran once
    (again,) = (row for row in summary["rows"] if row["attempts"] == 2)
    folder = batch.out / again["digest"]
    assert [path.name for path in (folder / "attempt-0001").iterdir()] == []
    assert {"result.json", "events.ndjson"} <= {path.name for path in (folder / "attempt-0002").iterdir()}
    assert left_below(command.run_root) == []
