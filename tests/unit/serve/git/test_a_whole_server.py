"""A real server over a repository full of programs: no tool runs one, and every tool answers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fumehood.serve.catalogue import TOOLS
from served.talk import Talk

KEYS = ["core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass", "credential.helper"]
KEYS += ["diff.external", "diff.x.command", "diff.x.textconv", "filter.x.clean", "filter.x.smudge", "filter.x.process"]
KEYS += ["gpg.program", "gpg.ssh.program", "merge.x.driver", "sequence.editor", "interactive.diffFilter", "alias.log"]
ARGUMENTS: dict[str, dict[str, Any]] = {
    "read_file": {"path": "a.txt"},
    "search_code": {"pattern": "one"},
    "find_files": {"glob": "*.py"},
    "find_symbol": {"symbol": "x"},
}


@pytest.mark.threat("T6")
@pytest.mark.sandbox
def test_no_tool_runs_a_program_that_the_repository_names(
    repo: Any, planted: Callable[[str], tuple[str, Path]]
) -> None:
    program, mark = planted("served")
    for key in KEYS:
        repo.git("config", key, program)
    repo.git("config", "log.showSignature", "true")
    repo.git("config", "core.hooksPath", str(Path(program).parent))
    repo.write({".gitattributes": "* filter=x diff=x merge=x\n", "a.txt": "one\nthree\n"})
    with Talk(repo.root) as talk:
        answers = {str(tool.name): talk.call(tool.name, ARGUMENTS.get(tool.name, {})) for tool in TOOLS}
        hostile = talk.call("git_log", {"revision": "--output=x"})
    assert [name for name, answer in answers.items() if answer.get("isError") is not False] == []
    assert "+three" in answers["git_diff"]["content"][0]["text"]
    assert len(answers["git_log"]["structuredContent"]["commits"]) == 2
    assert hostile["isError"] is True
    assert not (repo.root / "x").exists()
    assert not mark.exists()
    repo.git("diff", check=False)
    assert mark.exists(), "the negative control: plain git runs one"
