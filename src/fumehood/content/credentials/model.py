"""What a rule is, and what it finds. Pure."""

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One credential: `start` and `end` count bytes, or characters where a text was looked at."""

    start: int
    end: int
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a check is given: the value, the name that it was assigned to (empty where there is none), and its place."""

    value: bytes
    name: bytes
    data: bytes
    start: int
    end: int


Check = Callable[[Found], bool]


def always(_: Found) -> bool:
    """The check of a rule whose pattern says it all."""
    return True


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One expression, tried where one of the `keywords` (lower case, at least three bytes) stands.

    A match begins at the keyword, or as many bytes before it as one of `behind` says; a group that matched is what is
    replaced. `verified` tells a value with a right checksum or structure from its like.
    """

    name: str
    source: str
    keywords: tuple[bytes, ...]
    expression: bytes
    behind: tuple[int, ...] = (0,)
    accepts: Check = always
    verified: Check = always

    @functools.cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """Compiled when it is first tried: two hundred at once take 60 ms."""
        return re.compile(self.expression)


class Extra(Protocol):
    """Rules of an operator."""

    def find(self, data: bytes, lowered: bytes) -> Iterable[Span]:
        """The credentials that they see in `data`; `lowered` is the same in ASCII lower case."""
        ...
