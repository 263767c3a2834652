"""`kill -9` of backend, supervisor or program at any moment of a run elsewhere: nothing is left, and no half result."""

import contextlib
import ctypes
import json
import os
import random
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.bench import descendants, left_below
from e2e.runner import BOUND_SECONDS, Runner, started
from fumehood.sandbox import lineage
from fumehood.sandbox.hostfacts import HostFacts
from served.talk import FUMEHOOD

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("C5")]
_SET_CHILD_SUBREAPER = 36  # prctl(2)
PROGRAM = """
const words = [];
for (let turn = 0; turn < 6; turn++) {
  words.push(await amcp.search("words"));
  console.log(turn);
  await new Promise((done) => setTimeout(done, 20));
}
return [words, "x".repeat(20000)];
"""
LIFE_SECONDS = 0.25  # a program's, about


@pytest.fixture
def adopted() -> Iterator[set[int]]:
    """Processes whose parents are killed become ours (and not init's), so that none can hide; those from before.

    At the end each is waited for: as init does, and others count what is below us.
    """
    libc = ctypes.CDLL(None)
    assert libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    before = set(descendants())
    yield before
    wait_until_alone(before, "at the end")
    assert libc.prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0


def sent(runner: Runner) -> "subprocess.Popen[bytes]":
    """`fumehood code run`, with its program on the way to the runner."""
    place = runner.place
    (place / "program.js").write_text(PROGRAM)
    (place / "token").write_text(runner.token)
    (place / "token").chmod(0o600)
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(place),
        "FUMEHOOD_CODE__RUNNER_URL": runner.url,
        "FUMEHOOD_CODE__RUNNER_TOKEN_FILE": str(place / "token"),
    }
    with (place / "out").open("wb") as out, (place / "words").open("wb") as words:
        argv = [FUMEHOOD, "code", "run", str(place / "program.js"), "--json"]
        return subprocess.Popen(argv, env=environment, stdout=out, stderr=words)


def find(role: str, runner: Runner, backend: "subprocess.Popen[bytes]") -> int | None:
    """The process that plays a role, once the run is there."""
    for pid in lineage.tree(runner.pid):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] == b"/deno":
                return {"backend": backend.pid, "supervisor": runner.pid, "program": pid}[role]
    return None


def struck(role: str, moment: float, runner: Runner, backend: "subprocess.Popen[bytes]") -> bool:
    """Kill a role `moment` seconds after the run is there; whether it was still there then."""
    while (pid := find(role, runner, backend)) is None:
        if backend.poll() is not None:
            return False
        time.sleep(0.002)
    descriptor = os.pidfd_open(pid)
    try:
        ended, _, _ = select.select([descriptor], [], [], moment)
        if ended:
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        return True
    finally:
        os.close(descriptor)


def document(runner: Runner) -> dict[str, Any] | None:
    """The result on stdout, which is whole or not there."""
    text = (runner.place / "out").read_text(encoding="ascii")
    assert not text or text.endswith("}\n")
    found: dict[str, Any] | None = json.loads(text) if text else None
    return found


def alone(before: set[int]) -> bool:
    """Whether no process is left below us that was not there before; the adopted that have ended are waited for."""
    for child in lineage.children(os.getpid()):
        if child not in before:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)
    return set(descendants()) <= before


def wait_until_alone(before: set[int], at: str) -> None:
    deadline = time.monotonic() + BOUND_SECONDS
    while not alone(before):
        assert time.monotonic() < deadline, at
        time.sleep(0.01)


@pytest.mark.parametrize("times", [1, pytest.param(70, marks=pytest.mark.long)])
@pytest.mark.parametrize("role", ["backend", "supervisor", "program"])
def test_a_kill_at_any_moment_leaves_nothing_and_no_half_result(
    role: str, times: int, adopted: set[int], review_host: HostFacts, tmp_path: Path
) -> None:
    dice = random.Random(f"{role} {times}")
    hits = 0
    for turn in range(5 * times):  # a run may be quicker than the moment
        if hits == times:
            break
        moment = dice.uniform(0, LIFE_SECONDS)
        (place := tmp_path / str(turn)).mkdir()
        with started(place, review_host) as runner:
            backend = sent(runner)
            hit = struck(role, moment, runner, backend)
            status = backend.wait(BOUND_SECONDS)
            hit = hit and (role != "backend" or status == -signal.SIGKILL)  # else it had just ended
            hits += hit
            found = document(runner)
            at = f"turn {turn}: {role} {moment:.4f} s, status {status}, {found and found['state']}"
            if role == "supervisor" and hit:
                assert found, at
                assert (status, found["state"]) in {(3, "runner_unavailable"), (0, "ok")}, at
            elif role != "backend" or not hit:
                assert found, at
                assert "Traceback" not in (place / "words").read_text(), at
            if role != "supervisor" or not hit:
                runner.waits(runner.is_idle)
                assert runner.run("return 1").value == 1, at  # it goes on
                assert "Traceback" not in runner.log(), at
                runner.waits(runner.is_idle)
                assert runner.end() == 0
        wait_until_alone(adopted, at)
    assert hits == times
    (place := tmp_path / "last").mkdir()
    with started(place, review_host) as runner:  # its start sweeps what a killed one left
        assert runner.run("return 1").value == 1
        assert runner.end() == 0
    assert left_below(review_host.run_root) == []
