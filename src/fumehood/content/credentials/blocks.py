"""Private keys that stand between two lines, or begin with a line of their own. Pure.

Sources: RFC 7468 (PEM), RFC 9580 section 6.2 (OpenPGP's armour), RFC 4716 (SSH2), PuTTY's manual, appendix C (PPK).
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from fumehood.content.credentials.model import Span

KEYWORDS = (b"private key", b"putty-user-key-file-")

_KEY_BLOCK_BYTES = 16 * 1024  # an RSA key of 16,384 bits is 12.5 KB in PEM
_BEFORE_BYTES, _BEHIND_BYTES = 64, 32  # of a first line, before and from the words by which it is found
_BEGIN = re.compile(
    rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-[1-9]: "
    rb"|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----"
)
_END = re.compile(rb"-----END [A-Z0-9 ]{0,60}-----|Private-MAC: [0-9a-f]{40,64}|---- END SSH2 [A-Z ]{0,40} ----")
# Behind a first line without a last one: lines of Base64 and headers, also escaped, quoted, or joined as strings.
_BREAK = rb"(?:\r?\n|(?:\\{1,2}r)?\\{1,2}n)"
_RUN = re.compile(
    rb"(?:" + _BREAK + rb"[ \t>|#*\"']{0,16}[A-Za-z0-9+/=]{1,128}[\"',+\\ \t]{0,8}(?=[\r\n\x00\\]|$)"
    rb"|(?:" + _BREAK + rb"|[\s\"'+,.;\\>|#*-]){0,64}"
    rb"(?:[A-Za-z0-9+/=]{16,16384}|[A-Z][A-Za-z-]{2,20}: [^\n\"\\]{1,80})){1,1024}"
)
_BLANK = re.compile(rb"\s|\\{1,2}[nr]|[\"'+,]")
_BODY = re.compile(rb"[A-Za-z0-9+/=]{12}|Encryption:")


def key_blocks(data: bytes) -> Iterator[Span]:
    """Private keys from their first line to their last, or as far as their lines go where the last is missing.

    A first line with nothing like a key behind it is code that speaks of keys.
    """
    ends: list[tuple[int, int]] | None = None
    place = 0
    for told in _places(data, (b"PRIVATE KEY", b"PuTTY-User-Key-File-")):
        begin = _BEGIN.search(data, max(place, told - _BEFORE_BYTES), told + _BEHIND_BYTES) if told >= place else None
        if begin is None:
            continue
        ends = _ends(data) if ends is None else ends
        place = begin.end()
        limit = begin.start() + _KEY_BLOCK_BYTES
        number = bisect_left(ends, (begin.end(), 0))
        if number < len(ends) and ends[number][1] <= limit:
            if not _BODY.search(_BLANK.sub(b"", data[begin.end() : ends[number][0]])):
                continue
            place = ends[number][1]
        elif run := _RUN.match(data, begin.end(), limit):
            place = run.end()
        else:
            continue
        yield Span(start=begin.start(), end=place, rule="private-key")


def _ends(data: bytes) -> list[tuple[int, int]]:
    """Every last line, in order and apart."""
    ends: list[tuple[int, int]] = []
    for told in _places(data, (b"-----END ", b"Private-MAC: ", b"---- END SSH2 ")):
        end = _END.match(data, told)
        if end and (not ends or told >= ends[-1][1]):
            ends.append(end.span())
    return ends


def _places(data: bytes, words: Iterable[bytes]) -> list[int]:
    """Where words stand: a pattern of several beginnings is looked for ten times as slowly as each of them."""
    places: list[int] = []
    for word in words:
        place = data.find(word)
        while place >= 0:
            places.append(place)
            place = data.find(word, place + 1)
    return sorted(places)
