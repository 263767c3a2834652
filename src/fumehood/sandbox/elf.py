"""Which loader a program asks for (elf(5)), the file that the kernel starts in its place, and which libraries. Pure."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

HEAD_BYTES: Final = 64 * 1024  # header, program headers and the loader's path; in the field they end below 4 KiB

_MAGIC: Final = b"\x7fELF\x02\x01"  # 64 bits, little-endian, as both of our machines
_PROGRAM_HEADERS: Final = (32, 54)  # where the header says their offset, and their size and number
_ENTRY: Final = struct.Struct("<IIQQQQQQ")
_PT_INTERP: Final = 3
_ENTRIES: Final = 128  # ordinary programs have 13
_PT_LOAD: Final = 1
_PT_DYNAMIC: Final = 2
_DYNAMIC: Final = struct.Struct("<QQ")
_DYNAMIC_BYTES: Final = 64 * 1024  # ordinary programs have 600 bytes
_DT_NEEDED: Final = 1
_DT_STRTAB: Final = 5
_NAME_BYTES: Final = 256  # of a library's name, as of any file's


@dataclass(frozen=True, slots=True, kw_only=True)
class Elf:
    """A program; `loader` is empty when it is static."""

    loader: str


def read(head: bytes) -> Elf | None:
    """What the first `HEAD_BYTES` of a file say; None for anything but a program of this kind, scripts among them."""
    entries = _entries(head)
    if entries is None:
        return None
    for kind, _, start, _, _, length, _, _ in entries:
        if kind == _PT_INTERP:
            name = head[start : start + length]
            text = name.removesuffix(b"\0")
            fits = len(name) == length and text.startswith(b"/") and b"\0" not in text and text.isascii()
            return Elf(loader=text.decode("ascii")) if fits else None
    return Elf(loader="")


def _entries(head: bytes) -> list[tuple[int, ...]] | None:
    """The program headers; None for anything else than a file of this kind."""
    if len(head) < _ENTRY.size + 8 or not head.startswith(_MAGIC):
        return None
    (offset,) = struct.unpack_from("<Q", head, _PROGRAM_HEADERS[0])
    size, number = struct.unpack_from("<HH", head, _PROGRAM_HEADERS[1])
    if size != _ENTRY.size or number > _ENTRIES or offset + size * number > len(head):
        return None
    return [_ENTRY.unpack_from(head, offset + size * index) for index in range(number)]


def needed(at: Callable[[int, int], bytes]) -> tuple[str, ...] | None:
    """The libraries that a program or library names itself, in its order (DT_NEEDED); None for what is no ELF.

    `at(offset, size)` gives bytes of the file, fewer at its end. A name with a folder in it makes the answer None.
    """
    entries = _entries(at(0, HEAD_BYTES))
    if entries is None:
        return None
    dynamic = next((entry for entry in entries if entry[0] == _PT_DYNAMIC), None)
    if dynamic is None:
        return ()
    data = at(dynamic[2], min(dynamic[5], _DYNAMIC_BYTES))
    tags = [_DYNAMIC.unpack_from(data, place) for place in range(0, len(data) - _DYNAMIC.size + 1, _DYNAMIC.size)]
    strings = next((value for tag, value in tags if tag == _DT_STRTAB), None)
    table = None if strings is None else _offset(entries, strings)
    if table is None:
        return None if any(tag == _DT_NEEDED for tag, _ in tags) else ()
    names = tuple(_name(at(table + value, _NAME_BYTES)) for tag, value in tags if tag == _DT_NEEDED)
    return names if all(names) else None


def _offset(entries: list[tuple[int, ...]], address: int) -> int | None:
    """Where in the file a virtual address lies."""
    for kind, _, start, begin, _, length, _, _ in entries:
        if kind == _PT_LOAD and begin <= address < begin + length:
            return start + address - begin
    return None


def _name(data: bytes) -> str:
    """A library's file name; empty for anything else."""
    name, end, _ = data.partition(b"\0")
    plain = bool(end) and name.isascii() and b"/" not in name and name not in {b".", b".."}
    return name.decode("ascii") if plain else ""
