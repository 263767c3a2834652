"""Which tools fit a query: BM25 over names and descriptions. Pure: an index in memory.

Invariants: the same tools and query give the same order (by rank, then by the order of the tools); a query is words
and nothing else, so that none is read as an operator; words and their number are bounded. Words are stemmed as English,
case and accents count for nothing, `read_file` and `readFile` are two words each. A word in a name counts more than one
in a description; words of questions ("which", "the") do not count. A query without words finds the first tools, in
their order.

Source: SQLite, "FTS5": the tokenizers, strings in queries, `bm25()`.
"""

import contextlib
import re
import sqlite3
from collections.abc import Sequence
from typing import Final

from fumehood.code.backend import Tool
from fumehood.core import limits
from fumehood.core.errors import UnsupportedError

_WORD: Final = re.compile(r"[^\W_]+")
# Words of questions, not of tools: among few tools they would weigh as much as any other.
_EMPTY: Final = re.compile(
    r"an?|and|are|as|at|be|by|can|do|does|for|from|get|how|i|in|into|is|it|me|my|need|of|on|or|please|show|that|the"
    r"|this|to|tools?|use|want|what|which|with",
    re.IGNORECASE,
)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_TABLE: Final = "CREATE VIRTUAL TABLE tools USING fts5(name, words, tokenize = 'porter unicode61 remove_diacritics 2')"
_NAME_WEIGHT: Final = 4.0  # of a word in a name: names are chosen, descriptions are long
_FOUND: Final = "SELECT rowid FROM tools WHERE tools MATCH ? ORDER BY bm25(tools, ?, 1.0), rowid LIMIT ?"


def find(tools: Sequence[Tool], query: str, limit: int) -> list[Tool]:
    """At most `limit` tools, best first. `UnsupportedError` where Python's SQLite has no FTS5."""
    with contextlib.closing(Index(tools)) as index:
        return index.find(query, limit)


class Index:
    """An index for many searches of the same tools, made by the first one that needs it; to be closed."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        """Nothing is made yet."""
        self._tools = tools
        self._made: sqlite3.Connection | None = None

    def find(self, query: str, limit: int) -> list[Tool]:
        """At most `limit` tools, best first. `UnsupportedError` where Python's SQLite has no FTS5."""
        words = _words(query)
        if not words:
            return list(self._tools[:limit])
        wanted = " OR ".join(f'"{word}"' for word in words)
        found = self._index().execute(_FOUND, (wanted, _NAME_WEIGHT, limit))
        return [self._tools[place] for (place,) in found]

    def close(self) -> None:
        """Forget it."""
        if self._made is not None:
            self._made.close()
            self._made = None

    def _index(self) -> sqlite3.Connection:
        if self._made is None:
            made = sqlite3.connect(":memory:")
            try:
                made.execute(_TABLE)
            except sqlite3.OperationalError:
                made.close()
                raise UnsupportedError(
                    "tools cannot be searched: Python's SQLite was built without FTS5",
                    remedy="use amcp.describe(names)",
                ) from None
            rows = ((place, _spread(tool.name), _spread(tool.description)) for place, tool in enumerate(self._tools))
            made.executemany("INSERT INTO tools(rowid, name, words) VALUES (?, ?, ?)", rows)
            self._made = made
        return self._made


def _words(query: str) -> list[str]:
    """The distinct words of a query, the first ones."""
    found = _WORD.findall(_spread(query[: limits.CODE_QUERY_CHARACTERS]))
    return [word for word in dict.fromkeys(found) if not _EMPTY.fullmatch(word)][: limits.CODE_QUERY_WORDS]


def _spread(text: str) -> str:
    """A text as SQLite may have it, with `camelCase` as it is and as two words."""
    encodable = text[: limits.CODE_INDEXED_CHARACTERS].encode("utf-8", "replace").decode("utf-8").replace("\0", " ")
    return f"{encodable} {spread}" if (spread := _HUMP.sub(" ", encodable)) != encodable else encodable
