import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.serve.symbols import languages, patterns


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("fun run(x: Int)", "function"),
        ("  public function run() {", "function"),
        ("run() {", "function"),
        ("run ()", "function"),
        ("run=1", "variable"),
        ("run := 1", "variable"),
        ("export run=1", "variable"),
        ("func (s *S) run() {", "function"),
        ("class run extends A", "class"),
        ("protocol run {", "interface"),
        ("CREATE TABLE IF NOT EXISTS run (", "type"),
        ("const run = 1", "constant"),
        ("defmodule run do", "module"),
        ("enum run {", "enum"),
        ("x = run()", None),
        ("run == 1", None),
        ("run(1)", None),
        ("return run", None),
        ("class runner", None),
        ("", None),
        ("def " + "x" * 1000 + " run", None),
    ],
)
def test_a_word_before_a_name_makes_a_definition(line: str, kind: str | None) -> None:
    found = list(patterns.definitions([b"", line.encode()], "run", exact=True))
    assert [(one.name, one.kind, one.first_line, one.last_line) for one in found] == (
        [("run", kind, 2, 2)] if kind else []
    )


def test_a_part_of_a_name_is_found_in_any_case_when_it_need_not_be_exact() -> None:
    found = list(patterns.definitions([b"class MyRunner {"], "runn", exact=False))
    assert [one.name for one in found] == ["MyRunner"]


@given(st.lists(st.binary(max_size=200), max_size=5), st.text(min_size=1, max_size=10), st.booleans())
def test_any_lines_give_definitions_within_them(lines: list[bytes], symbol: str, exact: bool) -> None:
    for one in patterns.definitions(lines, symbol, exact=exact):
        assert 1 <= one.first_line == one.last_line <= len(lines)
        assert one.kind in languages.KINDS


@pytest.mark.threat("T7")
@pytest.mark.parametrize("part", ["a ", "((", "A ", "def ", "\t", "a(", "run ", "run=", "run("])
def test_a_hostile_line_ends(part: str) -> None:
    for line in (part * 400 + "run", "run" + part * 400, part * 200 + "run" + part * 200):
        list(patterns.definitions([line.encode()] * 50, "run", exact=True))
