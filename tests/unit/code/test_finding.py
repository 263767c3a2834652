"""Tools are found by the words of their names and descriptions, always in the same order."""

import sqlite3
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faketools import tool
from fumehood.code.backend import Tool
from fumehood.code.finding import find
from fumehood.core.errors import UnsupportedError

TOOLS = [
    tool("files.read_file", "Numbered lines of a text."),
    tool("files.list", "Every entry of a folder, with the size of each file."),
    tool("git.log", "Commits, newest first."),
    tool("crm.getCustomer", "The people of our books."),
    tool("café.menu", "Was es heute gibt"),
]


def names(query: str, limit: int = 10, tools: list[Tool] | None = None) -> list[str]:
    return [one.name for one in find(TOOLS if tools is None else tools, query, limit)]


def test_a_word_in_a_name_counts_more_than_one_in_a_description() -> None:
    assert names("file") == ["files.read_file", "files.list"]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("commit", "git.log"),  # stemmed
        ("COMMITS", "git.log"),
        ("customer", "crm.getCustomer"),  # a word inside
        ("getCustomer", "crm.getCustomer"),
        ("read_file", "files.read_file"),
        ("cafe", "café.menu"),
        ("the newest commits, please", "git.log"),
        ("which tool shows the people of a company?", "crm.getCustomer"),
    ],
)
def test_words_are_found_in_their_forms(query: str, first: str) -> None:
    assert names(query)[0] == first


def test_what_fits_nothing_finds_nothing() -> None:
    assert names("zebra") == []
    assert names("file", tools=[]) == []


@pytest.mark.parametrize("query", ["", "  ", "?!", '"', "which of the"])
def test_a_query_without_words_finds_the_first_tools(query: str) -> None:
    assert names(query, 2) == ["files.read_file", "files.list"]


@pytest.mark.parametrize(
    "query", ['" OR rowid:1', "log NOT commits", "NEAR(log commits)", "name: log", "lo*", "'; DROP"]
)
def test_an_operator_is_read_as_words(query: str) -> None:
    assert set(names(query)) <= {"git.log"}


def test_equal_ranks_keep_the_order_of_the_tools() -> None:
    same = [tool(f"s.t{i}", "one and the same") for i in range(50)]
    assert names("same", 50, same) == [one.name for one in same]


def test_a_python_without_the_index_says_so() -> None:
    with (
        mock.patch("fumehood.code.finding._TABLE", "CREATE VIRTUAL TABLE tools USING no_such_module(a)"),
        pytest.raises(UnsupportedError, match="FTS5"),
    ):
        find(TOOLS, "file", 3)


def test_this_python_has_the_index() -> None:
    with sqlite3.connect(":memory:") as index:
        assert ("ENABLE_FTS5",) in index.execute("PRAGMA compile_options").fetchall()
    index.close()


@given(st.text(max_size=80), st.lists(st.tuples(st.text(max_size=20), st.text(max_size=60)), max_size=6))
def test_whatever_is_asked_some_of_the_tools_are_found_and_twice_the_same(
    query: str, described: list[tuple[str, str]]
) -> None:
    tools = [tool(name, words) for name, words in described]
    found = find(tools, query, 4)
    assert len(found) <= 4
    assert all(one in tools for one in found)
    assert found == find(tools, query, 4)
