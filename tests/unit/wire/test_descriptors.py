"""The wire is taken from under standard input and output, and what is left there leads elsewhere."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fumehood.wire import descriptors


@contextlib.contextmanager
def client() -> Iterator[tuple[int, int]]:
    """What a client has: where it writes, and where it reads. Standard input and output are its, until the end.

    No fixture: pytest puts its own back between the two.
    """
    kept = os.dup(0), os.dup(1)
    to_server, to_client = os.pipe(), os.pipe()
    os.dup2(to_server[0], 0)
    os.dup2(to_client[1], 1)
    try:
        yield to_server[1], to_client[0]
    finally:
        for number, before in enumerate(kept):
            os.dup2(before, number)
        for one in (*kept, *to_server, *to_client):
            os.close(one)


def test_a_claimed_wire_is_private_and_nothing_else_reaches_the_client() -> None:
    with client() as (asking, answered):
        wire = descriptors.claim()
        private = not os.get_inheritable(wire.reading) and not os.get_inheritable(wire.writing)
        left = os.read(0, 1), os.path.samestat(os.fstat(1), os.fstat(2))
        os.write(asking, b"asked")
        heard = descriptors.read_chunk(wire.reading)
        os.write(wire.writing, b"answered")
        said = os.read(answered, 100)
        os.close(wire.reading)
        os.close(wire.writing)
    assert private
    assert left == (b"", True)
    assert (heard, said) == (b"asked", b"answered")


def test_without_stderr_what_is_printed_goes_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "_STDERR", 987)  # no such descriptor
    with client():
        wire = descriptors.claim()
        nowhere = os.fstat(1).st_rdev == Path(os.devnull).stat().st_rdev
        os.close(wire.reading)
        os.close(wire.writing)
    assert nowhere


def test_who_is_gone_is_seen() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        assert not descriptors.nobody_reads(ours.fileno())
        theirs.close()
        assert descriptors.nobody_reads(ours.fileno())
        assert descriptors.read_chunk(ours.fileno()) == b""
    assert descriptors.read_chunk(ours.fileno()) == b""  # no descriptor at all
