"""The words in which rules are written. Pure."""

import re

from fumehood.content.credentials.checks import is_no_example
from fumehood.content.credentials.model import Check, Rule, always

# What is not unmistakable begins where no character of its own body precedes it, right behind a terminal's colour, or
# behind an escaped line end.
_BEHIND = r"(?<=\x1b\[m)|(?<=\x1b\[[0-9]m)|(?<=\x1b\[[0-9]{2}m)|(?<=\x1b\[[0-9];[0-9]{2}m)|(?<=\\[nrt])"
LEFT = rf"(?:(?<![A-Za-z0-9])|{_BEHIND})"
LEFT_WORD = rf"(?:(?<![A-Za-z0-9_-])|{_BEHIND})"
LEFT_ANY = rf"(?:(?<![A-Za-z0-9_~.-])|{_BEHIND})"
RIGHT = r"(?![A-Za-z0-9])"
RIGHT_WORD = r"(?![A-Za-z0-9_-])"

HEX = "[0-9a-f]"
BASE62 = "[A-Za-z0-9]"
WORD = "[A-Za-z0-9_-]"
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def rule(
    name: str, source: str, keywords: str, pattern: str, *, behind: tuple[int, ...] = (0,), **checks: Check
) -> Rule:
    """A rule; `keywords` are lower case and stand apart by blanks; a blank of their own is written as a plus-minus."""
    words = tuple(word.replace("±", " ").encode() for word in keywords.split())
    return Rule(name=name, source=source, keywords=words, expression=pattern.encode(), behind=behind, **checks)


def token(  # noqa: PLR0913 - a row of a table has as many columns
    name: str, source: str, prefixes: str, body: str, *, accepts: Check = is_no_example, verified: Check = always
) -> Rule:
    """A rule of a token that begins with one of the prefixes, stands apart, and is no example."""
    begins = "|".join(map(re.escape, prefixes.split()))
    right = RIGHT_WORD if "_-]" in body else RIGHT
    pattern = f"{LEFT}(?:{begins}){body}{right}"
    return rule(name, source, prefixes.lower(), pattern, accepts=accepts, verified=verified)
