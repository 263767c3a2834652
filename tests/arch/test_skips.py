import os
import subprocess
import sys
from pathlib import Path

import pytest

from skips import is_expected

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("reason", "uid", "ci", "expected"),
    [
        ("Skipped: needs root", 1000, False, True),
        ("Skipped: needs root", 0, False, False),
        ("the operator's npm registry did not answer in 4 attempts: URLError", 0, False, True),
        ("the operator's npm registry did not answer in 4 attempts: URLError", 0, True, False),
        ("no Chromium on this machine: make test-browser can install it", 0, True, True),
        ("Skipped: strace is missing", 1000, False, False),
    ],
)
def test_a_skip_is_expected_only_where_its_reason_holds(reason: str, uid: int, ci: bool, expected: bool) -> None:
    assert is_expected(reason, uid=uid, ci=ci) is expected


def test_an_unforeseen_skip_fails_the_run_and_names_its_reason(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import pytest\ndef test_a(): pytest.skip('the moon is full')\n")
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "skips",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        str(tmp_path),
    ]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stdout
    assert "unexpected skip" in done.stdout
    assert "the moon is full" in done.stdout
