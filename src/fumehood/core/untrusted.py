"""Bytes that came from the other side and travel towards a person or a model.

Invariant: an `Untrusted` cannot become text by accident. `str()`, formatting and joining raise; `repr` shows size and
source only. `reveal()` is called by `content.control` and nobody else; a test in `tests/arch` counts its callers.
"""

from typing import NoReturn


class Untrusted:
    """Bytes with the name of their source, closed until a control opens them."""

    __slots__ = ("_data", "source")

    def __init__(self, data: bytes, *, source: str) -> None:
        """Wrap `data`; `source` is a word of ours (`stderr`, `tool result`), never the other side's."""
        self._data = bytes(data)
        self.source = source

    def reveal(self) -> bytes:
        """The bytes as they came. Only a control may call this."""
        return self._data

    def __len__(self) -> int:
        """Size in bytes."""
        return len(self._data)

    def __repr__(self) -> str:
        """Size and source, never content."""
        return f"<Untrusted {len(self._data)} bytes from {self.source}>"

    def __str__(self) -> NoReturn:
        """Refuse."""
        raise TypeError("Untrusted has no text: pass it through a control")

    def __format__(self, spec: str) -> NoReturn:
        """Refuse."""
        raise TypeError("Untrusted cannot be formatted: pass it through a control")

    def __eq__(self, other: object) -> bool:
        """Equal when bytes and source are."""
        return isinstance(other, Untrusted) and (self._data, self.source) == (other._data, other.source)

    def __hash__(self) -> int:
        """Of bytes and source."""
        return hash((self._data, self.source))
