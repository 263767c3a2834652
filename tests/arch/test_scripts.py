"""The scripts' own decisions, without running a review."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fumehood.review import request

ROOT = Path(__file__).parents[2]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"script_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def self_review() -> ModuleType:
    return load("self_review")


def result(status: str, *created: str, code: str = "") -> dict[str, Any]:
    items = [{"phase": "EXERCISE", "type": "filesystem.created", "detail": {"path": path}} for path in created]
    errors = [{"code": code, "message": "said"}] if code else []
    return {"execution": {"status": status}, "errors": errors, "observations": {"items": items}}


def test_every_fixture_folder_has_a_case_whose_request_is_accepted(self_review: ModuleType) -> None:
    cases = self_review.folder_cases()
    assert len(cases) >= 14
    for case in cases:
        request.parse(json.dumps(case.request).encode())


def test_a_fixture_without_an_expected_state_is_an_error(
    self_review: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(self_review.ENDS, "noisy")
    with pytest.raises(SystemExit, match="noisy"):
        self_review.folder_cases()


def test_the_own_commit_is_reviewed_by_version_1_requests_that_are_accepted(self_review: ModuleType) -> None:
    cases = self_review.commit_cases("http://127.0.0.1:1", "1" * 40)
    assert {"commit-safe", "commit-build-required", "commit-noisy", "commit-failing"} == {case.name for case in cases}
    for case in cases:
        request.parse(json.dumps(case.request).encode())
        assert case.request["target"]["ref"] == "1" * 40


def test_what_a_result_lacks_is_said(self_review: ModuleType) -> None:
    case = self_review.Case(name="x", request={}, ends=("COMPLETED", ""), created="received.jsonl")
    assert self_review.problems(result("COMPLETED", "work/received.jsonl"), case) == []
    assert len(self_review.problems(result("COMPLETED", "work/other"), case)) == 1
    assert len(self_review.problems(result("TARGET_FAILED"), case)) == 2


def test_a_failure_for_another_reason_is_no_success(self_review: ModuleType) -> None:
    case = self_review.Case(name="x", request={}, ends=("TARGET_FAILED", "exited"))
    assert self_review.problems(result("TARGET_FAILED", code="exited"), case) == []
    assert self_review.problems(result("TARGET_FAILED", code="git_failed"), case) == [
        "TARGET_FAILED git_failed instead of TARGET_FAILED exited (said)"
    ]


def test_the_demo_skips_its_second_part_when_no_registry_answers(
    monkeypatch: pytest.MonkeyPatch, refused_url: str
) -> None:
    demo = load("demo")
    monkeypatch.setenv("npm_config_registry", refused_url)
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    assert "did not answer" in demo._registry_problem()


def test_the_page_of_the_command_line_is_the_help_of_every_command() -> None:
    # In a process of its own: click remembers a command's help option from whoever asked for it first.
    program = "import runpy, sys; sys.stdout.write(runpy.run_path('scripts/command_line.py')['text']())"
    argv = [sys.executable, "-c", program]
    text = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    page = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8")
    assert page == text, "run .venv/bin/python scripts/command_line.py"
    for words in ("fumehood doctor", "fumehood review run", "fumehood review validate"):
        assert f"\n## {words}\n" in page


def test_the_page_of_behaviours_is_written_from_their_fixtures() -> None:
    page = (ROOT / "docs/reference/behaviours.md").read_text(encoding="utf-8")
    assert page == load("behaviour_page").page(), "run .venv/bin/python scripts/behaviour_page.py"


def test_the_rows_of_threats_are_written_from_the_marks(tmp_path: Path) -> None:
    rows = load("threat_rows")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text('@pytest.mark.threat("T1", "T2")\ndef test_a(): ...\n')
    page = "| T1 | A1 | x | y | z | built | tests/gone.py |\n| T2 | A1 | x | y | z | not built | |\n"
    written = rows.written(page, rows.marked(tmp_path))
    assert written == page.replace("tests/gone.py", "tests/test_a.py")
