"""What Unicode hides: characters that nobody sees, and letters that look like others. Pure.

Invariant: the skeleton of a line has the same line ends and is ASCII wherever what it shows looks like ASCII.

Sources: UTS #39 (confusables, skeletons), UAX #9 (bidirectional controls; CVE-2021-42574), the Unicode block Tags,
of which only flags of regions make use today, behind U+1F3F4.
"""

import unicodedata
from collections.abc import Iterator
from importlib import resources
from typing import NamedTuple

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False

_SEEN_BY_NOBODY = (
    r"\x{AD}\x{34F}\x{61C}\x{115F}\x{1160}\x{17B4}\x{17B5}\x{180B}-\x{180F}\x{200B}-\x{200F}\x{202A}-\x{202E}"
    r"\x{2060}-\x{206F}\x{3164}\x{FE00}-\x{FE0F}\x{FEFF}\x{FFA0}\x{FFF9}-\x{FFFB}\x{1D173}-\x{1D17A}"
    r"\x{E0000}-\x{E007F}\x{E0100}-\x{E01EF}"
)
_INVISIBLE = re2.compile(f"[{_SEEN_BY_NOBODY}]+", _OPTIONS)
# Lines worth a skeleton: something invisible, a mark on a letter, a letter that is no Latin one, a letter in disguise.
_DISGUISED = re2.compile(
    rf"[{_SEEN_BY_NOBODY}\x{{C0}}-\x{{2AF}}\x{{300}}-\x{{58F}}\x{{10A0}}-\x{{10FF}}"
    r"\x{13A0}-\x{167F}\x{1D00}-\x{1DBF}\x{2100}-\x{218F}\x{2460}-\x{24FF}\x{2C60}-\x{2DFF}\x{A4D0}-\x{A4FF}"
    r"\x{A640}-\x{A7FF}\x{AB30}-\x{ABBF}\x{FF01}-\x{FF5E}\x{10000}-\x{11AFF}\x{16F00}-\x{16F9F}\x{1D400}-\x{1D7FF}"
    r"\x{1F100}-\x{1F1FF}]",
    _OPTIONS,
)
_MIXED = re2.compile(
    r"[A-Za-z]\pM*[\p{Cyrillic}\p{Armenian}\p{Cherokee}]|[\p{Cyrillic}\p{Armenian}\p{Cherokee}]\pM*[A-Za-z]", _OPTIONS
)
_LEAST_TAGS = 3  # two make no word
_LEAST_SELECTORS = 4  # one follows an emoji or a Han character; a run of them carries bytes
_LEAST_RUN = 6  # of invisible characters: a byte in zeros and ones
_FLAG, _FLAG_TAGS = "\U0001f3f4", 6  # two letters of a country, up to three of a region, and the end: UTS #51
_BEYOND_ASCII = bytes(min(byte, 0x80) for byte in range(256))
_BIDIRECTIONAL = frozenset("\u202a\u202b\u202d\u202e\u2066\u2067\u2068")
_BETWEEN_LETTERS = frozenset("\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\ufeff\u180e")
_CHARACTER_BYTES = 4  # the longest in UTF-8


class Evidence(NamedTuple):
    """Something that nobody sees: the name of its signal, where it stands in bytes, and what it spells, if anything."""

    name: str
    start: int
    end: int
    spelled: bytes = b""


def _table() -> dict[int, str | None]:
    text = resources.files("fumehood").joinpath("data/confusables.txt").read_text(encoding="utf-8")
    table: dict[int, str | None] = {}
    for line in text.splitlines():
        target, tab, characters = line.partition("\t")
        if tab:
            table.update({ord(character): target for character in characters})
    return table


_ALIKE = _table()


def skeleton(line: str) -> str:
    """What a line looks like: without marks and what nobody sees, each letter as the ASCII one that it resembles."""
    decomposed = unicodedata.normalize("NFKD", line)
    seen = [character for character in decomposed if unicodedata.category(character) not in {"Mn", "Me", "Cf"}]
    return "".join(seen).translate(_ALIKE)


def disguised_lines(data: bytes) -> Iterator[tuple[int, int]]:
    """Where lines begin and end whose skeleton may say something else than they do."""
    for begin, stop in _uncommon(data):
        place = begin
        while place < stop and (match := _DISGUISED.search(data, place, stop)):
            start = data.rfind(b"\n", begin, match.start()) + 1 or begin
            end = data.find(b"\n", match.end(), stop)
            end = stop if end < 0 else end
            yield start, end
            place = end + 1


def invisible(data: bytes) -> Iterator[Evidence]:
    """Every run of characters that nobody sees and that ordinary text has no use for."""
    for begin, stop in _uncommon(data):
        for match in _INVISIBLE.finditer(data, begin, stop):
            start, end = match.span()
            evidence = _judged(data, start, end)
            if evidence:
                yield evidence


def mixed(data: bytes) -> Iterator[Evidence]:
    """Every place where a Latin letter stands beside one of a script that looks like it."""
    for begin, stop in _uncommon(data):
        for match in _MIXED.finditer(data, begin, stop):
            yield Evidence("look-alike-letters", match.start(), match.end())


def _uncommon(data: bytes) -> Iterator[tuple[int, int]]:
    """Stretches of whole lines with a character beyond ASCII in each, from begin to the last line's end."""
    flat = data.translate(_BEYOND_ASCII)
    place = flat.find(b"\x80")
    while place >= 0:
        begin = flat.rfind(b"\n", 0, place) + 1
        while True:
            end = flat.find(b"\n", place)
            if end < 0:
                yield begin, len(data)
                return
            place = flat.find(b"\x80", end)
            if place < 0 or flat.find(b"\n", end + 1, place) >= 0:
                yield begin, end
                break


def _judged(data: bytes, start: int, end: int) -> Evidence | None:
    run = data[start:end].decode("utf-8", "replace")
    before = data[max(0, start - _CHARACTER_BYTES) : start].decode("utf-8", "ignore")[-1:]
    tags = [character for character in run if 0xE0020 <= ord(character) <= 0xE007E]  # noqa: PLR2004  # the block Tags
    if before == _FLAG and len(tags) <= _FLAG_TAGS:
        return None
    if len(tags) >= _LEAST_TAGS:
        return Evidence("tag-characters", start, end, bytes(ord(tag) - 0xE0000 for tag in tags))
    selectors = [byte for byte in map(_selected, run) if byte is not None]
    if len(selectors) >= _LEAST_SELECTORS:
        return Evidence("invisible-characters", start, end, bytes(selectors))
    if not _BIDIRECTIONAL.isdisjoint(run):
        return Evidence("bidirectional-control", start, end)
    after = data[end : end + 1]
    torn = before.isascii() and before.isalpha() and after.isalpha() and not _BETWEEN_LETTERS.isdisjoint(run)
    if torn or len(run) >= _LEAST_RUN:
        return Evidence("invisible-characters", start, end)
    return None


def _selected(character: str) -> int | None:
    """The byte for which a variation selector stands where text is smuggled in them."""
    code = ord(character)
    if 0xFE00 <= code <= 0xFE0F:  # noqa: PLR2004  # VS1 to VS16
        return code - 0xFE00
    if 0xE0100 <= code <= 0xE01EF:  # noqa: PLR2004  # VS17 to VS256
        return code - 0xE0100 + 16
    return None
