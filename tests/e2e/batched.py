"""A batch that runs as a command, and the processes below it."""

import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.bench import Command
from fumehood.sandbox import lineage

BOUND_SECONDS = 90.0  # for whatever has to happen on a busy machine


def wait_for(what: Callable[[], Any], why: Callable[[], object] = lambda: "") -> Any:
    """Wait until it is true, and give it."""
    deadline = time.monotonic() + BOUND_SECONDS
    while not (found := what()):
        assert time.monotonic() < deadline, why()
        time.sleep(0.02)
    return found


def below(pid: int, sign: str) -> list[int]:
    """Processes of a tree whose command line holds a sign."""
    found = []
    for one in lineage.tree(pid):
        with contextlib.suppress(OSError):
            if sign in Path(f"/proc/{one}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"):
                found.append(one)
    return found


def held(pid: int, stack: contextlib.ExitStack) -> list[int]:
    """A descriptor for each process of a tree, so that its end can be waited for."""
    found = []
    for one in lineage.tree(pid):
        with contextlib.suppress(ProcessLookupError):
            found.append(os.pidfd_open(one))
            stack.callback(os.close, found[-1])
    return found


def all_ended(descriptors: list[int]) -> bool:
    deadline = time.monotonic() + BOUND_SECONDS
    return all(select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0] for fd in descriptors)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCommand:
    """Runs `fumehood review batch` over requests, in a place of the test's own."""

    command: Command

    @property
    def out(self) -> Path:
        return self.command.place / "batch"

    @property
    def listed(self) -> Path:
        return self.command.place / "requests.jsonl"

    def write(self, *requests: dict[str, Any]) -> None:
        self.listed.write_text("".join(json.dumps(one) + "\n" for one in requests), encoding="utf-8")

    def argv(self, *words: str) -> list[str]:
        return self.command.argv("review", "batch", str(self.listed), "--out", str(self.out), *words)

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.argv(*words),
            env=self.command.environment(),
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        with self.start(*words) as process:
            try:
                out, err = process.communicate(timeout=300)
            finally:
                process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def results(self) -> dict[Path, int]:
        """Each result that there is, and when it was written."""
        return {path: path.stat().st_mtime_ns for path in self.out.glob("*/*/result.json")}

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads((self.out / "summary.json").read_text())["rows"]
        return rows

    def running(self, process: "subprocess.Popen[str]") -> int:
        """The one review that runs below a process, once its target does."""

        def look() -> int:
            assert process.poll() is None, "the batch ended too early"
            return next((one for one in below(process.pid, "review run") if below(one, "server.js")), 0)

        found: int = wait_for(look)
        return found
