"""The text of one file, with the places that ripgrep gives in it.

ripgrep counts lines by line feeds, in the bytes of the file without a byte order mark, and UTF-16 as UTF-8; what is
shown is UTF-8 with the same lines.
"""

import codecs
import functools
import itertools

from fumehood.content import encoding
from fumehood.content.passage import Passage
from fumehood.core.errors import BinaryFileError
from fumehood.core.untrusted import Untrusted
from fumehood.fence.search import Hit

_LONG_BYTES = 48 * 1024  # a longer line is handed on in part: far more of it than any reply shows
_PART_BYTES = 16 * 1024  # of it, on either side of the place
# What ripgrep makes UTF-8 of before it searches. Without its mark it takes UTF-16 for bytes, and UTF-32 for UTF-16.
_RECODED = {"UTF-16LE with BOM": "utf-16-le", "UTF-16BE with BOM": "utf-16-be"}


class Source:
    """A file's text; lines count from 1."""

    def __init__(self, text: bytes, searched: bytes, encoding: str, codec: str = "utf-8") -> None:
        """`text` is UTF-8; `searched` is what ripgrep's places count in, in `codec`; `encoding` is the file's."""
        self.text = text
        self.encoding = encoding
        self._searched = searched
        self._codec = codec

    @classmethod
    def read(cls, data: bytes) -> "Source | None":
        """The text in a file's bytes; None for an encoding that ripgrep does not read. Errors: BinaryFileError."""
        decoded = encoding.decode(data)
        if decoded is None:
            raise BinaryFileError("the file is binary", remedy="ask for a text file")
        name = decoded.encoding
        if name.startswith("UTF-8"):
            return cls(decoded.text, data.removeprefix(codecs.BOM_UTF8), name)
        if name.startswith("UTF-"):
            codec = _RECODED.get(name)
            return cls(decoded.text, data[2:].decode(codec, "replace").encode(), name) if codec else None
        return cls(decoded.text, data, name, name)

    @functools.cached_property
    def lines(self) -> list[bytes]:
        """Every line, without its end."""
        lines = self.text.split(b"\n")
        if not lines[-1]:
            lines.pop()
        return lines

    def has(self, hit: Hit) -> bool:
        """Whether there is such a line, and it begins there."""
        return 0 < hit.line <= len(self.lines) and _start(self._searched_ends, hit.line) == hit.offset

    def find(self, needle: bytes, lines: int, *, any_case: bool) -> list[Hit] | None:
        """The first lines that hold a text, as ripgrep tells them; None where its folding of case would be needed."""
        text = self._searched
        if any_case:
            if not (text.isascii() and needle.isascii()):
                return None
            text, needle = text.lower(), needle.lower()
        hits: list[Hit] = []
        line, counted, place = 1, 0, text.find(needle)
        while place >= 0 and len(hits) < lines:
            start = text.rfind(b"\n", 0, place) + 1
            line += text.count(b"\n", counted, start)
            hits.append(Hit(line, place - start + 1, start))
            counted, end = start, text.find(b"\n", place)
            place = text.find(needle, end + 1) if end >= 0 else -1
        return hits

    def column(self, hit: Hit) -> int:
        """The column of a hit in characters, from 1."""
        before = self._searched[hit.offset : hit.offset + hit.column - 1]
        return len(before.decode(self._codec, "replace")) + 1

    def passage(self, path: bytes, first: int, last: int, columns: dict[int, int], around_bytes: int) -> Passage:
        """The lines `first` to `last`, with what stands around them; `columns` are those of the hits among them."""
        shown = self.lines[first - 1 : last]
        at = dict(columns)
        for number, line in enumerate(shown, first):
            if len(line) > _LONG_BYTES:
                shown[number - first], at[number] = _part(line, columns.get(number, 1))
        start, end = _start(self._ends, first), _start(self._ends, last + 1)
        return Passage(
            text=Untrusted(b"\n".join(shown) + b"\n", source="file"),
            before=Untrusted(self.text[max(0, start - around_bytes) : start], source="file"),
            after=Untrusted(self.text[end : end + around_bytes], source="file"),
            heading=Untrusted(path, source="name"),
            first_line=first,
            hits=frozenset(columns),
            columns=at,
        )

    @functools.cached_property
    def _ends(self) -> list[int]:
        return _ends(self.text)

    @functools.cached_property
    def _searched_ends(self) -> list[int]:
        return self._ends if self._searched == self.text else _ends(self._searched)


def _ends(text: bytes) -> list[int]:
    """How many bytes stand in the first n lines, their ends not counted."""
    return list(itertools.accumulate(map(len, text.split(b"\n")), initial=0))


def _start(ends: list[int], line: int) -> int:
    """Where a line begins: behind so many lines, and so many ends of one byte."""
    return ends[line - 1] + line - 1


def _part(line: bytes, column: int) -> tuple[bytes, int]:
    """What stands around a column of a line, in whole characters, and the column there."""
    text = line.decode("utf-8", "replace")
    start = max(0, column - 1 - _PART_BYTES)
    return text[start : column - 1 + _PART_BYTES].encode(), column - start
