"""The start of a runner: what comes before it serves, in which order, and what a run is that it is asked for."""

import contextlib
import json
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from fumehood.cli import coding, running, start
from fumehood.code import attest
from fumehood.code.attest import SelfTestError
from fumehood.code.job import Job, JobResult, State
from fumehood.code.pool import PoolState
from fumehood.code.service import opening, server
from fumehood.core.sections import Settings
from fumehood.sandbox import capabilities, confine, init
from fumehood.sandbox.capabilities import Kept
from fumehood.sandbox.hostfacts import CgroupFacts, HostFacts
from fumehood.sandbox.spec import Route

OK = JobResult(state=State.OK, ok=True, value=1)
HOST = HostFacts(
    system="Linux",
    machine="x86_64",
    kernel="6.18",
    uid=0,
    routes=(Route.DROPPED,),
    tools={},
    cgroups=CgroupFacts(version=None, roots={}),
    landlock_abi=0,
    run_root=Path("/r"),
    probes=(),
)


class Runner:
    """Stands for everything that the start puts together, and keeps the order in which it is asked."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        self.wanted: frozenset[str] = frozenset()
        self.kept = Kept(names=("CHOWN",), given_up=30, bounded=True)
        self.broken = ""
        self.results: list[JobResult] = []
        self.state = PoolState(running=0, warm=3, starting=0, trouble="")
        self.health: list[dict[str, Any]] = []
        self.signal = signal.SIGTERM
        tokens = SimpleNamespace(known=lambda _: True)
        opened = opening.Opened(sockets=(), tokens=tokens, notes=("in the clear",))  # type: ignore[arg-type]  # a fake
        seal = SimpleNamespace(broken=lambda: self.broken)
        patch.setattr(init, "stand_apart", lambda: self.step("apart", None))
        patch.setattr(start, "start", lambda flags: self.step(f"settings {flags}", Settings()))
        patch.setattr(opening, "open_runner", lambda _: self.step("sockets", opened))
        patch.setattr(coding, "ground_of", lambda _: (SimpleNamespace(host=HOST), None))
        patch.setattr(capabilities, "keep", self.keep)
        patch.setattr(attest, "Seal", lambda _: self.step("seal", seal))
        patch.setattr(attest, "require", self.require)
        patch.setattr(running, "Pool", self.pool)
        patch.setattr(server, "serve_on", self.serve_on)

    def step(self, name: str, answer: object) -> object:
        self.steps.append(name)
        return answer

    def keep(self, wanted: frozenset[str]) -> Kept:
        self.steps.append("rights")
        self.wanted = wanted
        return self.kept

    async def require(self, *_: object) -> str:
        self.steps.append("self test")
        return "it was passed"

    @contextlib.asynccontextmanager
    async def pool(self, ground: object, *, runs: int, warm: int) -> AsyncIterator[object]:
        del ground
        assert (runs, warm) == (Settings().code.runs, Settings().code.warm)
        self.steps.append("pool")
        yield SimpleNamespace(run=self.run_job, state=self.state)
        self.steps.append("no pool")

    async def run_job(self, *_: object) -> JobResult:
        self.steps.append("run")
        return OK

    async def serve_on(self, sockets: object, service: server.Service) -> int:
        del sockets
        self.steps.append("serve")
        backend: Any = None
        self.results.append(await service.run(Job(code="return 1"), backend, None))
        self.health.append(json.loads(service.standing.health().body))
        self.broken = "deno"
        self.results.append(await service.run(Job(code="return 1"), backend, None))
        return self.signal


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Runner:
    return Runner(monkeypatch)


@pytest.mark.threat("C8", "C9")
def test_everything_stands_before_anybody_is_served(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    assert running.serve(None) == 0
    assert runner.steps == [
        "apart",
        "settings {}",
        "sockets",
        "rights",
        "seal",
        "self test",
        "pool",
        "serve",
        "run",
        "no pool",
    ]
    assert runner.wanted == {"CHOWN", "KILL", "SETGID", "SETUID", "SETPCAP", "SYS_PTRACE"}
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "fumehood: capabilities kept: CHOWN; given up: 30",
        "fumehood: it was passed",
        "fumehood: in the clear",
    ]


@pytest.mark.threat("C8")
def test_once_a_file_was_replaced_nothing_is_run(runner: Runner) -> None:
    running.serve(None)
    first, second = runner.results
    assert first == OK
    assert second.state is State.RUNNER_UNAVAILABLE
    assert second.error is not None
    assert "deno was replaced after the self test" in second.error.message
    assert runner.steps.count("run") == 1


@pytest.mark.parametrize(("trouble", "status"), [("", "ok"), ("no route works here", "no_child")])
def test_health_says_how_it_is_with_the_children_that_wait(runner: Runner, trouble: str, status: str) -> None:
    runner.state = replace(runner.state, trouble=trouble)
    running.serve(None)
    assert [(told["status"], told["warm"]) for told in runner.health] == [(status, 3)]


@pytest.mark.threat("C8")
def test_a_start_says_where_too_few_files_may_be_open(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[int] = []

    def allow(count: int) -> int:
        asked.append(count)
        return allowed

    monkeypatch.setattr(confine, "allow_files", allow)
    for allowed in (10**6, 100):
        assert running.serve(None) == 0
        said = capsys.readouterr().err
        assert ("100 files may be open" in said) is (allowed == 100)
    assert asked[0] > 200
    assert runner.steps


def test_a_self_test_that_fails_ends_the_start(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: object) -> str:
        raise SelfTestError("the self test failed: fetch (not held)")

    monkeypatch.setattr(attest, "require", fails)
    with pytest.raises(SelfTestError):
        running.serve(None)
    assert "serve" not in runner.steps


def test_an_ordinary_user_is_told_nothing_of_rights(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    runner.kept = Kept(names=(), given_up=0, bounded=False)
    runner.signal = signal.SIGINT
    assert running.serve(None) == 130
    assert "capabilities" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, {}),
        ("127.0.0.1:8777", {"code.host": "127.0.0.1", "code.port": 8777}),
        ("[::1]:0", {"code.host": "::1", "code.port": 0}),
        ("runner:65535", {"code.host": "runner", "code.port": 65535}),
    ],
)
def test_an_address_stands_for_two_settings(text: str | None, found: dict[str, object]) -> None:
    assert running.listening(text) == found


@pytest.mark.parametrize("text", ["", "8777", ":1", "a:", "a:b", "a:65536", "a:-1", "::1:80", "a:٣", "a:999999999999"])
def test_what_is_no_address_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.UsageError):
        running.listening(text)
