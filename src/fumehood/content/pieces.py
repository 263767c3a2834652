"""Text from many places laid side by side, so that one search sees all of it, and what was found taken out again. Pure.

Invariants: a find never reaches from one group into another, a passage and its surroundings being one group, a key and
its value another; what a find covers is replaced in every shown piece that it touches; a value that was found once is
replaced wherever else it stands, unless it is an ordinary word; line feeds stay, so that line numbers stay true.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ahocorasick_rs import BytesAhoCorasick, MatchKind

_BETWEEN_GROUPS = b"\n\x00\n"  # no credential and no white space of a rule spans it
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    start: int
    data: bytes


class Pieces:
    """Pieces in the order in which they were added."""

    __slots__ = ("_groups", "_length", "_parts", "_shown", "_starts")

    def __init__(self) -> None:
        """Begin with nothing."""
        self._parts: list[bytes] = []
        self._length = 0
        self._shown: list[_Piece] = []
        self._groups: list[tuple[int, int]] = []
        self._starts: list[int] = []

    def __len__(self) -> int:
        """How many pieces there are."""
        return len(self._shown)

    def add(self, shown: bytes, *, before: bytes = b"", after: bytes = b"") -> int:
        """Lay down one piece with what stands around it in its source; its number."""
        begin = self._length
        self._lay(before)
        self._show(shown)
        self._lay(after)
        self._close(begin)
        return len(self._shown) - 1

    def add_pair(self, key: bytes, value: bytes) -> None:
        """Lay down two pieces as a member of an object: an assignment of `value` to `key`."""
        begin = self._length
        self._lay(b'"')
        self._show(key)
        self._lay(b'": "')
        self._show(value)
        self._lay(b'"')
        self._close(begin)

    def whole(self) -> bytes:
        """Everything, as it is searched."""
        return b"".join(self._parts)

    def unchanged(self) -> list[Edited]:
        """Every piece as it came."""
        return [Edited(data=piece.data) for piece in self._shown]

    def redacted(
        self, find: Callable[[bytes], Sequence[Found]], name: Callable[[str, bytes], str]
    ) -> tuple[list[Edited], Counter[str]]:
        """Every piece without what `find` finds, a `name` of rule and value in its stead; how many of each rule."""
        whole = self.whole()
        spans = self._spans(whole, find)
        if not spans:
            return self.unchanged(), Counter()
        spans = _with_repeats(whole, spans)
        edits: list[list[Edit]] = [[] for _ in self._shown]
        counted: Counter[str] = Counter()
        for span in spans:
            touched = self._touch(span, edits, name)
            counted[span.rule] += touched
        return [_edited(piece.data, made) for piece, made in zip(self._shown, edits, strict=True)], +counted

    def _lay(self, data: bytes) -> None:
        if data:
            self._parts.append(data)
            self._length += len(data)

    def _show(self, data: bytes) -> None:
        self._shown.append(_Piece(start=self._length, data=data))
        self._starts.append(self._length)
        self._lay(data)

    def _close(self, begin: int) -> None:
        self._groups.append((begin, self._length))
        self._lay(_BETWEEN_GROUPS)

    def _spans(self, whole: bytes, find: Callable[[bytes], Sequence[Found]]) -> list[_Span]:
        """What is found in one search; where a find reaches out of its group, each group is searched by itself."""
        found = find(whole)
        begins = [begin for begin, _ in self._groups]
        if all(one.end <= self._groups[bisect_right(begins, one.start) - 1][1] for one in found):
            return [_span(whole, one, 0) for one in found]
        return [_span(whole, one, begin) for begin, end in self._groups for one in find(whole[begin:end])]

    def _touch(self, span: _Span, edits: list[list[Edit]], name: Callable[[str, bytes], str]) -> bool:
        """Note the replacement in each shown piece that the span touches; whether there is one."""
        number = max(bisect_right(self._starts, span.start) - 1, 0)
        touched = False
        while number < len(self._shown) and self._shown[number].start < span.end:
            piece = self._shown[number]
            start, end = max(span.start - piece.start, 0), min(span.end - piece.start, len(piece.data))
            if start < end:
                placeholder = name(span.rule, span.value).encode()
                edits[number].append(Edit(start=start, end=end, new=_kept_lines(piece.data[start:end], placeholder)))
                touched = True
            number += 1
        return touched


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
    if not edits:
        return Edited(data=data)
    parts, place = [], 0
    for edit in edits:
        parts += [data[place : edit.start], edit.new]
        place = edit.end
    return Edited(data=b"".join([*parts, data[place:]]), edits=tuple(edits))
