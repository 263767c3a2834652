"""What a glob means."""

import contextlib
import fnmatch
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core.errors import BadPatternError
from fumehood.fence import globs
from fumehood.fence.globs import Glob


def matches(glob: str, path: str) -> bool:
    *folder, name = path.split("/")
    found = Glob(glob)
    assert found.may_lead_to(folder) or not found.matches(folder, name)
    return found.matches(folder, name)


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("*.py", ["a.py", "src/a.py", ".py", "x/y/z.py"], ["a.pyc", "a.PY", "a.py/b"]),
        ("**/*.py", ["a.py", "src/a.py", "x/y/z.py"], ["a.pyc"]),
        ("./*.py", ["a.py"], ["src/a.py"]),
        ("/*.py", ["a.py"], ["src/a.py"]),
        ("src/*.py", ["src/a.py"], ["a.py", "x/src/a.py", "src/b/a.py"]),
        ("./src//*.py", ["src/a.py"], ["x/src/a.py"]),
        ("src\\*.py", ["src/a.py"], ["x/src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/b/a.py", "src/b/c/a.py"], ["a.py", "lib/a.py"]),
        ("src/**", ["src/a", "src/b/c"], ["src", "a/src/b"]),
        ("src/", ["src/a", "src/b/c"], ["src"]),
        ("./", ["a", "b/c"], []),
        ("**", ["a", "b/c"], []),
        ("**/test/**/x?.[ch]", ["test/x1.c", "a/test/b/x2.h"], ["x1.c", "test/x.c", "test/x1.d"]),
        ("*.{py,pyi}", ["a.py", "a.pyi"], ["a.pyc"]),
        ("{src,lib}/**/*.{c,h}", ["src/a.c", "lib/x/a.h"], ["a.c", "src/a.py"]),
        ("{a,b{c,d}}x", ["ax", "bcx", "bdx"], ["bx"]),
        ("[!a]b", ["xb"], ["ab"]),
        ("[^a]b", ["xb"], ["ab"]),
        ("[*]", ["*"], ["a"]),
        ("[[]x", ["[x"], ["x"]),
        ("[]]", ["]"], ["x"]),
        ("[z-a]", [], ["z", "a", "-"]),
        ("[a-c]", ["b"], ["d", "-"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[{,}]", ["{", ",", "}"], ["x"]),
        ("a.b", ["a.b"], ["axb"]),
        ("a,b", ["a,b"], ["a"]),
        ("a**b", ["ab", "axxb"], ["a/b"]),
        ("*a*b*c", ["abc", "xaxbxc", "aabbcc"], ["acb", "ab"]),
    ],
)
def test_a_glob_means_the_same_everywhere(glob: str, yes: list[str], no: list[str]) -> None:
    assert [path for path in yes if not matches(glob, path)] == []
    assert [path for path in no if matches(glob, path)] == []


@pytest.mark.parametrize("glob", ["", "../x", "a/../b", ".", "{a", "[a", "a{b,{c}", "x" * 513, "a\0b"])
def test_a_bad_glob_is_refused(glob: str) -> None:
    with pytest.raises(BadPatternError) as refused:
        Glob(glob)
    assert refused.value.remedy


@pytest.mark.threat("T7")
def test_braces_cannot_multiply_without_end() -> None:
    with pytest.raises(BadPatternError):
        Glob("{a,b}" * 7)
    assert Glob("{a,b}" * 6).matches((), "ababab")


@pytest.mark.threat("T7")
def test_many_stars_are_no_work() -> None:
    glob = Glob("*a" * 200 + "b")
    assert not glob.matches((), "a" * 255)
    assert not Glob("**/a/" * 80 + "b").matches(["a"] * 127, "a")


@given(
    st.lists(st.sampled_from(["*", "?", "a", "b", "."]), min_size=1, max_size=8).map("".join),
    st.text("ab.", min_size=1, max_size=10),
)
def test_a_name_matches_as_fnmatch_says(glob: str, name: str) -> None:
    if set(glob) != {"."} and not (len(glob) > 1 and set(glob) == {"*"}):
        assert Glob(glob).matches((), name) == fnmatch.fnmatchcase(name, glob)


@given(
    st.lists(st.sampled_from(["**", "a", "b", "*"]), min_size=2, max_size=5),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=6),
)
def test_folders_match_as_a_backtracking_expression_says(glob: list[str], path: list[str]) -> None:
    parts = ["(?:[^/]+/)*" if part == "**" else part.replace("*", "[^/]*") + "/" for part in glob]
    slow = re.compile("".join(parts) + ("[^/]+/" if glob[-1] == "**" else ""))
    assert matches("/".join(glob), "/".join(path)) == bool(slow.fullmatch("/".join(path) + "/"))


@given(st.text("ab*?[]{},-!^/\\.", min_size=1, max_size=20), st.text("ab*[]{}/", max_size=10))
def test_any_text_is_a_glob_or_refused(glob: str, path: str) -> None:
    with contextlib.suppress(BadPatternError):
        matches(glob, path)


def test_an_empty_class_matches_nothing_and_its_negation_anything() -> None:
    assert not globs.compiled(["[z-a]"]).fullmatch("z")
    assert globs.compiled(["[!z-a]"]).fullmatch("z")
    assert globs.compiled(["a[]"]).fullmatch("a[]")


def test_every_example_of_the_page_is_so() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/paths.md").read_text(encoding="utf-8")
    section = page.partition("| glob | matches |")[2]
    rows = re.findall(r"^\| `([^`]+)` \| (`.+`) \| (`.+`) \|$", section, re.MULTILINE)
    assert len(rows) == 10
    for glob, yes, no in rows:
        assert [path for path in re.findall(r"`([^`]+)`", yes) if not matches(glob, path)] == [], glob
        assert [path for path in re.findall(r"`([^`]+)`", no) if matches(glob, path)] == [], glob
