"""Text out of a repository, made fit for a passage: UTF-8, whole lines, cut between characters. Pure."""

import re

_LINE_END = re.compile(rb"\r+\n")
_REPLACEMENT = "�"


def utf8(data: bytes) -> tuple[bytes, int]:
    """The text as UTF-8, and how many sequences of bytes that are not UTF-8 became U+FFFD."""
    if data.isascii():
        return data, 0
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        return text.encode("utf-8"), text.count(_REPLACEMENT) - data.count(_REPLACEMENT.encode("utf-8"))
    return data, 0


def cut(data: bytes, limit: int) -> tuple[bytes, bytes]:
    """UTF-8 in two parts, the first of at most `limit` bytes: at a line end if there is one, never in a character."""
    if len(data) <= limit:
        return data, b""
    end = data.rfind(b"\n", 0, limit) + 1
    if end == 0:
        end = limit
        while end > 0 and data[end] & 0xC0 == 0x80:  # noqa: PLR2004 - a byte 10xxxxxx goes on with a character
            end -= 1
    return data[:end], data[end:]


def lines(data: bytes) -> bytes:
    """Lines ended by a line feed alone, the last one too."""
    text = data if not data or data.endswith(b"\n") else data + b"\n"
    return _LINE_END.sub(b"\n", text) if b"\r" in text else text
