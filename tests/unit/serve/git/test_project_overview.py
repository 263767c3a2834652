"""serve.tools.project_overview over real folders."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fumehood.core import limits
from fumehood.core.budget import Budget
from fumehood.core.errors import CancelledError, DeniedPathError, OutsideWorkspaceError, UnsupportedError
from fumehood.serve.tools import project_overview

TOOL = project_overview.TOOL
FILES = {
    "pyproject.toml": '[project]\nname = "demo"\ndependencies = ["click"]\n',
    "src/demo/__main__.py": "import demo\n\ndemo.run()\n",
    "src/demo/core.py": "x = 1\n",
    "tests/test_core.py": "def test(): ...\n",
    "web/package.json": '{"name": "web", "scripts": {"build": "tsc"}}',
    "web/index.ts": "export {}\n",
    "web/node_modules/left/index.js": "x\n",
    ".env": "TOKEN=hunter2\n",
    "README.md": "# Demo\n",
}


def test_a_project_is_described(make: Callable[..., Any]) -> None:
    repo = make()
    tip = repo.commit(FILES, "first")
    told = repo.call(TOOL)
    facts = told.facts
    assert facts["files"] == 7
    assert {one["language"]: (one["files"], one["lines"]) for one in facts["languages"]} == {
        "Python": (3, 5),
        "TypeScript": (1, 1),
        "TOML": (1, 3),
        "Markdown": (1, 1),
        "JSON": (1, 1),
    }
    assert facts["manifests"] == [
        {"path": "pyproject.toml", "kind": "pyproject.toml"},
        {"path": "web/package.json", "kind": "package.json"},
    ]
    assert facts["entry_points"] == ["src/demo/__main__.py", "web/index.ts"]
    assert facts["tests"] == {"files": 1, "folders": [{"path": "tests", "files": 1}]}
    assert facts["version_control"] == {
        "kind": "git",
        "branch": "main",
        "commit": tip,
        "date": "2026-01-02T03:04:05+00:00",
    }
    assert facts["skipped"] == {"denied": 2, "generated": 1}
    assert "# pyproject.toml\nname: demo\ndepends on: click\n" in told.text
    assert "# web/package.json\nname: web\nscripts: build\n" in told.text
    assert "Python: 3 files, 5 lines\n" in told.text
    assert "Passed over: 2 denied, 1 generated." in told.text
    assert "TypeScript: 1 file, 1 line\n" in told.text
    assert f"version control: git, branch main, commit {tip}, 2026-01-02T03:04:05+00:00\n" in told.text
    assert "hunter2" not in told.everything
    assert "node_modules" not in told.everything


def test_a_part_of_a_project_is_described_with_paths_from_the_root(make: Callable[..., Any]) -> None:
    repo = make()
    repo.commit(FILES, "first")
    told = repo.call(TOOL, path="web")
    assert told.facts["files"] == 2
    assert told.facts["manifests"] == [{"path": "web/package.json", "kind": "package.json"}]
    assert told.facts["entry_points"] == ["web/index.ts"]
    with pytest.raises(DeniedPathError):
        repo.call(TOOL, path=".git")
    with pytest.raises(OutsideWorkspaceError):
        repo.call(TOOL, path="../x")


def test_a_folder_without_a_repository_says_so(make: Callable[..., Any]) -> None:
    repo = make(init=False)
    told = repo.call(TOOL)
    assert told.facts["version_control"]["kind"] == "none"
    assert told.facts["files"] == 0
    repo.git("init", "-q")
    assert repo.call(TOOL).facts["version_control"]["error"] == "git_failed"


def test_a_commit_without_a_branch_and_a_host_without_git(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make()
    repo.commit(FILES, "first")
    repo.git("checkout", "-q", "--detach")
    assert repo.call(TOOL).facts["version_control"]["branch"] is None

    def refuse(*_: object) -> None:
        raise UnsupportedError("git was not found on this host")

    monkeypatch.setattr(repo.programs, "start", refuse)
    assert repo.call(TOOL).facts["version_control"]["error"] == "unsupported"


def test_a_manifest_that_cannot_be_read_is_named_with_the_reason(make: Callable[..., Any]) -> None:
    repo = make()
    repo.write(
        {
            "package.json": "{",
            "big/package.json": b" " * (limits.OVERVIEW_MANIFEST_BYTES + 1),
            "bytes/go.mod": b"\0\1\2",
            "empty/Makefile": "",
        }
    )
    os.link(repo.root / "package.json", repo.root / "Cargo.toml")
    repo.write({"sub/Cargo.toml": ""})
    found = {one["path"]: one.get("error") for one in repo.call(TOOL).facts["manifests"]}
    assert found == {
        "Cargo.toml": "hard_link",
        "package.json": "hard_link",
        "big/package.json": "too_large",
        "bytes/go.mod": "binary_file",
        "empty/Makefile": None,
        "sub/Cargo.toml": None,
    }


@pytest.mark.threat("T2")
@pytest.mark.threat("T8")
def test_links_and_what_is_no_file_are_counted_and_hold_nothing_up(make: Callable[..., Any], tmp_path: Any) -> None:
    repo = make()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.py").write_text("hunter2\n")
    (repo.root / "linked").symlink_to(tmp_path / "outside")
    (repo.root / "pyproject.toml").symlink_to(tmp_path / "outside" / "secret.py")
    os.mkfifo(repo.root / "pipe.py")
    told = repo.call(TOOL)
    assert told.facts["files"] == 0
    assert told.facts["skipped"] == {"denied": 1, "links": 2, "other": 1}
    assert "secret" not in told.everything


def test_a_walk_that_ends_early_says_so(make: Callable[..., Any]) -> None:
    repo = make(walked_files=3)
    repo.write({f"f{n}.py": "x\n" for n in range(9)})
    told = repo.call(TOOL)
    assert told.facts["complete"] is False
    assert "give a `path`" in told.text


def test_manifests_beyond_a_reply_are_named_and_not_shown(make: Callable[..., Any]) -> None:
    repo = make(reply_bytes=4096)
    body = "".join(f"target-with-a-long-name-{n:04}:\n" for n in range(40))
    repo.write({f"p{n}/Makefile": body for n in range(6)})
    told = repo.call(TOOL)
    assert len(told.facts["manifests"]) == 6
    assert len(told.answer.passages) == 2


def test_a_cancelled_call_ends(make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    repo = make()
    repo.write(FILES)
    budget = Budget(30)
    listed = iter([None])

    def check() -> Iterator[None] | None:
        if next(listed, "end") == "end":
            raise CancelledError("the call was cancelled")
        return None

    monkeypatch.setattr(Budget, "check", lambda _: check())
    repo.context = type(repo.context)(
        access=repo.context.access,
        settings=repo.context.settings,
        budget=budget,
        programs=repo.programs,
        symbols=repo.context.symbols,
    )
    with pytest.raises(CancelledError):
        repo.call(TOOL)
