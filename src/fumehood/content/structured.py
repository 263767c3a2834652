"""The structured half of a reply, as pieces that a search sees, and rebuilt from what the search left. Pure.

Invariants: every string of it, keys and values at every depth, is a piece, beside the key under which it stands;
numbers, truths and the order of members stay as they are.
"""

from collections.abc import Iterator, Mapping

from fumehood.content.pieces import Left, Pieces
from fumehood.core.jsonio import JsonValue


class Facts:
    """One structured half, laid down among other pieces."""

    __slots__ = ("_facts", "_first", "_strings")

    def __init__(self, facts: dict[str, JsonValue], pieces: Pieces) -> None:
        """Add every string to `pieces`."""
        self._facts = facts
        self._first = len(pieces)
        self._strings: list[tuple[str, str]] = []
        _collect("", facts, self._strings)
        keys = {key: _bytes(key) for key, _ in self._strings}
        pieces.add_pairs([(keys[key], _bytes(value)) for key, value in self._strings])

    def texts(self, left: Left) -> bytes:
        """Every key once and every value, one a line."""
        values = [left.data(self._first + 2 * number + 1) for number in range(len(self._strings))]
        return b"\n".join([*(_bytes(key) for key in self._keys(left).values()), *values])

    def rebuilt(self, left: Left) -> dict[str, JsonValue]:
        """The same structure of what is left of its strings."""
        if not left.is_changed(self._first):
            return self._facts
        values = iter([text(left.data(self._first + 2 * number + 1)) for number in range(len(self._strings))])
        return _members(self._facts, self._keys(left), values)

    def _keys(self, left: Left) -> dict[str, str]:
        """What is left of each key."""
        if not left.is_changed(self._first):
            return {key: key for key, _ in self._strings}
        return {key: text(left.data(self._first + 2 * number)) for number, (key, _) in enumerate(self._strings)}


def text(data: bytes) -> str:
    """A piece as text again."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # a find has ended inside a character
        return data.decode("utf-8", "replace")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _collect(key: str, value: JsonValue, strings: list[tuple[str, str]]) -> None:
    """Each string with the key above it, and each key, in the order of `_rebuilt`."""
    if isinstance(value, str):
        strings.append((key, value))
    elif isinstance(value, dict):
        for name, member in value.items():
            if not isinstance(member, str):
                strings.append((name, ""))
            _collect(name, member, strings)
    elif isinstance(value, list):
        for item in value:
            _collect(key, item, strings)


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
        members[keys[name]] = _rebuilt(member, keys, values)
    return members
