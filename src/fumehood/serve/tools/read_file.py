"""`read_file`: lines of one text file, numbered, with the encoding and the line end named."""

from fumehood.content.passage import Answer, Passage
from fumehood.core import limits
from fumehood.core.errors import InvalidArgumentsError
from fumehood.core.jsonio import JsonValue
from fumehood.core.sections import WorkspaceSettings
from fumehood.core.untrusted import Untrusted
from fumehood.fence import names
from fumehood.serve import cursor
from fumehood.serve.context import Context
from fumehood.serve.counting import counted
from fumehood.serve.texts import Lines
from fumehood.serve.tool import Arguments, Tool, ToolName

_NAME = "read_file"
_LINE = {"type": "integer", "minimum": 0, "maximum": 10**9}
_NUMBER_BYTES = 8  # of a line's number and its mark in a reply
_CHARACTER_BYTES = 4  # of one character of UTF-8 at most


def _run(arguments: Arguments, context: Context) -> Answer:
    path = str(arguments["path"])
    first, last = _wanted(arguments)
    found = context.access.text(path, context.settings.file_bytes)
    text, total = found.decoded.text, found.lines.total
    last = total if last is None else min(last, total)
    start, stop, shown = _page(text, found.lines, first, last, context.settings)
    facts: dict[str, JsonValue] = {
        "path": names.spelled(found.path),
        "first_line": first,
        "last_line": shown,
        "total_lines": total,
        "size": found.size,
        "encoding": found.decoded.encoding,
        "line_end": found.decoded.line_end,
    }
    notes = [_said(first, shown, total)]
    if first <= shown < last:
        facts["next_cursor"] = cursor.make(_NAME, arguments, {"line": shown + 1})
        notes.append(f"There is more: `start_line` {shown + 1}, or `next_cursor`.")
    return Answer(
        passages=(_passage(text, start, stop, first),) if stop > start else (), facts=facts, notes=tuple(notes)
    )


def _said(first: int, shown: int, total: int) -> str:
    """Which lines these are, in words."""
    if shown < first:
        return f"No line: the file has {counted(total, 'line')}."
    return f"Lines {first} to {shown} of {total}." if shown > first else f"Line {first} of {total}."


def _wanted(arguments: Arguments) -> tuple[int, int | None]:
    """The first line and the last; the last may be the one before the first: no line at all."""
    first, last = _whole(arguments.get("start_line")), _whole(arguments.get("end_line"))
    first = 1 if first is None else max(first, 1)
    if last is not None and last < first - 1:
        raise InvalidArgumentsError(
            f"line {last} is before line {first}", remedy="give an end_line that is not before start_line"
        )
    if "cursor" in arguments:
        position = cursor.read(_NAME, arguments, str(arguments["cursor"]))
        first = max(cursor.whole(position, "line"), first)
    return first, last


def _whole(value: JsonValue) -> int | None:
    """An integer of JSON, which may be written 5.0."""
    return int(value) if isinstance(value, int | float) else None


def _page(text: bytes, lines: Lines, first: int, last: int, settings: WorkspaceSettings) -> tuple[int, int, int]:
    """Where the lines of one page begin and end, and the number of the last: as many as a reply takes."""
    last = min(last, first + settings.read_lines - 1)
    if last < first:
        return 0, 0, first - 1
    start, stop = lines.after(first - 1), lines.after(last)
    if stop - start + _NUMBER_BYTES * (last - first + 1) <= settings.reply_bytes:
        return start, stop, last
    room, shown, end = settings.reply_bytes, first - 1, start
    for line in text[start:stop].split(b"\n")[: last - first + 1]:
        room -= min(len(line), _CHARACTER_BYTES * settings.line_characters) + _NUMBER_BYTES
        if room < 0 and shown >= first:
            break
        shown += 1
        end = min(end + len(line) + 1, stop)
    return start, end, shown


def _passage(text: bytes, start: int, stop: int, first: int) -> Passage:
    lines = text[start:stop]
    return Passage(
        text=Untrusted(lines if lines.endswith(b"\n") else lines + b"\n", source="file"),
        before=Untrusted(text[_boundary(text, start - limits.PASSAGE_CONTEXT_BYTES) : start], source="file"),
        after=Untrusted(text[stop : _boundary(text, stop + limits.PASSAGE_CONTEXT_BYTES)], source="file"),
        first_line=first,
    )


def _boundary(text: bytes, offset: int) -> int:
    """The next place at or after `offset` where a character begins."""
    offset = max(offset, 0)
    while offset < len(text) and text[offset] & 0xC0 == 0x80:  # noqa: PLR2004 - 10xxxxxx goes on a character, RFC 3629
        offset += 1
    return min(offset, len(text))


TOOL = Tool(
    name=ToolName(_NAME),
    title="Read a file",
    description="Numbered lines of a text file. Go on with next_cursor; long lines are clipped.",
    input_schema={
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1, "maxLength": limits.ARGUMENT_PATH_CHARACTERS},
            "start_line": _LINE,
            "end_line": _LINE,
            "cursor": {"type": "string", "maxLength": limits.CURSOR_CHARACTERS},
        },
        "required": ["path"],
        "additionalProperties": False,
    },
    output_schema={
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "total_lines": {"type": "integer"},
            "next_cursor": {"type": "string"},
        },
        "required": ["path"],
    },
    run=_run,
)
