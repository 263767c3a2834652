"""`git_log`: commits, newest first, with their messages and the names of the files that each changed.

A name on the denylist is counted and not shown. Messages and authors are content of the workspace like any file.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from fumehood.content.passage import Answer, Passage
from fumehood.core import limits
from fumehood.core.errors import TooLargeError
from fumehood.core.jsonio import JsonValue
from fumehood.core.untrusted import Untrusted
from fumehood.fence.git import command, history, names, revision, words
from fumehood.fence.git.history import Entry
from fumehood.fence.names import spelled
from fumehood.serve import cursor, git
from fumehood.serve.context import Context
from fumehood.serve.tool import Arguments, Tool, ToolName

NAME = ToolName("git_log")
_SOURCE = "git log"
_DEFAULT = 10
_AFTER_BYTES = 16 * 1024  # of a message behind its cut, in which a credential may end


@dataclass(slots=True)
class _Page:
    """The commits that fit a reply."""

    passages: list[Passage] = field(default_factory=list)
    commits: list[JsonValue] = field(default_factory=list)
    bytes: int = 0
    omitted: int = 0
    replaced: int = 0


def run(arguments: Arguments, context: Context) -> Answer:
    """Answer a call."""
    asked = git.revision(arguments)
    path = git.path(arguments, context)
    limit = arguments.get("limit")
    count = limit if isinstance(limit, int) else _DEFAULT
    skip = _skipped(arguments)
    repository = git.examine(context)
    output = git.ask(context, command.log(repository.closing, asked, path, skip=skip, count=count + 1))
    try:
        entries = history.parse(output.data, complete=output.complete)
    except names.FormatError as e:
        raise git.unexpected(e) from e
    if not entries and not output.complete:
        raise TooLargeError("a commit is larger than is read here", remedy="ask for a range without it")
    page = _Page()
    for entry in entries[:count]:
        if not _add(page, entry, context):
            break
    shown = len(page.commits)
    more = shown < len(entries) or not output.complete
    facts: dict[str, JsonValue] = {"commits": page.commits, "omitted": page.omitted, "replaced": page.replaced}
    if more and shown:
        facts["next_cursor"] = cursor.make(NAME, arguments, {"skip": skip + shown})
    return Answer(passages=tuple(page.passages), facts=facts, notes=tuple(_notes(page, facts)))


def _notes(page: _Page, facts: dict[str, JsonValue]) -> Iterator[str]:
    if not page.commits:
        yield "No commit to show."
    if page.omitted:
        yield f"{page.omitted} changed files are on the denylist and not named."
    if "next_cursor" in facts:
        yield f"There is more: `cursor` {facts['next_cursor']}"


def _skipped(arguments: Arguments) -> int:
    text = arguments.get("cursor")
    return cursor.whole(cursor.read(NAME, arguments, text), "skip") if isinstance(text, str) else 0


def _add(page: _Page, entry: Entry, context: Context) -> bool:
    """Put a commit on the page; False when the page is full."""
    allowed = [change for change in entry.changes if not change.leads_out and not context.access.denies(change.path)]
    files = b"".join(f"{c.status} {spelled(c.path)}\n".encode() for c in allowed[: limits.LOG_FILES])
    head = b"author: %s <%s>\ndate: %s\n" % (entry.author, entry.email, entry.date.encode())
    shown, rest = words.cut(words.lines(entry.message), limits.LOG_MESSAGE_BYTES)
    message = b"".join(b"    " + line + b"\n" for line in shown.split(b"\n")[: -1 if shown.endswith(b"\n") else None])
    text, replaced = words.utf8(b"\n".join(part for part in (head, message, files) if part))
    if page.commits and page.bytes + len(text) > context.settings.reply_bytes:
        return False
    page.bytes += len(text)
    page.omitted += len(entry.changes) - len(allowed)
    page.replaced += replaced
    page.passages.append(
        Passage(
            text=Untrusted(text, source=_SOURCE),
            after=Untrusted(words.utf8(rest[:_AFTER_BYTES])[0], source=_SOURCE),
            heading=Untrusted(f"commit {entry.commit}".encode(), source=_SOURCE),
        )
    )
    page.commits.append(
        {
            "commit": entry.commit,
            "parents": list(entry.parents),
            "date": entry.date,
            "files": entry.changed - len(entry.changes) + len(allowed),
            "omitted": len(entry.changes) - len(allowed),
            "clipped_bytes": len(rest),
        }
    )
    return True


TOOL = Tool(
    name=NAME,
    title="Commit history",
    description="Commits, newest first: author, message, changed files. Ranges a..b.",
    input_schema={
        "type": "object",
        "properties": {
            "limit": {"type": "integer", "minimum": 1, "maximum": limits.LOG_ENTRIES},
            "revision": {"type": "string", "pattern": revision.CHARACTERS, "maxLength": limits.REVISION_CHARACTERS},
            "path": {"type": "string", "maxLength": limits.ARGUMENT_PATH_CHARACTERS},
            "cursor": {"type": "string"},
        },
        "additionalProperties": False,
    },
    output_schema={
        "type": "object",
        "properties": {"commits": {"type": "array"}, "next_cursor": {"type": "string"}},
        "required": ["commits"],
    },
    run=run,
)
