r"""Make hostile bytes inert text. Pure.

Invariants: the text holds no control character (`lines` keeps line feed and tab), no format, bidirectional,
zero-width or otherwise invisible character, no line or paragraph separator, nothing unassigned or private, no half of
a surrogate pair and no `<`. So a terminal draws it and obeys nothing, one value stays one line of a log, and as the
text of an HTML page it opens no element. What was replaced is written as an escape that tells what it was: `\x1b` for
ESC, `\x9b` for a byte that is no UTF-8, `\u009b` for the character of that number, `\\` for a backslash; so
the escapes can be undone, and two different inputs that are not cut never look alike as text.

Not promised: that look-alike letters are told apart, or that the text is fit for an HTML attribute (it may hold
quotes and `&`).
"""

import functools
import re
import unicodedata

from fumehood.core import limits

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
_PRINTABLE_CATEGORIES = frozenset("LMNPS")  # letters, marks, numbers, punctuation, symbols
# Drawn as nothing, or as a blank, although their category says letter, mark or symbol.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_VARIATION_SELECTORS = (range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))

_SUSPECT = re.compile(r"[^ -;=-\[\]-~]")  # all but printable ASCII without `<` and the backslash
_SUSPECT_IN_LINES = re.compile(r"[^\n\t -;=-\[\]-~]")


def escape(data: bytes, *, lines: bool = False) -> str:
    """All of `data` as inert text, at most four characters a byte."""
    return escape_text(decode(data), lines=lines)


def escape_text(text: str, *, lines: bool = False) -> str:
    """The same for text; an escaped surrogate is taken for the byte that `decode` found."""
    return (_SUSPECT_IN_LINES if lines else _SUSPECT).sub(_replace, text)


def inert(data: bytes, *, limit_bytes: int = limits.TEXT_BYTES, lines: bool = False) -> str:
    """The beginning of `data` as inert text, with a note of how many bytes were cut."""
    end = boundary(data, limit_bytes)
    return escape(data[:end], lines=lines) + cut_note(len(data) - end)


def decode(data: bytes) -> str:
    """UTF-8 as text; a byte that is none becomes a surrogate, from which `escape_text` shows it."""
    return data.decode("utf-8", "surrogateescape")


def boundary(data: bytes, limit_bytes: int) -> int:
    """Where to cut so that at most `limit_bytes` remain and no character is torn apart."""
    if len(data) <= limit_bytes:
        return len(data)
    for end in range(limit_bytes, max(limit_bytes - 4, 0), -1):
        if data[end] & 0xC0 != 0x80:  # noqa: PLR2004  # a continuation byte of UTF-8 is 10xxxxxx
            return end
    return limit_bytes


def cut_note(cut_bytes: int) -> str:
    """The words that follow a text that was cut; none where nothing was."""
    return f" [cut: {cut_bytes} more bytes]" if cut_bytes else ""


def _replace(match: re.Match[str]) -> str:
    return _escaped(match[0])


@functools.lru_cache(maxsize=4096)
def _escaped(character: str) -> str:
    code = ord(character)
    if character in _NAMED:
        return _NAMED[character]
    if 0xDC80 <= code <= 0xDCFF:  # noqa: PLR2004  # PEP 383: what surrogateescape makes of bytes 0x80 to 0xff
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:  # noqa: PLR2004 - the end of ASCII
        return f"\\x{code:02x}"
    if _is_visible(character):
        return character
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004  # the BMP


def _is_visible(character: str) -> bool:
    if character in _INVISIBLE or any(ord(character) in block for block in _VARIATION_SELECTORS):
        return False
    return unicodedata.category(character)[0] in _PRINTABLE_CATEGORIES
