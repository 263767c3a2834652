"""The self test: on this machine it holds, and where nothing is confined it says so."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from fumehood.code import selftest, trials
from fumehood.code.backend import ToolBackend
from fumehood.code.job import Job, JobLimits, JobResult
from fumehood.code.run import Ground
from fumehood.code.trials import Outcome, Report, Tried
from fumehood.code.unconfined import UnsafeGround, run_unconfined
from fumehood.core.errors import HarnessError

pytestmark = pytest.mark.sandbox
SOME = {"computes", "calls-in-parallel", "builtin-read", "import-through-data", "fetch", "node-environment", "write"}


def tried(ground: Ground) -> tuple[Report, list[Tried]]:
    told: list[Tried] = []
    return asyncio.run(selftest.selftest(ground, "0" * 64, told.append)), told


@pytest.fixture
def fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the programs only these: each takes a second."""
    read = trials.read
    monkeypatch.setattr(trials, "read", lambda text: tuple(one for one in read(text) if one.name in SOME))


@pytest.mark.usefixtures("fewer")
def test_the_walls_of_this_machine_hold(ground: Ground) -> None:
    report, told = tried(ground)
    assert [one for one in report.trials if one.outcome is not Outcome.HELD] == []
    assert report.ok
    assert list(report.trials) == told
    assert {one.name for one in told} == SOME
    assert report.containment["network_namespace"] == "enforced"
    assert "FUMEHOOD_MARK" not in os.environ


@pytest.mark.usefixtures("fewer")
def test_where_nothing_is_confined_nothing_holds(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def without(job: Job, backend: ToolBackend, ground: Ground) -> JobResult:
        harness = tmp_path / "harness.js"
        harness.write_bytes(ground.parts.harness)
        mark = os.environ["FUMEHOOD_MARK"]
        unsafe = UnsafeGround(deno=ground.parts.deno, harness=harness, folder=tmp_path, mark=mark)
        return await run_unconfined(job, backend, unsafe)

    monkeypatch.setattr(selftest, "run_job", without)
    report, told = tried(ground)
    assert not report.ok
    assert {one.name for one in told if one.outcome is Outcome.NOT_HELD} == SOME - {"computes", "calls-in-parallel"}


@pytest.mark.long
def test_every_program_of_the_self_test_holds(ground: Ground) -> None:
    report, _ = tried(ground)
    assert [one for one in report.trials if one.outcome is not Outcome.HELD] == []


def test_a_harness_without_hygiene_to_take_away_is_a_fault(ground: Ground) -> None:
    with pytest.raises(HarnessError):
        tried(replace(ground, parts=replace(ground.parts, harness=b"")))


def test_an_unconfined_program_is_killed_at_its_deadline(ground: Ground, tmp_path: Path) -> None:
    harness = tmp_path / "harness.js"
    harness.write_bytes(ground.parts.harness)
    unsafe = UnsafeGround(deno=ground.parts.deno, harness=harness, folder=tmp_path, mark="m")
    job = Job(code="await new Promise(() => setInterval(() => {}, 1000))", limits=JobLimits(wall_seconds=1))
    backend = selftest._Echo()
    assert asyncio.run(run_unconfined(job, backend, unsafe)).state == "timeout_wall"
    found = asyncio.run(run_unconfined(Job(code="return await amcp.search('x')"), backend, unsafe))
    assert found.error is not None
    assert "only call tools" in found.error.message
