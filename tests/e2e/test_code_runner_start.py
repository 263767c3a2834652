"""What stands around the start of a runner: the self test, the rights that it gives up, and process 1."""

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.bench import left_below
from e2e.runner import BOUND_SECONDS, Runner, Start, started
from fumehood.code import attest
from fumehood.sandbox import lineage
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.probe import runtime

pytestmark = pytest.mark.sandbox


def sets(pid: int) -> dict[str, int]:
    """The sets of capabilities of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {line[:6]: int(line.split()[1], 16) for line in lines if line.startswith("Cap")}


@pytest.mark.threat("C9")
def test_a_runner_has_given_up_what_it_has_no_use_for(review_host: HostFacts, tmp_path: Path) -> None:
    with started(tmp_path, review_host) as runner:
        found = sets(runner.pid)
        assert runner.run("return 1").value == 1
        if os.geteuid() != 0:
            assert found["CapEff"] == found["CapPrm"] == 0
            return
        assert "capabilities kept: CHOWN" in runner.log()
        assert found["CapEff"] == found["CapPrm"] == found["CapBnd"] != 0
        assert found["CapInh"] == found["CapAmb"] == 0
        assert found["CapEff"].bit_count() < 8 < sets(os.getpid())["CapEff"].bit_count()  # ours: it had more


@pytest.fixture
def own_deno() -> Iterator[Path]:
    """A copy of Deno that may be replaced, where a child's user may pass."""
    found = runtime.find({}).runtime
    assert found is not None
    with tempfile.TemporaryDirectory(prefix="fumehood-deno-", dir="/var/tmp") as folder:
        place = Path(folder)
        place.chmod(0o755)
        shutil.copy(found.tool.path, place / "deno")
        yield place / "deno"


@pytest.mark.threat("C8")
def test_a_deno_that_was_replaced_runs_nothing_more(review_host: HostFacts, tmp_path: Path, own_deno: Path) -> None:
    how = Start(environ={"FUMEHOOD_SANDBOX__DENO": str(own_deno)})
    with started(tmp_path, review_host, how) as runner:
        assert runner.run("return 1").value == 1
        other = own_deno.with_name("other")
        shutil.copy(own_deno, other)
        other.replace(own_deno)
        result = runner.run("return 1").result
        assert result["state"] == "runner_unavailable"
        assert "deno was replaced after the self test" in result["error"]["message"]
        assert runner.health()[0] == 503


@pytest.mark.threat("C8")
@pytest.mark.parametrize("state", ["none", "closed"])
def test_a_first_start_runs_the_self_test_and_the_next_remembers(
    review_host: HostFacts, tmp_path: Path, state: str
) -> None:
    how = Start(attested=False)
    if state == "closed":
        (tmp_path / "state").write_text("in the way")
    with started(tmp_path, review_host, how) as runner:
        assert "the self test is run first" in runner.log()
        assert "28 trials held" in runner.log()
        assert ("run at every start" in runner.log()) is (state == "closed")
        assert runner.run("return 1").value == 1
    if state == "closed":
        return
    file = attest.file({"XDG_STATE_HOME": str(tmp_path / "state")})
    assert file is not None
    assert file.stat().st_mode & 0o777 == 0o600
    with started(tmp_path, review_host, how) as runner:
        assert "the self test was passed at" in runner.log()
        assert "trials held" not in runner.log()


@pytest.fixture
def as_process_1(review_host: HostFacts, tmp_path: Path) -> Iterator[Runner]:
    """A runner that is process 1 of a namespace."""
    words = ["--unshare-pid", "--as-pid-1", "--die-with-parent", "--dev-bind", "/", "/", "--proc", "/proc", "--"]
    with started(tmp_path, review_host, Start(before=[review_host.tools["bwrap"].path, *words])) as runner:
        yield runner


def supervisor(runner: Runner) -> tuple[int, int]:
    """Process 1 and its child that serves, as numbers of ours."""
    (first,) = lineage.children(runner.pid)
    (serving,) = (pid for pid in lineage.children(first) if b"runner" in Path(f"/proc/{pid}/cmdline").read_bytes())
    return first, serving


@pytest.mark.root  # a user's own namespace does not know the owner of a wheel that is root's
def test_as_process_1_it_runs_programs_reaps_and_drains(as_process_1: Runner) -> None:
    first, serving = supervisor(as_process_1)
    assert as_process_1.run("return 1").value == 1
    as_process_1.waits(lambda: lineage.children(first) == [serving])  # nothing of the run is left to be reaped
    os.kill(first, signal.SIGTERM)
    assert as_process_1.process.wait(BOUND_SECONDS) == 0
    assert "Traceback" not in as_process_1.log()


@pytest.mark.root  # a user's own namespace does not know the owner of a wheel that is root's
def test_as_process_1_it_ends_with_its_supervisor(as_process_1: Runner) -> None:
    _, serving = supervisor(as_process_1)
    with as_process_1.socket() as socket:
        socket.send(as_process_1.job("await new Promise((done) => setTimeout(done, 60000))"))
        as_process_1.waits(lambda: left_below(as_process_1.host.run_root) != [])
        os.kill(serving, signal.SIGKILL)
        assert as_process_1.process.wait(BOUND_SECONDS) == 128 + signal.SIGKILL
    assert left_below(as_process_1.host.run_root) == []  # the janitor had its time
    with contextlib.suppress(OSError):
        assert Path(f"/proc/{serving}/cmdline").read_bytes() == b""
