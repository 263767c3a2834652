"""What the end of a log says to who goes on with it. Pure.

Invariant: a chain is gone on with only behind a line that is one, where everything after that line may be what a crash
left unfinished. A line that was changed is no such thing, and nothing is written after it.
"""

import hashlib
from dataclasses import dataclass

from fumehood.core import limits
from fumehood.gateway.audit import chain
from fumehood.gateway.audit.chain import NoLine, Position
from fumehood.gateway.audit.faults import AuditPlaceError
from fumehood.gateway.audit.record import Recovered


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """Where a chain stands, and what has to be written before the next event."""

    position: Position | None  # None: there is no line in these bytes
    ending: bytes  # that the last piece lacks
    torn: Recovered | None  # to be stated first


def look(data: bytes, *, whole: bool) -> Tail:
    """Read the last bytes of a file; `whole` when they are all it has. Errors: `AuditPlaceError`."""
    *pieces, rest = data.split(b"\n")
    ended = [piece + b"\n" for piece in (*pieces, rest)] if rest else [piece + b"\n" for piece in pieces]
    ending = b"\n" if rest else b""
    torn: list[bytes] = []
    for piece in reversed(ended if whole else ended[1:]):  # the first one may have begun before
        found = chain.read(piece)
        if not isinstance(found, NoLine):
            position = Position(sequence=found.sequence, digest=found.digest)
            return Tail(position=position, ending=ending, torn=_stated(torn))
        if not found.torn:
            raise _broken(found.reason)
        torn.insert(0, piece)
    if not whole:
        raise _broken("there is no line in its last part")
    return Tail(position=None, ending=ending, torn=_stated(torn))


def _stated(torn: list[bytes]) -> Recovered | None:
    data = b"".join(torn)
    if len(data) > limits.AUDIT_TORN_BYTES:
        raise _broken(f"{len(data)} bytes at its end are no line")
    return Recovered(torn_bytes=len(data), torn_sha256=hashlib.sha256(data).hexdigest()) if data else None


def _broken(reason: str) -> AuditPlaceError:
    words = f"the audit log is refused: it is broken at its end: {reason}"
    return AuditPlaceError(words, remedy="keep it, look at it with `fumehood audit verify`, and begin a new one")
