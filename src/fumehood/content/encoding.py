"""Turn the bytes of a file into UTF-8 lines with the encoding named, or refuse them as binary. Pure.

Invariants: nothing is ever replaced: what is decoded is decoded strictly, whole; a NUL byte outside UTF-16 and UTF-32
is binary; lines end at a line feed and nowhere else, as ripgrep and git count them, so a lone carriage return stays
inside its line. Where every line ends in CR LF, or some do, the carriage returns before line feeds are dropped and the
kind of line end is told.

Encodings: UTF-8; UTF-16 and UTF-32 with their byte order mark (Unicode 23.8), UTF-16 without one where its NUL bytes
show it; where UTF-8 fails, Latin-1 and Windows-1252 when what is not ASCII stands alone as accents do, and what
charset_normalizer finds among a few others when nothing else comes near. Doubt is a refusal, and UTF-8 with a broken
byte is doubt.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

LineEnd = Literal["lf", "crlf", "cr", "mixed", "none"]

_MARKS = (  # the longer first: UTF-32's begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32LE with BOM"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32BE with BOM"),
    (codecs.BOM_UTF8, "utf-8", "UTF-8 with BOM"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16LE with BOM"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16BE with BOM"),
)
_SAMPLE_BYTES = 16 * 1024  # of lines that are not ASCII: charset_normalizer takes some milliseconds for it
_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")  # in text of an encoding that was guessed
_CONTROL_BYTES = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
_ACCENTS = re.compile(  # one alone, or two inside a word of ASCII letters (`Größe`)
    rb"(?<![\x80-\xff])(?:[\x80-\xff]|(?<=[A-Za-z])[\x80-\xff]{2}(?=[A-Za-z]))(?![\x80-\xff])"
)
_UTF_8_RUN = re.compile(
    rb"(?<![\x80-\xff])(?:[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})+(?![\x80-\xff])"
)
_DAMAGED_SHARE = 0.5  # of such runs: UTF-8 with a broken byte somewhere, which no other encoding reads rightly
_WINDOWS_ONLY = re.compile(rb"[\x80-\x9f]")
_ALONE_SHARE = 0.7  # of the runs of bytes above ASCII: accents stand alone, scripts do not
_GUESSED = {  # Python's name → the one that is told
    "gb18030": "GB18030",
    "cp932": "Shift_JIS",
    "euc_jp": "EUC-JP",
    "cp949": "EUC-KR",
    "big5": "Big5",
    "cp1251": "Windows-1251",
    "koi8_r": "KOI8-R",
}
_CHAOS = 0.05  # charset_normalizer's measure of mess; the right answer has none
_COHERENCE = 0.2  # its measure of a known language
_NUL_SHARE = 0.3  # of the characters of UTF-16 that are below U+0100


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A file as text: UTF-8 whose lines end with a line feed each, but perhaps the last."""

    text: bytes
    encoding: str
    line_end: LineEnd

    @property
    def lines(self) -> int:
        """How many lines there are, as `rg -c ''` counts."""
        return self.text.count(b"\n") + (1 if self.text and not self.text.endswith(b"\n") else 0)


def decode(data: bytes) -> Decoded | None:
    """The text in some bytes, or None: they are binary."""
    for mark, codec, name in _MARKS:
        if data.startswith(mark):
            return _strict(data[len(mark) :], codec, name)
    if b"\0" in data:
        return _utf16_without_mark(data)
    if data.isascii():
        return _lined(data, "UTF-8")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return _guessed(data)
    return _lined(data, "UTF-8")


def _strict(data: bytes, codec: str, name: str) -> Decoded | None:
    """Decode whole, or not at all. A NUL character is none of a text."""
    try:
        text = data.decode(codec)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else _lined(data if codec == "utf-8" else text.encode("utf-8"), name)


def _lined(text: bytes, encoding: str) -> Decoded:
    """Drop the carriage returns that belong to line ends, and say what the ends are."""
    if b"\r" not in text:
        return Decoded(text=text, encoding=encoding, line_end="lf" if b"\n" in text else "none")
    returns, feeds, both = text.count(b"\r"), text.count(b"\n"), text.count(b"\r\n")
    kind: LineEnd = "crlf" if returns == feeds == both else "cr" if not feeds else "mixed"
    plain = text.replace(b"\r\n", b"\n")
    if kind != "crlf":  # more than one before a line feed, or one at the very end
        plain = b"\n".join([line.rstrip(b"\r") for line in plain.split(b"\n")])
    return Decoded(text=plain, encoding=encoding, line_end=kind)


def _utf16_without_mark(data: bytes) -> Decoded | None:
    """UTF-16 whose NUL bytes stand on one side only; anything else with a NUL is binary."""
    if len(data) % 2:
        return None
    low, high = data[::2].count(0), data[1::2].count(0)
    for nuls, others, codec, name in ((high, low, "utf-16-le", "UTF-16LE"), (low, high, "utf-16-be", "UTF-16BE")):
        if not others and nuls >= _NUL_SHARE * (len(data) // 2):
            found = _strict(data, codec, name)
            return found if found and not _CONTROL_BYTES.search(found.text) else None
    return None


def _guessed(data: bytes) -> Decoded | None:
    if _CONTROL_BYTES.search(data):
        return None
    sample = _sample(data)
    runs = len(_HIGH_RUN.findall(sample))
    if len(_UTF_8_RUN.findall(sample)) >= _DAMAGED_SHARE * runs:
        return None
    if len(_ACCENTS.findall(sample)) >= _ALONE_SHARE * runs:
        if _WINDOWS_ONLY.search(data):
            return _checked(data, "cp1252", "Windows-1252")
        return _checked(data, "latin-1", "ISO-8859-1")
    codec = _confident(sample)
    return _checked(data, codec, _GUESSED[codec]) if codec else None


def _checked(data: bytes, codec: str, name: str) -> Decoded | None:
    found = _strict(data, codec, name)
    return None if found is None or _CONTROL.search(found.text.decode("utf-8")) else found


def _sample(data: bytes) -> bytes:
    """The first lines that are not ASCII, whole; where the first is too long, a piece of it between two words."""
    lines = b"\n".join(_not_ascii(data))
    if lines:
        return lines
    first = _HIGH_RUN.search(data)
    piece = data[first.start() : first.start() + _SAMPLE_BYTES] if first else data[:_SAMPLE_BYTES]
    end = max(piece.rfind(mark) for mark in (b" ", b",", b"\n"))
    return piece[:end] if end > 0 else piece


def _not_ascii(data: bytes) -> Iterator[bytes]:
    left = _SAMPLE_BYTES
    for line in data.split(b"\n"):
        if not line.isascii():
            if len(line) > left:
                return
            left -= len(line)
            yield line


def _confident(sample: bytes) -> str | None:
    """The one encoding in which the sample reads well, if there is one."""
    from charset_normalizer import from_bytes  # noqa: PLC0415 - 35 ms, for files that are not UTF-8 only

    matches = from_bytes(sample, cp_isolation=list(_GUESSED), preemptive_behaviour=False, enable_fallback=False)
    good = [(m.encoding, m.coherence) for m in matches if m.chaos <= _CHAOS and m.encoding in _GUESSED]
    if len(good) > 1:
        good = [(codec, coherence) for codec, coherence in good if coherence >= _COHERENCE][:1]
    return good[0][0] if good else None
