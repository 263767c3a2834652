"""Find many keywords in one pass. Pure.

With `ahocorasick_rs` (the extra `serve`) a pass costs 0.3 ms per 100 KB whatever the number of keywords; without it
each keyword is looked for on its own, which is enough for the short texts of a review.
"""

from collections.abc import Iterator, Sequence
from typing import Any

_OPENED = 1 << 16  # bytes looked at in one go: a hostile megabyte makes a million hits, and each is an object


class Keywords:
    """Keywords in lower case, in their order; hits overlap."""

    __slots__ = ("_automaton", "_longest", "_words")

    def __init__(self, words: Sequence[bytes]) -> None:
        """Build once, use for every text."""
        self._words = tuple(words)
        self._longest = max(map(len, words), default=1)
        self._automaton = _automaton(self._words)

    def hits(self, lowered: bytes) -> Iterator[tuple[int, int]]:
        """The number of a keyword and where it begins, window by window; within one in the order of their ends."""
        for begin in range(0, len(lowered), _OPENED):
            window = lowered[begin : begin + _OPENED + self._longest - 1]
            for number, start in self._within(window):
                if start < _OPENED:
                    yield number, begin + start

    def _within(self, window: bytes) -> list[tuple[int, int]]:
        if self._automaton is None:
            return list(_each(self._words, window))
        found = self._automaton.find_matches_as_indexes(window, overlapping=True)
        return [(number, start) for number, start, _ in found]


def _each(words: Sequence[bytes], window: bytes) -> Iterator[tuple[int, int]]:
    for number, word in enumerate(words):
        start = window.find(word)
        while start >= 0:
            yield number, start
            start = window.find(word, start + 1)


def _automaton(words: Sequence[bytes]) -> Any:  # noqa: ANN401 - the class is there only with the extra
    try:
        import ahocorasick_rs  # noqa: PLC0415 - `--help` and a review that prints nothing do without
    except ImportError:
        return None
    return ahocorasick_rs.BytesAhoCorasick(words, implementation=ahocorasick_rs.Implementation.DFA)
