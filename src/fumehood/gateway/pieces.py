"""Lines of a peer on their way into the gateway: read at once or in a thread, by their size, and their two ends."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from fumehood.core import limits
from fumehood.wire.lines import Exhausted, Line, Oversized, Piece

_ENDS_BYTES: Final = 256  # of a line that is no message: its id stands there, as libraries write it
_Piece = TypeVar("_Piece", bound=Piece)
_Read = TypeVar("_Read")


def size(piece: Piece) -> int:
    """The bytes of a line that are there."""
    return len(piece.data) if isinstance(piece, Line) else 0


def ends(piece: Piece) -> tuple[bytes, bytes]:
    """The beginning and the end of a line, as far as they are there."""
    match piece:
        case Line(data=data):
            return data[:_ENDS_BYTES], data[-_ENDS_BYTES:]
        case Oversized(prefix=prefix):
            return prefix, b""
        case Exhausted():
            return b"", b""


async def read(piece: _Piece, parse: Callable[[_Piece], _Read]) -> _Read:
    """Read a small line at once and a large one in a thread."""
    return parse(piece) if size(piece) <= limits.FRAME_INLINE_BYTES else await asyncio.to_thread(parse, piece)
