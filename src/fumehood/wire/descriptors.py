"""Standard input and output as the wire of a server, its alone (T13).

Invariants: the wire is two private descriptors that no child inherits; descriptor 1 is stderr afterwards, so that
nothing which a library or a child prints can reach the client.
"""

import contextlib
import fcntl
import os
import select
from dataclasses import dataclass
from typing import Final

from fumehood.core import limits

CHUNK_BYTES: Final = 64 * limits.KIB  # a pipe's own size
_PIPE_BYTES: Final = 1024 * limits.KIB  # of our answers: one is then written at once, and not by turns with its reader
_STDERR: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """The two descriptors of the wire; no child inherits them."""

    reading: int
    writing: int


def claim() -> Wire:
    """Take standard input and output for the wire, before anything else could print.

    Descriptor 0 is the null device afterwards and descriptor 1 is stderr (or the null device where there is none).
    """
    wire = Wire(reading=_private(0), writing=_private(1))
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 0)
    try:
        os.dup2(_STDERR, 1)
    except OSError:
        os.dup2(null, 1)
    os.close(null)
    with contextlib.suppress(OSError):  # no pipe, or the user's pipes hold as much as they may
        fcntl.fcntl(wire.writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return wire


def _private(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


def read_chunk(descriptor: int) -> bytes:
    """Some bytes; empty at the end."""
    try:
        return os.read(descriptor, CHUNK_BYTES)
    except OSError:  # a terminal that hung up, a socket that was reset
        return b""


def nobody_reads(descriptor: int) -> bool:
    """Whether the other end of a pipe or socket is closed."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
