"""The wire is taken from under standard input and output, and what is left there leads elsewhere."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fumehood.wire import descriptors


@pytest.fixture
def client() -> Iterator[tuple[int, int]]:
    """What a client has: where it writes, and where it reads. Standard input and output are its, until the end."""
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


def test_a_claimed_wire_is_private_and_nothing_else_reaches_the_client(client: tuple[int, int]) -> None:
    wire = descriptors.claim()
    try:
        assert not os.get_inheritable(wire.reading)
        assert not os.get_inheritable(wire.writing)
        assert os.read(0, 1) == b""
        assert os.fstat(1) == os.fstat(2)
        os.write(client[0], b"asked")
        assert descriptors.read_chunk(wire.reading) == b"asked"
        os.write(wire.writing, b"answered")
        assert os.read(client[1], 100) == b"answered"
    finally:
        os.close(wire.reading)
        os.close(wire.writing)


def test_without_stderr_what_is_printed_goes_nowhere(client: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    del client
    monkeypatch.setattr(descriptors, "_STDERR", 987)  # no such descriptor
    wire = descriptors.claim()
    try:
        assert os.fstat(1).st_rdev == Path(os.devnull).stat().st_rdev
    finally:
        os.close(wire.reading)
        os.close(wire.writing)


def test_who_is_gone_is_seen() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        assert not descriptors.nobody_reads(ours.fileno())
        theirs.close()
        assert descriptors.nobody_reads(ours.fileno())
        assert descriptors.read_chunk(ours.fileno()) == b""
    assert descriptors.read_chunk(ours.fileno()) == b""  # no descriptor at all
