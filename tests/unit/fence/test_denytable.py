"""The built-in denylist and the page that publishes it are one list."""

import re
from pathlib import Path

from fumehood.fence import denytable

PAGE = (Path(__file__).parents[3] / "docs/reference/denylist.md").read_text(encoding="utf-8")


def published() -> dict[str, list[str]]:
    rows = re.findall(r"^\| ([^|`]+) \| (`.+`) \|$", PAGE, re.MULTILINE)
    return {holds.strip(): re.findall(r"`([^`]+)`", patterns) for holds, patterns in rows}


def test_the_page_has_every_row_and_no_other() -> None:
    table: dict[str, list[str]] = {}
    for rule in denytable.TABLE:
        table.setdefault(rule.holds, []).append(rule.pattern)
    assert published() == table


def test_the_page_names_what_is_served_all_the_same() -> None:
    section = PAGE.partition("## What is served all the same")[2].partition("##")[0]
    assert set(re.findall(r"`(\.env\.\w+)`", section)) == denytable.SERVED


def test_no_pattern_stands_twice_and_each_is_in_the_case_that_is_compared() -> None:
    patterns = [rule.pattern for rule in denytable.TABLE]
    assert len(patterns) == len(set(patterns)) > 100
    assert [pattern for pattern in patterns if pattern != pattern.lower()] == []
