"""However a review is ended from outside, in whichever phase: nothing runs on, nothing lies about, no half a result."""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.bench import Command, check, left_below, request_for
from fumehood.sandbox import lineage, runs
from fumehood.sandbox.hostfacts import HostFacts
from loopback.packages import from_folder
from loopback.registry import Fault, LoopbackRegistry

pytestmark = pytest.mark.sandbox
Make = Callable[..., Path]
BOUND_SECONDS = 30.0  # for whatever has to happen; on an idle machine it takes milliseconds
STAYS = "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000);\n"
DETACHES = (
    'const { spawn } = require("node:child_process");\n'
    'spawn(process.execPath, ["stays.js"], { detached: true, stdio: "ignore" }).unref();\n'
)


@dataclass
class Live:
    """A review that runs, held in a phase, and every process of it."""

    process: "subprocess.Popen[bytes]"
    held: list[int]
    command: Command
    janitor: int

    def end(self, number: signal.Signals) -> int:
        """Send the harness a signal; its exit status."""
        self.process.send_signal(number)
        return self.process.wait(BOUND_SECONDS)

    def gone(self) -> bool:
        """Whether every process that ran has ended."""
        deadline = time.monotonic() + BOUND_SECONDS
        return all(select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0] for fd in self.held)

    @property
    def files(self) -> list[str]:
        """What lies in the folder of the result, which need not be there."""
        return sorted(path.name for path in self.command.out.glob("*")) if self.command.out.is_dir() else []


def commands_below(pid: int) -> dict[int, str]:
    """The command lines of a tree of processes."""
    found = {}
    for child in lineage.tree(pid):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            found[child] = b" ".join(words).decode("utf-8", "replace")
    return found


@pytest.fixture
def start(
    command: Command, target: Make, registry: LoopbackRegistry, server_folder: Callable[[str], Path]
) -> Iterator[Callable[[str], Live]]:
    """Start a review that stays in a phase, with something of the target's (or of npm's) running there."""
    with contextlib.ExitStack() as stack:

        def run(phase: str) -> Live:
            fields, sign = _held_in(phase, target, registry, server_folder)
            path = command.request(fields)
            argv = command.argv("review", "run", path, "--out", str(command.out))
            environment = command.environment(FUMEHOOD_REVIEW__NPM_REGISTRY=registry.url)
            process = subprocess.Popen(
                argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            deadline = time.monotonic() + 2 * BOUND_SECONDS
            while sum(line.endswith(sign) for line in commands_below(process.pid).values()) == 0:
                assert process.poll() is None, "the review ended too early"
                assert time.monotonic() < deadline, commands_below(process.pid)
                time.sleep(0.02)
            tree = commands_below(process.pid)
            held = []
            for pid in tree:
                with contextlib.suppress(ProcessLookupError):
                    held.append(os.pidfd_open(pid))
                    stack.callback(os.close, held[-1])
            janitor = next(pid for pid, line in tree.items() if "janitor.py" in line)
            return Live(process=process, held=held, command=command, janitor=janitor)

        yield run


def _held_in(
    phase: str, target: Make, registry: LoopbackRegistry, server_folder: Callable[[str], Path]
) -> tuple[dict[str, Any], str]:
    """A request that stays in a phase, and how the command line ends of a process that shows it is there."""
    here = {"kind": "dir", "path": "target"}
    match phase:
        case "lock":
            registry.publish(from_folder(server_folder("silent")))
            registry.break_package("fixture-silent", Fault.HANGING)
            return request_for({"kind": "npm", "name": "fixture-silent", "version": "1.0.0"}), "--ignore-scripts "
        case "install":
            target({"hook.js": DETACHES + STAYS, "stays.js": STAYS})
            return request_for(here), "stays.js "
        case "build":
            target({"build.js": DETACHES + STAYS, "stays.js": STAYS}, scripts={"build": "node build.js"})
            return request_for(here, prepare_profile="npm_build"), "stays.js "
        case _:
            target({"server.js": DETACHES + STAYS, "stays.js": STAYS})
            return request_for(here), "stays.js "


PHASES = ("lock", "install", "build", "exercise")
LONG = pytest.mark.long
EACH = [
    pytest.param(phase, number, marks=() if (phase, number) in QUICK else LONG, id=f"{phase}-{number.name}")
    for QUICK in [{("exercise", signal.SIGINT), ("install", signal.SIGTERM)}]
    for phase in PHASES
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
]


@pytest.mark.threat("R5")
@pytest.mark.parametrize(("phase", "number"), EACH)
def test_a_review_that_is_told_to_end_takes_everything_away(
    start: Callable[[str], Live], phase: str, number: signal.Signals
) -> None:
    live = start(phase)
    assert live.end(number) == 130
    assert live.gone()
    assert left_below(live.command.run_root) == []
    assert not live.command.out.exists()


@pytest.mark.threat("R5")
@pytest.mark.parametrize("phase", [pytest.param(p, marks=() if p == "exercise" else LONG) for p in PHASES])
def test_a_review_that_is_killed_leaves_no_process_and_no_result(start: Callable[[str], Live], phase: str) -> None:
    live = start(phase)
    assert live.end(signal.SIGKILL) == -signal.SIGKILL
    assert live.gone()  # the janitor too: it ends once it has removed the folder
    assert left_below(live.command.run_root) == []
    assert "result.json" not in live.files


@pytest.mark.threat("R5")
def test_what_a_killed_review_and_janitor_leave_goes_with_the_next_review(
    start: Callable[[str], Live], review_host: HostFacts, server_folder: Callable[[str], Path]
) -> None:
    live = start("exercise")
    os.kill(live.janitor, signal.SIGKILL)
    live.end(signal.SIGKILL)
    assert live.gone()
    (left,) = left_below(live.command.run_root)  # the control: without a janitor there is something to sweep
    assert left.startswith("run-")
    assert [name for name in live.files if not name.startswith(".")] == []
    (live.command.place / "safe").symlink_to(server_folder("safe"))
    again = live.command.run(live.command.request(request_for({"kind": "dir", "path": "safe"})))
    assert again.status == 0, again.stderr
    assert sorted(path.name for path in again.out.iterdir()) == ["events.ndjson", "report.html", "result.json"]
    check((again.out / "result.json").read_bytes())
    assert left_below(live.command.run_root) == []
    assert runs.sweep(review_host) == 0
