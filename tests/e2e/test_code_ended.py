"""However a run is ended from outside: the program, its tools' server and everything around them are gone."""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fumehood.sandbox import lineage
from served.talk import FUMEHOOD

pytestmark = pytest.mark.sandbox
BOUND_SECONDS = 30.0  # for whatever has to happen; on an idle machine it takes milliseconds
STAYS = "setInterval(() => {}, 1000); await new Promise(() => {});"


def lines_below(pid: int) -> dict[int, str]:
    """The command lines of a tree of processes."""
    found = {}
    for child in lineage.tree(pid):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            found[child] = b" ".join(words).decode("utf-8", "replace")
    return found


@pytest.fixture
def run_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for above in (folder, *folder.parents[:2]):
        above.chmod(0o711)
    return folder


@pytest.fixture
def running(tmp_path: Path, run_root: Path) -> Iterator[tuple["subprocess.Popen[bytes]", list[int]]]:
    """A program that stays, with a workspace; and every process below the command, held."""
    (tmp_path / "stays.js").write_text(STAYS)
    (tmp_path / "workspace").mkdir()
    argv = [FUMEHOOD, "code", "run", str(tmp_path / "stays.js"), "--workspace", str(tmp_path / "workspace")]
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "FUMEHOOD_SANDBOX__RUN_ROOT": str(run_root)}
    with contextlib.ExitStack() as stack:
        process = subprocess.Popen(
            argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        deadline = time.monotonic() + 2 * BOUND_SECONDS
        while not any(line.startswith("/deno ") for line in lines_below(process.pid).values()):
            assert process.poll() is None, "it ended too early"
            assert time.monotonic() < deadline, lines_below(process.pid)
            time.sleep(0.02)
        held = []
        for pid in lines_below(process.pid):
            with contextlib.suppress(ProcessLookupError):
                held.append(os.pidfd_open(pid))
                stack.callback(os.close, held[-1])
        yield process, held


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGHUP, 130), (signal.SIGKILL, -9)]
)
def test_whoever_ends_the_command_ends_everything_below_it(
    number: signal.Signals, status: int, running: tuple["subprocess.Popen[bytes]", list[int]], run_root: Path
) -> None:
    process, held = running
    assert len(held) > 4  # the server and its helpers, the sandbox, the program
    assert [path.name[:4] for path in run_root.iterdir() if path.name.startswith("run-")] == ["run-"]
    process.send_signal(number)
    assert process.wait(BOUND_SECONDS) == status
    deadline = time.monotonic() + BOUND_SECONDS
    assert all(select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0] for fd in held)
    assert [path.name for path in run_root.iterdir() if path.name.startswith("run-")] == []
