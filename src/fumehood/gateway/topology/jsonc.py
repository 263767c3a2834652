"""JSON with comments and trailing commas, as editors let people write it, made strict JSON. Pure; time is linear.

Invariants: nothing inside of a string is changed; what is taken out leaves blanks of the same length, so that places
stay; whether the rest is JSON is for `core.jsonio` to say.
"""

import re
from typing import Final

# One part at a time: a string to its end or that of the line, a comment, a run of anything else, or one character.
_TOKEN: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"?|//[^\n]*|/\*.*?(?:\*/|\Z)|[^"/,]+|.', re.DOTALL)
_BLANK: Final = re.compile(r"[^\n]")


def strict(text: str) -> str:
    """The same text without comments and trailing commas. A comment that does not end stays, and is no JSON."""
    parts: list[str] = []
    comma: int | None = None  # the last one behind which nothing but blanks and comments stood
    for found in _TOKEN.finditer(text):
        part = found[0]
        if part.startswith("//") or (part.startswith("/*") and len(part) >= len("/**/") and part.endswith("*/")):
            parts.append(_BLANK.sub(" ", part))
            continue
        if comma is not None and (rest := part.strip()):
            if rest[0] in "]}":
                parts[comma] = " "
            comma = None
        if part == ",":
            comma = len(parts)
        parts.append(part)
    return "".join(parts)
