"""Where descriptors run out at any point of a run, that run says so, nothing is kept of it, and the next one works."""

import asyncio
import contextlib
import os
import resource
from collections.abc import Iterator
from typing import Any

import pytest

from fumehood.code.job import Job, JobResult, State
from fumehood.code.pool import Pool
from fumehood.code.run import Ground, run_job
from fumehood.core import limits
from fumehood.sandbox import lineage

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("C4")]
Tools = Any
JOB = Job(code="return 1")
NEEDED = 30  # a run takes fewer


@contextlib.contextmanager
def no_more_than(count: int) -> Iterator[None]:
    """So many more descriptors can be opened in this process; those that are open stay."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = _numbers()
    free = [number for number in range(len(taken) + count + 1) if number not in taken]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[count] if count < len(free) else soft, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def opened() -> int:
    return len(_numbers())


def _numbers() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/fd")}  # noqa: PTH208 - names are what is counted


@pytest.mark.parametrize("free", range(0, NEEDED, 2))
def test_a_child_for_one_run_comes_or_leaves_nothing(free: int, ground: Ground, tools: Tools) -> None:
    async def test() -> tuple[JobResult, JobResult]:
        await run_job(JOB, tools, ground)  # threads and tables that stay are there now
        before = opened()
        with no_more_than(free):
            starved = await run_job(JOB, tools, ground)
        assert (opened(), lineage.children(os.getpid())) == (before, [])
        return starved, await run_job(JOB, tools, ground)

    starved, fed = asyncio.run(test())
    assert starved.state in {State.OK, State.RUNNER_UNAVAILABLE}
    assert fed.value == 1


def test_a_pool_recovers_from_any_lack_of_descriptors(
    ground: Ground, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CODE_REFILL_SECONDS", 0.0)  # after a failed start
    told: list[JobResult] = []

    async def test() -> None:
        async with asyncio.timeout(120), Pool(ground, runs=1, warm=0) as pool:
            assert (await pool.run(JOB, tools)).value == 1
            await asyncio.gather(*pool._owners)
            before = opened()
            for free in range(0, NEEDED, 3):
                with no_more_than(free):
                    told.append(await pool.run(JOB, tools))
                assert (await pool.run(JOB, tools)).value == 1
                await asyncio.gather(*pool._owners)
                assert opened() <= before
                assert pool._station.free + len(pool._station._aside) == pool._seats

    asyncio.run(test())
    states = [one.state for one in told]
    assert set(states) == {State.OK, State.RUNNER_UNAVAILABLE}, states  # they ran out, and there were enough
    starved = next(one for one in told if one.error)
    assert starved.error
    assert "Too many open files" in starved.error.message
    assert not list(ground.host.run_root.glob("run-*"))
