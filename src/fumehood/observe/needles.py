"""Find a few hundred unpredictable strings, or pieces of them, in one pass. Pure.

Each canary is looked for as itself and in the forms that a program may give it without a secret of its own: Base64 and
Base32 (RFC 4648) as they come out wherever in a larger text the value stands, hexadecimal digits, and all of these from
right to left. Letters are compared without their case: names in the DNS lose it (RFC 4343).

The pass takes every eighth place of the data and asks a table whether the eight bytes there stand in some needle: so
whatever holds fifteen bytes of a needle is met, and the cost does not grow with the number of needles. A piece counts
from PIECE characters on: a word that strace cut, or a label of a name, still tells.

Not promised: that pieces below PIECE characters are met, or what was encrypted, compressed (see `unfold`) or encoded by
a rule that is not named here.
"""

import base64
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

PIECE = 16  # characters of a form that tell: 80 bits and more of chance
_GRAM = struct.Struct("Q")
_STEP = _GRAM.size


class Needle(NamedTuple):
    """One form of one canary."""

    name: str  # of the canary
    encoding: str  # "plain", "base64", "base64url", "base32", "hex"; "reversed+" before it
    text: bytes  # in lower case


class Found(NamedTuple):
    """A place where a needle, or a piece of one, stands."""

    start: int
    end: int
    name: str
    encoding: str
    whole: bool


def forms(value: bytes) -> Iterator[tuple[str, bytes]]:
    """Every form of a value, as it stands inside a larger encoded text; the same text comes once."""
    known: set[bytes] = set()
    for encoding, text in _forward(value):
        for label, form in (
            (encoding, text),
            (f"reversed+{encoding}" if encoding != "plain" else "reversed", text[::-1]),
        ):
            folded = form.lower()
            if len(folded) >= PIECE and folded not in known:
                known.add(folded)
                yield label, folded


def _forward(value: bytes) -> Iterator[tuple[str, bytes]]:
    yield "plain", value
    yield "hex", value.hex().encode()
    for before in range(3):
        yield "base64", _inner(base64.b64encode, value, before, 6)
        yield "base64url", _inner(base64.urlsafe_b64encode, value, before, 6)
    for before in range(5):
        yield "base32", _inner(base64.b32encode, value, before, 5)
        yield "base32hex", _inner(base64.b32hexencode, value, before, 5)


def _inner(encode: Callable[[bytes], bytes], value: bytes, before: int, bits: int) -> bytes:
    """The characters that depend on `value` alone, when so many bytes stand before it and any behind it."""
    text = encode(bytes(before) + value)
    return text[-(-before * 8 // bits) : (before + len(value)) * 8 // bits]


class Needles:
    """A set of needles to look for."""

    def __init__(self, values: Iterable[tuple[str, bytes]]) -> None:
        """`values` are pairs of a canary's name and one of its unpredictable values."""
        self._needles = [Needle(name, encoding, text) for name, value in values for encoding, text in forms(value)]
        self._grams: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for number, needle in enumerate(self._needles):
            for offset in range(len(needle.text) - _STEP + 1):
                self._grams[_GRAM.unpack_from(needle.text, offset)[0]].append((number, offset))
        self._known = frozenset(self._grams)
        self.longest = max((len(needle.text) for needle in self._needles), default=0)

    def touch(self, data: bytes) -> bool:
        """Whether anything in `data` may be a piece: the quick half of `find`."""
        return not self._known.isdisjoint(_grams(data.lower()))

    def find(self, data: bytes) -> list[Found]:
        """Every place in `data`, in order; places may overlap."""
        folded = data.lower()
        view = _grams(folded)
        if self._known.isdisjoint(view):
            return []
        until: dict[int, int] = {}  # per needle, as far as its last place goes
        found: list[Found] = []
        for index, gram in enumerate(view):
            for number, offset in self._grams.get(gram, ()):
                at = index * _STEP
                if at < until.get(number, 0):
                    continue
                needle = self._needles[number]
                start, end = _extent(folded, at, needle.text, offset)
                if end - start >= PIECE:
                    until[number] = end
                    whole = end - start == len(needle.text)
                    found.append(Found(start, end, needle.name, needle.encoding, whole))
        return found


def _grams(data: bytes) -> "memoryview[int]":
    """Every eight bytes from the beginning on, each as one number."""
    return memoryview(data)[: len(data) // _STEP * _STEP].cast("Q")


def _extent(data: bytes, at: int, text: bytes, offset: int) -> tuple[int, int]:
    """How far data and needle agree to both sides of a place where eight bytes do."""
    left = 0
    while left < min(at, offset) and data[at - left - 1] == text[offset - left - 1]:
        left += 1
    right = _STEP
    most = min(len(data) - at, len(text) - offset)
    while right < most and data[at + right] == text[offset + right]:
        right += 1
    return at - left, at + right
