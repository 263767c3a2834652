"""The tool over real ripgrep and real folders; what would become text is read out of the answer, before any control."""

import base64
import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fumehood.content.control import Controls, present
from fumehood.content.passage import Answer
from fumehood.core import limits
from fumehood.core.budget import Budget
from fumehood.core.errors import (
    BadCursorError,
    BadPatternError,
    BinaryFileError,
    CancelledError,
    DeniedPathError,
    HardLinkError,
    HarnessError,
    InvalidArgumentsError,
    NotAFileError,
    NotFoundError,
    OutsideWorkspaceError,
    TooLargeError,
    UnsupportedError,
)
from fumehood.core.sections import WorkspaceSettings
from fumehood.fence.search import query
from fumehood.serve import cursor, registry, searching
from fumehood.serve.searching import Reader
from fumehood.serve.source import Source
from fumehood.serve.tools.search_code import TOOL
from fumehood.wire import schema
from served.plainly import Served

ORDINARY = [
    r"(foo|bar)+", r"(\w+\.)*\w+", r"(ab?c)*", r"(a|b)*c", r"(\d+)(px|em)", r"(?:a+b)+", r"(x+x+)+y", r"(?i)todo",
    r"^(\s*#.*)$", r"\b(class|def)\s+\w+", r"[A-Z]{2,}(_[A-Z]+)*", r"(a{1,3}){2,4}", r"(.*),(.*)", r"(ä|ö|ü)+",
]  # fmt: skip


def search(here: Served, pattern: str, **arguments: Any) -> Answer:
    asked = {"pattern": pattern, **arguments}
    assert schema.problems(TOOL.input_schema, asked) == []
    answer = TOOL.run(asked, here.context)
    assert schema.problems(TOOL.output_schema, answer.facts) == []
    return answer


def hits(answer: Answer) -> dict[str, list[list[int]]]:
    files: Any = answer.facts["files"]
    return {file["path"]: file["hits"] for file in files}


def shown(answer: Answer) -> str:
    """The text half without fence and numbers."""
    return "".join(passage.text.reveal().decode() for passage in answer.passages)


def test_a_literal_is_found_with_its_line_and_column(here: Served) -> None:
    here.put("src/a.py", "one\n  needle(x)\n")
    answer = search(here, "needle(")
    assert hits(answer) == {"src/a.py": [[2, 3]]}
    assert shown(answer) == "  needle(x)\n"
    assert answer.passages[0].heading is not None
    assert answer.passages[0].heading.reveal() == b"src/a.py"


def test_a_literal_is_no_pattern_and_a_regex_is(here: Served) -> None:
    here.put("a", "a.c\nabc\n")
    assert hits(search(here, "a.c")) == {"a": [[1, 1]]}
    assert hits(search(here, "a.c", regex=True)) == {"a": [[1, 1], [2, 1]]}


def test_case_counts_unless_asked_otherwise(here: Served) -> None:
    here.put("a", "Needle\n")
    assert hits(search(here, "needle")) == {}
    assert hits(search(here, "needle", case_sensitive=False)) == {"a": [[1, 1]]}


def test_nothing_found_says_so(here: Served) -> None:
    answer = search(here, "needle")
    assert answer.facts["matches"] == 0
    assert answer.passages == ()
    assert "Nothing" in answer.notes[0]


@given(
    text=st.text(st.sampled_from("aAbBé\n\r k\u212a"), max_size=60),
    needle=st.text(st.sampled_from("aAbé k"), min_size=1, max_size=3),
    any_case=st.booleans(),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_literal_is_found_where_ripgrep_finds_it(here: Served, text: str, needle: str, any_case: bool) -> None:
    here.put("a", text.encode())
    source = Source.read(text.encode())
    assert source is not None
    asked = query(needle, case_sensitive=not any_case)
    told = Reader(here.context, asked)._located([b"a"], 100).get(b"a", [])
    seen = source.find(needle.encode(), 100, any_case=any_case)
    assert seen == told if seen is not None else any_case and not (text + needle).isascii()


def test_contexts_that_touch_are_shown_as_one(here: Served) -> None:
    here.put("a", "".join(f"line {n}\n" for n in range(1, 31)))
    answer = search(here, r"line (5|8|20)$", regex=True, context_lines=1)
    assert [(p.first_line, sorted(p.hits)) for p in answer.passages] == [(4, [5, 8]), (19, [20])]
    assert answer.passages[0].text.reveal().count(b"\n") == 6


def test_context_ends_with_the_file(here: Served) -> None:
    here.put("a", "needle\n")
    here.put("b", "x\nneedle")
    answer = search(here, "needle", context_lines=5)
    assert [p.text.reveal() for p in answer.passages] == [b"needle\n", b"x\nneedle\n"]


def test_what_stands_around_is_handed_to_the_controls(here: Served) -> None:
    here.put("a", "before\nneedle\nafter\n")
    [passage] = search(here, "needle").passages
    assert (passage.before.reveal(), passage.after.reveal()) == (b"before\n", b"after\n")


@pytest.mark.parametrize(
    ("globs", "found"),
    [
        (["*.py"], {"a.py", "src/b.py", "src/deep/c.py"}),
        (["**/*.py"], {"a.py", "src/b.py", "src/deep/c.py"}),
        (["./*.py"], {"a.py"}),
        (["/*.py"], {"a.py"}),
        (["src/*.py"], {"src/b.py"}),
        (["./src/**"], {"src/b.py", "src/deep/c.py", "src/d.txt"}),
        (["!*.py"], {"src/d.txt"}),
        (["*.py", "!src/**"], {"a.py"}),
        (["*.{py,txt}"], {"a.py", "src/b.py", "src/deep/c.py", "src/d.txt"}),
        (["-x", "--pre=cat"], set()),
        (["src\\*.py"], {"src/b.py"}),
        (["src/"], {"src/b.py", "src/deep/c.py", "src/d.txt"}),
        (["!src/"], {"a.py"}),
        (["[!a].py"], {"src/b.py", "src/deep/c.py"}),
    ],
)
def test_globs_are_those_of_every_tool(here: Served, globs: list[str], found: set[str]) -> None:
    for path in ("a.py", "src/b.py", "src/deep/c.py", "src/d.txt"):
        here.put(path, "needle\n")
    assert set(hits(search(here, "needle", globs=globs))) == found


def test_globs_with_a_slash_begin_at_the_folder_that_is_looked_through(here: Served) -> None:
    for path in ("a.py", "s[r]c/b.py", "s[r]c/deep/c.py"):
        here.put(path, "needle\n")
    assert set(hits(search(here, "needle", path="s[r]c", globs=["./*.py"]))) == {"s[r]c/b.py"}
    assert set(hits(search(here, "needle", path="s[r]c", globs=["deep/*"]))) == {"s[r]c/deep/c.py"}
    assert set(hits(search(here, "needle", path="s[r]c", globs=["*.py"]))) == {"s[r]c/b.py", "s[r]c/deep/c.py"}


def test_a_folder_or_a_file_can_be_named(here: Served) -> None:
    for path in ("a.py", "src/b.py", "src/c.py"):
        here.put(path, "needle\n")
    assert set(hits(search(here, "needle", path="src"))) == {"src/b.py", "src/c.py"}
    assert set(hits(search(here, "needle", path="./src/"))) == {"src/b.py", "src/c.py"}
    assert set(hits(search(here, "needle", path="src/b.py"))) == {"src/b.py"}
    assert set(hits(search(here, "needle", path=str(here.root / "src")))) == {"src/b.py", "src/c.py"}


@pytest.mark.threat("T3")
@pytest.mark.parametrize("name", [".env", ".ENV", "src/.Env", ".git/config", ".GIT/x", "deep/.ssh/id_rsa"])
def test_what_is_denied_is_not_searched_and_counted(here: Served, name: str) -> None:
    here.put(name, "needle\n")
    here.put("a", "needle\n")
    for globs in ([], ["**/*"], [name], [".*"]):
        assert set(hits(search(here, "needle", globs=globs))) <= {"a"}
    skipped: Any = search(here, "needle").facts["skipped"]
    assert skipped["denied"] == 1
    with pytest.raises(DeniedPathError):
        search(here, "needle", path=name)


def test_generated_folders_are_skipped_and_counted_unless_they_are_named(here: Served) -> None:
    for path in ("node_modules/p/a.js", "x/__pycache__/b", "src/a.js"):
        here.put(path, "needle\n")
    answer = search(here, "needle")
    assert set(hits(answer)) == {"src/a.js"}
    assert answer.facts["skipped"] == {"generated": 2}
    assert set(hits(search(here, "needle", path="node_modules/p"))) == {"node_modules/p/a.js"}


def test_a_large_file_is_skipped_and_counted(serve: Callable[..., Served]) -> None:
    here = serve(WorkspaceSettings(searched_file_bytes=2048))
    here.put("a", "needle\n" + "x" * 2048)
    answer = search(here, "needle")
    assert hits(answer) == {}
    assert answer.facts["skipped"] == {"too_large": 1}


def test_a_file_that_is_named_is_refused_in_words(serve: Callable[..., Served]) -> None:
    here = serve(WorkspaceSettings(searched_file_bytes=2048))
    here.put("large", "needle\n" * 1000)
    here.put("binary", b"needle\0")
    for path, error in (("large", TooLargeError), ("binary", BinaryFileError), ("nothing", NotFoundError)):
        with pytest.raises(error):
            search(here, "needle", path=path)
    assert here.programs.started == []


def test_a_binary_file_is_counted_and_not_shown(here: Served) -> None:
    here.put("a.bin", b"needle\0\n")
    answer = search(here, "needle")
    assert answer.facts["files"] == []
    assert answer.facts["skipped"] == {"binary": 1}


@pytest.mark.threat("T1")
def test_whether_a_file_with_a_second_name_matches_cannot_be_told(here: Served) -> None:
    outside = here.root.parent / "outside"
    outside.write_text("needle in a secret\n")
    os.link(outside, here.root / "hard.txt")
    here.put("a.txt", "needle here\n")
    both = [json.dumps(search(here, pattern, path="./").facts) for pattern in ("in a secret", "not in the secret")]
    assert both[0] == both[1]
    found = search(here, "needle", max_results=1)
    assert hits(found) == {"a.txt": [[1, 1]]}
    assert found.facts["complete"] is True  # a match in the other file would make a cursor
    with pytest.raises(HardLinkError):
        search(here, "needle", path="hard.txt")


@pytest.mark.threat("T2")
def test_links_are_not_followed(here: Served) -> None:
    outside = here.root.parent / "outside"
    outside.mkdir()
    (outside / "a").write_text("needle\n")
    (here.root / "folder").symlink_to(outside)
    (here.root / "file").symlink_to(outside / "a")
    answer = search(here, "needle")
    assert hits(answer) == {}
    assert answer.facts["skipped"] == {}  # ripgrep looks where a link leads before it speaks of it: an oracle
    for path in ("folder", "file", "folder/a", "../outside", str(outside)):
        with pytest.raises(OutsideWorkspaceError):
            search(here, "needle", path=path)


@pytest.mark.threat("T2")
def test_a_file_that_becomes_a_link_between_the_steps_is_not_shown(here: Served) -> None:
    outside = here.root.parent / "outside"
    outside.write_text("needle outside\n")
    file = here.put("a.txt", "needle\n")

    def swap() -> None:
        file.unlink(missing_ok=True)
        file.symlink_to(outside)

    for regex in (True, False):
        here.programs.ended = swap
        answer = search(here, "needle", regex=regex)
        assert hits(answer) == {}
        assert here.programs.started
        file.unlink()
        file.write_text("needle\n")


def test_a_file_that_changes_between_the_steps_is_counted(here: Served) -> None:
    file = here.put("a.txt", "one\nneedle\n")

    def change() -> None:
        file.write_text("needle\n" * 3)

    here.programs.ended = change
    answer = search(here, "needle", regex=True)
    assert hits(answer) == {}
    assert answer.facts["skipped"] == {"changed": 1}


def test_a_fifo_and_a_folder_without_files_hold_nothing_up(here: Served) -> None:
    os.mkfifo(here.root / "fifo")
    (here.root / "empty").mkdir()
    here.put("a", "needle\n")
    answer = search(here, "needle")
    assert set(hits(answer)) == {"a"}
    assert answer.facts["skipped"] == {"special": 1}
    with pytest.raises(NotAFileError):
        search(here, "needle", path="fifo")
    with pytest.raises(NotFoundError):
        search(here, "needle", path="nothing")


@pytest.mark.threat("T8")
def test_a_match_in_an_endless_line_stands_beside_the_others(serve: Callable[..., Served]) -> None:
    here = serve(WorkspaceSettings(searched_file_bytes=limits.SEARCHED_FILE_BYTES))
    here.put("a_normal.txt", "needle\n")
    here.put("b_long.txt", "é" * 200_000 + "needle" + "x" * 100_000 + "\n")
    here.put("c_latin.txt", "é needle\n".encode("latin-1"))
    here.put("c_utf16.txt", "needle\n".encode("utf-32"))
    here.put("d_huge.txt", "x" * 3_000_000 + "needle\n")
    answer = search(here, "needle")
    assert hits(answer) == {"a_normal.txt": [[1, 1]], "b_long.txt": [[1, 200_001]], "c_latin.txt": [[1, 3]]}
    assert answer.facts["skipped"] == {"too_large": 1}
    assert max(len(passage.text) for passage in answer.passages) < 64 * 1024
    text = present(answer, Controls(key=b"k" * 32)).text
    assert "éneedlex" in text
    assert "1:é needle\n" in text
    assert max(map(len, text.splitlines())) < limits.LINE_CHARACTERS + 100
    assert all(len(str(started)) < 20_000 for started in here.programs.started)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_text_in_other_encodings_is_found_with_the_same_numbers(here: Served, encoding: str) -> None:
    mark = {"utf-16-le": "\ufeff", "utf-16-be": "\ufeff"}.get(encoding, "")
    here.put("a", (mark + "eins\nzwei\nüber needle\n").encode(encoding))
    answer = search(here, "needle")
    assert hits(answer) == {"a": [[3, 6]]}
    assert shown(answer) == "über needle\n"


def test_line_ends_of_windows_do_not_show_and_do_not_count(here: Served) -> None:
    here.put("a", "one\r\nneedle\r\nx\rneedle\n")
    answer = search(here, "needle$", regex=True)
    assert hits(answer) == {"a": [[2, 1], [3, 3]]}
    assert shown(answer).startswith("needle\n")


def test_a_name_with_a_line_end_and_one_that_is_no_text_are_told(here: Served) -> None:
    here.put("a\nb", "needle\n")
    (here.root / os.fsdecode(b"caf\xe9")).write_text("needle\n")
    found = hits(search(here, "needle"))
    assert len(found) == 2
    for path in found:
        assert hits(search(here, "needle", path=path)) == {path: [[1, 1]]}


@pytest.mark.threat("T7")
@pytest.mark.parametrize("pattern", ["(a+)+b", "a*a*a*a*a*a*b", "(?:x{0,20}){0,20}y", *ORDINARY])
def test_no_pattern_is_refused_for_its_shape(here: Served, pattern: str) -> None:
    here.put("a", "a" * 60 + "\n" + "x" * 60 + "\n")
    search(here, pattern, regex=True)


@pytest.mark.threat("T7")
@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?=a)b", "look-around"),
        ("(?<!a)b", "look-around"),
        (r"(a)\1", "back-references"),
        ("(a", "unclosed group"),
        ("a\\nb", "one line"),
        (r"(?:\w{0,200}){0,200}", "too large"),
    ],
)
def test_what_is_not_linear_or_no_pattern_is_refused_with_the_reason(here: Served, pattern: str, reason: str) -> None:
    here.put("a", "ab\n")
    with pytest.raises(BadPatternError, match=reason) as caught:
        search(here, pattern, regex=True)
    assert caught.value.remedy
    search(here, pattern)  # as a literal it is text like any other


def test_where_nothing_is_found_it_is_said_what_was_not_looked_at(here: Served) -> None:
    here.put("a", "ab\n")
    assert search(here, "needle").notes == ("Nothing that is searched matches.",)
    here.put("node_modules/a/b.js", "needle\n")
    here.put(".env", "needle\n")
    assert search(here, "needle").notes == ("Nothing that is searched matches; passed over: 1 denied, 1 generated.",)


def test_a_glob_that_does_not_parse_is_refused(here: Served) -> None:
    with pytest.raises(BadPatternError, match="glob"):
        search(here, "a", globs=["[a"])


def test_pages_hold_every_hit_once_and_in_order(here: Served) -> None:
    for name in ("a", "b", "c/d", "e"):
        here.put(name, "".join(f"needle {n}\n" for n in range(7)))
    arguments: dict[str, Any] = {"max_results": 4}
    found: list[tuple[str, int]] = []
    for _ in range(20):
        answer = search(here, "needle", **arguments)
        found += [(path, line) for path, places in hits(answer).items() for line, _ in places]
        if "next_cursor" not in answer.facts:
            break
        arguments["cursor"] = answer.facts["next_cursor"]
    assert found == [(name, line) for name in ("a", "b", "c/d", "e") for line in range(1, 8)]
    assert answer.facts["complete"] is True


@pytest.mark.threat("T4")
def test_a_cursor_holds_no_name_and_no_count_of_what_is_not_served(here: Served) -> None:
    for name in ("b-secret-name", "c-secret-name"):
        here.put(name, "needle\n")
    page = search(here, "needle", max_results=1).facts["next_cursor"]
    here.put("a", "needle\n")
    os.link(here.root / "a", here.root / "aa")  # both match, and are never served
    assert search(here, "needle", max_results=1).facts["next_cursor"] == page
    assert "secret" not in base64.urlsafe_b64decode(f"{page}==").decode("latin-1")


def test_a_page_whose_file_is_gone_says_so(here: Served) -> None:
    for name in "abc":
        here.put(name, "needle\n")
    page = search(here, "needle", max_results=1).facts["next_cursor"]
    (here.root / "b").unlink()
    with pytest.raises(BadCursorError, match="is gone"):
        search(here, "needle", max_results=1, cursor=page)


def test_a_page_ends_where_its_bytes_do(serve: Callable[..., Served]) -> None:
    here = serve(WorkspaceSettings(reply_bytes=4096))
    for name in "abcdefgh":
        here.put(name, "needle " + "x" * 1500 + "\n")
    answer = search(here, "needle", max_results=200)
    assert set(hits(answer)) == {"a", "b"}
    assert len(shown(answer)) <= 4096
    rest = search(here, "needle", max_results=200, cursor=answer.facts["next_cursor"])
    assert set(hits(rest)) == {"c", "d"}


def test_the_setting_bounds_the_results(serve: Callable[..., Served]) -> None:
    here = serve(WorkspaceSettings(results=3))
    here.put("a", "needle\n" * 10)
    assert search(here, "needle", max_results=100).facts["matches"] == 3


def test_a_very_long_path_does_not_break_the_cursor(here: Served) -> None:
    deep = "/".join(["d" * 100] * 8)
    here.put(f"{deep}/a", "needle\n" * 5)
    here.put("z", "needle\n")
    first = search(here, "needle", max_results=3)
    assert len(str(first.facts["next_cursor"])) < limits.CURSOR_CHARACTERS
    assert first.notes == (f"There is more: `cursor` {first.facts['next_cursor']}",)
    second = search(here, "needle", max_results=3, cursor=first.facts["next_cursor"])
    assert hits(second) == {f"{deep}/a": [[4, 1], [5, 1]], "z": [[1, 1]]}


@pytest.mark.parametrize(
    "position", [{}, {"hits": -1}, {"path": 3, "hits": 0}, {"path": "\ud800", "hits": 0}, {"hits": 0}]
)
def test_a_cursor_that_is_none_of_ours_is_refused(here: Served, position: Any) -> None:
    try:
        made = cursor.make("search_code", {"pattern": "x"}, position)
    except (ValueError, TypeError):
        made = "x"
    with pytest.raises(BadCursorError):
        search(here, "x", cursor=made)
    with pytest.raises(BadCursorError):
        search(here, "y", cursor=cursor.make("search_code", {"pattern": "x"}, {"path": "a", "hits": 0}))


def test_arguments_that_do_not_fit_are_refused(here: Served) -> None:
    wrong: list[dict[str, Any]] = [{}, {"pattern": 1}, {"pattern": "a", "context_lines": 6}, {"pattern": "a", "x": 1}]
    for arguments in wrong:
        with pytest.raises(InvalidArgumentsError):
            TOOL.run(arguments, here.context)


def test_an_integer_may_be_written_with_a_point(here: Served) -> None:
    here.put("a", "one\nneedle\nthree\nneedle\n")
    found = search(here, "needle", context_lines=1.0, max_results=1.0)
    assert found.facts["matches"] == 1
    assert found.facts["files"] == search(here, "needle", context_lines=1, max_results=1).facts["files"]


def test_a_call_that_nobody_wants_ends(serve: Callable[..., Served]) -> None:
    budget = Budget(60.0)
    here = serve(budget=budget)
    here.put("a", "needle\n")
    budget.cancel()
    with pytest.raises(CancelledError):
        search(here, "needle")


def test_where_much_matches_files_are_asked_about_in_batches(here: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(150):
        here.put(f"{number:03}", "needle\n")
    found = search(here, "needle", regex=True, max_results=140)
    assert found.facts["matches"] == 140
    assert len(here.programs.started) == 1  # which said where as well
    monkeypatch.setattr(searching, "_PLACES_BYTES", 100)
    assert search(here, "needle", regex=True, max_results=140).facts == found.facts
    assert len(here.programs.started) == 6  # given up, listed, and three batches
    assert search(here, "needle", max_results=140).facts["matches"] == 140
    assert len(here.programs.started) == 7  # where a literal stands is seen in what was read


def test_the_definition_is_small_and_fit_to_be_published() -> None:
    registry.published([TOOL])
    assert len(json.dumps(registry.definition(TOOL), separators=(",", ":"))) < 1350


def test_a_child_that_ends_otherwise_is_our_own_fault(here: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("served.plainly.RIPGREP", "/bin/false")
    assert hits(search(here, "needle")) == {}  # status 1 is "nothing matched"
    script = here.root.parent / "rg"
    script.write_text("#!/bin/sh\nexit 9\n")
    script.chmod(0o755)
    monkeypatch.setattr("served.plainly.RIPGREP", str(script))
    with pytest.raises(HarnessError, match="status 9"):
        search(here, "needle")


def test_a_host_without_ripgrep_says_so(here: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise UnsupportedError("rg was not found on this host", remedy="install rg")

    monkeypatch.setattr(here.programs, "start", missing)
    with pytest.raises(UnsupportedError):
        search(here, "needle")
