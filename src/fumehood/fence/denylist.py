"""Names that are never served. Pure: the same lists and the same path give the same answer.

Invariants: every component of a path is judged, in any case, as any system of ours or of the reader's might read it:
after Unicode compatibility folding, without characters that file systems ignore (HFS+ and `.git`: CVE-2014-9390),
without dots and spaces at its end, without an alternate stream (`.git::$INDEX_ALLOCATION`: CVE-2019-1352), without
what an editor appends to a copy, and as the short name that DOS makes of it (`GIT~1`: CVE-2014-9390). A backslash
separates too. The built-in table cannot be shortened, only added to.

Not promised: a credential under a name that is not on the list; that is what `content` looks for.
"""

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator

from fumehood.core.errors import BadPatternError, RefusedError
from fumehood.fence import denytable, globs

_CACHED = 65_536  # components judged and remembered: those of a large repository
_SEPARATORS = re.compile(r"[/\\]")
_PIECES = re.compile(r"[/\\:]")
_END = "".join(map(chr, range(0x21))) + "."  # Windows drops dots and spaces at the end of a name
_COPIES = ("~", ".bak", ".backup", ".copy", ".old", ".orig", ".rej", ".save", ".swo", ".swp", ".tmp")
_COPIES_OF_COPIES = 3  # `.env.bak~`
_SHORT = re.compile(r"[^.~]{1,6}~[0-9]{1,6}(?:\.[^.]{0,3})?")  # whatever it is short for
_PLAIN = re.compile(r"[a-z0-9_.-]*[a-z0-9_-]")  # has one reading
_WILD = re.compile(r"[*?\[\]{}]")
_ANY = "**"
_STARS = re.compile(r"\*{2,}")
# Characters without a width that compare as nothing: those that HFS+ ignores are format characters (Cf), the others
# are Default_Ignorable_Code_Point in Unicode's DerivedCoreProperties.txt.
_IGNORED = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]")


class Denylist:
    """The built-in table and the operator's additions. A word that could deny nothing is refused: RefusedError."""

    __slots__ = ("_judge", "_lasts", "_own", "_patterns", "_runs", "_table")

    def __init__(self, *, names: Iterable[str] = (), globs: Iterable[str] = (), folders: Iterable[str] = ()) -> None:
        """Three lists, as the settings have them: a name or folder is also taken as it is, a glob as a pattern."""
        taken = [*names, *folders]
        literal = [_split(_WILD.sub(_bracketed, word), word) for word in taken]
        own = [*literal, *(parts for word in (*taken, *globs) for parts in _patterns(word))]
        table = [_split(rule.pattern, rule.pattern) for rule in denytable.TABLE]
        runs = [parts for parts in (*table, *own) if len(parts) > 1]
        self._table = _Names(parts[0] for parts in table if len(parts) == 1)
        self._own = _Names(parts[0] for parts in own if len(parts) == 1)
        self._lasts = _Names(parts[-1] for parts in runs)
        self._runs = [[_Names((part,)) for part in parts] for parts in runs]
        self._patterns = tuple(dict.fromkeys("/".join(parts) for parts in (*table, *own)))
        self._judge = functools.lru_cache(_CACHED)(self._judged)

    def denies(self, path: bytes) -> bool:
        """Whether a path, relative to the root, is or lies in something that is never served."""
        return self.denies_text(path.decode("utf-8", "surrogateescape"))

    def denies_text(self, path: str) -> bool:
        """The same of a path as `os.fsdecode` gives it."""
        parts = _SEPARATORS.split(path)
        judged = [self._judge(part) for part in parts]
        return any(denied for denied, _ in judged) or (any(ends for _, ends in judged) and self._in_a_run(parts))

    def denies_entry(self, folder: str, name: str) -> bool:
        """Whether a name in a folder that is not denied is; quicker than judging the whole path."""
        denied, ends = self._judge(name)
        return denied or (ends and self._in_a_run(_SEPARATORS.split(f"{folder}/{name}")))

    def search_globs(self) -> tuple[str, ...]:
        """The same as arguments of ripgrep's `--iglob`, each beginning with `!`, as far as globs can say it.

        They are stricter than the table: what it serves as an example is denied here. What they cannot say is
        compatibility folding, ignored characters, a copy of a copy and long endings: each hit is judged again.
        """
        endings = ",".join((*_COPIES, ".", " ", ":*"))
        every = ",".join(pattern.replace(",", "[,]") for pattern in self._patterns)
        short = ("*~[0-9]", "*~[0-9][0-9]", "*~[0-9].*", "*~[0-9][0-9].*")
        # Two patterns with choices cost ripgrep 8 ms in all, one for each row 50 ms.
        return (f"!**/{{{every}}}", f"!**/{{{every}}}{{{endings}}}", *(f"!**/{pattern}" for pattern in short))

    def _judged(self, part: str) -> tuple[bool, bool]:
        """Whether one component is denied alone, and whether it may be the last of components that are together."""
        names = _readings(part)
        denied = (
            any(map(self._own.match, names))
            or any(map(self._table.match, names - denytable.SERVED))
            or any(map(_SHORT.fullmatch, names))
        )
        return denied, any(map(self._lasts.match, names))

    def _in_a_run(self, parts: list[str]) -> bool:
        read = [_readings(part) for part in parts if part not in ("", ".")]
        return any(
            all(any(map(one.match, read[at + n])) for n, one in enumerate(run))
            for run in self._runs
            for at in range(len(read) - len(run) + 1)
        )


def _readings(part: str) -> frozenset[str]:
    """Every name that some system reads one component as."""
    folded = _folded(part)
    if _PLAIN.fullmatch(folded) and not folded.endswith(_COPIES):
        return frozenset((folded,))
    names = {folded}
    if folded:
        names |= {piece.strip(_END[:-1]).rstrip(_END) for piece in (folded, *_PIECES.split(folded))}
        for _ in range(_COPIES_OF_COPIES):
            names |= {original for name in names for original in _originals(name)}
    return frozenset(names - {""})


def _originals(name: str) -> Iterator[str]:
    """What `name` is a copy of by the rules of editors and people."""
    if name.startswith(".#"):
        yield name[2:]
    if name.startswith("#") and name.endswith("#"):
        yield name[1:-1]
    for ending in _COPIES:
        if name.endswith(ending) and len(name) > len(ending):
            original = name[: -len(ending)]
            yield original.rstrip(_END)
            if original.startswith("."):  # vim writes `.x` beside `x`
                yield original[1:]


def _folded(text: str) -> str:
    """One spelling for all that some file system or reader takes for the same name."""
    if text.isascii():
        return text.lower()
    visible = "".join(c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf")
    folded = unicodedata.normalize("NFKC", _IGNORED.sub("", visible).casefold())
    return unicodedata.normalize("NFKC", folded.casefold())


class _Names:
    """Patterns of one component; the simple ones are compared without an expression, because walks ask often."""

    __slots__ = ("_ends", "_starts", "_wild", "_words")

    def __init__(self, patterns: Iterable[str]) -> None:
        words, starts, ends, wild = set(), [], [], []
        for pattern in patterns:
            if not _WILD.search(pattern):
                words.add(pattern)
            elif pattern[0] == "*" and not _WILD.search(pattern[1:]):
                ends.append(pattern[1:])
            elif pattern[-1] == "*" and not _WILD.search(pattern[:-1]):
                starts.append(pattern[:-1])
            else:
                wild.append(pattern)
        self._words, self._starts, self._ends = frozenset(words), tuple(starts), tuple(ends)
        self._wild = globs.compiled(wild).fullmatch if wild else None

    def match(self, name: str) -> bool:
        if name in self._words or name.startswith(self._starts) or name.endswith(self._ends):
            return True
        return self._wild is not None and self._wild(name) is not None


def _split(word: str, said: str) -> list[str]:
    """The components of a word of a list, folded as names are."""
    parts = [part.rstrip(_END) if part != ".." else part for part in _SEPARATORS.split(_folded(word))]
    while parts and parts[0] in ("", _ANY):
        del parts[0]
    while parts and parts[-1] in ("", _ANY):
        del parts[-1]
    parts = [part for part in parts if part]
    if not parts or ".." in parts or _ANY in parts:
        raise RefusedError(
            f"the denylist has {said!a}, which names nothing", remedy="name a file, a folder or a pattern of one"
        )
    return [_STARS.sub("*", part) for part in parts]


def _patterns(word: str) -> list[list[str]]:
    """A word of a list as patterns, one for each choice of its braces."""
    try:
        return [_split(choice.replace("[^", "[!"), word) for choice in globs.expanded(word)]
    except BadPatternError as error:
        raise RefusedError(f"the denylist has {word!a}: {error.message}", remedy=error.remedy) from None


def _bracketed(match: re.Match[str]) -> str:
    return f"[{match[0]}]"
