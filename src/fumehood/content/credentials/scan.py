"""Look for every rule's keywords in one pass, and try a rule only where one of its own stands. Pure.

Invariants: the work is linear in the text, since each pattern is bounded (a test reads the patterns) and is tried once
a keyword; spans are in order and apart.
"""

import functools
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from fumehood.content.credentials import blocks, manifests
from fumehood.content.credentials.model import Extra, Found, Rule, Span
from fumehood.content.credentials.prefilter import Keywords
from fumehood.content.credentials.views import MARKS, Mark, views

# Another rule that finds the same says more.
_GENERAL = frozenset(("assignment", "authorization", "basic", "bearer", "option", "password"))
_DEPTH = 2  # decodings of what was decoded: JSON within JSON, Base64 within an escape
_VIEWED = 8  # times the bytes of a text that its views may have in all, so that hostile nesting ends
_VIEWED_BYTES = 64 * 1024  # the same for a short text

_RELOOKED_BYTES = 128  # of the end of a refused value: looked at once a keyword all of it would take seconds

_PLACEHOLDER = re.compile(rb"\[redacted:[a-z0-9-]{1,60}(?::[0-9a-f]{8})?\]?")
# One that is whole, or was cut at the end of a text. A token behind such a beginning is none.
_OURS = re.compile(rb"\[redacted:[a-z0-9-]{1,60}(?:(?::[0-9a-f]{8})?\]|(?::[0-9a-f]{0,8})?(?=\n\x00\n|\Z))")


class Scanner:
    """Some rules behind their keywords."""

    __slots__ = ("_blocks", "_keywords", "_marks", "_rules")

    def __init__(self, rules: Sequence[Rule]) -> None:
        """Rules in the order in which they win where two find the same."""
        wanted: dict[bytes, list[Rule]] = defaultdict(list)
        for rule in rules:
            for keyword in rule.keywords:
                wanted[keyword].append(rule)
        self._blocks = len(wanted)  # keywords from this number on are those of key blocks and manifests
        self._marks = self._blocks + len(blocks.KEYWORDS) + len(manifests.KEYWORDS)  # then those of views
        self._rules = tuple(tuple(found) for found in wanted.values())
        self._keywords = Keywords([*wanted, *blocks.KEYWORDS, *manifests.KEYWORDS, *(word for word, _ in MARKS)])

    def scan(self, data: bytes, lowered: bytes) -> tuple[list[Span], list[tuple[Mark, int]]]:
        """Every find, in no order, overlapping or not, and where something is encoded."""
        spans: list[Span] = []
        marks: list[tuple[Mark, int]] = []
        reached: dict[str, int] = {}
        whole: set[int] = set()
        ours = [match.span() for match in _OURS.finditer(data)] if b"[redacted:" in data else []
        for number, start in self._keywords.hits(lowered):
            if number >= self._marks:
                marks.append((MARKS[number - self._marks][1], start))
                continue
            if number >= self._blocks:
                whole.add(number - self._blocks)
                continue
            if ours and _is_within(ours, start):
                continue
            spans += _tried(self._rules[number], data, start, reached)
        if whole - {len(blocks.KEYWORDS)}:
            spans += blocks.key_blocks(data)
        if len(blocks.KEYWORDS) in whole:
            spans += manifests.secret_manifests(data)
        return spans, marks


def look(data: bytes, extra: Extra | None) -> list[Span]:
    """Every find in a text and in what it decodes to."""
    return list(_look(data, extra, [len(data) * _VIEWED + _VIEWED_BYTES], 0))


def _look(data: bytes, extra: Extra | None, left: list[int], depth: int) -> Iterator[Span]:
    """`left` is how many bytes of views may still be looked at."""
    lowered = data.lower()
    spans, marks = scanner().scan(data, lowered)
    yield from spans
    if extra is not None:
        yield from extra.find(data, lowered)
    if depth == _DEPTH:
        return
    for view in views(data, marks):
        left[0] -= len(view.data)
        if left[0] < 0:
            return
        for span in _look(view.data, extra, left, depth + 1):
            if span.start < span.end and view.shows(span):
                yield view.back(span)


def _is_within(spans: list[tuple[int, int]], place: int) -> bool:
    number = bisect_right(spans, (place + 1, 0)) - 1
    return number >= 0 and place < spans[number][1]


def _tried(rules: Iterable[Rule], data: bytes, start: int, reached: dict[str, int]) -> Iterator[Span]:
    for rule in rules:
        if start >= reached.get(rule.name, 0) and (span := _try(rule, data, start, reached)):
            yield span


def _try(rule: Rule, data: bytes, start: int, reached: dict[str, int]) -> Span | None:
    """What a rule finds at its keyword; in `reached` up to where it need not look again."""
    match = None
    for behind in rule.behind:
        if start >= behind and (match := rule.pattern.match(data, start - behind)):
            break
    if match is None:
        return None
    group = match.lastindex or 0
    begin, end = match.span(group)
    if _PLACEHOLDER.match(data, begin, end):
        return None
    found = Found(value=data[begin:end], name=data[match.start() : begin], data=data, start=begin, end=end)
    if not rule.accepts(found):
        reached[rule.name] = end - _RELOOKED_BYTES
        return None
    reached[rule.name] = end
    name = rule.name if rule.verified(found) else f"{rule.name}-like"
    return Span(start=begin, end=end, rule=name)


def apart(found: Iterable[Span], data: bytes) -> list[Span]:
    """The spans in order; of those that overlap one, from the first begin to the last end, on whole characters."""
    kept: list[Span] = []
    for span in sorted(found, key=lambda span: (span.start, -span.end, span.rule in _GENERAL)):
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
        elif span.end > kept[-1].end:  # neither end of what overlaps may stay
            kept[-1] = Span(start=kept[-1].start, end=span.end, rule=kept[-1].rule)
    return [_whole(span, data) for span in kept]


def _whole(span: Span, data: bytes) -> Span:
    """A bound that tears a UTF-8 character apart moves behind it; a span may so begin where one ended."""
    start, end = _boundary(data, span.start), _boundary(data, span.end)
    return span if (start, end) == (span.start, span.end) else Span(start=start, end=end, rule=span.rule)


def _boundary(data: bytes, place: int) -> int:
    for step in range(4):
        if place + step >= len(data) or data[place + step] & 0xC0 != 0x80:  # noqa: PLR2004 - a continuation byte
            return place + step
    return place


@functools.cache
def scanner() -> Scanner:
    """The scanner of our own rules, built when the first text comes."""
    from fumehood.content.credentials.rules import RULES  # noqa: PLC0415 - two hundred patterns compile here

    return Scanner(RULES)
