"""What a token lets its holder use. Pure.

`tools:read` stands for every tool, `tool:NAME` for one of them; a caller without any of these sees no tool. A caller
whose scopes are None is not limited: stdio, or a token that names none. `role:NAME` is a role of a gateway; where there
are no roles it covers nothing.
"""

import re
from collections.abc import Iterable

from fumehood.wire.published import Caller

EVERY_TOOL = "tools:read"
_ONE_TOOL = "tool:"
_ROLE = "role:"
# A tool's name as 2025-11-25 and later have it.
_SCOPE = re.compile(r"tools:read|tool:[A-Za-z0-9_.-]{1,128}|role:[A-Za-z0-9_-]{1,64}")


def may(caller: Caller, tool: str) -> bool:
    """Whether a caller may see and call a tool."""
    return caller.scopes is None or EVERY_TOOL in caller.scopes or f"{_ONE_TOOL}{tool}" in caller.scopes


def roles(caller: Caller) -> frozenset[str]:
    """The names of the roles that a token names."""
    return frozenset(word.removeprefix(_ROLE) for word in caller.scopes or () if word.startswith(_ROLE))


def tools(caller: Caller) -> frozenset[str] | None:
    """The names of the tools that a token names; None where it names none, or every tool."""
    words = caller.scopes or frozenset()
    named = frozenset(word.removeprefix(_ONE_TOOL) for word in words if word.startswith(_ONE_TOOL))
    return None if EVERY_TOOL in words else named or None


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
