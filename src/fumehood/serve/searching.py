"""Ask ripgrep, and believe it nothing: which files match a question, what they hold, and where.

Invariants: ripgrep only names files and places; each file is opened through `serve.access`, and no line is shown that
was not read there. Whether a file that may not be served (a second name, a content that is denied) would match can be
told from nothing that leaves here but time: such a file is dropped without a word, and no total counts it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fumehood.core import limits
from fumehood.core.errors import (
    BinaryFileError,
    FumehoodError,
    HarnessError,
    NotAFolderError,
    RefusedError,
    TooLargeError,
)
from fumehood.fence import generated, names, search
from fumehood.fence.search import Hit, Listed, Located, Query
from fumehood.serve.context import Context, Ended
from fumehood.serve.source import Source

_FIRST_FILES = 32  # of 100 results with three in a file; a file that is read in vain costs 0.1 ms, a batch more 6
_BATCH_FILES = 64
_FEW_FILES = 4  # where ripgrep need not be asked again
_PLACES_BYTES = 512 * limits.KIB  # of hits that are kept from a walk: some 8,000
_BATCH_BYTES = 8 * limits.MIB  # held at once: sixteen of the largest files


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """The files that ripgrep says match, by name on disk and in its order, and what it left out while it looked."""

    paths: tuple[bytes, ...]
    left_out: dict[str, int] | None  # None where that was not counted
    is_whole: bool  # not cut by a bound
    places: Mapping[bytes, Sequence[Hit]] = field(default_factory=dict)  # where it said so already


def matching(context: Context, asked: Query, path: str, lines: int = 0) -> Matching:
    """Look through a folder, or at one file. Errors: those of opening it, BadPatternError, TimedOutError.

    With `lines` ripgrep is asked where as well, unless that would be much: a second start of it costs some 8 ms.
    """
    folder = context.access.relative(path)
    try:
        with context.access.folder(path):
            pass
    except NotAFolderError:
        # A file that was named is refused in words, whatever is looked for in it.
        Source.read(context.access.read(path, asked.file_bytes))
        return Matching(paths=(folder,), left_out={}, is_whole=True)
    below = b"" if folder == b"." else folder
    found = _walked(context, asked, below, lines) if lines else None
    if found is None:
        found = _walked(context, asked, below, 0)
    if found is None:
        raise HarnessError("ripgrep told what it was not asked")
    return found


def _walked(context: Context, asked: Query, folder: bytes, lines: int) -> Matching | None:
    """One walk of ripgrep's; None where so many lines match that files are better asked about one by one."""
    policy = search.Policy(denied=context.access.denylist.search_globs(), generated=generated.search_globs())
    listed, located, got = Listed(), Located(), 0
    paths: list[bytes] = []
    places: dict[bytes, list[Hit]] = {}
    with context.programs.start("rg", search.listing(asked, policy, folder, lines), {}, context.budget) as child:
        for chunk in child.chunks():
            got += len(chunk)
            if lines and got > _PLACES_BYTES:
                return None
            if lines:
                for path, hit in located.feed(chunk):
                    places.setdefault(path, []).append(hit)
            else:
                paths += listed.feed(chunk)
        is_whole = got < limits.CHILD_OUTPUT_BYTES
        stderr = child.wait().stderr if not is_whole else _ended(child.wait())
    context.budget.check()
    return Matching(
        paths=tuple(sorted(places or paths)),
        left_out=search.left_out(stderr, policy) if asked.counted else None,
        is_whole=is_whole and len(stderr) < limits.CHILD_STDERR_BYTES,
        places=places,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that may be served, and the first matching lines in it."""

    path: bytes
    source: Source
    hits: tuple[Hit, ...]


class Reader:
    """Opens the files of a search one batch after the other. `passed` counts those that were not read, by reason."""

    def __init__(self, context: Context, asked: Query, places: Mapping[bytes, Sequence[Hit]] | None = None) -> None:
        """Begin with what ripgrep said already of where it found something."""
        self._context = context
        self._asked = asked
        self._places = places or {}
        self.passed: dict[str, int] = {}

    def files(self, paths: Sequence[bytes], lines: int) -> Iterator[File]:
        """Each of `paths` that may be served and still matches, with at most `lines` hits, in order."""
        place, size = 0, _FEW_FILES if self._places or not self._asked.regex else _FIRST_FILES
        while place < len(paths):
            opened, place = self._batch(paths, place, size)
            seen = {path: self._found(source, lines) for path, source in opened.items()}
            unknown = [path for path, hits in seen.items() if hits is None and path not in self._places]
            if unknown:
                size = min(2 * size, _BATCH_FILES) if size > _FEW_FILES else _FIRST_FILES
            told: dict[bytes, Sequence[Hit]] = {**self._places, **self._located(unknown, lines)}
            for path, source in opened.items():
                found = seen[path]
                hits = told.get(path, ()) if found is None else found
                if found is None and not all(map(source.has, hits)):
                    self._pass("changed")
                elif hits:
                    yield File(path=path, source=source, hits=tuple(hits))

    def opened(self, path: bytes) -> Source | None:
        """What a file holds; None where it may not be served, or is no text."""
        source = None
        try:
            data = self._context.access.read(names.spelled(path), self._context.settings.searched_file_bytes)
            source = Source.read(data)
            if source is None:
                self._pass("encoding")
        except BinaryFileError:
            self._pass("binary")
        except TooLargeError:
            self._pass("changed")  # ripgrep, which has the same bound, took it
        except RefusedError:
            pass  # without a word: see above
        return source

    def _batch(self, paths: Sequence[bytes], place: int, size: int) -> tuple[dict[bytes, Source], int]:
        opened: dict[bytes, Source] = {}
        held = named = 0
        while place < len(paths) and len(opened) < size and held < _BATCH_BYTES:
            self._context.budget.check()
            named += len(paths[place]) + 3
            if opened and named > limits.NAMED_BYTES:
                break
            source = self.opened(paths[place])
            if source is not None:
                opened[paths[place]] = source
                held += len(source.text)
            place += 1
        return opened, place

    def _found(self, source: Source, lines: int) -> list[Hit] | None:
        """Where a literal stands, as ripgrep would tell it; None where only ripgrep can."""
        if self._asked.regex:
            return None
        return source.find(self._asked.pattern.encode(), lines, any_case=not self._asked.case_sensitive)

    def _located(self, paths: Sequence[bytes], lines: int) -> dict[bytes, list[Hit]]:
        if not paths:
            return {}
        found: dict[bytes, list[Hit]] = {}
        located = Located()
        with self._context.programs.start(
            "rg", search.locating(self._asked, paths, lines), {}, self._context.budget
        ) as child:
            for chunk in child.chunks():
                for path, hit in located.feed(chunk):
                    found.setdefault(path, []).append(hit)
            _ended(child.wait())
        return found

    def _pass(self, reason: str) -> None:
        self.passed[reason] = self.passed.get(reason, 0) + 1


def _ended(ended: Ended) -> bytes:
    """What ripgrep wrote to stderr when it ended as it should. Errors: BadPatternError, HarnessError."""
    if ended.status in (search.MATCHED, search.NOTHING_MATCHED):
        return ended.stderr
    error: FumehoodError | None = HarnessError(f"ripgrep ended with status {ended.status}", remedy="ask for less")
    if ended.status == search.FAILED:
        error = search.refusal(ended.stderr)  # none: it only could not read some
    if error is not None:
        raise error
    return ended.stderr
