"""Write a text that a simple regular expression matches. Pure; no engine of expressions ever sees it.

Read are: characters and their escapes, classes, groups, alternatives, counts and anchors. Anything else (look-around,
back-references, properties, word boundaries) is `None`: who asks gives up on the expression and says so.

Invariants: every call ends after at most PATTERN_STEPS steps, with at most `most` characters.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from fumehood.core import limits

Pick: TypeAlias = Callable[[int], int]  # a number below the one given

_DIGITS: Final = "0123456789"
_SMALL: Final = "abcdefghijklmnopqrstuvwxyz"
_WORD: Final = _SMALL + _SMALL.upper() + _DIGITS + "_"
_PRINTED: Final = "".join(map(chr, range(0x20, 0x7F)))
_CLASSES: Final = {"d": _DIGITS, "w": _WORD, "s": " "}
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_HEX: Final = {"x": 2, "u": 4}
_MORE: Final = (0, 1, 3, 7, 15, 31, 63, 127, 255, 1023)  # how many beyond the least a count is tried with
_LIKED: Final = _SMALL + _DIGITS + _SMALL.upper() + "-_. "  # taken from a class before anything else of it


class _UnreadError(Exception):
    """The expression has something that is not read here, or takes too many steps."""


def write(pattern: str, least: int, most: int, pick: Pick) -> str | None:
    """A text of `least` to `most` characters that the pattern matches as a whole; None where none was found."""
    if len(pattern) > limits.INPUT_PATTERN_CHARACTERS:
        return None
    for more in _MORE:
        try:
            text = _Writer(pattern, more, min(most, limits.INPUT_TEXT_CHARACTERS), pick).text()
        except (_UnreadError, RecursionError):
            return None
        if text is not None and len(text) >= least:
            return text
    return None


class _Writer:
    """One expression, read from left to right while its text is written."""

    def __init__(self, pattern: str, more: int, most: int, pick: Pick) -> None:
        self._pattern = pattern
        self._at = 0
        self._more = more
        self._most = most
        self._pick = pick
        self._steps = 0

    def text(self) -> str | None:
        """What the whole expression matches; None where that is too long."""
        text = self._choice(0)
        if self._at != len(self._pattern):
            raise _UnreadError
        return text if len(text) <= self._most else None

    def _choice(self, depth: int) -> str:
        if depth > limits.INPUT_DEPTH:
            raise _UnreadError
        choices = [self._row(depth)]
        while self._peek() == "|":
            self._at += 1
            choices.append(self._row(depth))
        return choices[self._pick(len(choices))]

    def _row(self, depth: int) -> str:
        parts: list[str] = []
        while (one := self._peek()) and one not in "|)":
            self._step()
            if one in "^$":
                self._anchor(one, depth)
                continue
            begin = self._at
            part = self._atom(depth)
            least, most = self._count()
            times = min(most, least + self._more, self._most + 1)
            if times == 0 or not part:
                continue
            parts.append(part)
            for _ in range(times - 1):  # again, so that each has characters of its own
                self._step()
                parts.append(self._again(begin, depth))
                if sum(map(len, parts[-2:])) > self._most:
                    raise _UnreadError
        return "".join(parts)

    def _anchor(self, one: str, depth: int) -> None:
        """Only where it says nothing: at the two ends."""
        before = self._pattern[: self._at].lstrip("(?:") if one == "^" else ""
        after = self._pattern[self._at + 1 :].rstrip(")") if one == "$" else ""
        if before or after or depth > 1:
            raise _UnreadError
        self._at += 1

    def _again(self, begin: int, depth: int) -> str:
        end, self._at = self._at, begin
        part = self._atom(depth)
        self._at = end
        return part

    def _atom(self, depth: int) -> str:
        one = self._take()
        if one == "(":
            return self._group(depth)
        if one == "[":
            return self._one_of(self._class())
        if one == ".":
            return self._one_of(_SMALL)
        if one == "\\":
            return self._one_of(self._escape())
        if one in "*+?{}":
            raise _UnreadError
        return one

    def _group(self, depth: int) -> str:
        if self._peek() == "?":
            named = self._pattern[self._at : self._at + 2]
            if named != "?:":
                raise _UnreadError
            self._at += 2
        text = self._choice(depth + 1)
        if self._take() != ")":
            raise _UnreadError
        return text

    def _class(self) -> str:
        negated = self._peek() == "^"
        self._at += negated
        found: list[str] = []
        while (one := self._take()) != "]":
            self._step()
            if one == "[" or (one == "&" and self._peek() == "&"):
                raise _UnreadError  # a set of a set, in the engines that have them
            held = self._escape() if one == "\\" else one
            if self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("]", "") and len(held) == 1:
                self._at += 1
                last = self._take()
                held = self._range(held, self._escape() if last == "\\" else last)
            found.append(held)
        held = "".join(found)
        return "".join(c for c in _PRINTED if c not in held) if negated else held

    def _range(self, first: str, last: str) -> str:
        if len(last) != 1 or last < first:
            raise _UnreadError
        end = min(ord(last), ord(first) + 0x100)
        return "".join(map(chr, range(ord(first), end + 1)))

    def _escape(self) -> str:
        one = self._take()
        if one in _CLASSES:
            return _CLASSES[one]
        if one.lower() in _CLASSES:
            return "".join(c for c in _PRINTED if c not in _CLASSES[one.lower()])
        if one in _CONTROLS:
            return _CONTROLS[one]
        if one in _HEX:
            return self._code(_HEX[one])
        if one.isalnum():
            raise _UnreadError
        return one

    def _code(self, digits: int) -> str:
        text = self._pattern[self._at : self._at + digits]
        if len(text) != digits or not all(c in "0123456789abcdefABCDEF" for c in text):
            raise _UnreadError
        self._at += digits
        number = int(text, 16)
        if 0xD800 <= number <= 0xDFFF:  # noqa: PLR2004 - half of a pair is no character
            raise _UnreadError
        return chr(number)

    def _count(self) -> tuple[int, int]:
        """How often the atom before stands: at least, at most."""
        found = self._counted()
        if self._peek() == "?" and found != (1, 1):
            self._at += 1  # a lazy count allows the same texts
        if self._peek() in ("*", "+"):
            raise _UnreadError
        return found

    def _counted(self) -> tuple[int, int]:
        one = self._peek()
        simple = {"*": (0, self._most), "+": (1, self._most + 1), "?": (0, 1)}
        if one in simple:
            self._at += 1
            return simple[one]
        if one != "{":
            return 1, 1
        end = self._pattern.find("}", self._at, self._at + 16)
        low, comma, high = self._pattern[self._at + 1 : max(end, 0)].partition(",")
        if end < 0 or not _is_number(low) or (high and not _is_number(high)):
            raise _UnreadError
        self._at = end + 1
        least = int(low)
        most = least if not comma else int(high) if high else max(least, self._most)
        if least > self._most or most < least:
            raise _UnreadError
        return least, most

    def _one_of(self, characters: Sequence[str]) -> str:
        liked = [c for c in characters if c in _LIKED] or characters
        if not liked:
            raise _UnreadError
        return liked[self._pick(len(liked))]

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        one = self._peek()
        if not one:
            raise _UnreadError
        self._at += 1
        self._step()
        return one

    def _step(self) -> None:
        self._steps += 1
        if self._steps > limits.INPUT_PATTERN_STEPS:
            raise _UnreadError


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
