"""`doctor --prove` on this host, and that it can fail."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fumehood.sandbox.containment import WALLS
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.probe.host import probe_host
from fumehood.sandbox.proof import matrix as proof
from fumehood.sandbox.proof.planting import planted
from fumehood.sandbox.proof.proving import HELD, NOT_HELD, Acts, Side, judge, trials, unprovable
from fumehood.sandbox.proof.weakened import Weakened
from fumehood.sandbox.runs import open_run
from fumehood.sandbox.spec import Route

pytestmark = pytest.mark.sandbox
ROUTES = [Route.DROPPED, Route.ROOT] if os.geteuid() == 0 else [Route.USER]


@pytest.fixture
def facts() -> Iterator[HostFacts]:
    with tempfile.TemporaryDirectory(prefix="fumehood-test-", dir="/var/tmp") as name:
        Path(name).chmod(0o711)
        yield probe_host({}, quick=True, run_root=Path(name))
        assert {path.name for path in Path(name).iterdir()} <= {"slots"}


@pytest.mark.threat("R2")
@pytest.mark.parametrize("route", ROUTES)
def test_every_wall_of_a_route_holds(facts: HostFacts, route: Route) -> None:
    found = {proven.wall: proven for proven in asyncio.run(proof.prove(facts, route))}
    assert set(found) == set(WALLS)
    unexplained = {wall: proven for wall, proven in found.items() if proven.result != HELD}
    assert set(unexplained) == set(unprovable(route)), unexplained


def test_a_wall_that_is_missing_is_seen(facts: HostFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control of the prover itself: with the network wall gone on both sides it does not say held."""

    def leaky(_: Weakened, words: Sequence[str]) -> list[str]:
        return [word for word in words if word != "--unshare-net"]

    monkeypatch.setattr(Weakened, "options", leaky)
    route = facts.routes[0]

    async def one() -> str:
        with open_run(facts) as run, planted(run, facts.tools["setpriv"].path) as things:
            bench = proof.Bench(facts, run, route)
            trial = next(trial for trial in trials(route, things) if trial.wall == "network_namespace")
            return judge(trial, await bench.run(trial.acts, Side()), await bench.run(trial.acts, Side())).result

    assert asyncio.run(one()) == NOT_HELD


def test_a_sandbox_that_does_not_start_is_no_proof(facts: HostFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Weakened, words: Sequence[str]) -> list[str]:
        return [*words, "--no-such-option"]

    monkeypatch.setattr(Weakened, "options", broken)
    acts: Acts = {"use_keyring": 0}

    async def one() -> str:
        with open_run(facts) as run, planted(run, facts.tools["setpriv"].path):
            return (await proof.Bench(facts, run, facts.routes[0]).run(acts, Side())).problem

    assert "no-such-option" in asyncio.run(one())


def test_a_python_outside_of_usr_is_shown_inside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").touch()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python3"))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    path, binds = proof.interpreter()
    assert path == "/opt/python/bin/python3"
    assert [(bind.source, bind.target) for bind in binds] == [(tmp_path, "/opt/python")]
