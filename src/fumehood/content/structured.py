"""The structured half of a reply, as pieces that a search sees, and rebuilt from what the search left. Pure.

Invariants: every string of it, keys and values at every depth, is a piece, beside the key under which it stands;
numbers, truths and the order of members stay as they are.
"""

from collections.abc import Iterator, Mapping, Sequence

from fumehood.content.pieces import Edited, Pieces
from fumehood.core.jsonio import JsonValue


class Facts:
    """One structured half, laid down among other pieces."""

    __slots__ = ("_facts", "_first", "_strings")

    def __init__(self, facts: Mapping[str, JsonValue], pieces: Pieces) -> None:
        """Add every string to `pieces`."""
        self._facts = facts
        self._first = len(pieces)
        self._strings = list(_pairs("", dict(facts)))
        for key, value in self._strings:
            pieces.add_pair(_bytes(key), _bytes(value))

    def texts(self, edited: Sequence[Edited]) -> bytes:
        """Every key and value, one a line."""
        return b"\n".join([piece.data for piece in edited[self._first :]])

    def rebuilt(self, edited: Sequence[Edited]) -> dict[str, JsonValue]:
        """The same structure of what is left of its strings."""
        pieces = edited[self._first :]
        if not any(piece.edits for piece in pieces):
            return dict(self._facts)
        keys = {
            key: text(piece.data) for (key, _), piece in zip(self._strings, pieces[::2], strict=True) if piece.edits
        }
        values = iter([text(piece.data) for piece in pieces[1::2]])
        return _members(self._facts, keys, values)


def text(data: bytes) -> str:
    """A piece as text again."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # a find has ended inside a character
        return data.decode("utf-8", "replace")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _pairs(key: str, value: JsonValue) -> Iterator[tuple[str, str]]:
    """Each string with the key above it, and each key, in the order of `_rebuilt`."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, member in value.items():
            if not isinstance(member, str):
                yield name, ""
            yield from _pairs(name, member)
    elif isinstance(value, list):
        for item in value:
            yield from _pairs(key, item)


def _rebuilt(value: JsonValue, keys: Mapping[str, str], values: Iterator[str]) -> JsonValue:
    if isinstance(value, str):
        return next(values)
    if isinstance(value, dict):
        return _members(value, keys, values)
    if isinstance(value, list):
        return [_rebuilt(item, keys, values) for item in value]
    return value


def _members(value: Mapping[str, JsonValue], keys: Mapping[str, str], values: Iterator[str]) -> dict[str, JsonValue]:
    members: dict[str, JsonValue] = {}
    for name, member in value.items():
        if not isinstance(member, str):
            next(values)  # the key stood alone
        members[keys.get(name, name)] = _rebuilt(member, keys, values)
    return members
