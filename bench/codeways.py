"""The ways in which fumehood runs a program: a new child, a pool of children that wait, a runner over WebSocket.

Each takes a job and the tools, and can be waited for until it has again what it had before: what a run leaves to be
done (the next child) is done before anything else is measured.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fumehood.code.backend import ToolBackend
from fumehood.code.dialing import Runner, run_remote
from fumehood.code.job import Job, JobResult
from fumehood.code.pool import Pool
from fumehood.code.run import Ground, run_job
from fumehood.core import limits
from fumehood.wire.auth import mint

RUNS, WARM = limits.CODE_RUNS_DEFAULT, limits.CODE_WARM_DEFAULT
_SECONDS = 120.0  # until a runner serves: a self test is before that
_PAUSE_SECONDS = 0.01


class Way(Protocol):
    """One of them."""

    async def run(self, job: Job, backend: ToolBackend) -> JobResult:
        """Run one program."""
        ...

    async def settle(self) -> None:
        """Wait until nothing of a run is left to be done."""
        ...


@dataclass(frozen=True, slots=True)
class Fresh:
    """A child that is started for the run."""

    ground: Ground

    async def run(self, job: Job, backend: ToolBackend) -> JobResult:
        """From nothing until nothing is left."""
        return await run_job(job, backend, self.ground)

    async def settle(self) -> None:
        """Nothing is left."""


@dataclass(frozen=True, slots=True)
class Pooled:
    """A child that waited."""

    pool: Pool
    warm: int = WARM

    async def run(self, job: Job, backend: ToolBackend) -> JobResult:
        """From the job until the child is gone."""
        return await self.pool.run(job, backend)

    async def settle(self) -> None:
        """Until as many wait as before."""
        while self.pool.state.warm < self.warm or self.pool.state.starting:  # noqa: ASYNC110 - a pool has no event
            await asyncio.sleep(_PAUSE_SECONDS)


@dataclass(frozen=True, slots=True)
class Served:
    """A child that waited at `fumehood code runner`, a process of its own, through a WebSocket on loopback."""

    runner: Runner

    async def run(self, job: Job, backend: ToolBackend) -> JobResult:
        """From the connection until the result is here."""
        return await run_remote(job, backend, self.runner)

    async def settle(self) -> None:
        """Until it says that as many wait as before."""
        while self._health() != (0, WARM):  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(2 * _PAUSE_SECONDS)

    def _health(self) -> tuple[int, int]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.runner.url.replace('ws', 'http', 1)}/healthz", timeout=_SECONDS) as answer:
            told = json.load(answer)
        return told["running"], told["warm"]


@dataclass(frozen=True, slots=True)
class Started:
    """A runner that serves, and how long that took from the start of its process."""

    way: Served
    seconds: float
    log: Path


@contextlib.contextmanager
def service(folder: Path, run_root: Path) -> Iterator[Started]:
    """`fumehood code runner` with a state folder that is kept in `folder`: the first start there runs the self test."""
    token, line = mint()
    (folder / "tokens").write_text(f"{line}\n")
    (folder / "tokens").chmod(0o600)
    log = folder / "runner.err"
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "PYTHONDONTWRITEBYTECODE": os.environ.get("PYTHONDONTWRITEBYTECODE", ""),
        "FUMEHOOD_SANDBOX__RUN_ROOT": str(run_root),
        "FUMEHOOD_CODE__TOKEN_FILE": str(folder / "tokens"),
        "FUMEHOOD_CODE__RUNS": str(RUNS),
        "FUMEHOOD_CODE__WARM": str(WARM),
    }
    command = [str(Path(sys.executable).with_name("fumehood")), "code", "runner", "--listen", "127.0.0.1:0"]
    begun = time.perf_counter()
    with log.open("wb") as err:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stderr=err)
    try:
        url = _url(process, log)
        yield Started(Served(Runner(url=url, token=token)), time.perf_counter() - begun, log)
    finally:
        process.terminate()
        try:
            process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _url(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Where it serves, once it says so."""
    deadline = time.monotonic() + _SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        for line in log.read_text(encoding="utf-8").splitlines():
            _, found, rest = line.partition("running programs at ")
            if found:
                return rest.strip().removesuffix("/run")
        time.sleep(_PAUSE_SECONDS)
    raise RuntimeError(f"the runner does not serve: {log.read_text(encoding='utf-8')[-1000:]}")
