"""What a process behind walls and the writer of its audit log say to each other, one message at a time. Pure.

A record is `NUMBER` and the JSON of a `Call`; its answer `ANSWER` (the same number; `KEPT` or not) and, where it is not
kept, why. Before the first one the writer says `Said`, on the first socket alone.
"""

import struct
from typing import Final

from msgspec import Struct

from fumehood.sandbox.containment import Wall

NUMBER: Final = struct.Struct(">Q")
ANSWER: Final = struct.Struct(">QB")
KEPT: Final = 1
UNKEPT: Final = 0
READY_BYTES: Final = 64 * 1024  # of a `Said`: a dozen walls, or two sentences


class Said(Struct, frozen=True, kw_only=True):
    """That the log is open, or why it is not."""

    words: str = ""  # empty: it is open
    remedy: str = ""
    walls: tuple[Wall, ...] = ()  # around the writer
    refused: bool = False  # the place of the log is refused, as opposed to a fault of the disk
