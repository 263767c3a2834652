"""review.inputs.patterns: a text that a simple expression matches."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.review.inputs import patterns


def first(_: int) -> int:
    return 0


def last(count: int) -> int:
    return count - 1


@pytest.mark.parametrize(
    "pattern",
    [
        "^[a-z]+$",
        r"^\d{4}-\d{2}-\d{2}$",
        "^(?:red|green|blue)$",
        r"^[A-Z]{2}\d*(x|y)?$",
        r"^#[0-9a-fA-F]{6}$",
        r"^[^/\s]+/[^/\s]+$",
        r"^v?\d+\.\d+\.\d+$",
        "^$",
        ".*",
        "^.{3,5}$",
        r"^\x41\u0042[\w.-]+$",
        "^[-a]{2,}?$",
        r"^(a+)+$",
        "^([a-z]{2}|[0-9]{3})$",
        r"^\S\W\D\t\n$",
        "^a|b$|^c",
        "^(^a)$",
    ],
)
def test_what_is_written_for_a_simple_expression_matches_it(pattern: str) -> None:
    for pick in (first, last):
        text = patterns.write(pattern, 0, 100, pick)
        assert text is None or re.search(pattern, text) is not None
    assert patterns.write("^[a-z]+$", 0, 100, first) == "a"


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=a)b",
        "(?<name>a)",
        r"(a)\1",
        r"\p{L}",
        r"\bx\b",
        "a^b",
        "a$b",
        "[[a]]",
        "[a&&b]",
        "[b-a]",
        "[z",
        "(a",
        "a)",
        "*",
        "a**",
        "a++",
        "a{x}",
        "a{3,1}",
        "a{9999999999}",
        "{",
        r"\u12",
        r"\ud800",
        "[^\\x20-\\x7e]",
        "(" * 200,
        "((a{60}){60}){60}",
        "a" * (limits.INPUT_PATTERN_CHARACTERS + 1),
        "\\",
        "[]",
    ],
)
def test_an_expression_that_is_not_simple_is_given_up(pattern: str) -> None:
    assert patterns.write(pattern, 0, 100, first) is None


def test_counts_are_used_to_reach_a_length() -> None:
    assert patterns.write("^[a-z]*$", 5, 10, first) == "a" * 7
    assert patterns.write("^x{2}$", 3, 10, first) is None
    assert patterns.write("^x{2}$", 0, 1, first) is None


@given(st.text(alphabet=r"ab01\d\w[]()^$.*+?{},|-", max_size=30), st.integers(0, 50))
@settings(max_examples=400, deadline=None)
def test_any_expression_ends_within_its_bounds_and_is_matched_when_it_is_one(pattern: str, most: int) -> None:
    text = patterns.write(pattern, 0, most, last)

    assert text is None or len(text) <= most
    if text is not None:
        try:
            compiled = re.compile(pattern)
        except re.error:
            return
        assert compiled.search(text) is not None
