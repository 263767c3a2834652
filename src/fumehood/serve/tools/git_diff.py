"""`git_diff`: how the work tree, the index or a commit differs from another, as lines or as numbers of lines.

git is asked twice. First for the names that differ, which reads no file. What is denied, a link, a submodule, or in
the work tree not a file that the fence would open is counted and goes no further; git then compares the remaining
names, and what it answers is judged by the same rules again, since a name may stand for a folder.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from fumehood.content.passage import Answer, Passage
from fumehood.core import limits
from fumehood.core.errors import DeniedPathError, InvalidArgumentsError, NotFoundError, RefusedError, TooLargeError
from fumehood.core.jsonio import JsonValue
from fumehood.core.untrusted import Untrusted
from fumehood.fence.git import command, hunks, names, patch, revision, words
from fumehood.fence.git.hunks import Hunk
from fumehood.fence.git.names import Change
from fumehood.fence.git.patch import FileDifference
from fumehood.fence.git.revision import Revision
from fumehood.fence.names import spelled
from fumehood.fence.repository import Repository
from fumehood.serve import git, worktree
from fumehood.serve.context import Context
from fumehood.serve.counting import counted
from fumehood.serve.tool import Arguments, Tool, ToolName
from fumehood.serve.worktree import Mark

NAME = ToolName("git_diff")
_SOURCE = "git diff"
_CONTEXT_LINES = 3
_AFTER_BYTES = 16 * 1024  # behind a cut, in which a credential may end
_LARGE = "large"  # named, and not compared: git would read all of it to say no more
_OUTSIDE = "outside"
# Why a name that differs is not shown → words for the text half.
_CHANGED = "changed"
_OMITTED = {
    _OUTSIDE: "names that lead out of the workspace",
    "denied": "on the denylist",
    "link": "links, whose content is where they point",
    "submodule": "submodules",
    "unmerged": "in conflict",
    "refused": "not files that are served (hard links, FIFOs, unreadable)",
    _CHANGED: "replaced while they were compared",
    "beyond": "beyond the limits of one reply: name a path",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    revision: Revision | None
    staged: bool
    path: bytes | None
    context_lines: int | None  # None: only numbers

    @property
    def reads_the_work_tree(self) -> bool:
        """Whether one side is what lies in the workspace now."""
        return not self.staged and not (self.revision is not None and self.revision.is_range)


@dataclass(slots=True)
class _Reply:
    marks: dict[bytes, Mark | None] | None = (
        None  # of the files in the work tree that git may read; None: it reads none
    )
    passages: list[Passage] = field(default_factory=list)
    files: list[JsonValue] = field(default_factory=list)
    omitted: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    replaced: int = 0
    truncated: bool = False


def run(arguments: Arguments, context: Context) -> Answer:
    """Answer a call."""
    question = _question(arguments, context)
    repository = git.examine(context)
    reply = _Reply(marks={} if question.reads_the_work_tree else None)
    git.require_attributes(context, ())
    paths = _candidates(question, repository, context, reply)
    if paths:
        git.require_attributes(context, paths)
        output = git.ask(
            context,
            command.difference(
                repository.closing,
                question.revision,
                paths,
                staged=question.staged,
                stat_only=question.context_lines is None,
            ),
        )
        try:
            read = patch.counts if question.context_lines is None else patch.lines
            found = read(output.data, complete=output.complete)
        except names.FormatError as e:
            raise git.unexpected(e) from e
        reply.truncated |= not output.complete
        for difference in found:
            if _is_as_judged(difference.change, reply, context):
                _add(reply, difference, question.context_lines or 0, context)
            else:
                reply.omitted[_CHANGED] += 1
    facts: dict[str, JsonValue] = {
        "files": reply.files,
        "omitted": dict(sorted(reply.omitted.items())),
        "replaced": reply.replaced,
        "truncated": reply.truncated,
    }
    if question.context_lines is None and reply.files:
        reply.passages.append(_table(reply))
    notes = [
        f"{counted(reply.omitted[why], 'name')} not shown: {said}."
        for why, said in _OMITTED.items()
        if reply.omitted[why]
    ]
    if not reply.files:
        notes.append("No difference to show.")
    return Answer(passages=tuple(reply.passages), facts=facts, notes=tuple(notes))


def _question(arguments: Arguments, context: Context) -> _Question:
    asked = git.revision(arguments)
    staged = arguments.get("staged") is True
    if staged and asked is not None and asked.is_range:
        raise InvalidArgumentsError(
            "a range is not compared with the index", remedy="give one revision, or no `staged`"
        )
    lines = arguments.get("context_lines", _CONTEXT_LINES)
    return _Question(
        revision=asked,
        staged=staged,
        path=git.path(arguments, context),
        context_lines=None if arguments.get("stat_only") is True else lines if isinstance(lines, int) else 0,
    )


def _candidates(question: _Question, repository: Repository, context: Context, reply: _Reply) -> tuple[bytes, ...]:
    """The names that git may compare; counts the others in the reply."""
    output = git.ask(
        context,
        command.candidates(repository.closing, question.revision, question.path, staged=question.staged),
    )
    try:
        changes, _ = names.parse(output.data, complete=output.complete)
    except names.FormatError as e:
        raise git.unexpected(e) from e
    reply.truncated |= not output.complete
    kept: dict[bytes, None] = {}
    unmerged = {change.path for change in changes if change.status == "U"}
    for change in changes:
        context.budget.check()
        why = "unmerged" if change.path in unmerged else _reason(change, context)
        # Beyond the bound nothing is read any more, only counted.
        if not why and reply.marks is not None and len(kept) < limits.DIFF_FILES:
            reply.marks[change.path] = worktree.mark(change.path, context)
            why = _reason_on_disk(change, context)
        if why == _OUTSIDE and question.reads_the_work_tree:
            continue  # git lists it or not by what lies there: even a count would tell
        if why == _LARGE:
            reply.files.append(_fact(FileDifference(change=change), clipped_bytes=0))
        elif why:
            reply.omitted[why] += 1
        else:
            kept[change.path] = None
    paths = _within_bounds(tuple(kept))
    if len(paths) < len(kept):
        reply.omitted["beyond"] += len(kept) - len(paths)
        reply.truncated = True
    return paths


def _within_bounds(paths: Sequence[bytes]) -> tuple[bytes, ...]:
    sizes = accumulate(len(path) + 1 for path in paths[: limits.DIFF_FILES])
    return tuple(path for path, size in zip(paths, sizes, strict=False) if size <= limits.DIFF_ARGUMENT_BYTES)


def _reason(change: Change, context: Context) -> str:
    """Why a name is not shown; empty when it may be."""
    if change.leads_out:
        return _OUTSIDE
    if any(context.access.denies(path) for path in change.paths):
        return "denied"
    if change.is_link:
        return "link"
    return "submodule" if change.is_submodule else ""


def _reason_on_disk(change: Change, context: Context) -> str:
    """Why what lies in the work tree is not read; the fence judges it as for `read_file`."""
    try:
        context.access.read(spelled(change.path), limits.SERVED_FILE_BYTES)
    except NotFoundError:
        return ""  # deleted: there is nothing to read
    except TooLargeError:
        return _LARGE
    except DeniedPathError:
        return "denied"  # for what it holds
    except RefusedError:
        # A folder or a link stands where a file was: to git the file is gone, and it reads neither.
        return "" if change.status == "D" else "refused"
    return ""


def _is_as_judged(change: Change, reply: _Reply, context: Context) -> bool:
    """Whether git, which opens files by name, can only have read what `_reason_on_disk` has judged."""
    return reply.marks is None or worktree.is_unchanged(change, reply.marks.get(change.path), context)


def _add(reply: _Reply, difference: FileDifference, context_lines: int, context: Context) -> None:
    change = difference.change
    why = _reason(change, context)
    if not why and any(context.access.holds_credentials(change.path, side) for side in difference.sides):
        why = "denied"
    if why:
        reply.omitted[why] += 1
        return
    if reply.bytes >= context.settings.reply_bytes:
        reply.omitted["beyond"] += 1
        reply.truncated = True
        return
    clipped = 0
    name = " -> ".join(spelled(path) for path in change.paths).encode()
    for hunk in hunks.narrowed(difference.lines, context_lines):
        context.budget.check()
        room = context.settings.reply_bytes - reply.bytes
        if room <= 0:
            clipped += len(hunk.lines)
        else:
            clipped += _add_hunk(reply, hunk, name, room)
    reply.bytes += len(name)
    reply.truncated |= clipped > 0 or difference.cut
    reply.files.append(_fact(difference, clipped_bytes=clipped))


def _add_hunk(reply: _Reply, hunk: Hunk, name: bytes, room: int) -> int:
    """Put a hunk into the reply; the bytes for which there was no room."""
    text, replaced = words.utf8(words.lines(hunk.lines))
    shown, rest = words.cut(text, room)
    reply.passages.append(
        Passage(
            text=Untrusted(words.lines(shown), source=_SOURCE),
            before=_around(hunk.before),
            after=Untrusted(rest[:_AFTER_BYTES], source=_SOURCE) if rest else _around(hunk.after),
            heading=Untrusted(name + b" " + hunk.header, source=_SOURCE),
        )
    )
    reply.bytes += len(shown) + len(name) + len(hunk.header)
    reply.replaced += replaced
    return len(rest)


def _around(lines: bytes) -> Untrusted:
    return Untrusted(words.utf8(words.lines(lines))[0], source=_SOURCE)


def _table(reply: _Reply) -> Passage:
    """The numbers of lines as text, for who reads nothing but text."""
    rows = [fact for fact in reply.files if isinstance(fact, dict)]
    lines = (f"{row['status']} {_counted(row, 'added')} {_counted(row, 'removed')} {row['path']}\n" for row in rows)
    return Passage(text=Untrusted("".join(lines).encode(), source=_SOURCE))


def _counted(row: Mapping[str, JsonValue], which: str) -> str:
    sign = "+" if which == "added" else "-"
    return sign + ("?" if row[which] is None else str(row[which]))


def _fact(difference: FileDifference, *, clipped_bytes: int) -> dict[str, JsonValue]:
    change = difference.change
    fact: dict[str, JsonValue] = {
        "path": spelled(change.path),
        "status": change.status,
        "added": difference.added,
        "removed": difference.removed,
        "binary": difference.added is None,
    }
    if change.old_path != change.path:
        fact["old_path"] = spelled(change.old_path)
    if change.old_mode != change.new_mode and change.old_mode and change.new_mode:
        fact["modes"] = [f"{change.old_mode:06o}", f"{change.new_mode:06o}"]
    if clipped_bytes:
        fact["clipped_bytes"] = clipped_bytes
    if b"\r" in difference.lines:
        fact["carriage_returns"] = True
    return fact


TOOL = Tool(
    name=NAME,
    title="Differences",
    description=(
        "Lines that differ: work tree against index or revision; staged: index against HEAD or revision; "
        "a..b, a...b: two commits."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "revision": {"type": "string", "pattern": revision.CHARACTERS, "maxLength": limits.REVISION_CHARACTERS},
            "staged": {"type": "boolean"},
            "stat_only": {"type": "boolean"},
            "path": {"type": "string", "maxLength": limits.ARGUMENT_PATH_CHARACTERS},
            "context_lines": {"type": "integer", "minimum": 0, "maximum": limits.CONTEXT_LINES_DIFF},
        },
        "additionalProperties": False,
    },
    output_schema={
        "type": "object",
        "properties": {"files": {"type": "array"}, "truncated": {"type": "boolean"}},
        "required": ["files"],
    },
    run=run,
)
