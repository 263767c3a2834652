"""A repository that leads outside, and names and kinds that are never served: what is refused, and what is counted."""

import hashlib
import itertools
import os
import socket
import struct
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest

from fumehood.core.errors import GitFailedError, HarnessError, NotAFileError, NotARepositoryError
from fumehood.fence.denylist import Denylist
from fumehood.fence.repository import Repository
from fumehood.serve import git as asking
from fumehood.serve.context import Ended
from fumehood.serve.tools import git_diff, git_log

LOG, DIFF = git_log.TOOL, git_diff.TOOL
SECRET = "hunter2-of-the-outside"


@pytest.fixture
def outside(tmp_path: Path, make: Callable[..., Any]) -> Any:
    """Another repository beside the workspace, with a secret in it."""
    other = make(tmp_path / "outside")
    other.commit({"a.txt": SECRET + "\n"}, SECRET)
    return other


def refused(repo: Any, cause: str) -> None:
    """Both tools refuse, name the cause, and say nothing of the outside."""
    for tool in (LOG, DIFF):
        with pytest.raises(NotARepositoryError) as error:
            repo.call(tool)
        told = str(error.value)
        assert cause in told
        assert "outside/" not in told
        assert SECRET not in told
        assert str(repo.root) not in told
    assert repo.programs.asked == []


@pytest.mark.threat("T1")
def test_a_folder_without_a_repository_and_a_subfolder_of_one(make: Callable[..., Any], outside: Any) -> None:
    refused(make(init=False), "not the top folder of a repository")
    outside.commit({"inner/x.txt": "x\n", "sibling.txt": SECRET})
    inner = make(outside.root / "inner", init=False)
    refused(inner, "not the top folder of a repository")
    assert SECRET.encode() in inner.git("log", "-p"), "the negative control: plain git shows the whole repository"


@pytest.mark.threat("T1")
def test_a_git_file_that_leads_outside(make: Callable[..., Any], outside: Any) -> None:
    repo = make(init=False)
    (repo.root / ".git").write_text(f"gitdir: {outside.root}/.git\n")
    refused(repo, "`.git` is not a folder")
    assert SECRET.encode() in repo.git("log"), "the negative control"


@pytest.mark.threat("T1")
def test_a_work_tree_of_another_repository(make: Callable[..., Any], outside: Any, tmp_path: Path) -> None:
    outside.git("worktree", "add", "-q", str(tmp_path / "tree"))
    refused(make(tmp_path / "tree", init=False), "`.git` is not a folder")
    assert len(outside.call(LOG).facts["commits"]) == 1, "the repository with such a tree is served as ever"


@pytest.mark.threat("T2")
@pytest.mark.parametrize("part", [".git", ".git/objects", ".git/refs", ".git/HEAD", ".git/config", ".git/index"])
def test_a_part_that_is_a_link(make: Callable[..., Any], outside: Any, part: str) -> None:
    repo = make()
    place = repo.root / part
    subprocess.run(["rm", "-rf", str(place)], check=True)
    place.symlink_to(outside.root / part)
    refused(repo, "`.git`")


@pytest.mark.threat("T2")
@pytest.mark.parametrize("inside", [False, True])
def test_a_link_among_the_objects(repo: Any, outside: Any, *, inside: bool) -> None:
    tip = outside.git("rev-parse", "HEAD").decode().strip()
    repo.call(LOG)  # what was examined before is looked at again when it has changed
    repo.programs.asked.clear()
    folder = repo.root / ".git" / "objects" / tip[:2]
    if inside:
        folder.mkdir(exist_ok=True)
        (folder / tip[2:]).symlink_to(outside.root / ".git" / "objects" / tip[:2] / tip[2:])
    else:
        subprocess.run(["rm", "-rf", str(folder)], check=True)
        folder.symlink_to(outside.root / ".git" / "objects" / tip[:2])
    assert SECRET.encode() in repo.git("log", "--no-walk", tip), "the negative control"
    refused(repo, "a part of its `.git` is a link")


@pytest.mark.threat("T1")
@pytest.mark.parametrize(
    ("path", "content", "cause"),
    [
        (".git/config", "[core]\n\tbare = maybe \\q\n", "not of git's grammar"),
        (".git/config", '[filter "a=b"]\n\tclean = x\n', "`=` in its name"),
        (".git/config", "#" * 300_000, "not a file of its own"),
        (".git/config", "".join(f"[include]\n\tpath = i{n}\n" for n in range(20)), "too many files"),
        (".git/HEAD", "x" * 5000, "not a file of its own"),
    ],
)
def test_a_configuration_that_is_not_understood(repo: Any, path: str, content: str, cause: str) -> None:
    for number in range(20):
        (repo.root / ".git" / f"i{number}").write_text("")
    (repo.root / path).write_text(content)
    refused(repo, cause)


@pytest.mark.threat("T1")
def test_a_configuration_with_a_second_name_and_parts_that_are_missing(repo: Any, outside: Any) -> None:
    (repo.root / ".git" / "HEAD").rename(repo.root / "HEAD")
    refused(repo, "cannot be read or is a link")
    (repo.root / "HEAD").rename(repo.root / ".git" / "HEAD")
    (repo.root / ".git" / "config").unlink()
    os.link(outside.root / ".git" / "config", repo.root / ".git" / "config")
    refused(repo, "not a file of its own")


def test_nobody_else_makes_the_proof_of_a_repository() -> None:
    with pytest.raises(TypeError):
        Repository(object(), (), None)


def test_an_answer_that_is_not_of_the_format_is_our_fault_and_quotes_nothing(repo: Any) -> None:
    class Odd:
        """A program of the same protocol that says something else."""

        def __init__(self, says: bytes) -> None:
            self.says = says

        def start(self, *_: object) -> "Odd":
            return self

        def chunks(self) -> list[bytes]:
            return [self.says]

        def wait(self) -> Ended:
            return Ended(status=0, stderr=b"")

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            return None

    repo.context = replace(repo.context, programs=Odd(b":" + SECRET.encode()))
    for tool in (LOG, DIFF):
        with pytest.raises(HarnessError) as error:
            repo.call(tool)
        assert SECRET not in str(error.value)


@pytest.mark.threat("T2")
def test_a_link_among_the_references_and_folders_without_end(repo: Any, outside: Any) -> None:
    (repo.root / ".git" / "refs" / "heads" / "a").mkdir()
    (repo.root / ".git" / "refs" / "heads" / "a" / "b").symlink_to(outside.root / ".git" / "refs" / "heads" / "main")
    refused(repo, "a part of its `.git` is a link")
    (repo.root / ".git" / "refs" / "heads" / "a" / "b").unlink()
    repo.call(LOG)
    repo.programs.asked.clear()
    (repo.root / ".git" / "refs" / "/".join("x" * 40)).mkdir(parents=True)
    refused(repo, "too deep")


@pytest.mark.threat("T1")
def test_a_common_directory(make: Callable[..., Any], outside: Any) -> None:
    repo = make()
    (repo.root / ".git" / "commondir").write_text(f"{outside.root}/.git\n")
    refused(repo, "`commondir`")
    assert SECRET.encode() in repo.git("log"), "the negative control"


@pytest.mark.threat("T1")
@pytest.mark.parametrize("how", ["absolute", "relative", "quoted", "behind another"])
def test_objects_borrowed_from_outside(make: Callable[..., Any], outside: Any, how: str) -> None:
    repo = make()
    tip = outside.git("rev-parse", "HEAD").decode().strip()
    store = f"{outside.root}/.git/objects"
    relative = os.path.relpath(store, repo.root / ".git" / "objects")
    info = repo.root / ".git" / "objects" / "info"
    info.mkdir(exist_ok=True)
    if how == "behind another":
        (repo.root / "lent" / "info").mkdir(parents=True)
        (repo.root / "lent" / "info" / "alternates").write_text(store + "\n")
        (info / "alternates").write_text("../../lent\n")
    else:
        line = {"absolute": store, "relative": relative, "quoted": f'"{store}"'}[how]
        (info / "alternates").write_text(f"# note\n\n{line}\n")
    repo.git("update-ref", "refs/heads/main", tip)
    assert SECRET.encode() in repo.git("log"), "the negative control"
    refused(repo, "alternates` lead outside")


def test_objects_borrowed_from_inside_are_served(make: Callable[..., Any]) -> None:
    repo = make()
    repo.commit({"a": "1"})
    (repo.root / ".git" / "objects").rename(repo.root / "store")
    info = repo.root / ".git" / "objects" / "info"
    info.mkdir(parents=True)
    (info / "alternates").write_text("../../store\n")
    assert len(repo.call(LOG).facts["commits"]) == 1
    (repo.root / "store" / "info").mkdir(exist_ok=True)
    (repo.root / "store" / "info" / "alternates").write_text("../store\n")
    refused_with_depth(repo)


def refused_with_depth(repo: Any) -> None:
    with pytest.raises(NotARepositoryError, match="too deep"):
        repo.call(LOG)


@pytest.mark.threat("T1")
@pytest.mark.parametrize("value", ["{}", "../../outside", "~", "", "../."])
def test_a_work_tree_elsewhere(repo: Any, outside: Any, value: str) -> None:
    repo.git("config", "core.worktree", value.format(outside.root))
    if value == "../.":  # it is the workspace
        assert repo.call(DIFF).facts["files"] == []
        return
    refused(repo, "`core.worktree` is not the workspace")
    if value == "{}":
        assert SECRET.encode() in repo.git("diff"), "the negative control: plain git shows the file outside"


@pytest.mark.threat("T1")
@pytest.mark.parametrize("key", ["include.path", "includeIf.gitdir:**.path"])
@pytest.mark.parametrize("value", ["{}/a.txt", "../../outside/a.txt", "~/a.txt"])
def test_a_configuration_that_includes_a_file_outside(repo: Any, outside: Any, key: str, value: str) -> None:
    repo.git("config", key, value.format(outside.root))
    refused(repo, "includes a file outside")


def test_the_negative_control_of_includes_shows_a_line_of_the_file_outside(repo: Any, outside: Any) -> None:
    repo.git("config", "include.path", f"{outside.root}/a.txt")
    done = subprocess.run(["git", "log"], cwd=repo.root, capture_output=True, check=False)
    assert SECRET.encode() in done.stderr


def test_a_repository_that_vanishes_is_not_looked_for_above(make: Callable[..., Any], outside: Any) -> None:
    inner = make(outside.root / "inner", init=False)
    inner.git("init", "-q")
    repository = asking.examine(inner.context)
    subprocess.run(["rm", "-rf", str(inner.root / ".git")], check=True)
    from fumehood.fence.git import command  # noqa: PLC0415 - only here, for what a race would start

    with pytest.raises(GitFailedError):
        asking.ask(inner.context, command.log(repository.closing, None, None, skip=0, count=1))


def write_index(repo: Any, names: list[bytes]) -> None:
    """An index as no git would write it: gitformat-index(5), version 2."""
    blob = bytes.fromhex(repo.git("rev-parse", "HEAD:a.txt").decode())
    entries = []
    for name in sorted(names):
        entry = struct.pack(">10I", 1, 0, 1, 0, 0, 0, 0o100644, 0, 0, 2) + blob + struct.pack(">H", len(name)) + name
        entries.append(entry + b"\0" * (8 - len(entry) % 8))
    body = b"DIRC" + struct.pack(">2I", 2, len(entries)) + b"".join(entries)
    (repo.root / ".git" / "index").write_bytes(body + hashlib.sha1(body, usedforsecurity=False).digest())


@pytest.mark.threat("T1")
@pytest.mark.parametrize("there", [True, False])
def test_an_index_whose_names_lead_outside_tells_neither_content_nor_existence(
    repo: Any, outside: Any, *, there: bool
) -> None:
    name = b"../outside/" + (b"a.txt" if there else b"nothing")
    absolute = os.fsencode(outside.root / ("a.txt" if there else "nothing"))
    write_index(repo, [name, absolute, b"src//b.py", b"src/../a.txt", b".git/config", b"a.txt"])
    for arguments in ({}, {"stat_only": True}, {"revision": "HEAD"}, {"staged": True}):
        told = repo.call(DIFF, **arguments)
        assert told.facts["omitted"] == {"denied": 1, **({"outside": 4} if "staged" in arguments else {})}
        assert "outside/" not in told.everything
        assert SECRET not in told.everything
    if there:
        assert SECRET.encode() in repo.git("diff"), "the negative control: plain git shows a file outside"


@pytest.mark.threat("T3")
def test_a_tracked_env_is_in_no_difference_and_no_log(repo: Any) -> None:
    repo.commit({".env": f"TOKEN={SECRET}\n", "sub/.env": "x\n", "b.txt": "b\n"}, "configuration")
    repo.write({".env": f"TOKEN={SECRET}2\n", "b.txt": "bb\n"})
    for told, count in [
        (repo.call(DIFF), 1),
        (repo.call(DIFF, stat_only=True), 1),
        (repo.call(DIFF, revision="HEAD~1..HEAD"), 2),
        (repo.call(DIFF, revision="HEAD~1"), 2),
        (repo.call(DIFF, revision="HEAD~1", staged=True), 2),
    ]:
        assert told.facts["omitted"] == {"denied": count}
        assert [f["path"] for f in told.facts["files"]] == ["b.txt"]
        assert ".env" not in told.everything
        assert SECRET not in told.everything
    log = repo.call(LOG, limit=1)
    assert log.facts["commits"][0]["omitted"] == 2
    assert ".env" not in log.everything
    assert SECRET.encode() in repo.git("diff"), "the negative control"


@pytest.mark.threat("T3")
@pytest.mark.parametrize(("old", "new"), [(".env", "plain.txt"), ("plain.txt", ".env"), (".env", "sub/.env")])
def test_a_rename_from_or_to_a_denied_name_names_neither_side(repo: Any, old: str, new: str) -> None:
    repo.commit({old: "a line that stays\n" * 20}, "first")
    (repo.root / "sub").mkdir()
    repo.git("mv", "-f", old, new)
    told = repo.call(DIFF, staged=True)
    assert ".env" not in told.everything
    assert all(f["status"] != "R" for f in told.facts["files"])
    assert told.facts["omitted"] == {"denied": sum(".env" in name for name in (old, new))}
    assert b"rename" in repo.git("diff", "--cached", "-M"), "the negative control"


@pytest.mark.threat("T3")
def test_a_file_that_became_a_folder_brings_no_denied_name_along(repo: Any) -> None:
    repo.commit({"thing": "a file\n"}, "file")
    (repo.root / "thing").unlink()
    repo.commit({"thing/.env": SECRET + "\n", "thing/x": "x\n"}, "folder")
    told = repo.call(DIFF, revision="HEAD~1..HEAD")
    assert {f["path"] for f in told.facts["files"]} == {"thing", "thing/x"}
    assert ".env" not in told.everything
    assert told.facts["omitted"]["denied"] >= 1


@pytest.mark.threat("T3")
def test_without_the_denylist_the_same_call_shows_it(repo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.commit({".env": f"{SECRET}\n"}, "x")
    monkeypatch.setattr(Denylist, "denies", lambda *_: False)
    assert SECRET in repo.call(DIFF, revision="HEAD~1..HEAD").text, "the negative control of the tests above"


@pytest.mark.threat("T2")
def test_a_link_shows_neither_content_nor_target(repo: Any, outside: Any) -> None:
    repo.commit({"link": "was a file\n", "z.txt": "z\n"}, "file")
    (repo.root / "link").unlink()
    (repo.root / "link").symlink_to(outside.root / "a.txt")
    repo.write({"z.txt": "zz\n"})
    repo.git("add", ".")
    repo.git("commit", "-q", "-m", "linked")
    (repo.root / "link").unlink()
    (repo.root / "link").symlink_to("/etc/passwd")
    for arguments in ({}, {"revision": "HEAD~1..HEAD"}, {"revision": "HEAD~1"}, {"staged": True, "revision": "HEAD~1"}):
        told = repo.call(DIFF, **arguments)
        assert told.facts["omitted"] == {"link": 1}
        for word in (SECRET, "passwd", "outside"):
            assert word not in told.everything
    assert b"passwd" in repo.git("diff"), "the negative control: plain git shows the target"


@pytest.mark.threat("T2")
def test_a_folder_replaced_by_a_link_to_the_outside_is_gone(repo: Any, outside: Any) -> None:
    outside.commit({"b.py": SECRET})
    subprocess.run(["rm", "-rf", str(repo.root / "src")], check=True)
    (repo.root / "src").symlink_to(outside.root)
    told = repo.call(DIFF)
    assert [(f["path"], f["status"]) for f in told.facts["files"]] == [("src/b.py", "D")]
    assert SECRET not in told.everything


@pytest.mark.threat("T1")
def test_a_hard_link_to_the_outside_is_not_compared(repo: Any, outside: Any) -> None:
    (repo.root / "a.txt").unlink()
    os.link(outside.root / "a.txt", repo.root / "a.txt")
    for arguments in ({}, {"revision": "HEAD~1"}, {"stat_only": True}):
        told = repo.call(DIFF, **arguments)
        assert told.facts["omitted"] == {"refused": 1}
        assert SECRET not in told.everything
    assert SECRET.encode() in repo.git("diff"), "the negative control"


class Swapping:
    """Puts another file where git is about to read, and the own one back when git has read: the worst of moments."""

    def __init__(self, repo: Any, other: Path, *, back: bool) -> None:
        self.start = repo.programs.start
        self.place, self.other, self.back = repo.root / "a.txt", other, back

    def __call__(self, program: str, arguments: Any, *rest: Any) -> Any:
        if not {"--patch", "--numstat"} & set(arguments):
            return self.start(program, arguments, *rest)
        aside = self.place.with_name("aside")
        if self.place.exists():
            self.place.rename(aside)
        self.other.rename(self.place)
        child = self.start(program, arguments, *rest)
        child._process.wait(20)  # what it wrote is short and waits in the pipe
        if self.back:
            self.place.rename(self.other)
            if aside.exists():
                aside.rename(self.place)
        return child


@pytest.mark.threat("T2")
@pytest.mark.parametrize("case", [*itertools.product(["second name", "denied"], [True, False], [True, False])])
@pytest.mark.parametrize("arguments", [{}, {"revision": "HEAD~1"}, {"stat_only": True}])
def test_a_file_that_is_replaced_while_git_reads_is_not_told(
    repo: Any, outside: Any, monkeypatch: pytest.MonkeyPatch, case: tuple[str, bool, bool], arguments: Any
) -> None:
    kind, there, back = case
    other = repo.root / ("other.txt" if kind == "second name" else ".env")
    if kind == "second name":
        os.link(outside.root / "a.txt", other)
    else:
        other.write_text(f"{SECRET}\n")
    if there:
        repo.write({"a.txt": "one\nthree\n"})
        shown = repo.call(DIFF, **arguments)
        assert [file["path"] for file in shown.facts["files"]] == ["a.txt"], "the negative control"
    else:
        (repo.root / "a.txt").unlink()
    monkeypatch.setattr(repo.programs, "start", Swapping(repo, other, back=back))
    told = repo.call(DIFF, **arguments)
    assert told.facts["omitted"] == {"changed": 1}
    assert told.facts["files"] == []
    assert SECRET not in told.everything


@pytest.mark.threat("T8")
@pytest.mark.parametrize("kind", ["fifo", "socket", "folder"])
def test_what_is_no_file_in_the_work_tree_holds_nothing_up(
    repo: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.write({"src/b.py": "x = 2\n"})
    (repo.root / "a.txt").unlink()
    monkeypatch.chdir(repo.root)  # the name of a socket is short
    if kind == "fifo":
        os.mkfifo("a.txt")
    elif kind == "folder":
        (repo.root / "a.txt").mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind("a.txt")
    told = repo.call(DIFF)
    assert "src/b.py" in [f["path"] for f in told.facts["files"]]
    assert told.facts["omitted"] == ({} if kind == "folder" else {"refused": 1})


@pytest.mark.threat("T8")
@pytest.mark.parametrize(
    "part", [".git/packed-refs", ".git/info/attributes", ".git/refs/heads/x", ".git/config", ".git/HEAD"]
)
def test_a_part_of_the_repository_that_git_would_wait_for(repo: Any, part: str) -> None:
    (repo.root / part).parent.mkdir(exist_ok=True)
    (repo.root / part).unlink(missing_ok=True)
    os.mkfifo(repo.root / part)
    refused(repo, "a part of its `.git` is no file")


@pytest.mark.threat("T8")
@pytest.mark.parametrize("place", [".gitattributes", "src/.gitattributes"])
def test_attributes_that_git_would_wait_for(repo: Any, place: str) -> None:
    repo.write({"a.txt": "x\n", "src/b.py": "x = 22\n"})  # of another size: the index alone says that they differ
    os.mkfifo(repo.root / place)
    with pytest.raises(NotAFileError):
        repo.call(DIFF)
    assert len(repo.call(LOG).facts["commits"]) == 2
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["git", "diff"], cwd=repo.root, capture_output=True, timeout=1, check=False)


def test_the_socket_of_gits_own_monitor_is_no_hindrance(repo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo.root / ".git")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("fsmonitor--daemon.ipc")
    assert len(repo.call(LOG).facts["commits"]) == 2


@pytest.mark.threat("T8")
def test_a_file_beyond_the_limit_is_named_and_not_read(repo: Any) -> None:
    with (repo.root / "a.txt").open("wb") as file:
        file.truncate(10 * 1024**3)
    (repo.root / "src" / "b.py").write_text("x = 2\n")
    told = repo.call(DIFF)
    large, small = told.facts["files"]
    assert large == {"path": "a.txt", "status": "M", "added": None, "removed": None, "binary": True}
    assert small["added"] == 1
    assert b"a.txt" not in repo.programs.asked[-1][0]


@pytest.mark.threat("T8")
def test_a_large_file_between_commits_is_compared_as_bytes(repo: Any) -> None:
    repo.commit({"a.txt": b"line\n" * 600_000})
    told = repo.call(DIFF, revision="HEAD~1..HEAD")
    assert told.facts["files"] == [{"path": "a.txt", "status": "M", "added": None, "removed": None, "binary": True}]


@pytest.mark.threat("T6")
def test_the_environment_of_git_is_built_and_not_inherited(repo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "GIT_EXTERNAL_DIFF",
        "GIT_SSH_COMMAND",
        "GIT_DIR",
        "GIT_CONFIG_COUNT",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    ):
        monkeypatch.setenv(name, "/bin/false")
    repo.call(LOG)
    repo.call(DIFF)
    for words, environment in repo.programs.asked:
        assert environment["GIT_CONFIG_GLOBAL"] == "/dev/null"
        assert environment["GIT_CONFIG_NOSYSTEM"] == environment["GIT_ATTR_NOSYSTEM"] == "1"
        assert environment["GIT_NO_LAZY_FETCH"] == environment["GIT_LITERAL_PATHSPECS"] == "1"
        assert environment["GIT_ALLOW_PROTOCOL"] == ""
        assert environment["GIT_TERMINAL_PROMPT"] == environment["GIT_OPTIONAL_LOCKS"] == "0"
        assert not {"GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_DIR", "GIT_CONFIG_COUNT"} & set(environment)
        assert {b"--git-dir=.git", b"--work-tree=.", b"--no-optional-locks", b"--no-ext-diff", b"--no-textconv"} <= set(
            words
        )
        assert b"core.fsmonitor=false" in words


@pytest.mark.threat("T6")
def test_a_call_changes_nothing_in_the_repository(repo: Any) -> None:
    def listed() -> list[tuple[str, int]]:
        return sorted((str(p), p.lstat().st_mtime_ns) for p in repo.root.rglob("*"))

    (repo.root / "a.txt").touch()
    before = listed()
    for arguments in ({}, {"staged": True}, {"revision": "HEAD~1"}):
        repo.call(DIFF, **arguments)
    repo.call(LOG)
    assert listed() == before
