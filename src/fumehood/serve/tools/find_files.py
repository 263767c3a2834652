"""`find_files`: the paths of regular files whose name or path matches a glob, a line each.

What a glob means is said in `fence.globs`. Generated and vendored trees are passed over and counted, unless `path`
itself leads into one; denied names are counted; links are counted and not followed.
"""

from fumehood.content.passage import Answer, Passage
from fumehood.core import limits
from fumehood.core.jsonio import JsonValue
from fumehood.core.untrusted import Untrusted
from fumehood.fence import generated, names, tree
from fumehood.fence.globs import Glob
from fumehood.serve import cursor
from fumehood.serve.context import Context
from fumehood.serve.counting import passed_over, share
from fumehood.serve.tool import Arguments, Tool, ToolName

_NAME = "find_files"


def _run(arguments: Arguments, context: Context) -> Answer:
    glob = Glob(str(arguments["glob"]))
    asked = str(arguments.get("path", "."))
    place = context.access.relative(asked or ".")
    skip = _skipped(arguments)
    walk = tree.Walk(
        denies=context.access.denylist.denies_entry,
        skips=generated.is_generated,
        enters=glob.may_lead_to,
        check=context.budget.check,
        bound=context.settings.walked_files,
    )
    inside = "" if place == b"." else place.decode("utf-8", "surrogateescape")
    with context.access.folder(asked) as folder:
        found = ["/".join((*above, name)) for above, name in walk.files(folder, inside) if glob.matches(above, name)]
    lines = _page(found[skip:], inside, context)
    facts = _facts(walk, shown=len(lines), total=len(found))
    notes = [f"{share(len(lines), len(found), 'file') if found else 'No file matches'}{_said(walk)}."]
    if skip + len(lines) < len(found):
        facts["next_cursor"] = cursor.make(_NAME, arguments, {"skip": skip + len(lines)})
        notes.append(f"There is more: `cursor` {facts['next_cursor']}")
    text = "".join(lines).encode()
    passages = (Passage(text=Untrusted(text, source="paths")),) if lines else ()
    return Answer(passages=passages, facts=facts, notes=tuple(notes))


def _page(found: list[str], inside: str, context: Context) -> list[str]:
    lines: list[str] = []
    room = context.settings.reply_bytes
    for path in found[: context.settings.page_entries]:
        whole = f"{inside}/{path}" if inside else path
        line = names.spelled(whole.encode("utf-8", "surrogateescape")) + "\n"
        room -= len(line.encode())
        if room < 0 and lines:
            break
        lines.append(line)
    return lines


def _facts(walk: tree.Walk, *, shown: int, total: int) -> dict[str, JsonValue]:
    skipped: dict[str, JsonValue] = dict(sorted(walk.skipped.items()))
    return {"shown": shown, "total": total, "complete": walk.complete, "skipped": skipped}


def _said(walk: tree.Walk) -> str:
    """What the walk passed over, in words."""
    said = passed_over(walk.skipped)
    words = f"; passed over: {said}" if said else ""
    return words if walk.complete else f"{words}; the walk ended after {walk.entries} entries: give a `path`"


def _skipped(arguments: Arguments) -> int:
    """How many matches earlier pages have shown."""
    if "cursor" not in arguments:
        return 0
    return cursor.whole(cursor.read(_NAME, arguments, str(arguments["cursor"])), "skip")


TOOL = Tool(
    name=ToolName(_NAME),
    title="Find files by name",
    description="Paths that match a glob: *.py at any depth, src/**/*.py from path. Generated trees are skipped.",
    input_schema={
        "type": "object",
        "properties": {
            "glob": {"type": "string", "minLength": 1, "maxLength": limits.PATTERN_CHARACTERS},
            "path": {"type": "string", "maxLength": limits.ARGUMENT_PATH_CHARACTERS},
            "cursor": {"type": "string", "maxLength": limits.CURSOR_CHARACTERS},
        },
        "required": ["glob"],
        "additionalProperties": False,
    },
    output_schema={
        "type": "object",
        "properties": {
            "total": {"type": "integer"},
            "complete": {"type": "boolean"},
            "next_cursor": {"type": "string"},
        },
        "required": ["total"],
    },
    run=_run,
)
