"""Signals that content speaks to a model rather than to its reader. Pure.

Not promised: that every such text is found, or that what is found is meant so. A signal is information.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import re2

Place = Literal["text", "heading", "facts"]
Level = Literal["none", "low", "medium", "high"]
_LOW, _MEDIUM, _HIGH = 0.2, 0.4, 0.7


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
    """Every signal, and what they come to together."""

    signals: tuple[Signal, ...]
    risk: float
    level: Level


NOTHING = Findings(signals=(), risk=0.0, level="none")

_OVERRIDE = re2.compile(
    rb"(?i)\b(?:ignore|disregard|forget|override)\b[^\n]{0,40}\b(?:previous|prior|above|earlier|preceding)\b[^\n]{0,20}"
    rb"\b(?:instructions?|prompts?|rules|directives?)\b"
)


def scan(sources: Iterable[Source]) -> Findings:
    """Every signal in the sources."""
    signals = tuple(signal for source in sources for signal in _signals(source))
    risk = combined([signal.weight for signal in signals])
    return Findings(signals=signals, risk=risk, level=level(risk))


def combined(weights: Iterable[float]) -> float:
    """Noisy-OR: the chance that at least one of independent signals is right."""
    missed = 1.0
    for weight in weights:
        missed *= 1.0 - weight
    return round(1.0 - missed, 4)


def level(risk: float) -> Level:
    """A word for a risk."""
    return "high" if risk >= _HIGH else "medium" if risk >= _MEDIUM else "low" if risk >= _LOW else "none"


def _signals(source: Source) -> Iterable[Signal]:
    for match in _OVERRIDE.finditer(source.data):
        line = source.first_line + source.data.count(b"\n", 0, match.start())
        yield Signal(name="instruction-override", weight=0.7, place=source.place, line=line, excerpt=match[0][:120])
