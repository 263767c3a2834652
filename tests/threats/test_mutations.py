"""Taking out one control makes a test fail: each entry of mutations.toml is a control, taken out.

The quick tests hold that the list is about the code as it is; the long ones take each control out of a copy of the
source and run the tests that claim to hold it.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("mutations.toml")
MUTATIONS: list[dict[str, Any]] = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutation"]
NAMES = [one["name"] for one in MUTATIONS]


def mutated(one: dict[str, Any], source: str) -> str:
    """The module without its control; AssertionError when the list is not about this code."""
    assert source.count(one["take"]) == 1, f"{one['name']}: its text occurs {source.count(one['take'])} times"
    return source.replace(one["take"], one["put"])


@pytest.mark.parametrize("one", MUTATIONS, ids=NAMES)
def test_each_entry_is_about_the_code_as_it_is(one: dict[str, Any]) -> None:
    source = (ROOT / "src/fumehood" / one["module"]).read_text(encoding="utf-8")
    changed = mutated(one, source)
    assert changed != source
    compile(changed, one["module"], "exec")
    for test in one["tests"]:
        file, _, name = test.partition("::")
        assert not name or f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), test


def test_names_are_unique_and_each_threat_has_a_control_taken_out() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert {f"T{number}" for number in range(1, 14)} <= {one["threat"] for one in MUTATIONS}


@pytest.mark.long
@pytest.mark.parametrize("one", MUTATIONS, ids=NAMES)
def test_without_the_control_a_test_fails(one: dict[str, Any], tmp_path: Path) -> None:
    assert run(one, tmp_path / "as-it-is", change=False) == 0, "its tests fail with the control in place"
    assert run(one, tmp_path / "without", change=True) == 1


def run(one: dict[str, Any], folder: Path, *, change: bool) -> int:
    """The status of pytest on the entry's tests: 0 all pass, 1 some fail; anything else means that they did not run."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    module = folder / "src/fumehood" / one["module"]
    if change:
        module.write_text(mutated(one, module.read_text(encoding="utf-8")), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *one["tests"]],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=False,
        timeout=300,
    )
    return done.returncode
