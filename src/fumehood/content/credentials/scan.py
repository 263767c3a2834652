"""Look for every rule's keywords in one pass, and try a rule only where one of its own stands. Pure.

Invariants: the work is linear in the text, since each pattern is bounded (a test reads the patterns) and is tried once
a keyword; spans are in order and apart.
"""

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from fumehood.content.credentials import blocks
from fumehood.content.credentials.model import Found, Rule, Span
from fumehood.content.credentials.prefilter import Keywords

AHEAD_BYTES = 512  # looked at behind a keyword that stands in the middle of its token

_PLACEHOLDER = re.compile(rb"\[redacted:[a-z0-9-]{1,60}(?::[0-9a-f]{8})?\]?")


class Scanner:
    """Some rules behind their keywords."""

    __slots__ = ("_blocks", "_keywords", "_rules")

    def __init__(self, rules: Sequence[Rule]) -> None:
        """Rules in the order in which they win where two find the same."""
        wanted: dict[bytes, list[Rule]] = defaultdict(list)
        for rule in rules:
            for keyword in rule.keywords:
                wanted[keyword].append(rule)
        self._blocks = len(wanted)  # keywords from this number on are those of key blocks
        self._rules = tuple(tuple(found) for found in wanted.values())
        self._keywords = Keywords([*wanted, *blocks.KEYWORDS])

    def scan(self, data: bytes, lowered: bytes) -> Iterator[Span]:
        """Every find, in no order; they may overlap."""
        reached: dict[str, int] = {}
        keys = False
        for number, start in self._keywords.hits(lowered):
            if number >= self._blocks:
                keys = True
                continue
            for rule in self._rules[number]:
                if start >= reached.get(rule.name, 0) and (span := _try(rule, data, start)):
                    reached[rule.name] = span.end
                    yield span
        if keys:
            yield from blocks.key_blocks(data)


def _try(rule: Rule, data: bytes, start: int) -> Span | None:
    if rule.behind:
        match = rule.pattern.search(data, max(0, start - rule.behind), start + AHEAD_BYTES)
    else:
        match = rule.pattern.match(data, start)
    if match is None:
        return None
    group = match.lastindex or 0
    begin, end = match.span(group)
    if _PLACEHOLDER.match(data, begin, end):
        return None
    found = Found(value=data[begin:end], name=data[match.start() : begin], data=data, start=begin, end=end)
    if not rule.accepts(found):
        return None
    name = rule.name if rule.verified(found) else f"{rule.name}-like"
    return Span(start=begin, end=end, rule=name)


def apart(found: Iterable[Span], data: bytes) -> list[Span]:
    """The spans in order; of those that overlap one, from the first begin to the last end, on whole characters."""
    kept: list[Span] = []
    for span in sorted(found, key=lambda span: (span.start, -span.end)):
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
