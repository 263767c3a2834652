"""`fumehood code run` as a person uses it: values, words, statuses, the tools of a workspace, nothing left behind."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from served.talk import FUMEHOOD

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
PAGE = Path(__file__).parents[2] / "docs/howto/run-a-program.md"


def run(folder: Path, program: str, *words: str, **settings: str) -> subprocess.CompletedProcess[bytes]:
    file = folder / "program.ts"
    file.write_text(program)
    argv = [FUMEHOOD, "code", "run", str(file), *words]
    return subprocess.run(argv, capture_output=True, check=False, timeout=120, env=ENVIRONMENT | settings)


def shown(name: str) -> str:
    """A program of the page."""
    found = re.search(
        rf"^\$ cat {re.escape(name)}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert found
    return found[1]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "one.py").write_text("def one():\n    return 1\n")
    (folder / ".env").write_text("KEY=planted\n")
    return folder


@pytest.mark.sandbox
def test_the_first_program_of_the_page_does_what_the_page_says(tmp_path: Path) -> None:
    done = run(tmp_path, shown("sum.ts"), "--input", "[1, 2, 39]")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"42\n", b"log: 3 numbers\n")


@pytest.mark.sandbox
def test_the_second_program_of_the_page_reads_the_workspace(tmp_path: Path, workspace: Path) -> None:
    done = run(tmp_path, shown("longest.ts"), "--workspace", str(workspace))
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert value["files"] == 1
    assert value["found"][0]["structured"]["total"] == 1
    assert "not_found" in value["found"][1]


@pytest.mark.sandbox
@pytest.mark.threat("C1")
def test_what_is_denied_to_a_client_is_denied_to_a_program(tmp_path: Path, workspace: Path) -> None:
    program = """
    const words = [];
    for (const [name, args] of input) {
      try { words.push((await amcp.run(name, args)).text) } catch (error) { words.push(`${error}`) }
    }
    return words;
    """
    calls = [
        ["workspace.read_file", {"path": ".env"}],
        ["workspace.read_file", {"path": "../program.ts"}],
        ["workspace.read_file", {"pth": "a/one.py"}],
        ["workspace.write_file", {"path": "x"}],
        ["read_file", {"path": "a/one.py"}],
        ["workspace.read_file", {"path": "a/one.py"}],
    ]
    done = run(tmp_path, program, "--workspace", str(workspace), "--input", json.dumps(calls), "--json")
    document = json.loads(done.stdout)
    denied, outside, misfit, unknown, bare, read = document["value"]
    assert b"planted" not in done.stdout + done.stderr
    assert "denied_path" in denied
    assert "outside_workspace" in outside
    assert "it takes path (string, required)" in misfit
    assert "workspace.write_file" in unknown
    assert "read_file" in bare
    assert "def one()" in read
    assert [call["outcome"] for call in document["calls"]] == ["refused"] * 5 + ["ok"]


@pytest.mark.sandbox
def test_a_program_finds_and_describes_its_tools(tmp_path: Path, workspace: Path) -> None:
    program = """
    const found = await amcp.search("commits of a file", { limit: 3 });
    return [found[0].name, await amcp.describe([found[0].name])];
    """
    done = run(tmp_path, program, "--workspace", str(workspace))
    name, declared = json.loads(done.stdout)
    assert name == "workspace.git_log"
    assert "git_log(args?: {" in declared


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("program", "status", "state"),
    [
        ("const a = 1;\nthrow new TypeError('no');", 1, "user_error"),
        ("const a = ;", 1, "syntax_error"),
        ("for (let i = 0; i < 300; i++) await amcp.search('x');", 4, "call_limit"),
        ("for (;;) console.log('x'.repeat(10000));", 4, "output_limit"),
    ],
)
def test_how_a_run_ends_is_its_state_and_its_status(program: str, status: int, state: str, tmp_path: Path) -> None:
    done = run(tmp_path, program, "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["state"], document["ok"]) == (status, state, False)
    assert document["error"]["name"]


@pytest.mark.sandbox
def test_a_workspace_that_is_not_there_is_refused_before_anything_runs(tmp_path: Path) -> None:
    done = run(tmp_path, "return 1", "--workspace", str(tmp_path / "nothing"))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"does not exist" in done.stderr


@pytest.mark.sandbox
@pytest.mark.threat("G1")
def test_each_call_of_a_run_stands_in_the_audit_log_before_its_answer(tmp_path: Path, workspace: Path) -> None:
    log = tmp_path / "log"
    log.mkdir(mode=0o700)
    program = """
    for (const [name, args] of input) { try { await amcp.run(name, args) } catch {} }
    """
    calls = [
        ["workspace.read_file", {"path": "a/one.py"}],
        ["workspace.read_file", {"pth": "planted"}],
        ["workspace.other", {}],
    ]
    words = ("--workspace", str(workspace), "--input", json.dumps(calls))
    done = run(tmp_path, program, *words, FUMEHOOD_LOG__AUDIT_FILE=str(log / "audit.jsonl"))
    assert done.returncode == 0, done.stderr
    text = (log / "audit.jsonl").read_text()
    events = [json.loads(line)["event"] for line in text.splitlines()]
    assert [(one["tool"], one["decision"]) for one in events] == [
        ("workspace.read_file", "allowed"),
        ("workspace.read_file", "arguments"),
        ("workspace.other", "not_allowed"),
    ]
    assert "one.py" not in text
    assert "planted" not in text
    checked = subprocess.run(
        [FUMEHOOD, "audit", "verify", str(log / "audit.jsonl")],
        capture_output=True,
        check=False,
        timeout=120,
        env=ENVIRONMENT,
    )
    assert (checked.returncode, checked.stdout.splitlines()[0]) == (0, b"3 lines hold; files: 1")
