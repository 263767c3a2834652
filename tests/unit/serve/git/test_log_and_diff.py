"""serve.tools.git_log and git_diff: what an ordinary repository is answered."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fumehood.content import credentialfiles
from fumehood.core import limits
from fumehood.core.errors import (
    BadCursorError,
    DeniedPathError,
    GitFailedError,
    InvalidArgumentsError,
    OutsideWorkspaceError,
    TooLargeError,
)
from fumehood.fence import names
from fumehood.fence.denylist import Denylist
from fumehood.serve.access import Access
from fumehood.serve.tools import git_diff, git_log

LOG, DIFF = git_log.TOOL, git_diff.TOOL


def test_a_log_gives_commits_with_authors_messages_and_files(repo: Any) -> None:
    told = repo.call(LOG)
    assert [c["files"] for c in told.facts["commits"]] == [1, 2]
    assert "author: Ada <ada@example.org>\ndate: 2026-01-02T03:04:05+00:00\n" in told.text
    assert "\n    Second: change a\n    \n    With a body.\n\nM a.txt\n" in told.text
    assert "A src/b.py\n" in told.text
    assert "next_cursor" not in told.facts


def test_a_log_asks_git_once(repo: Any) -> None:
    repo.call(LOG)
    assert len(repo.programs.asked) == 1


def test_a_log_is_paged_without_a_gap(repo: Any) -> None:
    for number in range(5):
        repo.commit({"n.txt": f"{number}\n"}, f"number {number}")
    every = [c["commit"] for c in repo.call(LOG, limit=100).facts["commits"]]
    paged: list[str] = []
    arguments: dict[str, Any] = {"limit": 3}
    for _ in range(4):
        told = repo.call(LOG, **arguments)
        paged += [c["commit"] for c in told.facts["commits"]]
        if "next_cursor" not in told.facts:
            break
        arguments["cursor"] = told.facts["next_cursor"]
    assert paged == every
    assert len(every) == 7


def test_a_cursor_of_another_question_is_refused(repo: Any) -> None:
    text = repo.call(LOG, limit=1).facts["next_cursor"]
    with pytest.raises(BadCursorError):
        repo.call(LOG, limit=1, path="a.txt", cursor=text)


def test_a_log_of_a_path_and_of_a_range(repo: Any) -> None:
    assert len(repo.call(LOG, path="src").facts["commits"]) == 1
    assert len(repo.call(LOG, path=".").facts["commits"]) == 2
    assert len(repo.call(LOG, revision="HEAD~1..HEAD").facts["commits"]) == 1
    assert len(repo.call(LOG, revision="main").facts["commits"]) == 2
    assert repo.call(LOG, path="no/such/name").facts["commits"] == []


def test_a_path_is_taken_literally(repo: Any) -> None:
    repo.commit({"*.txt": "star\n"}, "star")
    assert len(repo.call(LOG, path="*.txt").facts["commits"]) == 1
    assert repo.call(LOG, path=":(glob)**/*.py").facts["commits"] == []


def test_a_name_that_begins_with_a_dash_can_be_asked_for(repo: Any) -> None:
    repo.commit({"-n": "x\n"}, "dash")
    assert len(repo.call(LOG, path="./-n").facts["commits"]) == 1


def test_a_log_fits_its_reply_and_goes_on_by_cursor(make: Callable[..., Any]) -> None:
    repo = make(reply_bytes=4096)
    for number in range(4):
        repo.commit({"n": str(number)}, f"{number}\n\n" + "word " * 400)
    first = repo.call(LOG)
    assert len(first.facts["commits"]) == 1
    second = repo.call(LOG, cursor=first.facts["next_cursor"])
    assert second.facts["commits"][0]["commit"] != first.facts["commits"][0]["commit"]


def test_a_long_message_is_cut_and_said_to_be(repo: Any) -> None:
    repo.commit({"n": "1"}, "long\n\n" + "a line of the message\n" * 1000)
    told = repo.call(LOG, limit=1)
    assert told.facts["commits"][0]["clipped_bytes"] > 10_000
    assert len(told.text) < 2 * limits.LOG_MESSAGE_BYTES
    assert len(told.answer.passages[0].after) > 1000


def test_a_commit_without_files_and_a_merge_are_listed(repo: Any) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.commit({"side.txt": "s\n"}, "Side")
    repo.git("checkout", "-q", "main")
    repo.commit({}, "Nothing")
    repo.git("merge", "-q", "--no-ff", "-m", "Merge", "side")
    commits = repo.call(LOG).facts["commits"]
    assert len(commits[0]["parents"]) == 2
    assert len(commits) == 5


def test_an_em_dash_accents_and_bytes_that_are_no_text(repo: Any) -> None:
    repo.git("config", "i18n.commitEncoding", "ISO-8859-1")
    (repo.root / "message").write_bytes(b"caf\xe9 \n")
    repo.write({"d\u00e9j\u00e0.txt": b"caf\xe9\n\xff\n", "\u2014.txt": "x\n"})
    repo.git("add", ".")
    repo.git("commit", "-q", "-F", "message")
    told = repo.call(LOG, limit=1)
    assert "    café" in told.text
    assert "A d\u00e9j\u00e0.txt" in told.text
    assert "A \u2014.txt" in told.text
    assert told.facts["replaced"] == 0
    diff = repo.call(DIFF, revision="HEAD~1..HEAD", path="d\u00e9j\u00e0.txt")
    assert "+caf\ufffd\n+\ufffd\n" in diff.text
    assert diff.facts["replaced"] == 2
    assert diff.facts["files"][0]["path"] == "d\u00e9j\u00e0.txt"


def test_a_diff_of_the_work_tree_the_index_and_two_commits(repo: Any) -> None:
    repo.write({"a.txt": "one\nwork\n"})
    told = repo.call(DIFF)
    assert "# a.txt @@ -1,2 +1,2 @@\n one\n-TWO\n+work\n" in told.text
    assert told.facts["files"] == [
        {"path": "a.txt", "status": "M", "added": 1, "removed": 1, "binary": False},
    ]
    assert repo.call(DIFF, staged=True).facts["files"] == []
    repo.git("add", "a.txt")
    assert repo.call(DIFF).facts["files"] == []
    assert "+work" in repo.call(DIFF, staged=True).text
    assert "-two" in repo.call(DIFF, staged=True, revision="HEAD~1").text
    assert "+work" in repo.call(DIFF, revision="HEAD").text
    assert "+TWO" in repo.call(DIFF, revision="HEAD~1..HEAD").text
    assert "+TWO" in repo.call(DIFF, revision="HEAD~1...HEAD").text


def test_a_diff_says_that_there_is_none(repo: Any) -> None:
    told = repo.call(DIFF)
    assert told.facts["files"] == []
    assert told.facts["truncated"] is False
    assert told.answer.notes == ("No difference to show.",)


def test_a_file_that_only_looks_touched_is_no_difference(repo: Any) -> None:
    (repo.root / "a.txt").touch()
    assert repo.call(DIFF).facts["files"] == []


def test_numbers_alone(repo: Any) -> None:
    repo.write({"a.txt": "one\nwork\nmore\n", "src/b.py": b"\0\1"})
    told = repo.call(DIFF, stat_only=True)
    assert told.text == "# \nM +2 -1 a.txt\nM +? -? src/b.py\n"
    assert [(f["path"], f["added"], f["removed"]) for f in told.facts["files"]] == [
        ("a.txt", 2, 1),
        ("src/b.py", None, None),
    ]


def test_the_number_of_context_lines(repo: Any) -> None:
    repo.commit({"n.txt": "".join(f"{n}\n" for n in range(40))})
    repo.write({"n.txt": "".join(f"{'x' if n == 20 else n}\n" for n in range(40))})
    assert repo.call(DIFF, context_lines=0).text.count("\n ") == 0
    assert repo.call(DIFF).text.count("\n ") == 6
    assert repo.call(DIFF, context_lines=10).text.count("\n ") == 20


def test_a_rename_and_a_mode_are_told(repo: Any) -> None:
    repo.git("mv", "a.txt", "c.txt")
    (repo.root / "src/b.py").chmod(0o755)
    repo.git("add", ".")
    files = repo.call(DIFF, staged=True).facts["files"]
    assert files == [
        {"path": "c.txt", "status": "R", "added": 0, "removed": 0, "binary": False, "old_path": "a.txt"},
        {"path": "src/b.py", "status": "M", "added": 0, "removed": 0, "binary": False, "modes": ["100644", "100755"]},
    ]


def test_line_ends_of_windows_leave_no_carriage_return_and_are_told(repo: Any) -> None:
    repo.write({"a.txt": "one\r\nTWO\r\n"})
    told = repo.call(DIFF)
    assert "\r" not in told.text
    assert told.facts["files"][0]["carriage_returns"] is True


def test_odd_names_are_written_as_they_can_be_asked_for(repo: Any) -> None:
    odd = b'a "b"\n\\x0a.txt'
    (repo.root / os.fsdecode(odd)).write_text("x\n")
    (repo.root / os.fsdecode(b"caf\xe9.txt")).write_text("y\n")
    repo.commit({}, "odd")
    told = repo.call(DIFF, revision="HEAD~1..HEAD")
    paths = [f["path"] for f in told.facts["files"]]
    assert paths == ['a "b"\\x0a\\x5cx0a.txt', "caf\\xe9.txt"]
    assert "+x\n" in told.text
    assert f"A {paths[0]}\nA {paths[1]}\n" in repo.call(LOG, limit=1).text
    for path in paths:
        assert len(repo.call(LOG, path=path).facts["commits"]) == 1
        (repo.root / os.fsdecode(names.asked(path))).write_text("changed\n")
    assert [f["path"] for f in repo.call(DIFF).facts["files"]] == paths


@pytest.mark.threat("T3")
def test_a_file_that_is_denied_for_its_content_is_in_no_difference(repo: Any) -> None:
    store = "machine example.org login ada password hunter2hunter2\n"
    repo.commit({"machines": store, "z": "z\n"}, "a store under an ordinary name")
    assert "hunter2" in repo.call(DIFF, revision="HEAD~1..HEAD").text, "the negative control: without the look"
    judging = Access(repo.context.access._workspace, Denylist(), name="work", credentials=credentialfiles.denies)
    repo.context = replace(repo.context, access=judging)
    (repo.root / "machines").write_text(store + "machine b login c password hunter2\n")
    every = [repo.call(DIFF), repo.call(DIFF, stat_only=True)]
    repo.git("rm", "-q", "-f", "machines")
    every += [repo.call(DIFF, revision="HEAD~1..HEAD"), repo.call(DIFF, staged=True)]
    for told in every:
        assert told.facts["omitted"] == {"denied": 1}
        assert "machines" not in told.everything
        assert "hunter2" not in told.everything


def test_content_that_looks_like_a_header_stays_where_it_is(repo: Any) -> None:
    forged = "diff --git a/.env b/.env\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    repo.commit({"a.txt": forged, "z.txt": "z\n"}, "forged")
    told = repo.call(DIFF, revision="HEAD~1..HEAD")
    assert [f["path"] for f in told.facts["files"]] == ["a.txt", "z.txt"]
    assert "+diff --git a/.env b/.env\n" in told.text


def test_conflicts_are_counted(repo: Any) -> None:
    repo.git("checkout", "-q", "-b", "side", "HEAD~1")
    repo.commit({"a.txt": "other\n"}, "Side")
    repo.git("merge", "main", check=False)
    told = repo.call(DIFF)
    assert told.facts["omitted"] == {"unmerged": 2}


def test_a_large_difference_is_cut_and_said_to_be(make: Callable[..., Any]) -> None:
    repo = make(reply_bytes=4096)
    repo.commit({"a.txt": "", "b.txt": ""})
    repo.write({"a.txt": "line of text\n" * 2000, "b.txt": "more\n"})
    told = repo.call(DIFF)
    assert told.facts["truncated"] is True
    assert told.facts["files"][0]["clipped_bytes"] > 20_000
    assert told.facts["omitted"] == {"beyond": 1}
    assert len(told.text) < 6000


def test_more_files_than_one_reply_shows_are_counted(repo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DIFF_FILES", 5)
    repo.commit({f"f{n}": "x\n" for n in range(9)}, "many")
    told = repo.call(DIFF, revision="HEAD~1..HEAD")
    assert len(told.facts["files"]) == 5
    assert told.facts["omitted"] == {"beyond": 4}
    assert told.facts["truncated"] is True


def test_output_beyond_the_bound_is_cut_and_git_ended(repo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GIT_OUTPUT_BYTES", 2000)
    repo.commit({"n": "long line of content\n" * 500}, "body " * 100)
    repo.commit({"m": "1"}, "body " * 300)
    told = repo.call(DIFF, revision="HEAD~1..HEAD~0")
    assert told.facts["truncated"] is False
    told = repo.call(DIFF, revision="HEAD~2..HEAD~1")
    assert told.facts["truncated"] is True
    log = repo.call(LOG)
    assert len(log.facts["commits"]) == 1
    assert log.facts["next_cursor"]
    monkeypatch.setattr(limits, "GIT_OUTPUT_BYTES", 500)
    with pytest.raises(TooLargeError):
        repo.call(LOG)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"revision": "nowhere"}, "no such revision"),
        ({"revision": "nowhere..main"}, "no such revision"),
        ({"revision": "0" * 40}, "no such revision"),
    ],
)
def test_a_revision_that_is_not_there_is_told_in_our_words(repo: Any, arguments: dict[str, str], said: str) -> None:
    for tool in (LOG, DIFF):
        with pytest.raises(GitFailedError, match=said):
            repo.call(tool, **arguments)


def test_a_repository_without_a_commit_and_two_without_an_ancestor(make: Callable[..., Any]) -> None:
    repo = make()
    with pytest.raises(GitFailedError, match="no commit yet"):
        repo.call(LOG)
    repo.commit({"a": "1"})
    repo.git("checkout", "-q", "--orphan", "other")
    repo.commit({"b": "1"})
    with pytest.raises(GitFailedError, match="no common ancestor"):
        repo.call(DIFF, revision="main...other")


def test_a_range_is_not_compared_with_the_index(repo: Any) -> None:
    with pytest.raises(InvalidArgumentsError):
        repo.call(DIFF, revision="HEAD~1..HEAD", staged=True)


ORDINARY = """
[core]
\tbigFileThreshold = 1m
\tcommentChar = %
\tcompression = 9
\tpackedGitLimit = 128m
\tabbrev = 12
\tautocrlf = input
\teditor = vim
\tpager = less -R
\tattributesFile = ~/.gitattributes
\twhitespace = trailing-space
[diff]
\tcontext = 7
\tinterHunkContext = 9
\trenames = copies
\trenameLimit = 99
\talgorithm = histogram
\tnoprefix = true
\tmnemonicPrefix = true
\trelative = true
\tsubmodule = log
\tcolorMoved = zebra
\tsuppressBlankEmpty = true
\torderFile = order
\twordRegex = .
\tignoreSubmodules = dirty
[diff "python"]
\txfuncname = "^def"
\tbinary = true
[log]
\tdate = relative
\tdecorate = full
\tfollow = true
\tshowRoot = false
\tabbrevCommit = true
\tdiffMerges = on
\texcludeDecoration = refs/heads/x
[format]
\tpretty = oneline
\tfilenameMaxLength = 9
[color]
\tui = always
[commitGraph]
\tgenerationVersion = 2
[notes]
\tdisplayRef = refs/notes/*
[remote "origin"]
\turl = https://forge.invalid/x.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
\tmerge = refs/heads/main
[user]
\tname = Somebody
[pull]
\trebase = true
[lfs]
\trepositoryformatversion = 0
[filter "lfs"]
\tclean = git-lfs clean -- %f
\tprocess = git-lfs filter-process
\trequired = true
[submodule "x"]
\turl = ../x
\tignore = all
"""


def test_an_ordinary_configuration_changes_neither_the_answers_nor_whether_there_are_any(repo: Any) -> None:
    repo.write({"a.txt": "one\n\nthree\n", "src/b.py": "x = 2\n"})
    repo.git("rm", "-q", "--cached", "src/b.py")

    def answers() -> list[Any]:
        asked: list[Any] = [(LOG, {}), (DIFF, {}), (DIFF, {"staged": True}), (DIFF, {"revision": "HEAD~1..HEAD"})]
        asked += [(DIFF, {"stat_only": True}), (LOG, {"path": "src"}), (DIFF, {"revision": "HEAD"})]
        return [repo.call(tool, **arguments).everything for tool, arguments in asked]

    plain = answers()
    with (repo.root / ".git" / "config").open("a") as file:
        file.write(ORDINARY)
    assert answers() == plain


@pytest.mark.threat("T6")
@pytest.mark.parametrize("tool", [LOG, DIFF], ids=["log", "diff"])
def test_a_path_that_leads_out_or_is_denied_is_refused_before_git_runs(repo: Any, tool: Any) -> None:
    for path in ("../../x", "/etc/passwd", "a\0b"):
        with pytest.raises(OutsideWorkspaceError):
            repo.call(tool, path=path)
    for path in ("--output=/tmp/x", "-O/etc/passwd", "-", "./--output=x", "src/--output=x"):
        with pytest.raises(InvalidArgumentsError):
            repo.call(tool, path=path)
    for path in (".env", "src/.git/config", ".GIT"):
        with pytest.raises(DeniedPathError):
            repo.call(tool, path=path)
    assert repo.programs.asked == []
