"""Read what `git diff` of `fence.git.command` wrote: names first, then lines, or how many. Pure.

Invariants: lines are given to the name whose header stands above them, byte for byte, and to no other; a header that
belongs to no name of the list raises `FormatError`. So whoever judges names has judged every line. A line of content
always begins with a mark, so no content can look like a header.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fumehood.fence.git import names
from fumehood.fence.git.names import Change, FormatError

_HEADER = re.compile(rb"^diff --(?:git|cc|combined) [^\n]*\n", re.MULTILINE)
_FIRST_HUNK = re.compile(rb"^@@ ", re.MULTILINE)
_COUNT = re.compile(rb"([0-9]{1,12}|-)\t([0-9]{1,12}|-)\t([^\0]*)\0")
_LINE = re.compile(rb"[^\n]*\n")
_MARKS = b" +-\\@\n"  # a context line that is empty may come without its space


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """How one name differs. `lines`: hunks with their `@@` lines. Counts are None where git compared bytes."""

    change: Change
    lines: bytes = b""
    added: int | None = None
    removed: int | None = None
    cut: bool = False

    @property
    def sides(self) -> tuple[bytes, bytes]:
        """As much of the old and of the new content as the hunks hold."""
        lines = [line for line in _LINE.findall(self.lines) if not line.startswith((b"@@", b"\\"))]
        old = b"".join(line[1:] for line in lines if not line.startswith(b"+"))
        return old, b"".join(line[1:] for line in lines if not line.startswith(b"-"))


def lines(output: bytes, *, complete: bool = True) -> tuple[FileDifference, ...]:
    """The differences of `--patch`. Not `complete`: the output was cut; the last one says so."""
    changes, rest = names.parse(output, complete=complete)
    text = rest.removeprefix(b"\0")
    if not complete:
        text = text[: text.rfind(b"\n") + 1]
    headers = list(_HEADER.finditer(text))
    if text and (not headers or headers[0].start() != 0):
        raise FormatError("lines without a header")
    ends = [header.start() for header in headers[1:]] + [len(text)] * bool(headers)
    sections = [(header[0], text[header.end() : end]) for header, end in zip(headers, ends, strict=True)]
    found = _given(changes, sections)
    if not complete and found:
        found[-1] = FileDifference(
            change=found[-1].change,
            lines=found[-1].lines,
            added=found[-1].added,
            removed=found[-1].removed,
            cut=True,
        )
    return tuple(found)


def counts(output: bytes, *, complete: bool = True) -> tuple[FileDifference, ...]:
    """The differences of `--numstat`: no lines, only how many."""
    changes, rest = names.parse(output, complete=complete)
    found: list[FileDifference] = []
    at = 0
    for change in changes:
        entry = _COUNT.match(rest, at)
        if entry is None:
            break
        at = entry.end()
        if entry[3] == b"":  # a rename: both names follow
            both = b"".join(path + b"\0" for path in (change.old_path, change.path))
            if not complete and len(rest) - at < len(both):
                break
            if not rest.startswith(both, at):
                raise FormatError("numbers of another name")
            at += len(both)
        elif entry[3] != change.path:
            raise FormatError("numbers of another name")
        found.append(FileDifference(change=change, added=_number(entry[1]), removed=_number(entry[2])))
    if complete and (at != len(rest) or len(found) != len(changes)):
        raise FormatError("names and numbers do not fit")
    return tuple(found)


def header(change: Change) -> bytes:
    """The line above the lines of a name, as git writes it with `core.quotePath` off."""
    return b"diff --git " + names.quoted(b"a/" + change.old_path) + b" " + names.quoted(b"b/" + change.path) + b"\n"


def _given(changes: Sequence[Change], sections: Sequence[tuple[bytes, bytes]]) -> list[FileDifference]:
    """Each section to its name. A name may have none; one that changes its kind has two."""
    found: list[FileDifference] = []
    at = 0
    for change in changes:
        head = header(change)
        bodies = []
        while at < len(sections) and sections[at][0] == head:
            bodies.append(sections[at][1])
            at += 1
        found.append(_difference(change, bodies))
    if at != len(sections):
        raise FormatError("lines of another name")
    return found


def _difference(change: Change, bodies: Sequence[bytes]) -> FileDifference:
    shown: list[bytes] = []
    for body in bodies:
        first = _FIRST_HUNK.search(body)
        if first is not None:
            every = body[first.start() :].split(b"\n")
            every.pop()  # what follows the last line end: nothing
            shown += [line for line in every if not line or line[0] in _MARKS]
    if not shown:
        is_binary = any(body.startswith(b"Binary files ") or b"\nBinary files " in body for body in bodies)
        nothing = None if is_binary else 0
        return FileDifference(change=change, added=nothing, removed=nothing)
    return FileDifference(
        change=change,
        lines=b"".join(line + b"\n" for line in shown),
        added=sum(line.startswith(b"+") for line in shown),
        removed=sum(line.startswith(b"-") for line in shown),
    )


def _number(word: bytes) -> int | None:
    return None if word == b"-" else int(word)
