"""Read single arguments of a call as strace prints them. Pure, and total: what is not understood gives None or less.

Strings are quoted, with C escapes; descriptors are `3</path>` or `AT_FDCWD</path>`; structures stand in braces.
"""

import re

_ITEMS = 64  # no call that is read has more arguments or list items than this counts
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)", re.DOTALL)
_NAMED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f", b"a": b"\a", b"b": b"\b", b"e": b"\x1b"}
_DESCRIPTOR = re.compile(rb"(AT_FDCWD|-?\d+)(?:<([^<>]*)>)?")
# One token that holds no separator: a quoted string (one that never ends takes the rest, else looking for its end again
# and again would cost the square), a path, or anything but separators and brackets.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|<<|<[^<>]*>|/\*[^*"]{0,200}\*/|[^"<,(){}\[\]/]+|.', re.DOTALL)
# One whole argument without brackets, escapes or remarks, and what separates it from the next: most are such.
_PLAIN = re.compile(rb'((?:[A-Za-z0-9_|-]+(?:<[^<>]*>)?|"[^"\\]*"))(?:, |\Z)')
_OPEN, _CLOSE = b"([{", b")]}"


def split(arguments: bytes, most: int = _ITEMS) -> list[bytes]:
    """The arguments at the top level, without the spaces around them. Beyond `most`, the rest is one."""
    items: list[bytes] = []
    start = 0
    while len(items) < most - 1 and (plain := _PLAIN.match(arguments, start)) is not None:
        items.append(plain[1])
        if plain.end(1) == len(arguments):
            return items
        start = plain.end()
    return _by_token(arguments, start, items, most)


def _by_token(arguments: bytes, start: int, items: list[bytes], most: int) -> list[bytes]:
    """`items`, and the arguments from `start` on: brackets, escapes and remarks are passed over whole."""
    depth = 0
    for token in _TOKEN.finditer(arguments, start):
        text = token[0]
        if items and len(items) >= most - 1:
            break
        if len(text) > 1:
            continue
        if text in _OPEN:
            depth += 1
        elif text in _CLOSE:
            depth -= 1
        elif text == b"," and depth == 0:
            items.append(arguments[start : token.start()].strip())
            start = token.end()
    last = arguments[start:].strip()
    return [*items, last] if last or items else []


def unescape(text: bytes) -> bytes:
    """What the escapes of a printed string or path stand for."""
    if b"\\" not in text:
        return text
    return _ESCAPE.sub(_meant, text)


def string(argument: bytes) -> tuple[bytes, bool] | None:
    """A quoted string and whether strace cut it; None when it is none (an address, NULL)."""
    cut = argument.endswith(b'"...')
    body = argument[:-3] if cut else argument
    body = body.removeprefix(b"@")  # an abstract socket's name
    if len(body) < 2 or not (body.startswith(b'"') and body.endswith(b'"')):  # noqa: PLR2004 - two quotes
        return None
    return unescape(body[1:-1]), cut


def strings(argument: bytes, most: int = _ITEMS) -> tuple[list[bytes], bool] | None:
    """A list of strings, and whether anything of it was cut; None when it is none."""
    if not (argument.startswith(b"[") and argument.endswith(b"]")):
        return None
    items = split(argument[1:-1], most + 1)
    found: list[bytes] = []
    cut = len(items) > most
    for item in items[:most]:
        read = string(item)
        if read is None:
            cut = True  # `...` at the end of a long list
            continue
        found.append(read[0])
        cut = cut or read[1]
    return found, cut


def descriptor(argument: bytes) -> tuple[int | None, bytes | None] | None:
    """A descriptor's number (None for AT_FDCWD) and path (None where strace knew none)."""
    found = _DESCRIPTOR.match(argument)
    if found is None:
        return None
    number = None if found[1] == b"AT_FDCWD" else int(found[1])
    return number, unescape(found[2]) if found[2] is not None else None


def _meant(escape: re.Match[bytes]) -> bytes:
    code = escape[1]
    if code[:1].isdigit() and code[:1] < b"8":
        return bytes([int(code, 8) & 0xFF])
    if code[:1] == b"x" and len(code) > 1:
        return bytes([int(code[1:], 16)])
    return _NAMED.get(code, code)
