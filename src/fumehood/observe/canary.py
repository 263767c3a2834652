"""Find planted credentials in bytes, in whatever wrapping a program gives them without a secret of its own. Pure.

A canary is a value that was drawn for one run and stands nowhere else: where it is met, it was read and carried there.
It is looked for as `needles` says, in the data and in everything that `unfold` takes out of it, FOLDS deep.

Invariants: time is linear in the data and in the caller's budget, whatever the data is; memory is the budget and some
windows; no input raises. Threats: floods of noise, decoys made of pieces of the values, members that inflate without
end, folds in folds.

Not promised: anything about encryption, compression other than deflate, alphabets of a program's own, and pieces of
fewer than `needles.PIECE` characters.
"""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fumehood.observe.needles import PIECE, Found, Needles
from fumehood.observe.unfold import Budget, View, is_compressed, squeezed, unwrapped, views

__all__ = ["Budget", "Canary", "Finder", "Sighting", "Stream"]

FOLDS = 3  # in each other: Base64 of gzip of JSON with Base64 in it
WINDOW_BYTES = 8 * 1024 * 1024  # looked at once: two of the largest frames; a multiple of four keeps Base64 in step
_VEIL_BYTES = 64 * 1024  # that may come out of the folds of a text beyond four times its size, when it is veiled
_DOT = ord(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """One planted credential. `values` are what nobody can guess of it, without a prefix that its kind always has."""

    name: str
    values: tuple[bytes, ...]

    def __post_init__(self) -> None:
        """Refuse a value that could be met by chance."""
        if not self.values or any(len(value) < PIECE for value in self.values):
            message = f"a canary needs {PIECE} unpredictable bytes"
            raise ValueError(message)

    def __repr__(self) -> str:
        """The name: a value never reaches a log."""
        return f"Canary({self.name!r})"


@dataclass(frozen=True, slots=True, order=True)
class Sighting:
    """A canary that was met, and its wrapping, the outermost first: `plain`, `base64`, `gzip+hex`."""

    name: str
    encoding: str
    whole: bool  # False: a piece of it


class Finder:
    """Looks for the canaries of one run."""

    def __init__(self, canaries: Iterable[Canary]) -> None:
        """Make the table of what is looked for."""
        self.canaries = tuple(canaries)
        self._needles = Needles((canary.name, value) for canary in self.canaries for value in canary.values)
        self.overlap = max(0, self._needles.longest - 1)  # bytes that a stream keeps of one piece for the next

    def look(self, data: bytes, budget: Budget) -> frozenset[Sighting]:
        """Every canary in `data`. The budget bounds what comes out of folds."""
        best: dict[tuple[str, str], bool] = {}
        for at in range(0, len(data), WINDOW_BYTES):
            window = data[max(0, at - self.overlap) : at + WINDOW_BYTES]
            for found in self._places(window, budget, FOLDS):
                key = (found.name, found.encoding)
                best[key] = best.get(key, False) or found.whole
        return frozenset(Sighting(name, encoding, whole) for (name, encoding), whole in best.items())

    def look_in_name(self, name: bytes, budget: Budget) -> frozenset[Sighting]:
        """The same for a host name, also across its labels."""
        return self.look(name, budget) | self.look(name.replace(b".", b""), budget)

    def look_in_names(self, names: Iterable[bytes], budget: Budget) -> frozenset[Sighting]:
        """What was split over several names of one domain: their labels are joined in order, and column by column."""
        met: set[Sighting] = set()
        for joined in _columns(names):
            met |= self.look(joined, budget)
        return frozenset(met)

    def veil(self, text: str) -> str:
        """`text` with `[canary:NAME]` in the place of each canary, and of the whole of what wraps it."""
        if len(text) < PIECE:
            return text
        data = text.encode("utf-8", "surrogatepass")
        spans = list(self._places(data, Budget(left=4 * len(data) + _VEIL_BYTES), FOLDS))
        spans += self._across_dots(data)
        return text if not spans else _veiled(data, spans).decode("utf-8", "surrogatepass")

    def _across_dots(self, data: bytes) -> list[Found]:
        """What stands across the dots of a name; the places are those of the data with its dots."""
        found = self._needles.find(data.replace(b".", b"")) if b"." in data else []
        if not found:
            return []
        kept = [at for at, byte in enumerate(data) if byte != _DOT]
        return [one._replace(start=kept[one.start], end=kept[one.end - 1] + 1) for one in found]

    def _places(self, data: bytes, budget: Budget, folds: int) -> Iterator[Found]:
        yield from self._needles.find(data)
        bare = squeezed(data)
        if bare is not None and self._needles.touch(bare):
            yield from self._behind(unwrapped(data), budget, 0)
        if folds:
            for view in views(data, budget):
                yield from self._behind(view, budget, folds - 1)

    def _behind(self, view: View, budget: Budget, folds: int) -> Iterator[Found]:
        """What is found in a view, at the places that it came from."""
        inner = self._places(view.data, budget, folds) if view.fold else self._needles.find(view.data)
        for found in inner:
            start, end = view.source(found.start, found.end)
            yield Found(start, end, found.name, _wrapped(view.fold, found.encoding), found.whole)


class Stream:
    """A source that comes in pieces: what stands across two of them is met, also where all is one compressed member."""

    def __init__(self, finder: Finder, budget: Budget) -> None:
        """Nothing came yet."""
        self._finder = finder
        self._budget = budget
        self._tail = b""
        self._inside: Stream | None = None
        self._member: zlib._Decompress | None = None
        self.bytes = 0

    def feed(self, piece: bytes) -> frozenset[Sighting]:
        """What this piece, with the end of those before it, shows."""
        if not self.bytes and is_compressed(piece):
            self._member = zlib.decompressobj(zlib.MAX_WBITS | 32)
            self._inside = Stream(self._finder, self._budget)
        self.bytes += len(piece)
        data = self._tail + piece
        self._tail = data[-self._finder.overlap :] if self._finder.overlap else b""
        met = self._finder.look(data, self._budget)
        return met | self._feed_inside(piece)

    def _feed_inside(self, piece: bytes) -> frozenset[Sighting]:
        if self._member is None or self._inside is None or self._member.eof or self._budget.left <= 0:
            return frozenset()
        try:
            got = self._member.decompress(piece, self._budget.left)
        except zlib.error:
            self._member = None
            return frozenset()
        met = self._inside.feed(got[: self._budget.take(len(got))])
        if self._member.unconsumed_tail:
            self._budget.cut = True
            self._member = None
        return frozenset(Sighting(one.name, _wrapped("gzip", one.encoding), one.whole) for one in met)


def _wrapped(fold: str, encoding: str) -> str:
    if not fold:
        return encoding
    return fold if encoding == "plain" else f"{fold}+{encoding}"


def _columns(names: Iterable[bytes]) -> Iterator[bytes]:
    """For each domain, by its last two labels, the labels at each place from the left, in the order of asking."""
    domains: dict[tuple[bytes, ...], list[list[bytes]]] = {}
    for name in dict.fromkeys(names):  # a question that is repeated, or asked for another type, is one
        labels = name.lower().split(b".")
        domains.setdefault(tuple(labels[-2:]), []).append(labels[:-2])
    for asked in domains.values():
        yield b"".join(b"".join(labels) for labels in asked)
        for column in range(max(len(labels) for labels in asked)):
            yield b"".join(labels[column] for labels in asked if column < len(labels))


def _veiled(data: bytes, spans: Iterable[Found]) -> bytes:
    """The data with a word for each span; spans that overlap are one, named after the first of them."""
    parts: list[bytes] = []
    place = 0
    for span in sorted(spans, key=lambda found: (found.start, -found.end)):
        if span.start >= place:
            parts += [data[place : span.start], b"[canary:" + span.name.encode() + b"]"]
        place = max(place, span.end)
    return b"".join([*parts, data[place:]])
