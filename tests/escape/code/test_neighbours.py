"""Runs side by side, and runs whose owner is killed."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from fumehood.code.job import Job, JobLimits, JobResult, State
from fumehood.code.run import Ground, run_job
from fumehood.sandbox import lineage

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("C4")]
Tools = Any
NOISE = {
    "const a = []; for (;;) a.push(new Uint8Array(1e6).fill(1))": {State.OUT_OF_MEMORY},
    "const w = 'data:text/javascript,for(;;);'; for (;;) new Worker(w, {type: 'module'})": {
        State.OUT_OF_MEMORY,
        State.TIMEOUT_CPU,
        State.CHILD_EXIT,
        State.USER_ERROR,
    },
    "for (;;) console.log('y'.repeat(1e4))": {State.OUTPUT_LIMIT},
}
OWNER = """
import asyncio, sys
from pathlib import Path
from fumehood.code.job import Job
from fumehood.code.run import prepare, run_job
from fumehood.sandbox.probe import host, runtime

class Tools:
    async def run(self, name, arguments):
        print("called", flush=True)
        await asyncio.Event().wait()

ground = prepare(host.probe_host({}, quick=True, run_root=Path(sys.argv[1])), runtime.find({}).runtime)
asyncio.run(run_job(Job(code="await amcp.run('x')", tools=("x",)), Tools(), ground))
"""


@pytest.mark.long
def test_noise_ends_alone_and_eight_honest_runs_beside_it_succeed(bare: Ground, tools: Tools) -> None:
    honest = "let sum = 0; for (let i = 0; i < 1e5; i++) sum += i; return [sum, await tools.x({a: 1})]"
    limits = JobLimits(wall_seconds=120, cpu_seconds=3)

    async def all_at_once() -> list[JobResult]:
        jobs = [Job(code=program, tools=("x",), limits=limits) for program in (*NOISE, *[honest] * 8)]
        return await asyncio.gather(*(run_job(job, tools, bare) for job in jobs))

    results = asyncio.run(all_at_once())
    for result, states in zip(results, NOISE.values(), strict=False):
        assert result.state in states
    assert [result.value for result in results[len(NOISE) :]] == [[4999950000, {"echo": {"a": 1}}]] * 8


def test_a_killed_owner_takes_its_child_and_folder_along(tmp_path: Path, ground: Ground) -> None:
    root = ground.host.run_root / "killed"
    root.mkdir(mode=0o711)
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER), str(root)], stdout=subprocess.PIPE, cwd=tmp_path
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"called\n"
        held = [os.pidfd_open(pid) for pid in lineage.tree(owner.pid) if pid != owner.pid]
        owner.kill()
    assert held
    for descriptor in held:  # a pidfd can be read when its process has ended
        assert select.select([descriptor], [], [], 20)[0]
        os.close(descriptor)
    assert [path.name for path in root.glob("run-*")] == []
    assert owner.returncode == -signal.SIGKILL
