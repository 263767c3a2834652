"""`search_code`: lines that hold a text or match a linear-time pattern, with what stands around them.

Two steps: ripgrep names the files, then each file that a page needs is read through the fence. Where in it a literal
stands is seen there; where a pattern matches, ripgrep is asked, at once if that is little. Results are in the order of
the paths, so that a page begins where the last one ended.

Not promised: that a page and the next see one state of the tree; that a credential which is replaced in a line could
not be guessed piece by piece by who may search (a line is found by what it holds, not by what is shown of it).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from fumehood.content.passage import Answer, Passage
from fumehood.core import limits
from fumehood.core.errors import BadCursorError, InvalidArgumentsError
from fumehood.core.jsonio import JsonValue
from fumehood.fence import names, search
from fumehood.fence.search import Hit
from fumehood.serve import cursor
from fumehood.serve.context import Context
from fumehood.serve.counting import passed_over
from fumehood.serve.searching import File, Matching, Reader, matching
from fumehood.serve.source import Source
from fumehood.serve.tool import Arguments, Tool, ToolName

_NAME = ToolName("search_code")
_RESULTS = 100  # where nobody asks for more or less: a model reads 200 lines no better
_NUMBER_BYTES = 8  # before a line
_AROUND_BYTES = 16 * 1024  # as far as a control looks around a passage …
_AROUND_ALL_BYTES = 400 * limits.KIB  # … and before all together …
_AROUND_LEAST_BYTES = 3328  # … but never less than a private key of 4,096 bits
_RAW_FACTOR = 4  # bytes handed to the controls for each byte of a reply: lines that are clipped
_NO_CURSOR = "take `next_cursor` from the last result and leave the other arguments as they were"


class _Asked(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The arguments, as the schema has them."""

    pattern: str
    path: str = "."
    regex: bool = False
    case_sensitive: bool = True
    globs: tuple[str, ...] = ()
    context_lines: Annotated[int, Meta(ge=0, le=limits.CONTEXT_LINES_SEARCH)] = 0
    max_results: Annotated[int, Meta(ge=1, le=limits.SEARCH_RESULTS)] = _RESULTS
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a page begins: at the file of that name (`cursor.named`), after so many hits in it.

    Its place in the list is not told: that counts files which are never served.
    """

    name: str = ""
    hits: int = 0

    def begin(self, paths: Sequence[bytes]) -> int:
        if not self.name:
            return 0
        for index, path in enumerate(paths):
            if cursor.named(path) == self.name:
                return index
        raise BadCursorError("the file at which the page begins is gone, or matches no more", remedy="search again")


def _run(arguments: Arguments, context: Context) -> Answer:
    try:
        asked = msgspec.convert(dict(arguments), _Asked, strict=False)  # 5.0 is an integer of JSON Schema
    except msgspec.ValidationError as error:
        raise InvalidArgumentsError(str(error), remedy="look at the tool's inputSchema") from None
    question = search.query(
        asked.pattern,
        regex=asked.regex,
        case_sensitive=asked.case_sensitive,
        globs=asked.globs,
        file_bytes=context.settings.searched_file_bytes,
    )
    place = _place(arguments, asked)
    page = _Page(context=context, asked=asked)
    # A literal is looked for in what is read; a page that begins amid a file asks for more of that one.
    found = matching(context, question, asked.path, page.wanted + 1 if asked.regex and not place.hits else 0)
    reader = Reader(context, question, found.places)
    for file, passed in _from(place, found.paths, reader, page.wanted + 1):
        if not page.add(file, passed):
            break
    return page.answer(arguments, found, reader)


def _place(arguments: Arguments, asked: _Asked) -> _Place:
    if asked.cursor is None:
        return _Place()
    position = cursor.read(_NAME, arguments, asked.cursor)
    hits, name = cursor.whole(position, "hits"), position.get("name")
    if not isinstance(name, str) or not name:
        raise BadCursorError("the cursor is none of ours", remedy=_NO_CURSOR)
    return _Place(name=name, hits=hits)


def _from(place: _Place, paths: Sequence[bytes], reader: Reader, lines: int) -> Iterator[tuple[File, int]]:
    """The files from a place on, each with how many of its hits were on pages before."""
    begin = place.begin(paths)
    if place.hits:
        for file in reader.files(paths[begin : begin + 1], min(place.hits, limits.SEARCHED_FILE_BYTES) + lines):
            yield file, place.hits
        begin += 1
    for file in reader.files(paths[begin:], lines):
        yield file, 0


@dataclass(slots=True)
class _Window:
    """Lines of one file that are shown together, and the columns of the hits among them."""

    first: int
    last: int
    columns: dict[int, int]


@dataclass(slots=True, kw_only=True)
class _Page:
    """What one reply shows: so many hits, and so many bytes, as may be; one hit is shown whatever its size."""

    context: Context
    asked: _Asked
    hits: int = 0
    shown: list[tuple[File, list[_Window]]] = field(default_factory=list)
    next: dict[str, JsonValue] | None = None
    _bytes: int = 0
    _raw_bytes: int = 0

    @property
    def wanted(self) -> int:
        """How many hits at most."""
        return min(self.asked.max_results, self.context.settings.results)

    def add(self, file: File, passed: int) -> bool:
        """Show a file's hits but the first `passed`; False when the page is full, and the next one begins there."""
        windows: list[_Window] = []
        for number, hit in enumerate(file.hits[passed:], passed):
            if not self._fits(file, hit, windows):
                self.next = {"name": cursor.named(file.path), "hits": number}
                break
        if windows:
            self.shown.append((file, windows))
        return self.next is None

    def answer(self, arguments: Arguments, found: Matching, reader: Reader) -> Answer:
        """The reply."""
        count = sum(len(windows) for _, windows in self.shown)
        around = max(_AROUND_LEAST_BYTES, min(_AROUND_BYTES, _AROUND_ALL_BYTES // max(count, 1)))
        passages: list[Passage] = []
        files: list[JsonValue] = []
        for file, windows in self.shown:
            name = names.spelled(file.path)
            passages += [
                file.source.passage(name.encode(), one.first, one.last, one.columns, around) for one in windows
            ]
            hits: list[JsonValue] = [[line, column] for one in windows for line, column in one.columns.items()]
            files.append({"path": name, "encoding": file.source.encoding, "hits": hits})
        facts: dict[str, JsonValue] = {
            "matches": self.hits,
            "files": files,
            "complete": self.next is None and found.is_whole,
        }
        if self.next is not None:
            facts["next_cursor"] = cursor.make(_NAME, arguments, self.next)
        skipped: dict[str, int] = {}
        if found.left_out is not None:
            skipped = _added(found.left_out, reader.passed)
            facts["skipped"] = {**skipped}
        return Answer(passages=tuple(passages), facts=facts, notes=tuple(self._notes(found, facts, skipped)))

    def _fits(self, file: File, hit: Hit, windows: list[_Window]) -> bool:
        """Show one more hit, if there is room for it and its context."""
        source, around = file.source, self.asked.context_lines
        first, last = max(1, hit.line - around), min(len(source.lines), hit.line + around)
        before = windows[-1] if windows and windows[-1].last >= first - 1 else None
        cost, raw = self._cost(source, first if before is None else before.last + 1, last)
        cost += len(file.path) if before is None else 0
        settings = self.context.settings
        full = self._bytes + cost > settings.reply_bytes or self._raw_bytes + raw > _RAW_FACTOR * settings.reply_bytes
        if self.hits >= self.wanted or (self.hits and full):
            return False
        self.hits += 1
        self._bytes += cost
        self._raw_bytes += raw
        column = source.column(hit)
        if before is None:
            windows.append(_Window(first, last, {hit.line: column}))
        else:
            before.last = max(before.last, last)
            before.columns[hit.line] = column
        return True

    def _cost(self, source: Source, first: int, last: int) -> tuple[int, int]:
        """Bytes of the lines in the reply, and as they are handed on."""
        lines = source.lines[first - 1 : last]
        characters = self.context.settings.line_characters
        return sum(min(len(line), characters) + _NUMBER_BYTES for line in lines), sum(map(len, lines))

    def _notes(self, found: Matching, facts: dict[str, JsonValue], skipped: dict[str, int]) -> Iterator[str]:
        if not self.hits:
            said = passed_over(skipped)
            yield f"Nothing that is searched matches{f'; passed over: {said}' if said else ''}."
        if self.next is not None:
            yield f"There is more: `cursor` {facts['next_cursor']}"
        if not found.is_whole:
            yield "The tree holds more than one search takes: ask for a subfolder."


def _added(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {reason: one.get(reason, 0) + other.get(reason, 0) for reason in sorted({*one, *other})}


TOOL = Tool(
    name=_NAME,
    title="Search code",
    description=(
        "Find lines by literal text or linear-time regex (no look-around, no back-references). Globs: `*.py` at any "
        "depth, `src/*.py` below path, `!` excludes. Generated, denied, large and hard-linked files are not searched."
    ),
    input_schema={
        "type": "object",
        "additionalProperties": False,
        "required": ["pattern"],
        "properties": {
            "pattern": {"type": "string", "minLength": 1, "maxLength": limits.PATTERN_CHARACTERS},
            "path": {"type": "string", "maxLength": limits.ARGUMENT_PATH_CHARACTERS},
            "regex": {"type": "boolean"},
            "case_sensitive": {"type": "boolean", "default": True},
            "globs": {"type": "array", "items": {"type": "string"}, "maxItems": limits.GLOBS},
            "context_lines": {"type": "integer", "minimum": 0, "maximum": limits.CONTEXT_LINES_SEARCH},
            "max_results": {"type": "integer", "minimum": 1, "maximum": limits.SEARCH_RESULTS},
            "cursor": {"type": "string"},
        },
    },
    output_schema={
        "type": "object",
        "required": ["matches", "files"],
        "properties": {"matches": {"type": "integer"}, "files": {"type": "array"}, "next_cursor": {"type": "string"}},
    },
    run=_run,
)
