"""`list_directory`: what lies in one folder, a line each: kind, size in bytes, name.

A line is `kind size name`: the kind is `file`, `folder`, `link` or `other`, followed by flags where there are any
(`file,unreadable`, `file,hard-linked`, `folder,unreadable`, `file,escaped`); the size is `-` for all but files, and for
a file that has a second name, which may lie outside. The name is the rest of the line, and is read back as it stands
(`fence.names`). A link is listed as one, and never looked through.
"""

from fumehood.content.passage import Answer, Passage
from fumehood.core import limits
from fumehood.core.errors import BadCursorError
from fumehood.core.jsonio import JsonValue
from fumehood.core.untrusted import Untrusted
from fumehood.fence import names, tree
from fumehood.serve import cursor
from fumehood.serve.context import Context
from fumehood.serve.counting import share
from fumehood.serve.tool import Arguments, Tool, ToolName

_NAME = "list_directory"
_WHY = (("denied", "never served"), ("hidden", "hidden: `include_hidden`"))


def _run(arguments: Arguments, context: Context) -> Answer:
    asked = str(arguments.get("path", "."))
    place = context.access.relative(asked or ".")
    position = _position(arguments)
    with context.access.folder(asked) as folder:
        shown, counts = _listed(folder, place, arguments, context)
        begin = _begin(shown, position)
        lines = _page(folder, shown[begin:], context)
    end = begin + len(lines)
    facts: dict[str, JsonValue] = {"path": names.spelled(place), "shown": len(lines), "total": len(shown), **counts}
    notes = [f"{share(len(lines), len(shown), 'entry', 'entries')}{_said(counts)}."]
    if end < len(shown):
        facts["next_cursor"] = cursor.make(_NAME, arguments, {"name": _named(shown[end - 1]), "after": end})
        notes.append(f"There is more: `cursor` {facts['next_cursor']}")
    text = "".join(lines).encode()
    passages = (Passage(text=Untrusted(text, source="listing")),) if lines else ()
    return Answer(passages=passages, facts=facts, notes=tuple(notes))


def _listed(
    folder: int, place: bytes, arguments: Arguments, context: Context
) -> tuple[list[str], dict[str, JsonValue]]:
    """The names that may be shown, and how many are not, by the reason."""
    inside = "" if place == b"." else place.decode("utf-8", "surrogateescape")
    denies = context.access.denylist.denies_entry
    bound = context.settings.walked_files
    every, denied = tree.names(
        folder, excludes=lambda name: denies(inside, name), check=context.budget.check, bound=bound + 1
    )
    counts: dict[str, JsonValue] = {"denied": denied, "hidden": 0}
    if len(every) + denied > bound:
        counts["unread"] = 1
        every = every[:bound]
    if not arguments.get("include_hidden", False):
        visible = [name for name in every if not name.startswith(".")]
        counts["hidden"] = len(every) - len(visible)
        every = visible
    return every, counts


def _page(folder: int, rest: list[str], context: Context) -> list[str]:
    """Lines for as many names as a page takes."""
    lines: list[str] = []
    room = context.settings.reply_bytes
    for name in rest[: context.settings.page_entries]:
        line = _line(name, tree.look(folder, name))
        room -= len(line.encode())
        if room < 0 and lines:
            break
        lines.append(line)
    return lines


def _line(name: str, found: tree.Look | None) -> str:
    spelled = names.spelled(name.encode("utf-8", "surrogateescape"))
    flags = () if found is None else found.flags
    if spelled != name:
        flags = (*flags, "escaped")
    kind = "gone" if found is None else found.kind.value
    size = "-" if found is None or found.size is None else found.size
    return f"{','.join((kind, *flags))} {size} {spelled}\n"


def _said(counts: dict[str, JsonValue]) -> str:
    """What is not among the entries, in words."""
    said = [f"{counts[why]} {'is' if counts[why] == 1 else 'are'} {words}" for why, words in _WHY if counts[why]]
    return "".join(
        f"; {words}" for words in [*said, *(["there are more than are read"] if counts.get("unread") else [])]
    )


def _named(name: str) -> str:
    return cursor.named(name.encode("utf-8", "surrogateescape"))


def _position(arguments: Arguments) -> tuple[str, int]:
    """The name after which the page begins, as `cursor.named` has it, and how many stood up to it."""
    if "cursor" not in arguments:
        return "", 0
    position = cursor.read(_NAME, arguments, str(arguments["cursor"]))
    name = position.get("name")
    if not isinstance(name, str) or not name:
        raise BadCursorError("the cursor is none of ours", remedy="list the folder from its beginning")
    return name, cursor.whole(position, "after")


def _begin(shown: list[str], position: tuple[str, int]) -> int:
    """Behind that name, wherever it stands by now; where it is gone, at its place."""
    name, after = position
    if not name or (0 < after <= len(shown) and _named(shown[after - 1]) == name):
        return after
    known = next((number for number, one in enumerate(shown, 1) if _named(one) == name), None)
    return min(max(after - 1, 0), len(shown)) if known is None else known


TOOL = Tool(
    name=ToolName(_NAME),
    title="List a folder",
    description="A line for each entry of a folder: kind, size, name. Credential files are only counted.",
    input_schema={
        "type": "object",
        "properties": {
            "path": {"type": "string", "maxLength": limits.ARGUMENT_PATH_CHARACTERS},
            "include_hidden": {"type": "boolean"},
            "cursor": {"type": "string", "maxLength": limits.CURSOR_CHARACTERS},
        },
        "additionalProperties": False,
    },
    output_schema={
        "type": "object",
        "properties": {
            "total": {"type": "integer"},
            "denied": {"type": "integer"},
            "next_cursor": {"type": "string"},
        },
        "required": ["total"],
    },
    run=_run,
)
