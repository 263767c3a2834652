"""What `server-everything` reaches alone in MCP's conformance suite, it reaches behind the gateway."""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "gateway_conformance.py"
LINE = "2025-11-25\tping\tping\tit is a joke\n"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    return importlib.import_module("gateway_conformance")


@pytest.mark.long
@pytest.mark.sandbox
def test_what_differs_behind_the_gateway_is_what_is_listed() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=600, check=False)
    if "npm ci failed" in done.stderr and any(word in done.stderr for word in ("ECONN", "ENOTFOUND", "EAI_AGAIN")):
        pytest.skip("the operator's npm registry did not answer: npm ci failed")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("checks reached alone") == 2


def test_a_check_is_reached_when_each_of_its_results_is_a_success(script: Any) -> None:
    results = {
        "ping": [("ping", "SUCCESS"), ("note", "INFO"), ("both", "SUCCESS"), ("both", "INFO")],
        "other": [("twice", "SUCCESS"), ("twice", "FAILURE"), ("warned", "WARNING"), ("left", "SKIPPED")],
    }
    found = script.reached(results, "2025-11-25")
    assert {(one.scenario, one.check) for one in found} == {("ping", "ping"), ("ping", "both")}


def test_a_difference_that_is_not_listed_and_one_that_does_not_occur_both_fail(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    known = script.listed(f"# words\n{LINE}")
    (ping,) = known
    other = script.Check("2025-11-25", "tools-list", "tools-list")
    assert script.told({ping}, known) == 0
    assert script.told({ping, other}, known) == 1
    assert "tools-list tools-list: reached alone" in capsys.readouterr().out
    assert script.told(set(), known) == 1
    assert "listed, and does not differ" in capsys.readouterr().out


def test_each_listed_difference_says_why(script: Any) -> None:
    known = script.listed(script.LIST.read_text("ascii"))
    assert known
    assert all(len(why) > 5 for why in known.values())
    assert {one.revision for one in known} <= {"2025-11-25", "2026-07-28"}
