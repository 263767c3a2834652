"""Where in a file of TOML a key stands, and the one error of such a file. Pure.

Not promised: the line of a key in text that is laid out to mislead (a string of several lines that looks like keys);
the key in the message is the right one all the same.
"""

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from fumehood.core.errors import RefusedError

Keys: TypeAlias = tuple[str, ...]

_SHOWN_CHARACTERS: Final = 80
_PART: Final = r"(?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')"
_KEY: Final = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_HEADER: Final = re.compile(rf"[ \t]*\[{{1,2}}[ \t]*({_KEY})[ \t]*\]")
_SETS: Final = re.compile(rf"[ \t]*({_KEY})[ \t]*=")
_EACH: Final = re.compile(_PART)


class TopologyError(RefusedError):
    """A `gateway.toml` is refused. Names the file, the line where it is known, the key and the rule."""

    code = "topology"


class Place:
    """One file: its name as asked, and its text."""

    def __init__(self, text: str, source: str) -> None:
        """`source` is shown as it is."""
        self._text = text
        self._source = source
        self._lines: dict[Keys, int] | None = None

    def words(self, keys: Keys) -> str:
        """The file, the line and the key."""
        line = self.line(keys)
        return f"{self._source}{f', line {line}' if line else ''}: {dotted(keys)}"

    def error(self, keys: Keys, problem: str, remedy: str = "see docs/reference/gateway.md") -> TopologyError:
        """What is wrong with a key; without one, with the file."""
        place = self.words(keys) if keys else self._source
        return TopologyError(f"{place}: {problem}", remedy=remedy)

    def line(self, keys: Keys) -> int | None:
        """The line that sets a key, or begins the table that it would stand in. Counts from 1."""
        if self._lines is None:
            self._lines = dict(reversed([*_settings(self._text)]))  # the first of several wins
        wanted = tuple(re.sub(r"\[\d+\]$", "", key) for key in keys)
        for length in range(len(wanted), 0, -1):
            there = [number for found, number in self._lines.items() if found[:length] == wanted[:length]]
            if there:
                return self._lines.get(wanted[:length], min(there))
        return None


def dotted(keys: Iterable[str]) -> str:
    """A key as TOML has it, cut and inert."""
    return ".".join(shown(key) if re.fullmatch(r"[A-Za-z0-9_\[\]-]{1,80}", key) else f'"{shown(key)}"' for key in keys)


def shown(text: str) -> str:
    """A foreign word, cut and inert."""
    return ascii(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…")[1:-1]


def near(word: str, known: Iterable[str]) -> str:
    """What somebody may have meant, or else what there is."""
    there = sorted(known)
    close = difflib.get_close_matches(word[:_SHOWN_CHARACTERS], there, n=1)
    if close:
        return f"did you mean {shown(close[0])}?"
    return f"known here: {', '.join(map(shown, there[:40]))}" if there else "there is none"


def _settings(text: str) -> Iterator[tuple[Keys, int]]:
    """Each line that seems to begin a table, or to set a key, and which."""
    table: Keys = ()
    for number, line in enumerate(text.split("\n"), start=1):
        if header := _HEADER.match(line):
            table = _parts(header[1])
            yield table, number
        elif setting := _SETS.match(line):
            yield (*table, *_parts(setting[1])), number


def _parts(key: str) -> Keys:
    return tuple(part.strip("\"'") for part in _EACH.findall(key))
