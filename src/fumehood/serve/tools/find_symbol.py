"""`find_symbol`: where a name is defined, by grammar where there is one, else by the words before it.

ripgrep names the files that hold the name; each is read through the fence, and its bytes go to a process that has
nothing but them. What that answers is believed only where the name stands in the lines that it gives.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from fumehood.content.passage import Answer, Passage
from fumehood.core import limits
from fumehood.core.errors import InvalidArgumentsError, UnsupportedError
from fumehood.core.jsonio import JsonValue
from fumehood.fence import names, search
from fumehood.serve.context import Context, Definition, Definitions
from fumehood.serve.searching import Reader, matching
from fumehood.serve.source import Source
from fumehood.serve.symbols import languages, patterns
from fumehood.serve.tool import Arguments, Tool, ToolName

_NAME = ToolName("find_symbol")
_SHOWN_LINES = 3  # of a definition: a signature, and what begins below it
_AROUND_BYTES = 4 * 1024
_NAMED_FILES = 50  # that did not parse
_ROW_BYTES = 100  # of a definition in the reply, beside its lines
# Words that stand before a name where it is defined: files with such a line are read first.
_DEFINING = (
    "def|class|function|func|fun|fn|interface|struct|enum|trait|type|typedef|module|mod|namespace|const|static|let|var|"
    "val|define|macro_rules!|union|record|object|protocol|package|sub|proc"
)

_Kind = Literal["function", "method", "class", "interface", "type", "enum", "constant", "variable", "module", "macro"]


class _Asked(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The arguments, as the schema has them."""

    symbol: Annotated[str, Meta(min_length=1, max_length=limits.SYMBOL_CHARACTERS)]
    path: str = "."
    kind: _Kind | None = None
    exact: bool = True

    @property
    def name(self) -> str:
        """The last of names joined by `.`, `::` or `#`."""
        return self._parts[-1]

    @property
    def container(self) -> str:
        """The one before it."""
        return self._parts[-2] if len(self._parts) > 1 else ""

    @property
    def _parts(self) -> list[str]:
        parts = self.symbol.replace("::", ".").replace("#", ".").split(".")
        return [part for part in parts if part] or [self.symbol]

    def wants(self, definition: Definition) -> bool:
        """Whether a definition is one of those that are looked for."""
        if self.kind is not None and definition.kind != self.kind:
            return False
        if self.exact:
            inside = definition.container.replace("::", ".").rpartition(".")[2]
            return definition.name == self.name and self.container in ("", inside)
        return self.name.casefold() in definition.name.casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Located:
    path: bytes
    source: Source
    definition: Definition
    method: str


def _run(arguments: Arguments, context: Context) -> Answer:
    try:
        asked = msgspec.convert(dict(arguments), _Asked)
    except msgspec.ValidationError as error:
        raise InvalidArgumentsError(str(error), remedy="look at the tool's inputSchema") from None
    bound = context.settings.searched_file_bytes
    literal = search.query(asked.name, case_sensitive=asked.exact, file_bytes=bound)
    found = matching(context, literal, asked.path)
    paths: Sequence[bytes] = found.paths
    if len(paths) > limits.SYMBOLS_FILES:
        defining = rf"\b(?:{_DEFINING})\b.{{0,100}}{_escaped(asked.name)}"
        likely = search.query(defining, regex=True, case_sensitive=asked.exact, file_bytes=bound)
        first = set(matching(context, likely, asked.path).paths)
        paths = sorted(paths, key=lambda path: path not in first)
    reader = Reader(context, literal)
    look = _Look(context=context, asked=asked)
    for path in paths:
        context.budget.check()
        source = reader.opened(path)
        if source is not None and not look.at(path, source):
            break
    return look.answer(is_whole=found.is_whole)


def _escaped(text: str) -> str:
    """Text as a pattern of ripgrep's engine that matches nothing else."""
    return "".join(mark if mark.isalnum() or mark == "_" else f"\\x{{{ord(mark):x}}}" for mark in text)


@dataclass(slots=True, kw_only=True)
class _Look:
    """What was found so far, in as many files as may be read for one call."""

    context: Context
    asked: _Asked
    files: int = 0
    found: list[_Located] = field(default_factory=list)
    unparsed: list[JsonValue] = field(default_factory=list)
    partly: list[JsonValue] = field(default_factory=list)
    unsupported: str = ""
    is_full: bool = False

    def at(self, path: bytes, source: Source) -> bool:
        """Look at one file; False when no further one is read."""
        if self.files >= limits.SYMBOLS_FILES or len(self.found) >= self.context.settings.results:
            self.is_full = True
            return False
        self.files += 1
        parsed = self._parsed(path, source)
        method = "pattern" if parsed is None else "tree-sitter"
        for one in self._by_pattern(source) if parsed is None else parsed:
            if self.asked.wants(one) and _stands(one, source):
                self.found.append(_Located(path=path, source=source, definition=one, method=method))
        return True

    def answer(self, *, is_whole: bool) -> Answer:
        """The reply: the definitions in the order of their places."""
        self.found.sort(key=lambda one: (one.path, one.definition.first_line))
        rows: list[JsonValue] = []
        passages: list[Passage] = []
        size = 0
        for one in self.found[: self.context.settings.results]:
            name = names.spelled(one.path)
            first = one.definition.first_line
            last = min(one.definition.last_line, first + _SHOWN_LINES - 1, len(one.source.lines))
            shown = one.source.lines[first - 1 : last]
            size += (
                _ROW_BYTES + len(name) + sum(min(len(line), self.context.settings.line_characters) for line in shown)
            )
            if rows and size > self.context.settings.reply_bytes:
                break
            rows.append(_row(name, one))
            passages.append(one.source.passage(name.encode(), first, last, {first: 1}, _AROUND_BYTES))
        complete = is_whole and not self.is_full and len(rows) == len(self.found)
        facts: dict[str, JsonValue] = {
            "definitions": rows,
            "files_read": self.files,
            "unparsed": self.unparsed[:_NAMED_FILES],
            "partly_parsed": self.partly[:_NAMED_FILES],
            "complete": complete,
        }
        return Answer(passages=tuple(passages), facts=facts, notes=tuple(self._notes(complete=complete)))

    def _parsed(self, path: bytes, source: Source) -> Sequence[Definition] | None:
        """The definitions by grammar; None where there is no grammar, or the file does not parse."""
        language = languages.language(path)
        if language is None:
            return None
        try:
            parsed = self.context.symbols.definitions(language, source.text, self.context.budget)
        except UnsupportedError as error:
            self.unsupported = error.message
            return None
        if parsed is None:
            self.unparsed.append(names.spelled(path))
        elif isinstance(parsed, Definitions) and not parsed.is_whole:
            self.partly.append(names.spelled(path))
        return parsed

    def _by_pattern(self, source: Source) -> Iterator[Definition]:
        return patterns.definitions(source.lines, self.asked.name, exact=self.asked.exact)

    def _notes(self, *, complete: bool) -> Iterator[str]:
        if not self.found:
            yield "No definition was found."
        if self.unsupported:
            yield "No grammar could be used: definitions are told by the words before a name."
        if not complete:
            yield "There may be more: name a folder, a kind, or the whole symbol."


def _stands(definition: Definition, source: Source) -> bool:
    """Whether there are such lines, and the name stands in them."""
    lines = source.lines[definition.first_line - 1 : definition.last_line]
    name = definition.name.encode()
    return any(name in line for line in lines)


def _row(path: str, one: _Located) -> JsonValue:
    definition = one.definition
    row: dict[str, JsonValue] = {
        "path": path,
        "name": definition.name,
        "kind": definition.kind,
        "first_line": definition.first_line,
        "last_line": definition.last_line,
        "method": one.method,
    }
    if definition.container:
        row["container"] = definition.container
    return row


TOOL = Tool(
    name=_NAME,
    title="Find symbol",
    description=(
        "Find where a name is defined: Python, JavaScript, TypeScript, Go, Rust, Java, C, C++, Ruby by tree-sitter, "
        "other files by patterns; each result names its method. `Class.method` is understood."
    ),
    input_schema={
        "type": "object",
        "additionalProperties": False,
        "required": ["symbol"],
        "properties": {
            "symbol": {"type": "string", "minLength": 1, "maxLength": limits.SYMBOL_CHARACTERS},
            "path": {"type": "string", "maxLength": limits.ARGUMENT_PATH_CHARACTERS},
            "kind": {"enum": list(languages.KINDS)},
            "exact": {"type": "boolean", "default": True},
        },
    },
    output_schema={
        "type": "object",
        "required": ["definitions"],
        "properties": {"definitions": {"type": "array"}, "unparsed": {"type": "array"}},
    },
    run=_run,
)
