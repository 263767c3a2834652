"""What a token lets its holder use. Pure.

`tools:read` stands for every tool, `tool:NAME` for one of them; a caller without any of ours sees no tool. A caller
whose scopes are None is not limited: stdio, or a token that names none.
"""

import re
from collections.abc import Iterable

from fumehood.wire.published import Caller

EVERY_TOOL = "tools:read"
_ONE_TOOL = "tool:"
_SCOPE = re.compile(r"tools:read|tool:[A-Za-z0-9_.-]{1,128}")  # a tool's name as 2025-11-25 and later have it


def may(caller: Caller, tool: str) -> bool:
    """Whether a caller may see and call a tool."""
    return caller.scopes is None or EVERY_TOOL in caller.scopes or f"{_ONE_TOOL}{tool}" in caller.scopes


def is_limited(caller: Caller) -> bool:
    """Whether this one sees another list than others do, so that nobody may share it (`cacheScope: private`)."""
    return caller.scopes is not None and EVERY_TOOL not in caller.scopes


def is_scope(word: str) -> bool:
    """Whether a word is one of ours."""
    return _SCOPE.fullmatch(word) is not None


def known(words: Iterable[str]) -> frozenset[str]:
    """Those words that are scopes of ours; an issuer's others mean nothing here."""
    return frozenset(word for word in words if is_scope(word))


def needed(tool: str) -> str:
    """The least scope that covers a call; what a client makes up as a name is never repeated."""
    scope = f"{_ONE_TOOL}{tool}"
    return scope if is_scope(scope) else EVERY_TOOL
