"""Signals that content speaks to a model rather than to its reader. Pure.

Invariants: the work is linear in the text; every pattern is RE2's; risk is a noisy-OR over the kinds of signals, so
that one more kind never lowers it and a repetition never raises it; an excerpt is a part of what was looked at, short,
and never what an encoding holds.

Not promised: that every such text is found, or that what is found is meant so. A signal is information.
"""

import functools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any, Literal, NamedTuple

import re2

from fumehood.content import phrases, unicode, views

Place = Literal["text", "heading", "facts"]
Level = Literal["none", "low", "medium", "high"]
_LOW, _MEDIUM, _HIGH = 0.2, 0.4, 0.75
_LISTED = 3  # of one kind in one reply
_COUNTED = 64  # of one kind; more of the same says nothing more
_EXCERPT_BYTES = 120
_BEFORE, _AFTER = 200, 300  # bytes around an anchor: a sentence or two
views.APART = (
    b"\n" + b"\x00 " * 8 + b"<.\n"
)  # of two such stretches: more words than a phrase leaves open, and an end of all else
_BETWEEN = b"\n\x00\n"  # of two sources
_JOINED = bytes.maketrans(b"_-", b"  ")
_HIDING_BYTES = 2000  # how far back a comment or a hidden element is looked for

_OPTIONS = re2.Options()
_OPTIONS.case_sensitive = False
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 64 << 20  # of the automata, which grow as they are used


def _any_of(sources: Iterable[str]) -> Any:  # noqa: ANN401 - RE2's type has no public name
    return re2.compile("|".join(f"(?:{source})" for source in sources), _OPTIONS)


_ANCHORS = _any_of(phrases.anchors())
_CONCEALED = re2.compile(r"\x1b\[(?:[0-9]{1,3};)*8m|\x08{4,}")
_HIDDEN = re2.compile(
    r"display: *none|visibility: *hidden|font-size: *0|opacity: *0(?:[;\"' ]|$)|color: *(?:white|#fff)|<!--|\[//\]: *#",
    _OPTIONS,
)


@functools.cache
def _phrases(kind: str) -> Any:  # noqa: ANN401 - as above
    """The phrases of a kind, compiled when an anchor is seen: together they take 40 ms, and most replies hold none."""
    return _any_of(phrases.said(kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Something to look at; `first_line` is the number of its first line."""

    data: bytes
    place: Place
    first_line: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One finding: `weight` from 0 to 1, `line` in its source, `excerpt` what stands there."""

    name: str
    weight: float
    place: Place
    line: int
    excerpt: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The signals, and what they come to together."""

    signals: tuple[Signal, ...]
    risk: float
    level: Level


NOTHING = Findings(signals=(), risk=0.0, level="none")


class _Hit(NamedTuple):
    name: str
    start: int
    end: int


def scan(sources: Sequence[Source]) -> Findings:
    """Every kind of signal in the sources, and the first places of each."""
    whole = _BETWEEN.join([_read(source) for source in sources])
    hits = list(_hits(whole))
    if not hits:
        return NOTHING
    risk = combined([phrases.WEIGHTS[name] for name in {hit.name for hit in hits}])
    return Findings(signals=tuple(_signals(sources, whole, hits)), risk=risk, level=level(risk))


def _read(source: Source) -> bytes:
    """The words of a source; in a name they are often joined."""
    return source.data if source.place == "text" else source.data.translate(_JOINED)


def combined(weights: Iterable[float]) -> float:
    """Noisy-OR: the chance that at least one of independent signals is right."""
    missed = 1.0
    for weight in weights:
        missed *= 1.0 - weight
    return round(1.0 - missed, 4)


def level(risk: float) -> Level:
    """A word for a risk."""
    return "high" if risk >= _HIGH else "medium" if risk >= _MEDIUM else "low" if risk >= _LOW else "none"


def _hits(whole: bytes) -> Iterator[_Hit]:
    disguised = views.View()
    said = list(_said(whole, disguised))
    plainly = frozenset(hit.name for hit in said)
    yield from said
    yield from _hidden(whole, said)
    yield from _encoded(disguised, besides=plainly)
    yield from _encoded(views.escaped(whole), besides=plainly)
    yield from _encoded(views.decoded(whole), depth=views.DEPTH)
    if not whole.isascii():
        yield from _unseen(whole, plainly)
    if b"\x1b[" in whole or b"\x08" in whole:
        for match in _CONCEALED.finditer(whole):
            yield _Hit("terminal-concealment", match.start(), match.end())


def _said(data: bytes, disguised: views.View | None) -> Iterator[_Hit]:
    """What is said around the anchors, by each kind of phrase: at most so many places of one kind."""
    windows = list(_windows(data))
    if not windows:
        return
    near = views.APART.join([data[start:end] for start, end in windows])
    begins = [0, *accumulate(end - start + len(views.APART) for start, end in windows)]
    for name in phrases.KINDS:
        for match in islice(_phrases(name).finditer(near), _COUNTED):
            number = bisect_right(begins, match.start()) - 1
            start, length = windows[number][0] - begins[number], match.end() - match.start()
            if match.end() <= begins[number + 1] - len(views.APART):
                yield _Hit(name, start + match.start(), start + match.start() + length)
    if disguised is not None:
        for start, end in windows:
            views.undisguised(data, start, end, disguised)


def _windows(data: bytes) -> Iterator[tuple[int, int]]:
    """Stretches of text around the anchors, apart from each other."""
    begin = end = -1
    for match in _ANCHORS.finditer(data):
        start, stop = match.span()
        if end < 0 or start - _BEFORE > end:
            if end >= 0:
                yield begin, min(end, len(data))
            begin = max(0, start - _BEFORE)
        end = stop + _AFTER
    if end >= 0:
        yield begin, min(end, len(data))


def _encoded(view: views.View, *, besides: frozenset[str] = frozenset(), depth: int = 1) -> Iterator[_Hit]:
    """What a view says, at the places that it came from, `besides` what stands there plainly; then what it encodes."""
    if not view.length:
        return
    data = view.data()
    for hit in _said(data, None):
        if hit.name not in besides:
            yield _Hit("encoded-payload", *view.origin(hit.start))
    if depth > 1:
        for hit in _encoded(views.decoded(data), depth=depth - 1):
            yield _Hit("encoded-payload", *view.origin(hit.start))


def _unseen(whole: bytes, plainly: frozenset[str]) -> Iterator[_Hit]:
    """What nobody sees, and what is said in letters that look like others."""
    spelled, named = views.View(), set[str]()
    for number, evidence in enumerate(unicode.invisible(whole)):
        if number < _COUNTED or evidence.name not in named:
            named.add(evidence.name)
            yield _Hit(evidence.name, evidence.start, evidence.end)
        if evidence.spelled:
            spelled.add(evidence.spelled, (evidence.start, evidence.end))
    yield from _encoded(spelled)
    for evidence in islice(unicode.mixed(whole), _COUNTED):
        yield _Hit(evidence.name, evidence.start, evidence.end)
    view = views.skeletons(whole, unicode.disguised_lines(whole))
    for hit in _said(view.data(), None):
        if hit.name not in plainly:
            yield _Hit(hit.name, *view.origin(hit.start))
            yield _Hit("look-alike-letters", *view.origin(hit.start))


def _hidden(whole: bytes, said: list[_Hit]) -> Iterator[_Hit]:
    """Of what is said, what a reader of the rendered page would not see."""
    for hit in said[:_COUNTED]:
        before = whole[max(0, hit.start - _HIDING_BYTES) : hit.start]
        opened = before.rfind(b"<!--")
        near = before[max(before.rfind(b">", 0, max(before.rfind(b"<"), 0)), len(before) - 300, 0) :]
        if (opened >= 0 and before.find(b"-->", opened) < 0) or _HIDDEN.search(near):
            yield _Hit("hidden-markup", hit.start, hit.end)


def _signals(sources: Sequence[Source], whole: bytes, hits: Iterable[_Hit]) -> Iterator[Signal]:
    """The first places of each kind, in the order of the text."""
    starts, place = [], 0
    for source in sources:
        starts.append(place)
        place += len(source.data) + len(_BETWEEN)
    listed: dict[str, int] = {}
    seen: set[tuple[str, int]] = set()
    lines, counted = 0, 0  # line ends up to that place
    for hit in sorted(hits, key=lambda hit: hit.start):
        lines, counted = lines + whole.count(b"\n", counted, hit.start), hit.start
        if listed.get(hit.name, 0) >= _LISTED or (hit.name, lines) in seen:
            continue
        seen.add((hit.name, lines))
        listed[hit.name] = listed.get(hit.name, 0) + 1
        number = bisect_right(starts, hit.start) - 1
        source, start = sources[number], starts[number]
        yield Signal(
            name=hit.name,
            weight=phrases.WEIGHTS[hit.name],
            place=source.place,
            line=source.first_line + lines - whole.count(b"\n", 0, start),
            excerpt=source.data[hit.start - start : min(hit.end - start, hit.start - start + _EXCERPT_BYTES)].strip(),
        )
