r"""What a text says once it is decoded, with the way back to where that stands. Pure.

A view is made only around a mark of its kind, which the one pass for keywords finds too: an escape (`\u0041`, `\x41`,
`\101`, `%41`, `&#65;`), two strings that are joined, a line that goes on, a value that begins on the next line, a
keyword in Base64 (three alignments) or in hexadecimal. Lines of Base64 that belong together are read as one.

Invariants: every byte of a view knows the bytes of the source that it came from; the views of one text are together
at most VIEWED times as long as it.

Sources: RFC 8259 section 7, RFC 3986 section 2.1, HTML section 13.5, RFC 4648.
"""

import base64
import binascii
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from fumehood.content.credentials.model import Span

AROUND_BYTES = 400  # of a mark that are looked at with it; neighbours are looked at as one
_BEFORE_BYTES = 80  # of a find in which a name and its signs stand
_NEAR_BYTES = 64
_RUN_BYTES = 16 * 1024  # of Base64 or hexadecimal on each side of a keyword
_LINE_BYTES = 48  # at least, of a line of Base64: PEM wraps at 64, MIME at 76


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Decoded bytes; byte `i` came from `starts[i]` up to `ends[i]`; at the places in `changed` it differs."""

    data: bytes
    starts: Sequence[int]
    ends: Sequence[int]
    changed: Sequence[int]

    def shows(self, span: Span) -> bool:
        """Whether a find is owed to the decoding; the rest is found in the source."""
        number = bisect_left(self.changed, span.start - _BEFORE_BYTES)
        return number < len(self.changed) and self.changed[number] <= span.end

    def back(self, span: Span) -> Span:
        """The find in the source."""
        return Span(start=self.starts[span.start], end=self.ends[span.end - 1], rule=span.rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What a hit says: the kind of view; of a keyword in Base64 its exact form, and how far into four it begins."""

    kind: str
    exact: bytes = b""
    shift: int = 0


_TOLD = (
    b"ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- npm_ pypi-AgE AKIA ASIA AIza ya29. GOCSPX- xoxb- xoxp- xapp- sk_live_"
    b" rk_live_ sk_test_ sk-ant- sk-proj- dop_v1_ shpat_ hvs. hf_ SG. glsa_ dckr_pat_ ATATT3 PRIVATE~KEY-"
    b" password Password PASSWORD passwd secret SECRET Secret token TOKEN Token api_key API_KEY apiKey"
    b' Authorization Bearer "auths" ://'
).split()


def _encoded(word: bytes) -> Iterator[tuple[bytes, Mark]]:
    """A word's own characters in Base64, at each of the three alignments, and its hexadecimal digits."""
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + word + b"\0\0")
        first = (shift * 8 + 5) // 6
        core = text[first : (shift + len(word)) * 8 // 6]
        if len(core) >= 4:  # noqa: PLR2004 - shorter ones stand in every word
            yield core.lower(), Mark(kind="base64", exact=core, shift=first)
    if len(word) > 3:  # noqa: PLR2004 - six digits stand in every hash
        yield word.hex().encode(), Mark(kind="hex")


def _marks() -> Iterator[tuple[bytes, Mark]]:
    for begin in (b"\\u00", b"\\u{", b"\\x", b"&#", *(b"%%%d" % digit for digit in range(2, 8))):
        yield begin, Mark(kind="escape")
    for octal in range(0o04, 0o20):
        yield b"\\%02o" % octal, Mark(kind="escape")
    for begin in (b": |", b": >", b'= """', b"= '''", b"=<<", b"= <<"):
        yield begin, Mark(kind="block")
    for begin in (
        b'" +',
        b'"+',
        b"' +",
        b"'+",
        b'"\n',
        b"'\n",
        b'" .',
        b"' .",
        b'" &',
        b'" \\',
        b"' \\",
        b'"\\\n',
        b"\\\n",
        b'"\r',
        b'" "',
    ):
        yield begin, Mark(kind="join")
    for word in _TOLD:
        yield from _encoded(word.replace(b"~", b" "))


MARKS: Final[tuple[tuple[bytes, Mark], ...]] = tuple(_marks())


_Cut = tuple[int, int, bytes]  # from, up to, and what stands there instead


def views(data: bytes, marks: Iterable[tuple[Mark, int]]) -> Iterator[View]:
    """Every view of a text whose marks were found at these places."""
    cuts: dict[str, list[_Cut]] = {"escape": [], "join": [], "block": []}
    reached: dict[tuple[str, int], int] = {}
    for mark, place in marks:
        if mark.kind == "escape":
            cuts["escape"] += _escape(data, place)
        elif mark.kind == "join":
            cuts["join"] += _join(data, place)
        elif mark.kind == "block":
            cuts["block"] += _block(data, place)
        elif mark.kind == "hex":
            yield from _hexadecimal(data, place, reached)
        elif data.startswith(mark.exact, place):
            yield from _base64(data, place, mark.shift, reached)
    for found in cuts.values():
        for near in _near(sorted(found)):
            begin, end = max(0, near[0][0] - AROUND_BYTES), min(len(data), near[-1][1] + AROUND_BYTES)
            yield _rebuilt(data, begin, end, near)
    alphabet = data.translate(_ALPHABET)
    if _RUN_MARK in alphabet:  # a line of Base64 holds one too
        yield from _runs(data, alphabet)
        yield from _wrapped(data, alphabet)


def _near(cuts: Iterable[_Cut]) -> Iterator[list[_Cut]]:
    """Cuts whose surroundings touch, together; of those that overlap the first."""
    group: list[_Cut] = []
    for cut in cuts:
        if group and cut[0] < group[-1][1]:
            continue
        if group and cut[0] > group[-1][1] + AROUND_BYTES:
            yield group
            group = []
        group.append(cut)
    if group:
        yield group


_DIGITS = rb"([2-7][0-9A-Fa-f])"  # of a printable character
_ESCAPE = re.compile(
    rb"(?:\\{1,2}u(?:0000)?00|\\{1,2}x|%)"
    + _DIGITS
    + rb"|&#x"
    + _DIGITS
    + rb";|&#([0-9]{2,3});|&(quot|amp|apos|lt|gt);"
    rb"|\\{1,2}u\{0{0,4}" + _DIGITS + rb"\}|\\{1,2}([01][0-7]{2})(?![0-9])",
    re.IGNORECASE,
)
_ENTITIES = {b"quot": b'"', b"amp": b"&", b"apos": b"'", b"lt": b"<", b"gt": b">"}
_ESCAPES_ESCAPED = 7  # further backslashes: JSON within JSON within JSON
_PRINTABLE = range(0x20, 0x7F)


def _unescaped(match: re.Match[bytes]) -> bytes:
    escaped, referred, decimal, entity, braced, octal = match.groups()
    if entity:
        return _ENTITIES[entity.lower()]
    number = int(decimal) if decimal else int(octal, 8) if octal else int(escaped or referred or braced, 16)
    return bytes([number]) if number in _PRINTABLE else match[0]


def _escape(data: bytes, place: int) -> Iterator[_Cut]:
    match = _ESCAPE.match(data, place)
    if match and (new := _unescaped(match)) != match[0]:
        begin = place
        while data[begin - 1 : begin] == b"\\" and place - begin < _ESCAPES_ESCAPED:
            begin -= 1
        yield begin, match.end(), new


# The end of a string, what joins it to the next, and that one's beginning; or a line that goes on.
_SIGN = rb"(?:\+|\.{1,2}|&|\\|<>|\|\|)?[ \t]{0,8}+"
_APART = rb"[ \t]{0,8}+" + _SIGN + rb"(?:[ \t]{0,8}+\\?\r?\n[ \t]{0,80}+)?" + _SIGN + rb"[brfuBRFU]{0,2}"
_JOIN = re.compile(rb"\"" + _APART + rb"\"|'" + _APART + rb"'|\\\r?\n[ \t]{0,80}+")
_BODY = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/=.:~")


def _join(data: bytes, place: int) -> Iterator[_Cut]:
    """Two pieces that are joined inside a word: in prose a blank stands on one side."""
    if not place or data[place - 1] not in _BODY or data[place - 2 : place - 1] == b"\\":
        return
    match = _JOIN.match(data, place)
    if match and match.end() < len(data) and data[match.end()] in _BODY:
        yield match.start(), match.end(), b""


# What opens a value that begins on the next line: YAML's block scalars, strings in three quotes, here-documents.
_OPENS = re.compile(
    rb"(?::[ ]|=[ \t]?)((?:[|>][-+]?[1-9]?[-+]?|(?:\"{3}|'{3})\\?|<<[-~]?[\"']?\w{1,40}+[\"']?)"
    rb"[ \t]{0,8}+\r?\n[ \t]{0,80}+)"
)


def _block(data: bytes, place: int) -> Iterator[_Cut]:
    match = _OPENS.match(data, place)
    if match and match.end() < len(data) and data[match.end()] in _BODY:
        yield match.start(1), match.end(1), b""


def _rebuilt(data: bytes, begin: int, end: int, cuts: Sequence[_Cut]) -> View:
    """The window with each cut replaced; where one becomes nothing, the byte behind it counts as changed."""
    parts: list[bytes] = []
    starts: list[int] = []
    ends: list[int] = []
    changed: list[int] = []
    place = begin
    for start, stop, new in cuts:
        parts += [data[place:start], new]
        starts += range(place, start)
        ends += range(place + 1, start + 1)
        changed.append(len(starts))
        starts += [start] * len(new)
        ends += [stop] * len(new)
        place = stop
    parts.append(data[place:end])
    starts += range(place, end)
    ends += range(place + 1, end + 1)
    return View(data=b"".join(parts), starts=starts, ends=ends, changed=changed)


_TEXT = bytes((*range(0x20, 0x7F), 9, 10, 13))  # an eighth of others is borne: accents, a byte of another alignment
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/_-]")
_NOT_HEX = re.compile(rb"[^0-9A-Fa-f]")


def _run(data: bytes, place: int, end_of_run: re.Pattern[bytes]) -> tuple[int, int]:
    """The run of an alphabet in which a place stands."""
    begin = 0
    for back in (_NEAR_BYTES, _RUN_BYTES):  # most runs begin near, and a slice that is turned round costs its length
        begin = max(0, place - back)
        if turned := end_of_run.search(data[begin:place][::-1]):
            begin = place - turned.start()
            break
    high = min(len(data), place + _RUN_BYTES)
    found = end_of_run.search(data, place, high)
    return begin, found.start() if found else high


def _base64(data: bytes, place: int, shift: int, reached: dict[tuple[str, int], int]) -> Iterator[View]:
    key = ("base64", (place - shift) % 4)
    if place < reached.get(key, 0):
        return
    begin, end = _run(data, place, _NOT_BASE64)
    reached[key] = end
    yield from _decoded(data, begin + (place - shift - begin) % 4, end)


def _decoded(data: bytes, begin: int, end: int) -> Iterator[View]:
    """What these characters of Base64 say, if that is text."""
    size = (end - begin) // 4 * 4
    text = data[begin : begin + size].replace(b"-", b"+").replace(b"_", b"/")
    tail = data[begin + size : end]
    if len(tail) > 1:
        text += tail.replace(b"-", b"+").replace(b"_", b"/") + b"=" * (4 - len(tail))
    try:
        plain = base64.b64decode(text, validate=True)
    except binascii.Error:
        return
    if len(plain.translate(None, _TEXT)) * 8 > len(plain):
        return
    bits = range(0, len(plain) * 8, 8)
    yield View(
        data=plain,
        starts=[begin + bit // 6 for bit in bits],
        ends=[begin + (bit + 7) // 6 + 1 for bit in bits],
        changed=range(len(plain)),
    )


def _hexadecimal(data: bytes, place: int, reached: dict[tuple[str, int], int]) -> Iterator[View]:
    key = ("hex", place % 2)
    if place < reached.get(key, 0):
        return
    begin, end = _run(data, place, _NOT_HEX)
    reached[key] = end
    yield from _undigested(data, begin + (place - begin) % 2, end)


def _undigested(data: bytes, begin: int, end: int) -> Iterator[View]:
    """What these hexadecimal digits say, if that is text."""
    plain = bytes.fromhex(data[begin : begin + (end - begin) // 2 * 2].decode())
    if len(plain.translate(None, _TEXT)) * 8 > len(plain):
        return
    places = range(begin, begin + len(plain) * 2, 2)
    yield View(
        data=plain, starts=places, ends=range(begin + 2, begin + len(plain) * 2 + 2, 2), changed=range(len(plain))
    )


# A long run is decoded from its beginning, whatever it says; hashes, which are no text, end there.
_RUN_MARK = b"a" * 32  # the shortest such run; it holds 24 bytes


def _runs(data: bytes, alphabet: bytes) -> Iterator[View]:
    place = alphabet.find(_RUN_MARK)
    while place >= 0:
        end = alphabet.find(b" ", place)
        end = min(len(data) if end < 0 else end, place + 2 * _RUN_BYTES)
        begin = place + 2 if data[place : place + 2] in {b"0x", b"0X", b"\\x"} else place
        if _NOT_HEX.search(data, begin, end):
            yield from _decoded(data, place, end)
        else:
            yield from _undigested(data, begin, end)
        place = alphabet.find(_RUN_MARK, end)


_ALPHABET = bytes(0x61 if chr(byte).isalnum() or byte in b"+/" else 0x20 for byte in range(128)) + b" " * 128
_LONG = b"a" * _LINE_BYTES
_INDENTED_BYTES = 24  # of blanks and quotes before a line of Base64
_LINE = re.compile(rb"[ \t>|#*\"'+]{0,24}([A-Za-z0-9+/]{48,160}+)[\"',+\\ \t\r]{0,6}\n")
_LAST_LINE = re.compile(rb"[ \t>|#*\"'+]{0,24}([A-Za-z0-9+/]{1,160})={0,2}[\"',;)\]} \t\r]{0,8}(?:\n|\Z)")


def _wrapped(data: bytes, alphabet: bytes) -> Iterator[View]:
    """Lines of Base64 that belong together, as one line."""
    place = alphabet.find(_LONG)
    while place >= 0:
        begin = max(data.rfind(b"\n", max(0, place - 2 * _INDENTED_BYTES), place) + 1, place - _INDENTED_BYTES, 0)
        runs, end = _lines(data, begin)
        if len(runs) > 1:
            cuts = [(first[1], second[0], b"") for first, second in pairwise(runs)]
            yield _rebuilt(data, runs[0][0], runs[-1][1], cuts)
        place = alphabet.find(_LONG, max(end, place + _LINE_BYTES))


def _lines(data: bytes, begin: int) -> tuple[list[tuple[int, int]], int]:
    """Where the Base64 of each line stands that goes on from here, the last one maybe shorter; where they end."""
    runs: list[tuple[int, int]] = []
    while match := _LINE.match(data, begin):
        runs.append(match.span(1))
        begin = match.end()
    last = _LAST_LINE.match(data, begin) if runs else None
    if last:
        runs.append(last.span(1))
    return runs, begin
