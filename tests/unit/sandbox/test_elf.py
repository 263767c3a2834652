import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.sandbox import elf


def made(path: bytes, *, entries: int = 1, kind: int = 3, length: int | None = None) -> bytes:
    """A head with one program header of `kind`, whose content follows."""
    where = 64 + 56 * entries
    head = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, entries, 0, 0, 0)
    entry = struct.pack("<IIQQQQQQ", kind, 4, where, 0, 0, len(path) if length is None else length, 0, 1)
    return head + entry + b"\0" * 56 * (entries - 1) + path


def test_a_program_names_its_loader() -> None:
    assert elf.read(made(b"/lib64/ld-linux-x86-64.so.2\0")) == elf.Elf(loader="/lib64/ld-linux-x86-64.so.2")


def test_a_static_program_names_none() -> None:
    assert elf.read(made(b"", kind=1)) == elf.Elf(loader="")


def test_this_interpreter_is_read_as_the_kernel_reads_it() -> None:
    with Path(sys.executable).resolve().open("rb") as file:
        program = elf.read(file.read(elf.HEAD_BYTES))
    assert program is not None
    assert not program.loader or Path(program.loader).is_file()


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"#!/bin/sh\nexec git\n" * 10,
        b"\x7fELF\x01\x01" + made(b"/l\0")[6:],  # 32 bits
        made(b"relative\0"),
        made(b"/two\0words\0"),
        made(b"/cut\0", length=400),
        made("/läder\0".encode()),
        made(b"/l\0")[:100],
        made(b"/l\0", entries=500),
    ],
)
def test_anything_else_is_no_program(head: bytes) -> None:
    assert elf.read(head) is None


@given(st.binary(max_size=400), st.integers(0, 200))
def test_no_bytes_are_too_odd(noise: bytes, at: int) -> None:
    whole = made(b"/lib/ld.so\0")
    for head in (noise, whole[:at] + noise, whole[:at] + noise + whole[at + len(noise) :]):
        found = elf.read(head)
        assert found is None or not found.loader or found.loader.startswith("/")
