"""Look inside what is encoded or compressed, within a budget. Pure.

A fold is undone for the whole of a piece of data at once: all its percent-encoded bytes (RFC 3986), its runs of Base64
or of hexadecimal digits, its compressed members (RFC 1950 to 1952, and members of ZIP files). Each view knows where in
the data before it every byte of it came from.

Bounded: what comes out of folds is taken from a budget of the caller's, so that a member that inflates without end is
cut there, and said to be; the members that are tried and the runs that are decoded are counted.
"""

import binascii
import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote_to_bytes

_MEMBERS = 64  # of one view that are tried; most places that look like a member's beginning are none
_RUNS = 20_000  # of one view that are decoded
_LEAST = 16  # bytes of a view that can hold a piece of anything

Span: TypeAlias = tuple[int, int]
Source: TypeAlias = Callable[[int, int], Span]  # from a place in a view to the place that it came from

_LINES = re.compile(rb"[ \t\r\n]+|\\+[nrt]?")
_BLANKS = b" \t\r\n"
_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}")
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{24,}(?:(?:\r?\n|\\n)[A-Za-z0-9+/_-]+)*")
_HEX = re.compile(rb"(?:[0-9A-Fa-f]{2}){24,}")
_URL_ALPHABET = bytes.maketrans(b"-_", b"+/")
_GZIP, _ZIP = b"\x1f\x8b\x08", b"PK\x03\x04"
_MEMBER = re.compile(rb"\x1f\x8b\x08|PK\x03\x04|\x78[\x01\x5e\x9c\xda]")
_ZIP_HEADER_BYTES = 30  # APPNOTE, 4.3.7: then a name and an extra field, whose lengths stand at 26 and 28
_FED_BYTES = 64 * 1024  # of a compressed member at once


@dataclass(slots=True, kw_only=True)
class Budget:
    """How many bytes may still come out of folds; `cut` says that there was more."""

    left: int
    cut: bool = False

    def take(self, wanted: int) -> int:
        """As many of these bytes as are left."""
        given = min(wanted, max(0, self.left))
        self.left -= given
        self.cut |= given < wanted
        return given


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What came out of one fold of the data before it."""

    data: bytes
    fold: str  # "percent", "base64", "hex", "gzip", "deflate", "zip"; empty where only line ends were taken out
    source: Source


def views(data: bytes, budget: Budget) -> Iterator[View]:
    """Every fold of `data` undone, as far as the budget goes."""
    for unfold in (_inflated, _percent, _hexadecimal, _base64):
        view = unfold(data, budget)
        if view is not None and len(view.data) >= _LEAST:
            yield view


def squeezed(data: bytes) -> bytes | None:
    """Without blanks, line ends and backslashes; None where there are none. Quick, for `unwrapped` is not."""
    bare = data.translate(None, _BLANKS)
    if b"\\" in bare:
        bare = bare.replace(b"\\n", b"").replace(b"\\r", b"").replace(b"\\t", b"").translate(None, b"\\")
    return bare if len(bare) < len(data) else None


def unwrapped(data: bytes) -> View:
    """Without blanks and line ends, also written as escapes: what encoders put into long lines."""
    starts: list[int] = []  # of what is left, in what is left
    places: list[int] = []  # and in the data
    parts: list[bytes] = []
    size = place = 0
    for gap in _LINES.finditer(data):
        parts.append(data[place : gap.start()])
        starts.append(size)
        places.append(place)
        size += gap.start() - place
        place = gap.end()
    parts.append(data[place:])
    starts.append(size)
    places.append(place)

    def source(start: int, end: int) -> Span:
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1
        return places[first] + start - starts[first], places[last] + end - starts[last]

    return View(data=b"".join(parts), fold="", source=source)


def inflate(data: bytes, start: int, budget: Budget) -> tuple[bytes, int]:
    """What the member that begins at `start` holds, as far as it is one, and where it ends."""
    if not data.startswith(_ZIP, start):
        return _member(zlib.decompressobj(zlib.MAX_WBITS | 32), data, start, budget)
    header = data[start : start + _ZIP_HEADER_BYTES]
    names = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    return _member(zlib.decompressobj(-zlib.MAX_WBITS), data, start + _ZIP_HEADER_BYTES + names, budget)


def is_compressed(data: bytes) -> bool:
    """Whether data begins as a member with a header does."""
    return _MEMBER.match(data) is not None and not data.startswith(_ZIP)


def _percent(data: bytes, budget: Budget) -> View | None:
    if b"%" not in data or _ESCAPE.search(data) is None:
        return None
    escapes: list[int] = []  # where an escape's byte stands, in what comes out

    def source(start: int, end: int) -> Span:
        if not escapes:
            escapes.extend(found.start() - 2 * number for number, found in enumerate(_ESCAPE.finditer(data)))
        before, inside = (bisect_right(escapes, place - 1) for place in (start, end))
        return start + 2 * before, end + 2 * inside

    whole = unquote_to_bytes(data)
    return View(data=whole[: budget.take(len(whole))], fold="percent", source=source)


def _base64(data: bytes, budget: Budget) -> View | None:
    return _runs(data, budget, "base64", _BASE64)


def _hexadecimal(data: bytes, budget: Budget) -> View | None:
    return _runs(data, budget, "hex", _HEX)


def _runs(data: bytes, budget: Budget, fold: str, pattern: re.Pattern[bytes]) -> View | None:
    """All runs of an alphabet decoded, one after the other, with a byte between them that is in no value."""
    pieces = _Pieces()
    for number, run in enumerate(pattern.finditer(data)):
        if number >= _RUNS or budget.left <= 0:
            budget.cut = True
            break
        decoded = _decoded(run[0], fold)
        pieces.add(decoded[: budget.take(len(decoded))], *run.span())
    return pieces.view(fold)


def _decoded(run: bytes, fold: str) -> bytes:
    if fold == "hex":
        return binascii.unhexlify(run)
    text = _LINES.sub(b"", run).translate(_URL_ALPHABET)
    rest = len(text) % 4
    return binascii.a2b_base64(text[:-1] if rest == 1 else text + b"=" * (-rest % 4))


def _inflated(data: bytes, budget: Budget) -> View | None:
    """Every compressed member; where none is, the data itself may be one without a header (raw deflate)."""
    pieces = _Pieces()
    place, fold = 0, "deflate"
    for number, member in enumerate(_MEMBER.finditer(data)):
        if number >= _MEMBERS or budget.left <= 0:
            budget.cut = True
            break
        if member.start() < place:
            continue  # inside the one before
        got, end = inflate(data, member.start(), budget)
        if len(got) >= _LEAST:
            fold = fold if pieces.any else {_GZIP: "gzip", _ZIP: "zip"}.get(member[0], "deflate")
            pieces.add(got, member.start(), end)
            place = end
    if not pieces.any:
        got, end = _member(zlib.decompressobj(-zlib.MAX_WBITS), data, 0, budget)
        if len(got) >= _LEAST:
            pieces.add(got, 0, end)
    return pieces.view(fold)


def _member(stream: "zlib._Decompress", data: bytes, start: int, budget: Budget) -> tuple[bytes, int]:
    parts: list[bytes] = []
    place = start
    while place < len(data) and not stream.eof:
        fed = data[place : place + _FED_BYTES]
        try:
            got = stream.decompress(fed, max(1, budget.left))
        except zlib.error:
            break
        parts.append(got[: budget.take(len(got))])
        place += len(fed) - len(stream.unused_data)
        if stream.unconsumed_tail:  # the budget is at its end
            budget.cut = True
            break
    return b"".join(parts), place


class _Pieces:
    """Parts of a view that came from spans of the data before it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._starts: list[int] = []
        self._spans: list[Span] = []
        self._size = 0

    @property
    def any(self) -> bool:
        return bool(self._parts)

    def add(self, part: bytes, start: int, end: int) -> None:
        self._parts.append(part)
        self._starts.append(self._size)
        self._spans.append((start, end))
        self._size += len(part) + 1

    def view(self, fold: str) -> View | None:
        return View(data=b"\0".join(self._parts), fold=fold, source=self._source) if self._parts else None

    def _source(self, start: int, end: int) -> Span:
        first, last = bisect_right(self._starts, start) - 1, bisect_right(self._starts, end - 1) - 1
        return self._spans[first][0], self._spans[last][1]
