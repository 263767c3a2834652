"""A harness that is killed before it has released a child: nothing of the target runs, and nothing is left."""

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fumehood.sandbox.spec import Route

pytestmark = pytest.mark.sandbox
ROUTES = [Route.DROPPED, Route.ROOT] if os.geteuid() == 0 else [Route.USER]
SECONDS = 20.0
# Starts a sandbox up to the moment before its release, says the child's pid, and waits to be killed.
HARNESS = """
import asyncio, os, select, sys
from dataclasses import replace
from pathlib import Path
from fumehood.sandbox import runs, start
from fumehood.sandbox.hostfacts import CgroupFacts
from fumehood.sandbox.probe.host import probe_host
from fumehood.sandbox.spec import Bind, Identity, Route, SandboxSpec

host = replace(probe_host({}, quick=True, run_root=Path(sys.argv[1])), cgroups=CgroupFacts(version=None, roots={}))
with runs.open_run(host) as run:
    marks = Path(sys.argv[1], "marks")
    spec = SandboxSpec(
        argv=("/usr/bin/touch", "/opt/marks/ran"), environment=(), workdir="/",
        identity=Identity(uid=run.uid, user="sam", host="pc"),
        binds=(Bind(source=marks, target="/opt/marks", writable=True),),
    )
    plan = start.Plan(spec=spec, host=host, run=run, route=Route(sys.argv[2]))
    pipes = start.Pipes(run.private())
    process = start.spawn_chain(plan, pipes, None, start.AsItIs())
    print(asyncio.run(start.Status(pipes.status.ours).child_pid()), flush=True)
    if sys.argv[3] == "release":
        os.write(pipes.block.ours, b"x")
        process.returncode or select.select([process.pidfd], [], [])
        print("ended", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fumehood-test-", dir="/var/tmp") as name:
        Path(name).chmod(0o711)
        yield Path(name)


def killed(place: Path, route: Route, act: str) -> int:
    """Run the harness, kill it, and give a descriptor of the child that it had; -1 for one that may be gone by then."""
    (place / "marks").mkdir()
    (place / "marks").chmod(0o777)
    argv = [sys.executable, "-c", HARNESS, str(place), route.value, act]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        child = int(harness.stdout.readline())
        held = -1 if act == "release" else os.pidfd_open(child)
        if act == "release":
            assert harness.stdout.readline() == "ended\n"
        harness.kill()
    return held


@pytest.mark.threat("R5")
@pytest.mark.parametrize("route", ROUTES)
def test_a_child_that_was_not_released_never_runs_and_is_gone_with_its_harness(place: Path, route: Route) -> None:
    held = killed(place, route, "block")
    try:
        assert select.select([held], [], [], SECONDS)[0], "the blocked child lives on"
        assert list((place / "marks").iterdir()) == []
    finally:
        os.close(held)


@pytest.mark.parametrize("route", ROUTES)
def test_a_child_that_was_released_leaves_its_mark(place: Path, route: Route) -> None:
    """Negative control: the mark would be there."""
    killed(place, route, "release")
    assert [path.name for path in (place / "marks").iterdir()] == ["ran"]
