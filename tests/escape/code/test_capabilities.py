"""A supervisor with few rights runs programs as one with all of root's; with one less it does not."""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from fumehood.sandbox import launch
from fumehood.sandbox.capabilities import Needs, needed
from fumehood.sandbox.spec import Route

pytestmark = [pytest.mark.sandbox, pytest.mark.root]
# Gives rights up, runs a program with one tool, then perhaps the self test; says what came of it.
SCRIPT = """
import asyncio, importlib.util, json, os, sys
sys.path[:0] = {path!r}
spec = importlib.util.spec_from_file_location("lab", {conftest!r})
lab = importlib.util.module_from_spec(spec); sys.modules["lab"] = lab; spec.loader.exec_module(lab)
from dataclasses import replace
from pathlib import Path
from fumehood.code import selftest
from fumehood.sandbox import capabilities, lineage
from fumehood.sandbox.spec import Route
route, without, whole = Route(sys.argv[1]), sys.argv[2], sys.argv[3] == "whole"
host = replace(lab.probe.probe_host({{}}, quick=True, run_root=Path(sys.argv[4])), routes=(route,))
ground = lab.prepare(host, lab.runtime.find({{}}).runtime)
kept = capabilities.keep(capabilities.needed(capabilities.needs(host)) - {{without}})
seen = {{}}
class Looking(lab.Tools):
    async def run(self, name, arguments):
        for pid in lineage.tree(os.getpid()):
            status = dict(line.split(":\\t", 1) for line in Path(f"/proc/{{pid}}/status").read_text().splitlines())
            if status["Name"] == "deno":
                seen.update({{name: status[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb")}})
        return await super().run(name, arguments)
# One that ends by itself may be gone before anybody needs to end it.
program = "for (;;) {{}}" if without == "KILL" else "return await amcp.run('x', {{a: 1}})"
job = lab.Job(code=program, tools=("x",), limits=lab.JobLimits(wall_seconds=5))
try:
    result = asyncio.run(lab.run_job(job, Looking(), ground))
except BaseException as error:
    print(json.dumps({{"raised": type(error).__name__}}))
    sys.exit()
said = {{"state": result.state, "error": str(result.error), "child": seen, "kept": kept.names}}
said["standing"] = sorted(name for name, state in result.containment.items() if state == "enforced")
said["usage"] = [result.usage.cpu_milliseconds is not None, result.usage.peak_memory_bytes is not None]
if whole:
    report = asyncio.run(selftest.selftest(ground, "0" * 64, lambda _: None))
    said["not held"] = [one.name for one in report.trials if one.outcome != "held"]
print(json.dumps(said))
"""
Told = Callable[..., dict[str, Any]]
ROUTES = pytest.mark.parametrize("route", [Route.DROPPED, Route.ROOT], ids=str)


@pytest.fixture
def code_root() -> Iterator[Path]:
    """Where runs have their folders: nobody else's, and nothing is left in it but what a killed one leaves."""
    with tempfile.TemporaryDirectory(prefix="fumehood-rights-", dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def told(tmp_path: Path, code_root: Path) -> Told:
    """What a supervisor said that gave up its rights, all but those it needs, and one of those as well."""
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    script = tmp_path / "script.py"
    conftest = Path(__file__).parent / "conftest.py"
    source = [str(Path(launch.__file__).parents[2]), packages]
    script.write_text(SCRIPT.format(path=source, conftest=str(conftest)))

    def supervised(route: Route, without: str = "", *, whole: bool = False) -> dict[str, Any]:
        words: Sequence[str] = [route.value, without, "whole" if whole else "", str(code_root)]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        done = launch.run_tool(
            [sys.executable, "-B", str(script), *words], timeout_seconds=120, environment=environment
        )
        assert done.status == 0, done.stderr.decode()
        said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return said

    return supervised


@pytest.mark.threat("C9")
@ROUTES
def test_with_the_rights_that_it_needs_it_runs_programs_behind_every_wall(route: Route, told: Told) -> None:
    said = told(route)
    assert said["state"] == "ok", said["error"]
    assert set(said["child"].values()) == {"0000000000000000"}
    assert set(said["kept"]) >= needed(Needs(route=route))
    assert "SYS_ADMIN" not in said["kept"] or route is Route.ROOT
    assert "capabilities" in said["standing"]
    assert "seccomp" in said["standing"]


@ROUTES
@pytest.mark.parametrize("without", ["CHOWN", "SETGID", "SETUID", "SYS_ADMIN", "NET_ADMIN"])
def test_without_one_of_them_it_runs_none(route: Route, without: str, told: Told) -> None:
    if without not in needed(Needs(route=route)):
        assert told(route, without)["state"] == "ok"  # never had: nothing is missed
        return
    assert told(route, without)["state"] == "runner_unavailable"


def test_without_the_right_to_signal_it_cannot_end_what_it_dropped(told: Told) -> None:
    said = told(Route.DROPPED, "KILL")
    assert said["state"] == "runner_unavailable"
    assert "Operation not permitted" in said["error"]


def test_without_the_right_to_set_rights_a_child_keeps_a_bounding_set(told: Told) -> None:
    said = told(Route.ROOT, "SETPCAP")
    assert said["state"] == "ok"
    assert said["child"]["CapBnd"] != "0000000000000000"


@pytest.mark.long
@ROUTES
def test_the_self_test_holds_with_the_rights_that_are_needed(route: Route, told: Told) -> None:
    assert told(route, whole=True)["not held"] == []
