"""Narrow the hunks of a difference to the context that was asked for, and keep what stands around them. Pure.

git is asked for more lines around a change than are shown, so that who looks for credentials sees the beginning and the
end of a key of which only the middle has changed. Invariants: `before`, `lines` and `after` of a hunk are consecutive
lines of git's own; without the words behind the second `@@`, the hunks are those that git gives for that context
(a property test compares them). Those words are left out: they are a line of the file, and may be one of a key.

The format is GNU diff's unified one, "Detailed Description of Unified Format", with git's omission of a count of one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fumehood.core import limits

_HEADER = re.compile(rb"@@ -([0-9]{1,12})(?:,([0-9]{1,12}))? \+([0-9]{1,12})(?:,([0-9]{1,12}))? @@")
_LINE = re.compile(rb"[^\n]*\n(?:\\[^\n]*\n)?")  # with `\ No newline at end of file`, which belongs to it
_AROUND_BYTES = 16 * 1024  # as far as a private key can reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """One hunk. Its lines begin with a space, `+` or `-`; `before` and `after` likewise, and are not shown."""

    header: bytes
    lines: bytes
    before: bytes = b""
    after: bytes = b""


@dataclass(frozen=True, slots=True)
class _Row:
    mark: bytes
    line: bytes
    old: int  # the number that it has, or that the next one has
    new: int


def narrowed(wide: bytes, context: int) -> Iterator[Hunk]:
    """The hunks of one file with `context` lines around each change."""
    headers = list(re.finditer(rb"^@@ [^\n]*\n", wide, re.MULTILINE))
    ends = [header.start() for header in headers[1:]] + [len(wide)] * bool(headers)
    for header, end in zip(headers, ends, strict=True):
        numbers = _HEADER.match(header[0])
        if numbers is not None:
            first = (_first(numbers[1], numbers[2]), _first(numbers[3], numbers[4]))
            yield from _parts(_rows(wide[header.end() : end], *first), context)


def _first(start: bytes, count: bytes | None) -> int:
    """The number of the first line on a side; where a side has none, its start is the line before."""
    return int(start) + (count is not None and int(count) == 0)


def _rows(body: bytes, old: int, new: int) -> list[_Row]:
    rows: list[_Row] = []
    for line in _LINE.findall(body):
        mark = line[:1] if line[:1] in (b"+", b"-") else b" "
        rows.append(_Row(mark, line, old, new))
        old += mark != b"+"
        new += mark != b"-"
    return rows


def _parts(rows: list[_Row], context: int) -> Iterator[Hunk]:
    changed = [number for number, row in enumerate(rows) if row.mark != b" "]
    groups: list[tuple[int, int]] = []
    for number in changed:
        if groups and number - groups[-1][1] - 1 <= 2 * context:
            groups[-1] = (groups[-1][0], number)
        else:
            groups.append((number, number))
    for first, last in groups:
        low, high = max(0, first - context), min(len(rows), last + 1 + context)
        yield Hunk(
            header=_header(rows[low:high]),
            lines=b"".join(row.line for row in rows[low:high]),
            before=b"".join(row.line for row in rows[max(0, low - limits.DIFF_AROUND_LINES) : low])[-_AROUND_BYTES:],
            after=b"".join(row.line for row in rows[high : high + limits.DIFF_AROUND_LINES])[:_AROUND_BYTES],
        )


def _header(rows: list[_Row]) -> bytes:
    sides = []
    for sign, absent in ((b"-", b"+"), (b"+", b"-")):
        count = sum(row.mark != absent for row in rows)
        start = rows[0].old if sign == b"-" else rows[0].new
        start -= count == 0
        sides.append(sign + b"%d" % start + (b"" if count == 1 else b",%d" % count))
    return b"@@ " + b" ".join(sides) + b" @@"
