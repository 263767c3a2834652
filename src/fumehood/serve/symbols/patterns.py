"""Definitions by the words before a name, for languages without a grammar and files that do not parse. Pure.

Not promised: much. A line is looked at alone, so a comment that reads like a definition is one here, and a definition
without a word of its own (a function in C) is none. Results say that they came about this way.
"""

import re
from collections.abc import Iterator, Sequence

from fumehood.serve.context import Definition

_WORDS = {
    "function": "function func fun fn def sub proc procedure defn defun define defp defmacro method feature",
    "class": "class object actor",
    "interface": "interface protocol trait",
    "type": "type struct record typedef union newtype data typealias domain",
    "enum": "enum",
    "constant": "const constant final static",
    "variable": "var let val local export readonly declare set my our",
    "module": "module namespace package mod defmodule unit library extension schema",
    "macro": "macro macro_rules",
    "table": "table view",
}
_KINDS = {word: kind if kind != "table" else "type" for kind, words in _WORDS.items() for word in words.split()}
_LINE_CHARACTERS = 1000  # of a longer one nobody wrote a definition by hand
_PLACES = 8  # of a name in one line
_PART = r"[\w$?!-]"
_WORD_BEFORE = re.compile(r"([A-Za-z_]{1,20})[!(]?[ \t]{1,20}(?:\([^()]{0,100}\)[ \t]{1,20}|[A-Z]{1,20} ){0,3}\Z")
_CALLED = re.compile(r"[ \t]{0,20}\([ \t]{0,20}\)[ \t]{0,20}(?:\{|\Z)")
_ASSIGNED = re.compile(r"[ \t]{0,20}(?::|\+|\?)?=(?!=)")


def definitions(lines: Sequence[bytes], symbol: str, *, exact: bool) -> Iterator[Definition]:
    """What in some lines reads like a definition of `symbol`, or with `exact` off of a name that holds it."""
    sought = re.compile(re.escape(symbol), 0 if exact else re.IGNORECASE)
    raw = symbol.encode() if exact else b""
    for number, line in enumerate(lines, 1):
        if len(line) > _LINE_CHARACTERS or raw not in line:
            continue
        text = line.decode("utf-8", "replace")
        for name, start, end in _names(text, sought, exact=exact):
            kind = _kind(text[:start], text[end:])
            if kind is not None:
                yield Definition(name=name, kind=kind, first_line=number, last_line=number)
                break


def _names(text: str, sought: re.Pattern[str], *, exact: bool) -> Iterator[tuple[str, int, int]]:
    """The whole names in a line of which a part, or with `exact` all, is what is sought."""
    for match, _ in zip(sought.finditer(text), range(_PLACES), strict=False):
        start, end = match.span()
        while start and re.match(_PART, text[start - 1]):
            start -= 1
        while end < len(text) and re.match(_PART, text[end]):
            end += 1
        if not exact or (start, end) == match.span():
            yield text[start:end], start, end


def _kind(before: str, after: str) -> str | None:
    word = _WORD_BEFORE.search(before[-200:])
    if word and word[1].lower() in _KINDS:
        return _KINDS[word[1].lower()]
    if before.strip():
        return None
    if _CALLED.match(after[:200]):
        return "function"
    return "variable" if not before and _ASSIGNED.match(after[:200]) else None
