"""`kill -9` at any moment of a run (the command, the program, the server of its tools): nothing is left of it."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from e2e.bench import descendants, left_below
from fumehood.sandbox import lineage
from fumehood.sandbox.hostfacts import HostFacts
from served.talk import FUMEHOOD

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("C4")]
BOUND_SECONDS = 60.0  # for whatever has to happen; on an idle machine it takes milliseconds
PROGRAM = """
const words = [];
for (let turn = 0; turn < 6; turn++) {
  try {
    words.push((await amcp.run("workspace.read_file", { path: "a.txt" })).text);
  } catch (error) {
    words.push(`${error}`);
  }
  console.log(turn);
  await new Promise((done) => setTimeout(done, 20));
}
return [words, "x".repeat(20000)];
"""
KINDS = [("command", True), ("command", False), ("program", True), ("program", False), ("server", True)]
Identity = tuple[int, str]  # of a process: pid and start time


def identity(pid: int) -> Identity:
    """Tells a process from a later one of the same number."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return pid, stat.rpartition(")")[2].split()[19]


def below_us() -> dict[Identity, str]:
    """Our descendants that run, and their command lines. Orphans are among them: see `adopted`."""
    found = {}
    for pid in descendants():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
            found[identity(pid)] = words.decode("utf-8", "replace")
    return found


def find(process: "subprocess.Popen[bytes]", role: str) -> int | None:
    """The process of a run that plays a role, once it is there."""
    if role == "command":
        return process.pid
    for pid in lineage.tree(process.pid):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if words[0] == b"/deno" if role == "program" else b"serve" in words:
                return pid
    return None


@dataclass(kw_only=True)
class Range:
    """Starts runs, kills in them, and looks at what is left."""

    place: Path
    host: HostFacts
    before: frozenset[Identity] = field(default_factory=lambda: frozenset(below_us()))
    seen: set[str] = field(default_factory=set)  # run folders at the moments of kills; cgroups are named after them

    @property
    def out(self) -> Path:
        return self.place / "out"

    def start(self, *, tools: bool, as_json: bool) -> "subprocess.Popen[bytes]":
        words = ["--workspace", str(self.place / "workspace")] if tools else []
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": "/nonexistent",
            "FUMEHOOD_SANDBOX__RUN_ROOT": str(self.host.run_root),
        }
        with self.out.open("wb") as out, (self.place / "err").open("wb") as err:
            return subprocess.Popen(
                [FUMEHOOD, "code", "run", str(self.place / "program.js"), *words, *["--json"] * as_json],
                env=environment,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def lives(self, *, tools: bool) -> dict[str, float]:
        """How long each role lives in a run that nobody disturbs, in seconds."""
        process = self.start(tools=tools, as_json=False)
        first: dict[str, float] = {}
        last: dict[str, float] = {}
        while process.poll() is None:
            for role in ("command", "program", "server"):
                if find(process, role) is not None:
                    last[role] = time.monotonic()
                    first.setdefault(role, last[role])
            time.sleep(0.01)
        assert process.returncode == 0, self.errors()
        return {role: last[role] - first[role] for role in first}

    def kill(self, role: str, moment: float, *, tools: bool, as_json: bool) -> bool:
        """Start a run and kill a role `moment` seconds after it is there; whether it was still there then."""
        process = self.start(tools=tools, as_json=as_json)
        try:
            while (pid := find(process, role)) is None and process.poll() is None:
                time.sleep(0.005)
            struck = False
            if pid is not None:
                with contextlib.suppress(ProcessLookupError), contextlib.ExitStack() as stack:
                    descriptor = os.pidfd_open(pid)
                    stack.callback(os.close, descriptor)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(moment)
                    self.seen.update(self.folders())
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                    struck = True
            process.wait(BOUND_SECONDS)
        finally:
            process.kill()
            process.wait()
        return struck and (role != "command" or process.returncode == -signal.SIGKILL)

    def strangers(self) -> dict[Identity, str]:
        """Processes that run now and did not before, once those had time that are about to end."""
        deadline = time.monotonic() + BOUND_SECONDS
        none = 0
        while True:
            for child in lineage.children(os.getpid()):
                with contextlib.suppress(ChildProcessError, OSError):
                    if identity(child) not in self.before:
                        os.waitpid(child, os.WNOHANG)  # adopted: nobody else waits for it
            found = {one: line for one, line in below_us().items() if one not in self.before}
            none = 0 if found else none + 1
            if none == 2 or time.monotonic() > deadline:
                return found
            time.sleep(0.02)

    def folders(self) -> list[str]:
        return left_below(self.host.run_root)

    def groups(self) -> list[str]:
        """Cgroups of the runs that were seen."""
        roots = self.host.cgroups.roots.values()
        return [str(path) for root in roots for name in self.seen for path in root.glob(f"{name}*")]

    def errors(self) -> str:
        return (self.place / "err").read_text(encoding="utf-8", errors="replace")

    def documents(self) -> int:
        """How many whole JSON documents stand on stdout, which holds nothing else."""
        text = self.out.read_text(encoding="ascii")
        if text:
            json.loads(text)
            assert text.endswith("\n")
        return bool(text)

    def next_start(self) -> None:
        """An undisturbed run, which sweeps first, succeeds."""
        process = self.start(tools=False, as_json=False)
        assert process.wait(BOUND_SECONDS) == 0, self.errors()
        assert self.documents() == 1


@pytest.fixture
def killing(adopted: None, tmp_path: Path, review_host: HostFacts) -> Iterator[Range]:
    del adopted
    (tmp_path / "program.js").write_text(PROGRAM)
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "a.txt").write_text("words\n")
    place = Range(place=tmp_path, host=review_host)
    yield place
    for pid, _ in place.strangers():  # of a test that failed
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("times", [1, pytest.param(40, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("role", "tools"), KINDS, ids=lambda value: value if isinstance(value, str) else f"tools-{value}"
)
def test_a_kill_at_any_moment_leaves_nothing_of_a_run(role: str, tools: bool, times: int, killing: Range) -> None:
    dice = random.Random(f"{role} {tools} {times}")
    life = killing.lives(tools=tools)[role]
    struck = 0
    for turn in range(4 * times):  # a run may be quicker than the one that was measured
        if struck == times:
            break
        moment, as_json = dice.uniform(0, 0.9 * life), dice.random() < 0.5
        at = f"turn {turn}: {role} {moment:.4f} s of {life:.4f}"
        struck += killing.kill(role, moment, tools=tools, as_json=as_json)
        assert killing.strangers() == {}, at
        documents = killing.documents()
        if role != "command":
            assert "Traceback" not in killing.errors(), at
            assert documents or killing.errors(), at  # whoever is alive says what happened
        if names := killing.folders():
            killing.next_start()
            assert killing.folders() == [], (at, names)
        assert killing.groups() == [], at
    assert struck == times


def test_what_a_killed_command_and_its_janitor_leave_goes_with_the_next_start(killing: Range) -> None:
    process = killing.start(tools=False, as_json=False)
    while find(process, "program") is None:
        assert process.poll() is None, killing.errors()
        time.sleep(0.005)
    (janitor,) = (pid for (pid, _), line in below_us().items() if "/janitor.py " in line)
    os.kill(janitor, signal.SIGKILL)
    process.kill()
    process.wait()
    assert killing.strangers() == {}
    killing.seen.update(killing.folders())
    assert len(killing.seen) == 1  # the control: the look at folders finds what is left
    assert bool(killing.groups()) is bool(killing.host.cgroups.roots)  # the same for cgroups
    killing.next_start()
    assert killing.folders() == killing.groups() == []
    assert killing.strangers() == {}


def test_the_look_at_processes_finds_one_that_left_its_parents(killing: Range) -> None:
    subprocess.run(["/bin/sh", "-c", "setsid sleep 1000 &"], check=True, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + BOUND_SECONDS
    while not (found := [pid for (pid, _), line in below_us().items() if "sleep 1000" in line]):
        assert time.monotonic() < deadline
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    assert killing.strangers() == {}
