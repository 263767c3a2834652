r"""Names on disk as text that JSON can hold, and back. Pure, and without loss.

The rule: a byte that is not part of UTF-8, a control character of ASCII, and a backslash that would be read as the
beginning of such an escape are written `\xhh` with two lower-case hexadecimal digits; everything else stands for
itself. So every name has exactly one spelling, which takes one line, and `asked(spelled(name)) == name`.
Only these bytes may be written as an escape: `\x2f` and `\x00` are the four characters that they look like, so that
neither a separator nor a NUL byte comes in by this door.
"""

import re
from collections.abc import Sequence

_ESCAPED = r"(?:[89a-f][0-9a-f]|[01][0-9a-f](?<!00)|7f|5c)"  # any byte above ASCII, a control character, a backslash
_TO_READ = re.compile(rb"\\x(" + _ESCAPED.encode() + rb")")
_TO_WRITE = re.compile(r"[\x01-\x1f\x7f\udc80-\udcff]|\\(?=x" + _ESCAPED + ")")


def spelled(name: bytes) -> str:
    """A name or path on disk, as text."""
    if name.isascii() and name.decode("ascii").isprintable() and b"\\" not in name:
        return name.decode("ascii")
    return _TO_WRITE.sub(_write, name.decode("utf-8", "surrogateescape"))


def asked(text: str) -> bytes:
    """The bytes of a name or path that somebody asked for. Half of a surrogate pair is ValueError (it is no text)."""
    raw = text.encode("utf-8", "surrogateescape")
    return _TO_READ.sub(_read, raw) if b"\\x" in raw else raw


def beneath(path: bytes, roots: Sequence[bytes]) -> bytes | None:
    """An absolute path made relative by one of the root's spellings, None where it is none; a relative one as it is."""
    if not path.startswith(b"/"):
        return path
    for root in roots:
        if path == root or path.startswith(root.rstrip(b"/") + b"/"):
            return path[len(root) :].lstrip(b"/") or b"."
    return None


def _write(match: re.Match[str]) -> str:
    return f"\\x{ord(match[0]) & 0xFF:02x}"


def _read(match: re.Match[bytes]) -> bytes:
    return bytes((int(match[1], 16),))
