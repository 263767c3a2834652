"""Which calls are made for a path, and what in an answer would be a leak."""

import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from served.world import MARK, MARKED, SIZE, World, function

Call: TypeAlias = Callable[[str, dict[str, Any]], Any]  # tool, arguments → the whole answer of the transport

# Tool → the arguments that are given beside the path. What is looked for is a part of what only the outside holds, so
# that the question never contains the mark itself.
TOOLS: dict[str, dict[str, Any]] = {
    "project_overview": {},
    "list_directory": {"include_hidden": True},
    "read_file": {},
    "search_code": {"pattern": MARK[:9]},
    "find_files": {"glob": "**/*outside*"},
    "find_symbol": {"symbol": function()[:9], "exact": False},
    "git_log": {},
    "git_diff": {},
}


def answer(call: Call, tool: str, path: str) -> str:
    """Everything that came back, as text."""
    return json.dumps(call(tool, {**TOOLS[tool], "path": path}), ensure_ascii=False, sort_keys=True)


def leaks(world: World, text: str, asked: str) -> list[str]:
    """What of the outside stands in an answer. A refusal may repeat the path as it was asked for."""
    found = {
        "content": MARK in text or function() in text,
        "size": str(SIZE) in text or f"{SIZE:,}" in text,
        "target": MARKED in text and MARKED not in asked,
        "place": str(world.base) in text and str(world.base) not in asked,
    }
    return [name for name, leaked in found.items() if leaked]


def same_but_for_the_name(marked: str, absent: str) -> bool:
    """Whether two answers differ in nothing but the name that was asked for, and in what is new in each answer."""
    for present, missing in _TWINS:
        marked = marked.replace(present, missing)
    return _plain(marked) == _plain(absent)


_TWINS = (("marked_outside", "absent_outside"), ("link_file", "link_absent"))


def _plain(text: str) -> str:
    return re.sub(r"[0-9a-f]{32}", "NONCE", text)
