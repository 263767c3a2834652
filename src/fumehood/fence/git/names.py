"""Read git's `--raw -z`: which names differ, and how. Pure.

    :100644 100644 bcd1234 0123456 M NUL path NUL
    :100644 100644 bcd1234 0123456 R086 NUL old NUL new NUL

See git-diff-files(1), "RAW OUTPUT FORMAT". Names are bytes as they stand in the tree.
"""

import re
from dataclasses import dataclass

_RAW = re.compile(rb":([0-7]{6}) ([0-7]{6}) [0-9a-f]+ [0-9a-f]+ ([ACDMRTUX])([0-9]{0,3})")
_QUOTED = re.compile(rb'[\x00-\x1f"\\\x7f]')
_ESCAPES = {7: b"\\a", 8: b"\\b", 9: b"\\t", 10: b"\\n", 11: b"\\v", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}
_LINK, _SUBMODULE = 0o120000, 0o160000
_KIND = 0o170000


class FormatError(ValueError):
    """Output that git's format does not allow; the message holds nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One name that differs. `status` is git's letter; `old_path` is another name only for renames and copies."""

    status: str
    path: bytes
    old_path: bytes
    old_mode: int
    new_mode: int

    @property
    def paths(self) -> tuple[bytes, ...]:
        """Every name in it."""
        return (self.path,) if self.path == self.old_path else (self.old_path, self.path)

    @property
    def leads_out(self) -> bool:
        """Whether a name is none of a tree: absolute, or with an empty part, `.` or `..`; an index may hold any."""
        return any(part in (b"", b".", b"..") for path in self.paths for part in path.split(b"/"))

    @property
    def is_link(self) -> bool:
        """Whether one side is a symbolic link, whose content is where it points."""
        return _LINK in (self.old_mode & _KIND, self.new_mode & _KIND)

    @property
    def is_submodule(self) -> bool:
        """Whether one side is another repository."""
        return _SUBMODULE in (self.old_mode & _KIND, self.new_mode & _KIND)


def change(head: bytes, path: bytes, new_path: bytes | None = None) -> Change:
    """One entry from its words."""
    found = _RAW.fullmatch(head)
    if found is None or not path or new_path == b"":
        raise FormatError("a change is not of the raw format")
    return Change(
        status=found[3].decode("ascii"),
        path=path if new_path is None else new_path,
        old_path=path,
        old_mode=int(found[1], 8),
        new_mode=int(found[2], 8),
    )


def parse(output: bytes, *, complete: bool = True) -> tuple[tuple[Change, ...], bytes]:
    """The entries at the beginning of an output, and what follows them. Not `complete`: the output was cut."""
    changes: list[Change] = []
    at = 0
    while output.startswith(b":", at):
        entry = _entry(output, at)
        if entry is None:
            if complete:
                raise FormatError("a change has no name")
            return tuple(changes), b""
        found, at = entry
        changes.append(found)
    return tuple(changes), output[at:]


def quoted(path: bytes) -> bytes:
    """A name on one line, as git writes it with `core.quotePath` off: in quotes, with escapes, where it has to be."""
    if not _QUOTED.search(path):
        return path
    return b'"' + _QUOTED.sub(lambda found: _ESCAPES.get(found[0][0], b"\\%03o" % found[0][0]), path) + b'"'


def _entry(output: bytes, at: int) -> tuple[Change, int] | None:
    """The entry that begins here, and its end; None when it has none."""
    words: list[bytes] = []
    count = 2
    while len(words) < count:
        end = output.find(b"\0", at)
        if end < 0:
            return None
        words.append(output[at:end])
        at = end + 1
        if len(words) == 1 and _renames(words[0]):
            count = 3
    return change(*words), at


def _renames(head: bytes) -> bool:
    found = _RAW.fullmatch(head)
    return found is not None and found[3] in (b"R", b"C")
