"""git_log and git_diff through the real starter: they answer behind its walls, which hold without our closures too."""

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fumehood.core.errors import FumehoodError
from fumehood.fence import repository
from fumehood.fence.git import command, configuration
from fumehood.sandbox import starter
from fumehood.serve.programs import StarterPrograms
from fumehood.serve.tools import git_diff, git_log

LOG, DIFF = git_log.TOOL, git_diff.TOOL
GIT = Path("/usr/bin/git")
Plant = Callable[[str], tuple[str, Path]]


@pytest.fixture
def walled(repo: Any) -> Iterator[Any]:
    """The repository with two commits; git is started by the starter."""
    with starter.start(repo.context.access.root_fd, {"git": GIT}) as running:
        running.ready()
        repo.context = replace(repo.context, programs=StarterPrograms(running))
        yield repo


@pytest.mark.sandbox
def test_both_tools_answer_behind_the_walls(walled: Any) -> None:
    walled.write({"a.txt": "one\nthree\n"})
    assert len(walled.call(LOG).facts["commits"]) == 2
    assert "-TWO\n+three\n" in walled.call(DIFF).text
    assert walled.call(DIFF, stat_only=True).facts["files"][0]["added"] == 1
    assert "+TWO" in walled.call(DIFF, revision="HEAD~1..HEAD").text
    assert walled.call(DIFF, staged=True).facts["files"] == []


@pytest.mark.sandbox
def test_a_pack_a_merge_and_many_names_are_read_behind_the_walls(walled: Any) -> None:
    walled.commit({f"many/{number:03}.txt": f"{number}\n" * 50 for number in range(250)}, "many")
    walled.git("gc", "-q")
    walled.git("pack-refs", "--all")
    told = walled.call(DIFF, revision="HEAD~1..HEAD")
    assert len(told.facts["files"]) == 250
    assert told.facts["omitted"] == {}
    assert walled.call(LOG).facts["commits"][0]["files"] == 250


PROGRAMS = [
    "core.fsmonitor",
    "diff.external",
    "diff.x.command",
    "diff.x.textconv",
    "filter.x.clean",
    "filter.x.process",
]


@pytest.mark.threat("T6")
@pytest.mark.sandbox
def test_a_repository_full_of_programs_is_answered_and_none_runs(walled: Any, planted: Plant) -> None:
    program, mark = planted("walled")
    for key in (*PROGRAMS, "gpg.program", "core.pager", "core.sshCommand"):
        walled.git("config", key, program)
    walled.git("config", "log.showSignature", "true")
    walled.write({".gitattributes": "* filter=x diff=x\n", "a.txt": "one\nthree\n"})
    assert "+three\n" in walled.call(DIFF).text
    assert len(walled.call(LOG).facts["commits"]) == 2
    assert not mark.exists()
    walled.git("diff", check=False)
    assert mark.exists(), "the negative control: plain git runs one"


@pytest.mark.threat("T6")
@pytest.mark.sandbox
@pytest.mark.parametrize("key", PROGRAMS)
def test_with_our_closures_taken_out_the_walls_still_run_nothing(
    walled: Any, planted: Plant, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    program, mark = planted("walled")
    walled.git("config", key, program)
    walled.write({".gitattributes": "* filter=x diff=x\n", "a.txt": "one\nthree\n"})
    monkeypatch.setattr(configuration, "closing", lambda _: ())
    monkeypatch.setattr(command, "_CLOSED", ())
    monkeypatch.setattr(command, "_TEXT", ())
    with_walls = walled.context
    for tool in (LOG, DIFF):
        try:
            walled.call(tool)
        except FumehoodError:
            continue
    assert not mark.exists()
    walled.context = replace(with_walls, programs=walled.programs)
    try:
        walled.call(DIFF)
    except FumehoodError:
        assert mark.exists()
    assert mark.exists(), "the negative control: without walls and closures it runs"


@pytest.mark.threat("T1")
@pytest.mark.sandbox
def test_with_our_look_taken_out_the_walls_still_show_nothing_outside(
    walled: Any, make: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = make(tmp_path / "outside")
    outside.commit({"a.txt": "hunter2\n"}, "hunter2")
    monkeypatch.setattr(repository.Examiner, "examine", lambda _: repository.Repository(repository._SEAL, (), None))
    subprocess.run(["rm", "-rf", str(walled.root / ".git" / "objects")], check=True)
    (walled.root / ".git" / "objects").symlink_to(outside.root / ".git" / "objects")
    tip = outside.git("rev-parse", "HEAD").decode().strip()
    walled.git("update-ref", "refs/heads/main", tip)
    with_walls = walled.context
    with pytest.raises(FumehoodError) as error:
        walled.call(LOG)
    assert "hunter2" not in str(error.value)
    walled.context = replace(with_walls, programs=walled.programs)
    assert "hunter2" in walled.call(LOG).text, "the negative control: without walls and look it is shown"
