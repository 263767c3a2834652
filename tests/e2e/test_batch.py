"""A batch is killed, told to end, loses a child or its disk: what has a result stays, and the same command goes on."""

import contextlib
import dataclasses
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.batched import BatchCommand, all_ended, held, wait_for
from e2e.bench import Command, left_below, request_for
from e2e.test_disk_full import SMALL

pytestmark = pytest.mark.sandbox
Make = Callable[..., Path]
# It answers after a while, so that there is a moment in which it runs.
LATE = 'setTimeout(() => require("./real.js"), 3000);\n'


@pytest.fixture
def batch(command: Command) -> BatchCommand:
    return BatchCommand(command=command)


@pytest.fixture
def requests(target: Make, safe: str) -> list[dict[str, Any]]:
    """One request that is quick, and one whose target runs for a while."""
    target({}, name="quick")
    target({"server.js": LATE, "real.js": safe}, name="late")
    return [request_for({"kind": "dir", "path": name}) for name in ("quick", "late")]


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as made:
        yield made


@pytest.mark.threat("R5", "R40")
def test_a_batch_that_is_killed_leaves_nothing_running_and_goes_on(
    batch: BatchCommand, requests: list[dict[str, Any]], stack: contextlib.ExitStack
) -> None:
    batch.write(*requests)
    process = stack.enter_context(batch.start("--workers", "1"))
    stack.callback(process.kill)
    wait_for(batch.results)
    batch.running(process)
    descriptors = held(process.pid, stack)
    before = batch.results()
    assert len(before) == 1
    process.kill()
    assert all_ended(descriptors)
    assert left_below(batch.command.run_root) == []
    again = batch.run("--workers", "1")
    assert again.returncode == 0, again.stderr
    assert before.items() <= batch.results().items()
    assert [(row["attempts"], row["facts"]["state"]) for row in batch.rows()] == [(1, "COMPLETED"), (2, "COMPLETED")]
    assert again.stderr.count("COMPLETED") == 1  # the control: only one was run


def test_a_child_that_is_killed_is_followed_by_another_attempt(
    batch: BatchCommand, requests: list[dict[str, Any]], stack: contextlib.ExitStack
) -> None:
    batch.write(requests[1])
    process = stack.enter_context(batch.start("--json"))
    stack.callback(process.kill)
    os.kill(batch.running(process), signal.SIGKILL)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "again: dir:late" in err
    (row,) = batch.rows()
    assert (row["attempts"], row["facts"]["state"]) == (2, "COMPLETED")
    assert '"COMPLETED": 1' in out


@pytest.mark.threat("R5", "R40")
def test_a_batch_that_is_told_to_end_says_how_to_go_on(
    batch: BatchCommand, requests: list[dict[str, Any]], stack: contextlib.ExitStack
) -> None:
    batch.write(requests[1])
    process = stack.enter_context(batch.start())
    stack.callback(process.kill)
    batch.running(process)
    descriptors = held(process.pid, stack)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "the same command goes on from there" in err
    assert all_ended(descriptors)
    assert left_below(batch.command.run_root) == []


HOSTILE = (
    b'{"schema_version": 2, "command": "rm -rf /"}\n' + b"[" * 60_000 + b"\n\x1b[31m\xff\n" + b'{"a": 1, "a": 2}\n'
)


@pytest.mark.threat("R1")
def test_hostile_lines_are_all_named_and_nothing_is_started(batch: BatchCommand) -> None:
    batch.listed.write_bytes(HOSTILE)
    ran = batch.run()
    assert ran.returncode == 2
    assert all(f"line {number}: " in ran.stderr for number in (1, 2, 3, 4))
    assert "4 lines are refused; nothing was started" in ran.stderr
    assert "\x1b" not in ran.stderr
    assert not batch.out.exists()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_full_disk_ends_a_batch_with_what_to_do(batch: BatchCommand, requests: list[dict[str, Any]]) -> None:
    batch.write(requests[0])
    batch.out.mkdir()
    words = ("/usr/bin/unshare", "--mount", "/bin/sh", "-c", SMALL, "sh", "16k", str(batch.out))
    listing = str(batch.command.place / "listing")
    small = dataclasses.replace(batch, command=dataclasses.replace(batch.command, before=(*words, listing)))
    ran = small.run()
    assert ran.returncode == 5, ran.stderr
    assert "No space left" in ran.stderr
    assert batch.run().returncode == 0  # the control: with room it is done
