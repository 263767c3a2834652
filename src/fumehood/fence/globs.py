"""Globs as every tool and list of ours reads them, matched in linear time. Pure: the same on all systems.

    *        any characters of one name          ?        one character of a name
    [a-z]    one of these; [!a-z] none of them   {a,b}    one or the other
    **       any number of folders, none included

A glob without a `/` is matched against the name at any depth; one with a `/`, also at its beginning or as `./`, against
the whole path below the folder that is looked through. A trailing `/` means everything below, a backslash separates as
`/` does, and case counts. A character that stands for itself is written in brackets: `[*]`.

Linear: a `*` takes the first place where what follows it fits and never comes back, which is enough because what
stands between two stars has one length; the same holds for `**` and folders.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import count

from fumehood.core import limits
from fumehood.core.errors import BadPatternError

_SEPARATORS = re.compile(r"[/\\]+")
_MARK = re.compile(r"\*+|\[[!^]?\]?[^\]]*\]|.", re.DOTALL)
_ANY = "**"


def expanded(glob: str) -> list[str]:
    """A glob as many, without braces; BadPatternError for more choices than GLOB_CHOICES and for a brace left open."""
    results = [""]
    open_braces: list[tuple[list[str], list[str]]] = []  # what stood before, and the choices so far
    for mark in _MARK.findall(glob):
        if mark == "{":
            open_braces.append((results, []))
            results = [""]
        elif mark == "," and open_braces:
            open_braces[-1][1].extend(results)
            results = [""]
        elif mark == "}" and open_braces:
            before, choices = open_braces.pop()
            choices.extend(results)
            _bounded(len(before) * len(choices))
            results = [b + c for b in before for c in choices]
        elif mark == "[":
            raise BadPatternError("the glob has a `[` without its `]`", remedy="close it, or write `[[]`")
        else:
            results = [r + mark for r in results]
    if open_braces:
        raise BadPatternError("the glob has a `{` without its `}`", remedy="close it, or write `[{]`")
    return results


def expression(component: str, groups: Iterator[int]) -> str:
    """A glob of one component, without braces, as a regular expression of Python; `groups` number what it captures."""
    pieces = [""]
    for mark in _MARK.findall(component):
        if mark[0] == "*":
            pieces.append("")
        elif mark == "?":
            pieces[-1] += "."
        else:
            pieces[-1] += re.escape(mark) if mark[0] != "[" or mark in ("[", "[]") else _class(mark)
    first, *rest = pieces
    if not rest:
        return first
    middle = (f"(?=(?P<g{n}>.*?{piece}))(?P=g{n})" for piece, n in zip(rest[:-1], groups, strict=False))
    return f"{first}{''.join(middle)}.*{rest[-1]}"


def compiled(components: Sequence[str]) -> re.Pattern[str]:
    """One pattern for names that any of some globs of one component match; for `fullmatch`."""
    groups = count()
    return re.compile("|".join(f"(?:{expression(component, groups)})" for component in components), re.DOTALL)


class Glob:
    """A glob that a path below a folder matches or not. A bad one is BadPatternError."""

    __slots__ = ("_anchored", "_name", "text")

    def __init__(self, text: str) -> None:
        """Read a glob."""
        if len(text) > limits.PATTERN_CHARACTERS or not text or "\0" in text:
            raise BadPatternError(
                f"a glob has 1 to {limits.PATTERN_CHARACTERS} characters and no NUL", remedy="write a shorter glob"
            )
        parted = [_components(choice) for choice in expanded(text)]
        named = [parts[0] for anchored, parts in parted if not anchored]
        self.text = text
        self._name = compiled(named) if named else None
        self._anchored = [_Anchored(parts) for anchored, parts in parted if anchored]

    def matches(self, folder: Sequence[str], name: str) -> bool:
        """Whether a file of this name in these folders, below the one that is looked through, is meant."""
        if self._name is not None and self._name.fullmatch(name):
            return True
        ending = [anchored for anchored in self._anchored if anchored.last(name)]  # few, and most often none
        return bool(ending) and any(anchored.matches((*folder, name)) for anchored in ending)

    def may_lead_to(self, folder: Sequence[str]) -> bool:
        """Whether anything in or below this folder can match."""
        return self._name is not None or any(anchored.may_lead_to(folder) for anchored in self._anchored)


class _Anchored:
    """Runs of components between `**`; the first begins at the top, the last ends with the path."""

    __slots__ = ("_least", "_runs", "last")

    def __init__(self, parts: Sequence[str]) -> None:
        runs: list[list[re.Pattern[str]]] = [[]]
        for part in parts:
            if part == _ANY:
                runs.append([])
            else:
                runs[-1].append(compiled([part]))
        if parts[-1] == _ANY:  # everything below, and not the folder itself
            runs[-1].append(compiled(["*"]))
        self._runs = runs
        self._least = sum(map(len, runs))
        self.last = runs[-1][-1].fullmatch  # whether a name may be the last component

    def matches(self, path: Sequence[str]) -> bool:
        first, *rest = self._runs
        if not rest:
            return len(path) == len(first) and _fits(first, path, 0)
        if len(path) < self._least or not _fits(first, path, 0):
            return False
        at = len(first)
        *middle, last = rest
        for run in middle:
            while at + len(run) <= len(path) and not _fits(run, path, at):
                at += 1
            at += len(run)
        return at + len(last) <= len(path) and _fits(last, path, len(path) - len(last))

    def may_lead_to(self, folder: Sequence[str]) -> bool:
        first = self._runs[0]
        if len(self._runs) == 1 and len(folder) >= len(first):
            return False
        return all(pattern.fullmatch(name) for pattern, name in zip(first, folder, strict=False))


def _components(glob: str) -> tuple[bool, list[str]]:
    """Whether the whole path decides, and the components."""
    parts = _SEPARATORS.split(glob)
    anchored = len(parts) > 1
    if anchored and parts[-1] == "":
        parts[-1] = _ANY
    parts = [_ANY if len(part) > 1 and set(part) == {"*"} else part for part in parts if part not in ("", ".")]
    if ".." in parts or not parts:
        raise BadPatternError("a glob stays inside: it has no `..`, and a name", remedy="give `path` for the folder")
    return anchored or parts == [_ANY], parts


def _fits(run: Sequence[re.Pattern[str]], path: Sequence[str], at: int) -> bool:
    return all(pattern.fullmatch(path[at + n]) for n, pattern in enumerate(run))


def _bounded(choices: int) -> None:
    if choices > limits.GLOB_CHOICES:
        raise BadPatternError(
            f"the braces of the glob give more than {limits.GLOB_CHOICES} choices", remedy="write a shorter glob"
        )


def _class(mark: str) -> str:
    """`[…]` as a class of Python's; an empty one matches nothing."""
    negated = mark[1] in "!^"
    body = mark[1 + negated : -1]
    ranges, at = "", 0
    while at < len(body):
        low = body[at]
        if body[at + 1 : at + 2] == "-" and at + 2 < len(body):
            high = body[at + 2]
            ranges += f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
            at += 3
        else:
            ranges += re.escape(low)
            at += 1
    if not ranges:
        return "." if negated else "(?!)"
    return f"[{'^' if negated else ''}{ranges}]"
