"""The words in which rules are written. Pure."""

import re

from fumehood.content.credentials.model import Check, Rule

# What is not unmistakable begins where no character of its own body precedes it, right behind a terminal's colour, or
# behind an escaped line end.
_COLOURS = r"(?<=\x1b\[m)|(?<=\x1b\[[0-9]m)|(?<=\x1b\[[0-9]{2}m)|(?<=\x1b\[[0-9];[0-9]{2}m)|(?<=\\[nrt])"
LEFT = rf"(?:(?<![A-Za-z0-9])|{_COLOURS})"
LEFT_WORD = rf"(?:(?<![A-Za-z0-9_-])|{_COLOURS})"
RIGHT = r"(?![A-Za-z0-9])"
RIGHT_WORD = r"(?![A-Za-z0-9_-])"


def rule(name: str, source: str, keywords: str, pattern: str, *, behind: int = 0, **checks: Check) -> Rule:
    r"""A rule; `keywords` stand apart by blanks, a blank of their own is written `\s`."""
    words = tuple(word.replace("\\s", " ").encode() for word in keywords.split())
    compiled = re.compile(pattern.encode())
    return Rule(name=name, source=source, keywords=words, pattern=compiled, behind=behind, **checks)
