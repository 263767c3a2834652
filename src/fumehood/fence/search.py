"""ripgrep's arguments for a question, and what its output says. Pure: nothing is started, opened or read here.

A search has two steps. `listing` has ripgrep walk the tree with the policy as globs and name the files that match;
`locating` has it say where in some of them. Neither lets it print a line: what is shown is read through the fence.

Invariants: every pattern and glob is the value of an option, and every path begins with `./` behind `--`, so nothing
that somebody asked for is an option; ripgrep reads no configuration, no ignore file and, since it is always given a
path, never its standard input; what is denied comes after the globs that were asked for, and the last glob decides.
The engine is ripgrep's own, linear in the text (docs.rs/regex, "Untrusted input"); PCRE2 is never asked for.

Not promised: that what ripgrep searched is all that may be served (it knows nothing of second names); that a file is
still the same when it is opened. Both are for the caller, who opens each file through the fence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fumehood.core import limits
from fumehood.core.errors import BadPatternError, FumehoodError, HarnessError

MATCHED, NOTHING_MATCHED, FAILED = 0, 1, 2  # rg(1), EXIT STATUS; an error may stand beside matches

_ALWAYS = (
    "--no-config",
    "--no-ignore",
    "--hidden",
    "--no-follow",
    "--no-mmap",  # a file that shrinks under a mapping kills its reader
    "--no-heading",
    "--with-filename",
    "--null",
    "--color=never",
    "--engine=default",
    "--crlf",  # `$` holds before either line end; lines are counted by line feeds all the same
    "--text",  # a file with NUL bytes is told by who opens it; ripgrep's own word for it would have to be parsed
    f"--regex-size-limit={limits.PATTERN_PROGRAM_BYTES}",
    f"--dfa-size-limit={limits.PATTERN_PROGRAM_BYTES}",
)
_WHERE = (
    "--line-number",
    "--column",
    "--byte-offset",
    "--max-columns=1",  # a line's text is left out, however long it is; unlike with --json this holds here
)
_SPECIAL = frozenset("*?[]{}\\!")  # in a glob
_RECORD_BYTES = 256  # of what follows a path: three numbers and a note


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a walk leaves out: globs as ripgrep's `--iglob` takes them, each beginning with `!`."""

    denied: tuple[str, ...] = ()
    generated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is searched for, and where. Make it with `query`, which refuses what ripgrep cannot take."""

    pattern: str
    regex: bool
    case_sensitive: bool
    globs: tuple[str, ...]
    file_bytes: int

    @property
    def counted(self) -> bool:
        """Whether ripgrep is asked what it left out: not where globs leave out most of the tree, a message each."""
        return not self.globs


@dataclass(frozen=True, slots=True)
class Hit:
    """A matching line: its number and the column of the first match, in bytes, both from 1; its offset in bytes.

    Bytes count in what ripgrep searched: without a byte order mark, and UTF-16 as UTF-8.
    """

    line: int
    column: int
    offset: int


def query(
    pattern: str,
    *,
    regex: bool = False,
    case_sensitive: bool = True,
    globs: Sequence[str] = (),
    file_bytes: int = limits.SEARCHED_FILE_BYTES,
) -> Query:
    """A question that ripgrep can be asked. Errors: BadPatternError for a pattern or glob that it cannot take."""
    _check(pattern, "pattern")
    if len(globs) > limits.GLOBS:
        raise BadPatternError(f"there are more than {limits.GLOBS} globs", remedy="name fewer")
    for glob in globs:
        _check(glob, "glob")
    return Query(
        pattern=pattern,
        regex=regex,
        case_sensitive=case_sensitive,
        globs=tuple(globs),
        file_bytes=file_bytes,
    )


def listing(asked: Query, policy: Policy, folder: bytes, lines: int = 0) -> tuple[str | bytes, ...]:
    """Arguments that list the files below `folder` (relative to the root, clean) with a match, each ended by NUL.

    With `lines` they tell so many matching lines of each file instead, as `Located` reads them.
    Where `asked.counted`, ripgrep also tells on stderr what it left out (`left_out`).
    """
    return (
        *_ALWAYS,
        *_matching(asked),
        *_narrowing(asked, policy, folder),
        *((*_WHERE, f"--max-count={lines}") if lines else ("--files-with-matches",)),
        *(("--debug",) if asked.counted else ()),
        "--",
        b"./" + folder,
    )


def locating(asked: Query, paths: Sequence[bytes], lines: int) -> tuple[str | bytes, ...]:
    """Arguments that tell the first `lines` matching lines of each of `paths`, as `Located` reads them."""
    places = (*_WHERE, f"--max-count={lines}", "--threads=1")  # a few files, in the order in which they are named
    return (*_ALWAYS, *_matching(asked), *places, "--", *(b"./" + path for path in paths))


class Listed:
    """Paths out of the chunks of `listing`'s output, relative to the root."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        """Begin with nothing."""
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The paths that this chunk completes. One longer than any path is HarnessError: that is no such output."""
        *whole, self._rest = (self._rest + chunk).split(b"\0")
        if len(self._rest) > limits.PATH_BYTES:
            raise HarnessError("ripgrep's list of files is none", remedy="use the version that the lock names")
        for path in whole:
            yield path.removeprefix(b"./")


class Located:
    """Hits out of the chunks of `locating`'s output: path, NUL, line, column, offset, a note, line feed."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        """Begin with nothing."""
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, Hit]]:
        """The hits that this chunk completes, each with its path. Errors: HarnessError for what is no such record."""
        data = self._rest + chunk
        place = 0
        while (null := data.find(b"\0", place)) >= 0 and (end := data.find(b"\n", null)) >= 0:
            yield data[place:null].removeprefix(b"./"), _hit(data[null + 1 : end])
            place = end + 1
        self._rest = data[place:]
        if len(self._rest) > limits.PATH_BYTES + _RECORD_BYTES:
            raise HarnessError("ripgrep's list of hits is none", remedy="use the version that the lock names")


def left_out(stderr: bytes, policy: Policy) -> dict[str, int]:
    """Reason → how many files and folders a walk passed by, as ripgrep's own messages tell it.

    A folder counts once, with whatever it holds. Reasons: `denied`, `generated`, `too_large`, `special`, `unreadable`.
    The counts do not depend on the pattern; links are not among them, since ripgrep looks where they lead before it
    speaks of them. Names stand in these messages, so a file can be named to raise a count; nothing else comes of it.
    """
    reasons = {_as_debugged(glob): "denied" for glob in policy.denied}
    reasons |= {_as_debugged(glob): "generated" for glob in policy.generated}
    counted: dict[str, int] = {}
    for line in stderr.split(b"\n"):
        reason = _reason(line, reasons)
        if reason:
            counted[reason] = counted.get(reason, 0) + 1
    return counted


def refusal(stderr: bytes) -> FumehoodError | None:
    """The error that ripgrep's messages tell of when it ended with status 2; None when it only could not read some."""
    text = stderr.decode("utf-8", "replace")
    if "error parsing glob" in text:
        return BadPatternError(
            "a glob does not parse",
            remedy="write one like `*.py`, `src/**/*.ts` or `!tests/**`; close each `[` and `{`",
        )
    if "is not allowed in a regex" in text:
        return BadPatternError("a pattern is for one line and cannot hold a line end", remedy="search for one line")
    if "exceeds size limit" in text:
        return BadPatternError("the pattern becomes too large when compiled", remedy="repeat less")
    for line in text.splitlines():
        if line.startswith("error: "):
            return _refused(line.removeprefix("error: "))
    return None


def _refused(reason: str) -> BadPatternError:
    if reason.startswith("look-around"):
        return BadPatternError(
            "look-around is not supported: it cannot be matched in linear time",
            remedy="search for the text itself and look at what stands around it with context_lines",
        )
    if reason.startswith("backreferences"):
        return BadPatternError(
            "back-references are not supported: they cannot be matched in linear time",
            remedy="write out what may repeat",
        )
    return BadPatternError(
        f"the pattern does not parse: {reason[: limits.PATTERN_CHARACTERS]}",
        remedy="mend it, or search for the text itself with regex false",
    )


def _check(text: str, what: str) -> None:
    if not text or len(text) > limits.PATTERN_CHARACTERS:
        raise BadPatternError(
            f"a {what} has 1 to {limits.PATTERN_CHARACTERS} characters", remedy="search for a part of it"
        )
    if any(mark in text for mark in "\0\n\r"):
        raise BadPatternError(f"a {what} holds no line end and no NUL", remedy="search for one line")
    if any("\ud800" <= mark <= "\udfff" for mark in text):
        raise BadPatternError(f"a {what} holds half of a surrogate pair", remedy="send whole characters")


def _placed(glob: str, folder: bytes) -> str:
    """A glob as docs/reference/paths.md has them, perhaps behind a `!`, as ripgrep takes it: from the root."""
    sign = "!" if glob.startswith("!") else ""
    glob = glob.removeprefix("!").replace("\\", "/")
    rest = glob.removeprefix("./").lstrip("/")
    if "/" not in glob:
        return sign + glob
    inside = "".join(f"\\{mark}" if mark in _SPECIAL else mark for mark in folder.decode("utf-8", "surrogateescape"))
    return f"{sign}/{inside}/{rest}{'**' if rest.endswith('/') else ''}".replace("//", "/")


def _matching(asked: Query) -> tuple[str, ...]:
    return (
        "--case-sensitive" if asked.case_sensitive else "--ignore-case",
        *(() if asked.regex else ("--fixed-strings",)),
        f"--regexp={asked.pattern}",
    )


def _narrowing(asked: Query, policy: Policy, folder: bytes) -> tuple[str, ...]:
    """The last glob that fits decides; ripgrep takes every `--iglob` after every `--glob`, in whatever order."""
    return (
        f"--max-filesize={asked.file_bytes}",
        *(f"--glob={_placed(glob, folder)}" for glob in asked.globs),
        *(f"--iglob={glob}" for glob in (*policy.generated, *policy.denied)),
    )


def _hit(record: bytes) -> Hit:
    numbers = record.split(b":", 3)[:3]
    if len(numbers) != 3 or not all(n.isdigit() and len(n) <= _DIGITS for n in numbers):  # noqa: PLR2004 - three numbers
        raise HarnessError("ripgrep's list of hits is none", remedy="use the version that the lock names")
    line, column, offset = map(int, numbers)
    return Hit(line, column, offset)


_DIGITS = 18  # below 2 ** 63


def _reason(line: bytes, reasons: dict[bytes, str]) -> str | None:
    """Why one message says that something was left out; None for every other message."""
    if line.startswith(b"rg: DEBUG|"):
        if b": ignoring " not in line:
            return None
        if line.endswith(b" bytes") and b"|ignore::walk|" in line:
            return "too_large"
        if b": failed to pass haystack filter: " in line:
            return None if b"is_symlink: true" in line else "special"
        glob = line.rpartition(b'original: "')[2].partition(b'", actual: ')[0]
        return reasons.get(glob)
    return "unreadable" if line.startswith(b"rg: ") and line.endswith(b"(os error 13)") else None


def _as_debugged(glob: str) -> bytes:
    """The glob as Rust's `{:?}` writes it, for what a glob may hold."""
    return glob.replace("\\", "\\\\").replace('"', '\\"').encode()
