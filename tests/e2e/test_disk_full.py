"""A full disk is a fault of ours: exit 5, no evidence about the target, and nothing half-written."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.bench import Command, Ran, request_for

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk"),
]
Make = Callable[..., Path]
# $1 size, $2 where, $3 where the listing goes; then the command. The mount ends with its namespace.
SMALL = """
mount -t tmpfs -o "size=$1,mode=0711" tmpfs "$2" || exit 99
small="$2" listing="$3"; shift 3
"$@"; status=$?
ls -A "$small" > "$listing"
exit "$status"
"""


@dataclasses.dataclass(frozen=True)
class Disk:
    """Runs the command where one folder is a small disk."""

    command: Command

    @property
    def left(self) -> list[str]:
        """What lay on the small disk in the end."""
        return (self.command.place / "listing").read_text(encoding="utf-8").split()

    def run(self, size: str, where: Path) -> Ran:
        """Review `target`; the control has a disk that is large enough."""
        where.mkdir(exist_ok=True)
        words = ("/usr/bin/unshare", "--mount", "/bin/sh", "-c", SMALL, "sh", size, str(where))
        small = dataclasses.replace(self.command, before=(*words, str(self.command.place / "listing")))
        return small.run(small.request(request_for({"kind": "dir", "path": "target"})))


@pytest.fixture
def disk(command: Command) -> Disk:
    return Disk(command=command)


FILLS = """
const fs = require("node:fs");
const file = fs.openSync("filler", "w");
for (let piece = 0; piece < 48; piece++) fs.writeSync(file, Buffer.alloc(1 << 20, 1));
"""


@pytest.mark.parametrize(("size", "status", "state"), [("24m", 5, "HARNESS_ERROR"), ("200m", 0, "COMPLETED")])
def test_a_disk_that_a_step_fills_is_no_evidence_about_the_target(
    disk: Disk, target: Make, size: str, status: int, state: str
) -> None:
    target({"hook.js": FILLS})
    ran = disk.run(size, disk.command.run_root)
    assert (ran.status, ran.result["execution"]["status"]) == (status, state), ran.stderr
    assert [error["code"] for error in ran.result["errors"]] == (["disk_full"] if status else [])
    assert [name for name in disk.left if name != "slots"] == []


def test_a_disk_without_room_for_the_sources_is_no_evidence_about_the_target(disk: Disk, target: Make) -> None:
    target({"large.txt": "large\n" * 100_000})
    ran = disk.run("256k", disk.command.run_root)
    assert ran.status == 5
    assert ran.result["execution"]["status"] == "HARNESS_ERROR"
    assert ran.result["errors"][0]["code"] == "disk_full"
    assert [name for name in disk.left if name != "slots"] == []


def test_a_result_that_does_not_fit_its_disk_is_not_half_written(disk: Disk, target: Make) -> None:
    target({})
    ran = disk.run("16k", disk.command.out)
    assert ran.status == 5
    assert "No space left" in ran.stderr
    assert "make room" in ran.stderr
    assert disk.left == []
