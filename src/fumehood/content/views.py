"""Text as it reads once it is decoded: base64, hexadecimal, percent signs, escapes, entities, simple disguises. Pure.

Invariants: the work is linear in the text; what is decoded is never shown, only looked at. A view keeps, for each part
of it, where that part came from.

Not promised: ciphers, compression, or an encoding inside another deeper than DEPTH.
"""

import binascii
import codecs
import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain

import re2

from fumehood.content import phrases
from fumehood.content.unicode import skeleton

APART = b"\n" + b"\x00 " * 8 + b"<.\n"  # of stretches of text: more words than a phrase leaves open, an end of all else
DEPTH = 2  # base64 of base64 is met with; deeper it is no accident that nobody reads it
_RUN = 32  # characters of an encoding without a break: two dozen bytes, as much as an instruction takes
_TRIED = 32  # the first bytes of a run, on which it is tried; a multiple of four
_INSIDE = re.compile(rb"[\t\n\r\x20-\x7e]{24,}")  # chance makes no such stretch of other bytes
_PRINTABLE = bytes([*range(0x20, 0x7F), 0x09, 0x0A, 0x0D, *range(0x80, 0x100)])
_LEAST_TEXT = 0.9  # so much of what was decoded is text, or it was no text
_ENCODED = bytes(
    0x62 if chr(byte).isascii() and (chr(byte).isalnum() or chr(byte) in "+/_-") else 0x20 for byte in range(256)
)
_UNBROKEN = b"b" * _RUN
_WRAPPED = re.compile(rb"\\?[\r\n]{1,2}[ \t#*/]{0,8}[A-Za-z0-9+/_-]{16}")
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/_-]")
_HEX = re.compile(rb"[0-9A-Fa-f]+")
_LONG_HEX = re.compile(rb"[0-9A-Fa-f]{48,}")  # the digits of what _INSIDE finds
_ESCAPED = r"(?:x[0-9A-Fa-f]{2}|u00[0-9A-Fa-f]{2}|u\{0{0,4}[0-9A-Fa-f]{2}\})"
# Each of these begins with one character that never varies, which RE2 looks for many times faster than Python does.
_ESCAPES = re2.compile(rf"\\{_ESCAPED}(?:\\{_ESCAPED}){{7,}}")
_BESIDE = 200  # bytes after a row of escapes that may go on in plain letters
_ESCAPE = re.compile(rb"\\x([0-9A-Fa-f]{2})|\\u00([0-9A-Fa-f]{2})|\\u\{0{0,4}([0-9A-Fa-f]{2})\}")
_PERCENT = re2.compile(rb"[^\s\"'<>]*%[0-9A-Fa-f]{2}[^\s\"'<>]*%[0-9A-Fa-f]{2}[^\s\"'<>]*")
_PERCENT_RUN = re2.compile(rb"%(?:20[^\s\"'<>]*%|[0-9A-Fa-f]{2}%[0-9A-Fa-f]{2}%[0-9A-Fa-f]{2})")
_PERCENTED = re.compile(rb"%([0-9A-Fa-f]{2})")
_ENTITY = re2.compile(rb"&#x?[0-9A-Fa-f]{1,6};[^\n&]{0,3}&#")
_ENTITIES = re2.compile(rb"[^\n]*(?:&#x?[0-9A-Fa-f]{1,6};[^\n&]{0,3}){6,}[^\n]*")
_SIGNS = ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.. /"
_MORSE = dict(zip(_SIGNS.split(), "abcdefghijklmnopqrstuvwxyz ", strict=True))
_DIGITS = bytes.maketrans(b"013457@$!|89", b"oieastasilbg")
_JOINED = bytes.maketrans(b"_-", b"  ")
_NAME = re.compile(rb"[A-Za-z0-9_-]{12,200}")
_SINGLE = re.compile(rb"(?<![A-Za-z0-9])([A-Za-z])[ ._*|-](?=[A-Za-z](?![A-Za-z0-9]))")
_OPTIONS = re2.Options()
_OPTIONS.case_sensitive = False
_OPTIONS.log_errors = False
_DISGUISES = {name: re2.compile(text, _OPTIONS) for name, text in phrases.disguises().items()}


class View:
    """Decoded text, each part with the place that it came from."""

    __slots__ = ("_origins", "_parts", "_starts", "length")

    def __init__(self) -> None:
        """Begin with nothing."""
        self._parts: list[bytes] = []
        self._starts: list[int] = []
        self._origins: list[tuple[int, int]] = []
        self.length = 0

    def add(self, decoded: bytes, origin: tuple[int, int]) -> None:
        """One more part."""
        self._starts.append(self.length)
        self._origins.append(origin)
        self._parts += [decoded, b"\n\x00\n"]
        self.length += len(decoded) + 3

    def data(self) -> bytes:
        """All of it."""
        return b"".join(self._parts)

    def origin(self, place: int) -> tuple[int, int]:
        """Where the part came from in which `place` lies."""
        return self._origins[bisect_right(self._starts, place) - 1]


def decoded(data: bytes) -> View:
    """Every run of base64 or hexadecimal digits that decodes to text."""
    return _view(_runs(data))


def escaped(data: bytes) -> View:
    """Every stretch of text with escapes, without them: percent signs, backslashes, entities."""
    return _view(chain(_escapes(data), _percent(data), _entities(data)))


def undisguised(data: bytes, start: int, end: int, view: View) -> None:
    """Add to `view` what a stretch of text reads like without each disguise that it seems to wear."""
    chunk = data[start:end]
    for name, seen in _DISGUISES.items():
        match = next((one for one in seen.finditer(chunk) if _UNDO[name](one[0]) != one[0]), None)
        if match:  # where it wears one: a word without a digit in it is plain
            view.add(_UNDO[name](chunk), (start + match.start(), end))


def skeletons(data: bytes, lines: Iterator[tuple[int, int]]) -> View:
    """The skeletons of some lines."""
    view = View()
    for start, end in lines:
        text = skeleton(data[start:end].decode("utf-8", "replace"))
        view.add(text.encode("utf-8", "replace"), (start, end))
    return view


def _view(found: Iterable[tuple[bytes, int, int]]) -> View:
    view = View()
    for text, start, end in found:
        view.add(text, (start, end))
    return view


def _is_text(data: bytes) -> bool:
    return bool(data) and 1 - len(data.translate(None, _PRINTABLE)) / len(data) >= _LEAST_TEXT and _is_utf8(data)


def _is_utf8(data: bytes) -> bool:
    return data.isascii() or len(data.decode("utf-8", "ignore").encode()) >= _LEAST_TEXT * len(data)


def _runs(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    flat = data.translate(_ENCODED)
    others: list[tuple[int, int]] = []  # as a whole they are no text
    place = flat.find(_UNBROKEN)
    while place >= 0:
        start, end = place, _end_of_run(data, flat, place)
        place = flat.find(_UNBROKEN, end)
        tried = data[start : start + _TRIED]
        decode = _from_hex if _HEX.fullmatch(tried) else _from_base64
        if _is_text(decode(tried)) and _is_text(text := decode(_NOT_BASE64.sub(b"", data[start:end]))):
            yield text, start, end
        else:
            others.append((start, end))
    if others:
        cleaned = [_NOT_BASE64.sub(b"", data[start:end]) for start, end in others]
        yield from _inside(cleaned, others, b"AAAA", _from_base64)
        digits = [b"".join(_LONG_HEX.findall(run)) for run in cleaned]
        yield from _inside(digits, others, b"00", binascii.a2b_hex)


def _inside(
    runs: Sequence[bytes], places: Sequence[tuple[int, int]], zero: bytes, decode: Callable[[bytes], bytes]
) -> Iterator[tuple[bytes, int, int]]:
    """Text in runs that begin or end with something else, wherever it begins; all runs are decoded at once.

    `zero` is a group of characters that stands for NUL bytes.
    """
    for shift in range(len(zero)):
        parts = [run[shift:] + zero[: -len(run[shift:]) % len(zero)] + zero for run in runs]
        ends = list(accumulate(map(len, parts)))
        plain = decode(b"".join(parts))
        for match in _INSIDE.finditer(plain):
            yield match[0], *places[bisect_right(ends, match.start() * ends[-1] // len(plain))]


def _end_of_run(data: bytes, flat: bytes, place: int) -> int:
    """Where a run ends, over the line ends by which it is wrapped."""
    while True:
        end = flat.find(b" ", place)
        if end < 0:
            return len(data)
        wrapped = _WRAPPED.match(data, end)
        if not wrapped:
            return end
        place = wrapped.end()


def _from_base64(run: bytes) -> bytes:
    plain = run.translate(bytes.maketrans(b"-_", b"+/"))
    try:
        return binascii.a2b_base64(plain + b"=" * (-len(plain) % 4))
    except binascii.Error:  # one character too many
        return binascii.a2b_base64(plain[: len(plain) // 4 * 4])


def _from_hex(run: bytes) -> bytes:
    digits = _HEX.match(run)
    return binascii.a2b_hex(digits[0][: len(digits[0]) // 2 * 2]) if digits else b""


def _escapes(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    for match in _ESCAPES.finditer(data):
        start, end = match.start(), match.end() + _BESIDE
        text = _ESCAPE.sub(lambda one: bytes([int(one[1] or one[2] or one[3], 16)]), data[start:end])
        yield text, start, match.end()


def _percent(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    if not _PERCENT_RUN.search(data):
        return
    for match in _PERCENT.finditer(data):
        yield _PERCENTED.sub(lambda one: bytes([int(one[1], 16)]), match[0]), match.start(), match.end()


def _entities(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    if not _ENTITY.search(data):
        return
    for match in _ENTITIES.finditer(data):
        text = html.unescape(match[0].decode("utf-8", "replace"))
        yield text.encode("utf-8", "replace"), match.start(), match.end()


def _rot13(chunk: bytes) -> bytes:
    return codecs.encode(chunk.decode("latin-1"), "rot13").encode("latin-1")


def _from_morse(chunk: bytes) -> bytes:
    return "".join(_MORSE.get(sign, " ") for sign in chunk.decode("latin-1").split()).encode()


def _from_binary(chunk: bytes) -> bytes:
    octets = re.findall(rb"(?<![01])[01]{8}(?![01])", chunk)
    return bytes(int(octet, 2) for octet in octets)


def _closed_up(chunk: bytes) -> bytes:
    return re.sub(rb"\s{2,}", b" ", _SINGLE.sub(rb"\1", chunk))


def _parted(chunk: bytes) -> bytes:
    """The words of names that join them."""
    return APART.join(_NAME.findall(chunk)).translate(_JOINED)


_UNDO: dict[str, Callable[[bytes], bytes]] = {
    "rot13": _rot13,
    "reversed": lambda chunk: chunk[::-1],
    "letters": _closed_up,
    "digits": lambda chunk: chunk.translate(_DIGITS),
    "joined": _parted,
    "morse": _from_morse,
    "binary": _from_binary,
}
