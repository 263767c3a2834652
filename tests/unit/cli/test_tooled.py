"""A program with the tools of a gateway: whose rights it has, what it may call, who is asked."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from fakeservers import Kitchen, said
from fumehood.cli import approving, coding, gatewaying, start, tooled
from fumehood.cli.coding import Asked
from fumehood.cli.tooled import NoRoleError
from fumehood.code.backend import ToolBackend
from fumehood.code.job import Job, JobResult, State
from fumehood.core import limits
from fumehood.core.jsonio import JsonObject
from fumehood.core.sections import Settings
from fumehood.gateway import run as gateway
from fumehood.gateway.codemode import place
from fumehood.gateway.gate.model import EVERYTHING
from fumehood.gateway.topology.model import Topology

ASKED = Asked(program="return 1", value=[1])
TOML = """
[gateway]
show = "code"
local_role = "reader"
[servers.fs]
command = ["fs"]
trust = "trusted"
reads = ["read"]
[roles.reader]
[tools.report]
program = "nowhere.ts"
description = "Report."
"""


async def _done(arguments: JsonObject) -> JsonObject:
    del arguments
    return said("done")


@pytest.fixture
def kitchen() -> Kitchen:
    return Kitchen({"fs": {"read": _done, "write": _done}}, place.NOWHERE)


class Runs:
    """Keeps the job, and what each of its tools answered."""

    def __init__(self) -> None:
        self.job = Job(code="x")
        self.answers: list[Any] = []

    async def __call__(self, job: Job, backend: ToolBackend) -> JobResult:
        self.job = job
        self.answers = [await backend.run(name, {}) for name in job.tools]
        return JobResult(state=State.OK, ok=True, value=1)


def topology(text: str = TOML) -> Topology:
    return msgspec.toml.decode(text, type=Topology)


def test_a_program_may_call_what_its_user_may_use(kitchen: Kitchen) -> None:
    runs = Runs()
    asyncio.run(tooled.perform(ASKED, topology(), kitchen.gate, runs))
    assert (runs.job.tools, runs.job.input) == (("fs__read",), [1])
    assert runs.answers == [{"text": "done", "structured": None}]
    [record] = kitchen.log.events
    assert (record.who, record.tool) == (f"uid:{os.getuid()}", "fs__read")


@pytest.mark.parametrize(
    ("there", "seconds"), [(True, limits.CODE_WALL_SECONDS_MAX), (False, limits.CODE_WALL_SECONDS)]
)
def test_a_person_at_a_terminal_has_time(
    kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch, seconds: float, *, there: bool
) -> None:
    runs = Runs()
    monkeypatch.setattr(approving, "at_terminal", lambda: there)
    asyncio.run(tooled.perform(ASKED, topology(), kitchen.gate, runs))
    assert runs.job.limits.wall_seconds == seconds


@pytest.mark.threat("G20")
def test_without_a_role_a_program_may_call_nothing() -> None:
    assert tooled.rights_of(Topology()) == EVERYTHING
    with pytest.raises(NoRoleError, match=r"gateway\.local_role"):
        tooled.rights_of(topology(TOML.replace('local_role = "reader"', "")))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "gateway.toml"
    file.write_text(TOML)
    file.chmod(0o600)
    return file


def test_of_a_gateway_only_servers_and_the_gate_are_made(
    kitchen: Kitchen, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Topology] = []
    settled: list[float] = []

    async def settle(seconds: float) -> None:
        settled.append(seconds)

    @contextlib.asynccontextmanager
    async def assembled(wanted: Any) -> AsyncIterator[Any]:
        made.append(wanted.topology)
        yield SimpleNamespace(gate=kitchen.gate, upstreams=SimpleNamespace(settled=settle))

    monkeypatch.setattr(gateway, "assembled", assembled)
    monkeypatch.setattr(gatewaying, "blueprint", lambda loaded, *_: SimpleNamespace(topology=loaded.topology))
    result = asyncio.run(tooled.run(ASKED, config, Runs(), Settings()))
    assert result.value == 1
    assert (made[0].gateway.show, made[0].tools, [*made[0].servers]) == ("direct", {}, ["fs"])
    assert settled == [limits.GATEWAY_SETTLE_SECONDS]


def test_the_command_runs_a_program_with_them(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    async def run(*arguments: Any) -> JobResult:
        given.extend(arguments)
        return JobResult(state=State.OK, ok=True, value=2)

    monkeypatch.setattr(start, "start", Settings)
    monkeypatch.setattr(coding, "ground_of", lambda _: (None, None))
    monkeypatch.setattr(tooled, "run", run)
    asked = Asked(program="return 1", value=None, gateway=config)
    assert coding.run(asked).value == 2
    assert given[:2] == [asked, config]
