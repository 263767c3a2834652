"""A repository whose own configuration names programs: none of them runs, and log and diff still answer.

Each kind has its negative control: plain git, in the same repository, runs the program. What plain git of this version
does not run for any of our two commands is asserted as such, and closed all the same.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fumehood.serve.tools import git_diff, git_log

LOG, DIFF = git_log.TOOL, git_diff.TOOL
Plant = Callable[[str], tuple[str, Path]]
# kind → (keys that name the program, attributes, what plain git is asked so that it runs)
KINDS: dict[str, tuple[dict[str, str], str, tuple[str, ...]]] = {
    "file-system monitor": ({"core.fsmonitor": "{}"}, "", ("diff",)),
    "external diff": ({"diff.external": "{}"}, "", ("diff",)),
    "driver command": ({"diff.x.command": "{}"}, "*.txt diff=x\n", ("diff",)),
    "text conversion": ({"diff.x.textconv": "{}"}, "*.txt diff=x\n", ("diff",)),
    "text conversion in log": ({"diff.x.textconv": "{}"}, "*.txt diff=x\n", ("log", "-p")),
    "clean filter": ({"filter.x.clean": "{}"}, "*.txt filter=x\n", ("diff",)),
    "required clean filter": ({"filter.x.clean": "{}", "filter.x.required": "true"}, "*.txt filter=x\n", ("diff",)),
    "process filter": ({"filter.x.process": "{}"}, "*.txt filter=x\n", ("diff",)),
    "filter with an odd name": ({'filter.a b"]\\.c.clean': "{}"}, '*.txt "filter=a b\\"]\\\\.c"\n', ()),
    "filter in capitals": ({"FILTER.Xy.CLEAN": "{}"}, "*.txt filter=Xy\n", ("diff",)),
    "signature program": ({"gpg.program": "{}", "log.showSignature": "true"}, "", ("log",)),
    "signature program of a format": (
        {"gpg.openpgp.program": "{}", "gpg.ssh.program": "{}", "log.showSignature": "true"},
        "",
        ("log",),
    ),
    "signature in a format": ({"gpg.program": "{}", "format.pretty": "%G?"}, "", ("log",)),
    "alias": ({"alias.log": "!{}", "alias.diff": "!{}", "alias.diff-files": "!{}"}, "", ()),
    "pager": ({"core.pager": "{}", "pager.log": "{}", "pager.diff": "{}"}, "", ()),
    "editor": ({"core.editor": "{}", "sequence.editor": "{}"}, "", ()),
    "credential helper": ({"credential.helper": "!{}"}, "", ()),
    "ssh command": ({"core.sshCommand": "{}"}, "", ()),
    "proxy": ({"core.gitProxy": "{}"}, "", ()),
    "merge driver": ({"merge.x.driver": "{}"}, "*.txt merge=x\n", ()),
    "interactive filter": ({"interactive.diffFilter": "{}"}, "", ()),
    "alternate references": ({"core.alternateRefsCommand": "{}"}, "", ()),
}


def prepare(repo: Any, keys: dict[str, str], attributes: str) -> None:
    """A work tree that differs, a commit with a signature that nobody can check, the keys, the attributes."""
    repo.commit({"a.txt": "one\n", ".gitattributes": attributes}, "First")
    raw = repo.git("cat-file", "commit", "HEAD").decode()
    head, _, body = raw.partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n aGVsbG8=\n -----END PGP SIGNATURE-----"
    (repo.root / ".git" / "signed").write_text(f"{head}\n{signature}\n\n{body}")
    commit = repo.git("hash-object", "-t", "commit", "-w", ".git/signed").decode().strip()
    repo.git("update-ref", "HEAD", commit)
    for key, value in keys.items():
        repo.git("config", key, value)
    (repo.root / "a.txt").write_text("two\n")


def everything(repo: Any) -> str:
    """The text of each way in which the two tools can be asked."""
    told = [
        repo.call(LOG),
        repo.call(LOG, path="a.txt", revision="HEAD"),
        repo.call(DIFF),
        repo.call(DIFF, stat_only=True),
        repo.call(DIFF, staged=True),
        repo.call(DIFF, revision="HEAD"),
        repo.call(DIFF, revision="HEAD..main"),
    ]
    assert [f["path"] for f in told[2].facts["files"]] == ["a.txt"]
    return "".join(one.text for one in told)


@pytest.mark.threat("T6")
@pytest.mark.parametrize("kind", KINDS)
def test_no_program_of_a_configuration_runs_and_both_tools_answer(repo: Any, planted: Plant, kind: str) -> None:
    keys, attributes, plain = KINDS[kind]
    program, mark = planted("program")
    prepare(repo, {key: value.format(program) for key, value in keys.items()}, attributes)
    text = everything(repo)
    assert "-one\n+two\n" in text
    assert "    First\n" in text
    assert not mark.exists()
    if plain:
        repo.git(*plain, check=False)
        assert mark.exists(), "the negative control: plain git runs it"


@pytest.mark.threat("T6")
def test_the_dynamic_loader_is_not_asked_to_run_a_file_of_the_repository(repo: Any, planted: Plant) -> None:
    _, mark = planted("loader")
    loader = next(Path("/lib64").glob("ld-linux*"), None) or next(Path("/lib").glob("ld-linux*"))
    command = f'{loader} {sys.executable} -IS -c \'open("{mark}", "w")\' #'
    prepare(repo, {"diff.external": command, "diff.x.command": command, "filter.x.clean": command}, "*.txt filter=x\n")
    everything(repo)
    assert not mark.exists()
    repo.git("diff", check=False)
    assert mark.exists(), "the negative control: plain git runs it"


@pytest.mark.threat("T6")
@pytest.mark.parametrize("where", ["config.worktree", "included", "conditionally included", "deeply included"])
def test_no_program_runs_that_another_file_of_the_configuration_names(repo: Any, planted: Plant, where: str) -> None:
    program, mark = planted("program")
    prepare(repo, {}, "*.txt filter=x\n")
    named = f'[filter "x"]\n\tclean = {program}\n'
    folder = repo.root / ".git"
    if where == "config.worktree":
        repo.git("config", "extensions.worktreeConfig", "true")
        (folder / "config.worktree").write_text(named)
    elif where == "included":
        repo.git("config", "include.path", "../extra.cfg")
        (repo.root / "extra.cfg").write_text(named)
    elif where == "conditionally included":
        repo.git("config", "includeIf.onbranch:main.path", "extra")
        (folder / "extra").write_text(named)
    else:
        repo.git("config", "include.path", "one")
        (folder / "one").write_text("[include]\n\tpath = ../two\n")
        (repo.root / "two").write_text(named)
    everything(repo)
    assert not mark.exists()
    repo.git("diff", check=False)
    assert mark.exists(), "the negative control: plain git runs it"


@pytest.mark.threat("T6")
def test_hooks_do_not_run(repo: Any, planted: Plant) -> None:
    program, mark = planted("hook")
    prepare(repo, {}, "")
    for name in ("post-index-change", "reference-transaction", "fsmonitor-watchman"):
        hook = repo.root / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(Path(program).read_text())
        hook.chmod(0o755)
    (repo.root / "src" / "b.py").touch()
    everything(repo)
    assert not mark.exists()
    repo.git("status")
    assert mark.exists(), "the negative control: plain git runs it"


@pytest.mark.threat("T6")
def test_a_submodule_is_not_looked_into(repo: Any, planted: Plant) -> None:
    program, mark = planted("submodule")
    inner = repo.root / "inner"
    inner.mkdir()
    repo.git("-C", "inner", "init", "-q", "-b", "main")
    repo.git("-C", "inner", "commit", "-q", "--allow-empty", "-m", "inner")
    prepare(repo, {}, "")
    repo.git("-C", "inner", "config", "core.fsmonitor", program)
    repo.git("-C", "inner", "commit", "-q", "--allow-empty", "-m", "moved")
    mark.unlink(missing_ok=True)
    (repo.root / "inner" / "new").write_text("x")
    assert repo.call(DIFF, revision="HEAD").facts["omitted"] == {}
    assert repo.call(DIFF, revision="HEAD~1..HEAD").facts["omitted"] == {"submodule": 1}
    everything(repo)
    assert not mark.exists()
    repo.git("diff", check=False)
    assert mark.exists(), "the negative control: plain git runs it"


@pytest.mark.threat("T6")
def test_a_missing_object_of_a_promisor_is_not_fetched(repo: Any, planted: Plant) -> None:
    program, mark = planted("fetch")
    prepare(repo, {}, "")
    blob = repo.git("rev-parse", "HEAD:a.txt").decode().strip()
    (repo.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{program}",
        "remote.origin.uploadpack": program,
        "protocol.ext.allow": "always",
    }.items():
        repo.git("config", key, value)
    with pytest.raises(Exception, match="git ended with status"):
        repo.call(DIFF)
    assert len(repo.call(LOG).facts["commits"]) >= 1
    assert not mark.exists()
    repo.git("diff", check=False)
    assert mark.exists(), "the negative control: plain git runs it"
