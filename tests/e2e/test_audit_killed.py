"""A writer that is killed at any moment leaves a chain that holds, with every record that it had told."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fumehood.gateway.audit import files
from fumehood.gateway.audit.chain import Verified, verify

PROGRAM = Path(__file__).with_name("audit_writer.py")
ROUNDS = 50


@pytest.mark.threat("G1")
def test_a_writer_killed_fifty_times_breaks_no_chain_and_loses_no_record(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    file = tmp_path / "audit.jsonl"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(file), str(ROUNDS), "7"],
        env=os.environ | {"PYTHONPATH": str(PROGRAM.parents[1])},
        capture_output=True,
        check=True,
        timeout=240,
    )
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rounds) == ROUNDS
    told, before = 0, 0
    for one in rounds:
        told += one["kept"]
        assert isinstance(one["lines"], int), one["lines"]
        assert one["lines"] >= before + one["kept"]  # what was told is there; what was torn is stated besides
        before = one["lines"]
    assert told > ROUNDS
    found = verify(line for _, lines in files.lines(file) for line in lines)
    assert isinstance(found, Verified)
    assert found.recovered > 0  # the tears that were planted were met, and stated
    assert len(list(files.lines(file))) > 10
