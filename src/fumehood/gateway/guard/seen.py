"""What of a text a person sees, and what is there besides. Pure.

Invariant: what comes out holds no character that is drawn as nothing, that a terminal obeys, or that turns the order
of others; line ends and tabs stay.

Not promised: that an emoji made of several, or a script that joins by hidden marks, is drawn as it was meant.
"""

import unicodedata
from dataclasses import dataclass
from typing import Final

from fumehood.core.jsonio import JsonValue

_UNSEEN: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # letters and marks drawn as nothing
_SELECTORS: Final = (range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
_CONTROLS: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """A text of which everything is seen, and how many characters of it nobody would have."""

    text: str
    removed: int


def visible(text: str, characters: int) -> Visible:
    """The beginning of a text without control characters and what is drawn as nothing; line ends and tabs stay."""
    kept = "".join([one for one in text[: 2 * characters] if one in "\n\t" or not _is_unseen(one)])
    removed = len(text[: 2 * characters]) - len(kept)
    cut = len(text) - removed - characters
    return Visible(text=kept[:characters] + (f" [cut: {cut} characters]" if cut > 0 else ""), removed=removed)


def inert(value: JsonValue) -> JsonValue:
    """The same structure, of whose strings everything is seen; its depth is bounded by the parser."""
    match value:
        case str():
            return visible(value, len(value)).text
        case list():
            return [inert(one) for one in value]
        case dict():
            return {visible(name, len(name)).text: inert(one) for name, one in value.items()}
        case _:
            return value


def _is_unseen(character: str) -> bool:
    if character.isascii():
        return not character.isprintable()
    if character in _UNSEEN or any(ord(character) in block for block in _SELECTORS):
        return True
    return unicodedata.category(character) in _CONTROLS
