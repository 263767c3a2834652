"""Which loader a program asks for (elf(5)): the file that the kernel starts in its place. Pure."""

import struct
from dataclasses import dataclass
from typing import Final

HEAD_BYTES: Final = 64 * 1024  # header, program headers and the loader's path; in the field they end below 4 KiB

_MAGIC: Final = b"\x7fELF\x02\x01"  # 64 bits, little-endian, as both of our machines
_PROGRAM_HEADERS: Final = (32, 54)  # where the header says their offset, and their size and number
_ENTRY: Final = struct.Struct("<IIQQQQQQ")
_PT_INTERP: Final = 3
_ENTRIES: Final = 128  # ordinary programs have 13


@dataclass(frozen=True, slots=True, kw_only=True)
class Elf:
    """A program; `loader` is empty when it is static."""

    loader: str


def read(head: bytes) -> Elf | None:
    """What the first `HEAD_BYTES` of a file say; None for anything but a program of this kind, scripts among them."""
    if len(head) < _ENTRY.size + 8 or not head.startswith(_MAGIC):
        return None
    (offset,) = struct.unpack_from("<Q", head, _PROGRAM_HEADERS[0])
    size, number = struct.unpack_from("<HH", head, _PROGRAM_HEADERS[1])
    if size != _ENTRY.size or number > _ENTRIES or offset + size * number > len(head):
        return None
    for at in range(offset, offset + size * number, size):
        kind, _, start, _, _, length, _, _ = _ENTRY.unpack_from(head, at)
        if kind == _PT_INTERP:
            name = head[start : start + length]
            text = name.removesuffix(b"\0")
            fits = len(name) == length and text.startswith(b"/") and b"\0" not in text and text.isascii()
            return Elf(loader=text.decode("ascii")) if fits else None
    return Elf(loader="")
