"""Read what `git log` of `fence.git.command` wrote. Pure.

Invariants: a commit is given only when all its fields and all names of its files have arrived; what a bound cut off
is not guessed at. Names and texts stay bytes. What does not follow the format raises `FormatError`: git, or a part of
it that a repository replaced, said something else.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from fumehood.core import limits
from fumehood.fence.git import command
from fumehood.fence.git.names import Change, FormatError, change

_HEX = frozenset(b"0123456789abcdef")
_ID_CHARACTERS = (40, 64)  # SHA-1 and SHA-256


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One commit. `message` is as it was written, recoded to UTF-8 where the commit names another encoding."""

    commit: str
    parents: tuple[str, ...]
    author: bytes
    email: bytes
    date: str  # ISO 8601, the author's
    message: bytes
    changes: tuple[Change, ...]  # the first of them
    changed: int  # how many there are


def parse(output: bytes, *, complete: bool = True) -> tuple[Entry, ...]:
    """Every commit in order. Not `complete`: the output was cut, and its last commit is dropped."""
    words = output.split(b"\0")
    if words.pop() and complete:
        raise FormatError("a commit has no end")
    return tuple(_entries(words, complete=complete))


def _entries(words: list[bytes], *, complete: bool) -> Iterator[Entry]:
    count = len(command.FIELDS)
    at = 0
    while at < len(words):
        fields = words[at : at + count + 1]  # the last is the empty one that ends the format
        if len(fields) <= count:
            if complete:
                raise FormatError("a commit has too few fields")
            return
        if fields[count] != b"":
            raise FormatError("a commit has too many fields")
        first = at + count + 1
        changes, at = _changes(words, first, complete=complete)
        if complete or at < len(words):
            yield _entry(fields, changes, (at - first) // 2)


def _changes(words: list[bytes], at: int, *, complete: bool) -> tuple[tuple[Change, ...], int]:
    """The changes that begin at a word, as far as they are read, and the word behind all of them."""
    if at < len(words):
        words[at] = words[at].removeprefix(b"\n")
    end = at
    while end < len(words) and words[end].startswith(b":"):
        end += 2
    if end > len(words):
        if complete:
            raise FormatError("a change has no name")
        return (), len(words)
    last = min(end, at + 2 * limits.LOG_CHANGES)
    return tuple(change(words[number], words[number + 1]) for number in range(at, last, 2)), end


def _entry(fields: list[bytes], changes: tuple[Change, ...], changed: int) -> Entry:
    commit, parents, author, email, date, message = fields[: len(command.FIELDS)]
    return Entry(
        commit=_id(commit),
        parents=tuple(_id(parent) for parent in parents.split()),
        author=author,
        email=email,
        date=_date(date),
        message=message.strip(b"\n"),
        changes=changes,
        changed=changed,
    )


def _id(word: bytes) -> str:
    if len(word) not in _ID_CHARACTERS or not _HEX.issuperset(word):
        raise FormatError("a commit has no id")
    return word.decode("ascii")


def _date(word: bytes) -> str:
    """A date as git writes it; a commit whose date is broken has none."""
    return word.decode("ascii") if len(word) <= len("2026-01-01T00:00:00+00:00") and word.isascii() else ""
