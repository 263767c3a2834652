import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.sandbox import elf
from fumehood.sandbox.probe.libraries import LibraryError, libraries_of, system_folders

BASE = 0x1000  # where the file is mapped


def made(*names: bytes, loader: bytes = b"", strings: bool = True) -> bytes:
    """A program that needs these libraries: header, three program headers, the dynamic section, the strings."""
    table = b"\0" + b"".join(name + b"\0" for name in names)
    tags, at = [], 1
    for name in names:
        tags.append((1, at))
        at += len(name) + 1
    start = 64 + 3 * 56
    dynamic_bytes = 16 * (len(tags) + 2)
    where = start + dynamic_bytes
    if strings:
        tags.append((5, BASE + where))
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in tags).ljust(dynamic_bytes, b"\0")
    head = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 3, 0, 0, 0)
    size = where + len(table)
    load = struct.pack("<IIQQQQQQ", 1, 4, 0, BASE, 0, size, size, 1)
    dynamics = struct.pack("<IIQQQQQQ", 2, 4, start, BASE + start, 0, dynamic_bytes, dynamic_bytes, 1)
    interpreter = struct.pack("<IIQQQQQQ", 3 if loader else 0, 4, size, 0, 0, len(loader) + 1, 0, 1)
    return head + load + dynamics + interpreter + dynamic + table + loader + b"\0"


def needed(data: bytes) -> tuple[str, ...] | None:
    return elf.needed(lambda offset, size: data[offset : offset + size])


def test_a_program_names_its_libraries_in_its_order() -> None:
    assert needed(made(b"libb.so.1", b"liba.so")) == ("libb.so.1", "liba.so")


def test_one_that_needs_none_names_none() -> None:
    assert needed(made()) == ()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"#!/bin/sh\n" * 20,
        made(b"../libx.so"),
        made(b""),
        made("lä.so".encode()),
        made(b"liba.so", strings=False),
        made(b"x" * 300),
    ],
)
def test_what_cannot_be_read_has_no_answer(data: bytes) -> None:
    assert needed(data) is None


@given(data=st.binary(max_size=400), cut=st.integers(0, 400))
def test_no_file_makes_the_reader_fail(data: bytes, cut: int) -> None:
    for file in (data, made(b"liba.so")[:cut] + data):
        found = needed(file)
        assert found is None or all("/" not in name for name in found)


def test_libraries_of_libraries_are_found_and_links_are_followed(tmp_path: Path) -> None:
    loader = tmp_path / "ld.so"
    loader.write_bytes(made())
    (tmp_path / "libb.so.1.2").write_bytes(made(b"ld.so"))
    (tmp_path / "libb.so").symlink_to("libb.so.1.2")
    (tmp_path / "liba.so").write_bytes(made(b"libb.so", b"liba.so"))
    program = tmp_path / "program"
    program.write_bytes(made(b"liba.so", b"libb.so", loader=str(loader).encode()))
    assert libraries_of(program, [tmp_path / "none", tmp_path]) == {
        str(loader): loader,
        "liba.so": tmp_path / "liba.so",
        "libb.so": tmp_path / "libb.so.1.2",
    }


def test_a_library_that_is_not_there_is_named(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(made(b"libmissing.so"))
    with pytest.raises(LibraryError, match=r"libmissing\.so"):
        libraries_of(program, [tmp_path])


@pytest.mark.parametrize("content", [None, b"a script"])
def test_a_program_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    program = tmp_path / "program"
    if content is not None:
        program.write_bytes(content)
    with pytest.raises(LibraryError, match="program"):
        libraries_of(program, [tmp_path])


def test_a_library_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "liba.so").write_bytes(b"text")
    program = tmp_path / "program"
    program.write_bytes(made(b"liba.so"))
    with pytest.raises(LibraryError, match=r"liba\.so"):
        libraries_of(program, [tmp_path])


def test_a_loader_that_is_not_there_is_named(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(made(loader=str(tmp_path / "ld.so").encode()))
    with pytest.raises(LibraryError, match=r"ld\.so"):
        libraries_of(program, [tmp_path])


def test_a_chain_of_libraries_without_end_is_cut(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"lib{number}.so").write_bytes(made(f"lib{number + 1}.so".encode()))
    with pytest.raises(LibraryError, match="more than"):
        libraries_of(tmp_path / "lib0.so", [tmp_path])


def test_the_machines_own_folder_comes_first() -> None:
    assert system_folders("aarch64")[0] == Path("/lib/aarch64-linux-gnu")
