"""Text from many places laid side by side, so that one search sees all of it, and what was found taken out again. Pure.

Invariants: a find never reaches from one group into another, a passage and its surroundings being one group, a key and
its value another; what a find covers is replaced in every shown piece that it touches; a value that was found once is
replaced wherever else it stands, unless it is an ordinary word; line feeds stay, so that line numbers stay true.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from ahocorasick_rs import BytesAhoCorasick, MatchKind

_BETWEEN_GROUPS = b"\n\x00\n"  # no credential and no white space of a rule spans it
_AROUND, _SHOWN, _END, _AGAIN = range(4)
_ONE = bytes([_AROUND, _SHOWN, _AROUND, _END])
_PAIR = bytes([_AROUND, _SHOWN, _AROUND, _SHOWN, _END])
_PAIR_AGAIN = bytes([_AROUND, _AGAIN, _AROUND, _SHOWN, _END])
_CONTINUED = "…".encode()  # stands for each further line of what one placeholder replaces
_TELLING_BYTES = 8  # a shorter value, or one without a digit, may well be a word that stands elsewhere by right
_TELLING = re.compile(rb"(?=[^\n]{0,256}?[0-9])(?=[^\n]{0,256}?[A-Za-z])")


class Found(Protocol):
    """One credential; `start` and `end` count bytes of what was searched."""

    @property
    def start(self) -> int:
        """Where it begins."""
        ...

    @property
    def end(self) -> int:
        """Where it has ended."""
        ...

    @property
    def rule(self) -> str:
        """Which rule found it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One replacement in a piece: bytes `start` to `end` of the original became `new`."""

    start: int
    end: int
    new: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A piece after the search: what is left to show, and what was replaced in it."""

    data: bytes
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    start: int
    end: int
    rule: str
    value: bytes


class Pieces:
    """Pieces in the order in which they are added; nothing is counted or copied before something is found."""

    __slots__ = ("_kinds", "_numbers", "_parts")

    def __init__(self) -> None:
        """Begin with nothing."""
        self._parts: list[bytes] = []
        self._kinds = bytearray()  # of each part: _AROUND, _SHOWN, _END, or _AGAIN: shown, and counted elsewhere
        self._numbers: list[int] = []  # of the parts that are shown

    def __len__(self) -> int:
        """How many pieces there are."""
        return len(self._numbers)

    def add(self, shown: bytes, *, before: bytes = b"", after: bytes = b"") -> int:
        """Lay down one piece with what stands around it in its source; its number."""
        self._numbers.append(len(self._parts) + 1)
        self._parts += (before, shown, after, _BETWEEN_GROUPS)
        self._kinds += _ONE
        return len(self._numbers) - 1

    def add_pairs(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        """Lay down two pieces for each member of an object: an assignment of the second to the first.

        What is replaced in a key that occurs more than once counts as one.
        """
        begin = len(self._parts)
        self._numbers += [begin + 5 * number + place for number in range(len(pairs)) for place in (1, 3)]
        self._parts += [part for key, value in pairs for part in (b'"', key, b'": "', value, b'"' + _BETWEEN_GROUPS)]
        firsts = dict(zip(reversed([key for key, _ in pairs]), range(len(pairs) - 1, -1, -1), strict=True))
        self._kinds += b"".join(
            [_PAIR if firsts[key] == number else _PAIR_AGAIN for number, (key, _) in enumerate(pairs)]
        )

    def whole(self) -> bytes:
        """Everything, as it is searched."""
        return b"".join(self._parts)

    def unchanged(self) -> "Left":
        """Every piece as it came."""
        return Left(self._parts, self._numbers, {})

    def redacted(
        self, find: Callable[[bytes], Sequence[Found]], name: Callable[[str, bytes], bytes]
    ) -> tuple["Left", Counter[str]]:
        """Every piece without what `find` finds, a `name` of rule and value in its stead; how many of each rule."""
        whole = self.whole()
        found = find(whole)
        if not found:
            return self.unchanged(), Counter()
        ends = list(accumulate(map(len, self._parts)))
        edits: dict[int, list[Edit]] = {}
        counted: Counter[str] = Counter()
        for span in _with_repeats(whole, self._apart(whole, found, find, ends)):
            counted[span.rule] += self._touch(span, ends, edits, name)
        edited = {number: _edited(self._parts[number], made) for number, made in edits.items()}
        return Left(self._parts, self._numbers, edited), +counted

    def _apart(
        self, whole: bytes, found: Sequence[Found], find: Callable[[bytes], Sequence[Found]], ends: Sequence[int]
    ) -> list[_Span]:
        """What was found in one search; where a find reaches out of its group, each group is searched by itself."""
        stops = [end for end, kind in zip(ends, self._kinds, strict=True) if kind == _END]
        if all(one.end <= stops[bisect_right(stops, one.start)] for one in found):
            return [_span(whole, one, 0) for one in found]
        begins = [0, *stops[:-1]]
        return [
            _span(whole, one, begin)
            for begin, stop in zip(begins, stops, strict=True)
            for one in find(whole[begin : stop - len(_BETWEEN_GROUPS)])
        ]

    def _touch(
        self,
        span: _Span,
        ends: Sequence[int],
        edits: dict[int, list[Edit]],
        name: Callable[[str, bytes], bytes],
    ) -> bool:
        """Note the replacement in each shown part that the span touches; whether there is one."""
        touched = False
        for number in range(bisect_right(ends, span.start), len(ends)):
            part = self._parts[number]
            begin = ends[number] - len(part)
            if begin >= span.end:
                break
            start, end = max(span.start - begin, 0), min(span.end - begin, len(part))
            if self._kinds[number] in {_SHOWN, _AGAIN} and start < end:
                new = _kept_lines(part[start:end], name(span.rule, span.value))
                edits.setdefault(number, []).append(Edit(start=start, end=end, new=new))
                touched |= self._kinds[number] == _SHOWN
        return touched


class Left:
    """What is left of the pieces, by their numbers."""

    __slots__ = ("_edited", "_numbers", "_parts")

    def __init__(self, parts: Sequence[bytes], numbers: Sequence[int], edited: Mapping[int, Edited]) -> None:
        """Keep the parts, which of them are shown, and those that were changed."""
        self._parts = parts
        self._numbers = numbers
        self._edited = edited

    def data(self, piece: int) -> bytes:
        """A piece to show."""
        number = self._numbers[piece]
        return self._edited[number].data if number in self._edited else self._parts[number]

    def edits(self, piece: int) -> tuple[Edit, ...]:
        """What was replaced in it."""
        number = self._numbers[piece]
        return self._edited[number].edits if number in self._edited else ()

    def is_changed(self, first: int) -> bool:
        """Whether anything was replaced in the piece of that number or a later one."""
        return len(self._numbers) > first and any(number >= self._numbers[first] for number in self._edited)


def _span(whole: bytes, found: Found, offset: int) -> _Span:
    start, end = found.start + offset, found.end + offset
    return _Span(start=start, end=end, rule=found.rule, value=whole[start:end])


def _with_repeats(whole: bytes, spans: Iterable[_Span]) -> list[_Span]:
    """The spans, and the places where the same values stand unrecognised; in order and apart."""
    ordered = sorted(spans, key=lambda span: span.start)
    rules = {span.value: span.rule for span in ordered if _is_telling(span.value)}
    if not rules:
        return ordered
    values = list(rules)
    again = [
        _Span(start=start, end=end, rule=rules[values[number]], value=values[number])
        for number, start, end in BytesAhoCorasick(values, matchkind=MatchKind.LeftmostLongest).find_matches_as_indexes(
            whole
        )
    ]
    merged: list[_Span] = []
    for span in sorted([*ordered, *again], key=lambda span: (span.start, -span.end)):
        if not merged or span.start >= merged[-1].end:
            merged.append(span)
        elif span.end > merged[-1].end:
            last = merged[-1]
            merged[-1] = _Span(start=last.start, end=span.end, rule=last.rule, value=last.value)
    return merged


def _is_telling(value: bytes) -> bool:
    return len(value) >= _TELLING_BYTES and _TELLING.match(value) is not None


def _kept_lines(old: bytes, placeholder: bytes) -> bytes:
    """The placeholder, and for each further line a mark, so that no line is lost."""
    if b"\n" not in old:
        return placeholder
    first, *rest = old.split(b"\n")
    return b"\n".join([placeholder if first else b"", *(_CONTINUED if line else b"" for line in rest)])


def _edited(data: bytes, edits: Sequence[Edit]) -> Edited:
    parts, place = [], 0
    for edit in edits:
        parts += [data[place : edit.start], edit.new]
        place = edit.end
    return Edited(data=b"".join([*parts, data[place:]]), edits=tuple(edits))
