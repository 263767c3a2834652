"""`project_overview`: languages by files and lines, manifests and what they declare, entry points, tests, git.

Generated and vendored trees are passed over, denied names are counted, links are not followed. Lines are those of
files up to the size that a search reads; of larger ones only the number of files is told.
"""

from collections.abc import Iterator

from fumehood.content.passage import Answer, Passage
from fumehood.core import limits
from fumehood.core.errors import FailedError, FumehoodError, LimitError, RefusedError, UnsupportedError
from fumehood.core.jsonio import JsonValue
from fumehood.core.untrusted import Untrusted
from fumehood.fence import generated, lines, names, tree
from fumehood.fence.git import command, history
from fumehood.fence.git import names as raw
from fumehood.serve import git
from fumehood.serve.context import Context
from fumehood.serve.counting import counted, passed_over
from fumehood.serve.overview import manifests
from fumehood.serve.overview.survey import Survey
from fumehood.serve.tool import Arguments, Tool, ToolName

_SOURCE = "overview"


def run(arguments: Arguments, context: Context) -> Answer:
    """Answer a call."""
    asked = str(arguments.get("path") or ".")
    place = context.access.relative(asked)
    inside = "" if place == b"." else place.decode("utf-8", "surrogateescape")
    walk = tree.Walk(
        denies=context.access.denylist.denies_entry,
        skips=generated.is_generated,
        enters=lambda _: True,
        check=context.budget.check,
        bound=context.settings.walked_files,
    )
    survey = Survey()
    with context.access.folder(asked) as folder:
        for folders, name in walk.files(folder, inside):
            counted = lines.count(walk.here, name, _limit(context)) if survey.reads(name) else None
            survey.add(folders, name, counted)
    read = [_manifest(path, kind, inside, context) for path, kind in survey.nearest()]
    versioned = _version_control(context)
    facts: dict[str, JsonValue] = {
        "files": survey.files,
        "languages": [
            {"language": word, "files": one.files, "lines": one.lines, "uncounted": one.uncounted}
            for word, one in survey.ranked()
        ],
        "manifests": [fact for fact, _ in read],
        "manifests_total": len(survey.manifests),
        "entry_points": [_spelled(path, inside) for path in survey.entries[: limits.OVERVIEW_ENTRIES]],
        "tests": {
            "files": survey.test_files,
            "folders": [
                {"path": _spelled(path, inside), "files": count}
                for path, count in survey.test_folders.most_common(limits.OVERVIEW_ENTRIES)
            ],
        },
        "version_control": versioned,
        "complete": walk.complete,
        "skipped": dict(sorted(walk.skipped.items())),
    }
    summary = Passage(
        text=_untrusted(_lines(survey, inside, versioned)), heading=Untrusted(b"overview", source=_SOURCE)
    )
    declared = [passage for _, passage in read if passage is not None]
    return Answer(passages=(summary, *_within(declared, context)), facts=facts, notes=_notes(walk))


def _limit(context: Context) -> int:
    return context.settings.searched_file_bytes


def _lines(survey: Survey, inside: str, versioned: dict[str, JsonValue]) -> Iterator[str]:
    """The summary, a line each."""
    yield counted(survey.files, "file")
    for word, one in survey.ranked():
        beside = f", {one.uncounted} not counted" if one.uncounted else ""
        yield f"{word}: {counted(one.files, 'file')}, {counted(one.lines, 'line')}{beside}"
    for path in survey.entries[: limits.OVERVIEW_ENTRIES]:
        yield f"entry point: {_spelled(path, inside)}"
    yield f"tests: {counted(survey.test_files, 'file')}"
    for path, count in survey.test_folders.most_common(limits.OVERVIEW_ENTRIES):
        yield f"tests in {_spelled(path, inside)}: {counted(count, 'file')}"
    yield f"version control: {_versioned(versioned)}"


def _versioned(told: dict[str, JsonValue]) -> str:
    """Branch and commit, or why they are not told, in words."""
    if "error" in told:
        return f"{told['kind']}: {told.get('why', told['error'])}"
    branch = "no branch" if told["branch"] is None else f"branch {told['branch']}"
    return f"{told['kind']}, {branch}, commit {told['commit']}, {told['date']}"


def _manifest(path: str, kind: str, inside: str, context: Context) -> tuple[dict[str, JsonValue], Passage | None]:
    """A manifest as a fact, and what it declares; a fact alone when it cannot be read."""
    shown = _spelled(path, inside)
    fact: dict[str, JsonValue] = {"path": shown, "kind": kind}
    context.budget.check()
    try:
        text = context.access.text(shown, limits.OVERVIEW_MANIFEST_BYTES).decoded.text
        declared = manifests.declared(kind, text)
    except manifests.ManifestError:
        return {**fact, "error": "not_of_its_grammar"}, None
    except (RefusedError, LimitError) as e:
        context.budget.check()  # the call's own end is no fault of a manifest
        return {**fact, "error": e.code}, None
    words = (f"{word}: {', '.join(values)}" for word, values in declared.items())
    return fact, Passage(
        text=_untrusted(words), heading=Untrusted(shown.encode(), source=_SOURCE)
    ) if declared else None


def _version_control(context: Context) -> dict[str, JsonValue]:
    """Branch and commit, or why they are not told."""
    try:
        repository = git.examine(context)
        output = git.ask(context, command.log(repository.closing, None, None, skip=0, count=1))
        entry = history.parse(output.data, complete=output.complete)[0]
    except (FailedError, RefusedError, UnsupportedError) as e:
        return _untold(e)
    except (raw.FormatError, IndexError):
        return {"kind": "git", "error": "git_failed"}
    branch = None if repository.branch is None else names.spelled(repository.branch)
    return {"kind": "git", "branch": branch, "commit": entry.commit, "date": entry.date}


def _untold(error: FumehoodError) -> dict[str, JsonValue]:
    return {"kind": "none" if error.code == "not_a_repository" else "git", "error": error.code, "why": error.message}


def _within(passages: list[Passage], context: Context) -> list[Passage]:
    """As many as a reply holds."""
    room = context.settings.reply_bytes // 2
    kept: list[Passage] = []
    for passage in passages:
        room -= len(passage.text)
        if room < 0:
            break
        kept.append(passage)
    return kept


def _notes(walk: tree.Walk) -> tuple[str, ...]:
    said = passed_over(walk.skipped)
    notes = [f"Passed over: {said}."] if said else []
    if not walk.complete:
        notes.append(f"The walk ended after {walk.entries} entries: give a `path`.")
    return tuple(notes)


def _spelled(path: str, inside: str) -> str:
    whole = "/".join(part for part in (inside, path) if part)
    return names.spelled(whole.encode("utf-8", "surrogateescape"))


def _untrusted(texts: Iterator[str]) -> Untrusted:
    return Untrusted("".join(f"{text}\n" for text in texts).encode("utf-8", "replace"), source=_SOURCE)


TOOL = Tool(
    name=ToolName("project_overview"),
    title="Project overview",
    description="Languages by files and lines, manifests, entry points, tests, version control.",
    input_schema={
        "type": "object",
        "properties": {"path": {"type": "string", "maxLength": limits.ARGUMENT_PATH_CHARACTERS}},
        "additionalProperties": False,
    },
    output_schema={
        "type": "object",
        "properties": {"languages": {"type": "array"}, "manifests": {"type": "array"}, "complete": {"type": "boolean"}},
        "required": ["languages"],
    },
    run=run,
)
