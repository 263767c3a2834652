"""fence.git.revision: which revisions git may be asked for, by the schema and again by the proof."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.core.errors import InvalidArgumentsError
from fumehood.fence.git import revision
from fumehood.serve.tools import git_diff, git_log
from fumehood.wire import schema

# Refused by both checks, by their characters.
HOSTILE = [
    "--upload-pack=curl http://127.0.0.1/x",
    "--output=/tmp/x",
    "-n1",
    "-",
    "",
    " HEAD",
    "HEAD;id",
    "HEAD|id",
    "$(id)",
    "`id`",
    "HEAD\nmain",
    "HEAD\n",
    "HEAD\0",
    "HEAD:.env",
    ":0:.env",
    ":/fix",
    "^HEAD",
    "@{-1}",
    "HEAD@{1}",
    "HEAD^{/.*}",
    "HEAD^{commit}",
    "main&",
    "a'b",
    'a"b',
    "a\\b",
    "*",
    "a?b",
    "[a]",
    "h\u00e9ad",
    "\uff28EAD",
    "..HEAD",
    "/etc/passwd",
    "../x",
    "~1",
    "@",
    "a" * (limits.REVISION_CHARACTERS + 1),
]
# Of good characters, and refused by the proof type alone.
SHAPELESS = [
    "HEAD..",
    "a..b..c",
    "a....b",
    "a..-b",
    "a..--output",
    "HEAD^@",
    "HEAD^!",
    "HEAD^-",
    "HEAD^-1",
    "a..^b",
    "HEAD~1x",
]
GOOD = [
    "HEAD",
    "main",
    "HEAD~2",
    "HEAD^",
    "HEAD^2~3",
    "HEAD~~",
    "v1.0.2-rc.1",
    "feature/some_thing",
    "release@2",
    "1.0+build",
    "0123456789abcdef0123456789abcdef01234567",
    "a..b",
    "a...b",
    "HEAD~3..HEAD",
    "v1.0...feature/x^2",
    "_private",
    "a.b..c.d",
]


def fits(text: str) -> bool:
    """Whether a text fits the published schemas of both tools."""
    both = {not schema.problems(tool.input_schema, {"revision": text}) for tool in (git_log.TOOL, git_diff.TOOL)}
    assert len(both) == 1
    return both.pop()


@pytest.mark.threat("T6")
@pytest.mark.parametrize("text", HOSTILE, ids=repr)
def test_a_hostile_revision_is_refused_by_the_schema_and_by_the_proof(text: str) -> None:
    assert not fits(text)
    with pytest.raises(InvalidArgumentsError):
        revision.parse(text)


@pytest.mark.threat("T6")
@pytest.mark.parametrize("text", SHAPELESS)
def test_what_only_looks_like_a_revision_is_refused_by_the_proof(text: str) -> None:
    with pytest.raises(InvalidArgumentsError) as error:
        revision.parse(text)
    assert error.value.remedy


@pytest.mark.parametrize("text", GOOD)
def test_an_ordinary_revision_passes_both(text: str) -> None:
    assert fits(text)
    assert revision.parse(text).text == text
    assert revision.parse(text).is_range is (".." in text)
    assert repr(revision.parse(text)) == f"<Revision {text}>"


@given(st.text(max_size=40) | st.text("abH1_./@+~^-:{}$ ", max_size=20))
def test_whatever_passes_is_inert(text: str) -> None:
    try:
        passed = revision.parse(text)
    except InvalidArgumentsError:
        return
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_./@+~^-]*", passed.text)
    assert passed.text.count("..") == int(passed.is_range)
    for end in passed.text.replace("...", "..").split(".."):
        assert end[0].isalnum() or end[0] == "_"


def test_nobody_else_makes_a_proof() -> None:
    with pytest.raises(TypeError):
        revision.Revision(object(), "--output=x", is_range=False)
