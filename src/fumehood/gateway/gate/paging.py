"""One list in pages of a bounded size, with cursors that nobody can make up. Pure.

Invariants: the pages of a list, one after the other, are the list, each item once, whatever the size of a page; a
cursor is good for the list that it was given for, as long as that list is the same, and is refused for any other, with
words. It names no item.

Not promised: that a list is still the same when the last page is read; then the client has to begin again.
"""

import base64
import hashlib
import hmac
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fumehood.core import jsonio, limits
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.wire.hosting import HostError

_PLACE: Final = struct.Struct(">16sI16s")  # digest of the list, offset, code of both
_CODE_BYTES: Final = 16
_AGAIN: Final = "ask for the list without a cursor"


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of a list, written once for its size and digest."""

    shown: JsonObject
    size: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Of one page; the first item is given whatever its size."""

    items: int = limits.GATE_PAGE_ITEMS
    size: int = limits.GATE_PAGE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a list, and the cursor of the next one."""

    items: list[JsonValue]
    cursor: str | None


def entry(shown: JsonObject) -> Entry:
    """An item of a list."""
    data = jsonio.line(shown)
    return Entry(shown, len(data), hashlib.sha256(data).digest())


def page(kind: str, entries: Sequence[Entry], cursor: JsonValue, key: bytes, bounds: Bounds | None = None) -> Page:
    """The page of a list of this kind that begins at a cursor; the first one for None. Errors: `HostError`."""
    most = bounds or Bounds()
    digest = _digest(entries)
    begin = 0 if cursor is None else _offset(kind, digest, cursor, key)
    end, size = begin, 0
    while end < len(entries) and end - begin < most.items:
        size += entries[end].size
        if size > most.size and end > begin:
            break
        end += 1
    following = _cursor(kind, digest, end, key) if end < len(entries) else None
    return Page(items=[one.shown for one in entries[begin:end]], cursor=following)


def _digest(entries: Sequence[Entry]) -> bytes:
    return hashlib.sha256(b"".join([one.digest for one in entries])).digest()[:16]


def _cursor(kind: str, digest: bytes, offset: int, key: bytes) -> str:
    place = _PLACE.pack(digest, offset, _code(kind, digest, offset, key))
    return base64.urlsafe_b64encode(place).decode("ascii")


def _code(kind: str, digest: bytes, offset: int, key: bytes) -> bytes:
    said = kind.encode("utf-8") + b"\0" + digest + offset.to_bytes(4, "big")
    return hmac.new(key, said, hashlib.sha256).digest()[:_CODE_BYTES]


def _offset(kind: str, digest: bytes, cursor: JsonValue, key: bytes) -> int:
    """Where a cursor of ours leads."""
    try:
        data = base64.b64decode(cursor if isinstance(cursor, str) else "", altchars=b"-_", validate=True)
        of, offset, code = _PLACE.unpack(data)
    except (ValueError, struct.error):
        raise HostError(f"the cursor is none of this list: {_AGAIN}") from None
    if not hmac.compare_digest(code, _code(kind, of, offset, key)):
        raise HostError(f"the cursor is none of this list: {_AGAIN}")
    if of != digest:
        raise HostError(f"the list has changed since the cursor was given: {_AGAIN}")
    return int(offset)
