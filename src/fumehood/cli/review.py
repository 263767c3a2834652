"""`fumehood review`: the untrusted server. Thin: parse, call, render."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fumehood.cli import render, results, reviewing, serverfile
from fumehood.cli.reviewing import Asked
from fumehood.core import jsonio, limits
from fumehood.core.errors import RefusedError
from fumehood.review import files, request, rules, serverjson, source
from fumehood.review.source import Wishes

UNFIT = 1  # `validate`: the document does not fit; unreadable is a refusal, 2
_SHOWN_PROBLEMS = 50  # lines of `validate`


@click.group()
def review() -> None:
    """Run an MCP server once, bounded, and write what it did: facts, never a verdict."""


review.add_command(results.diff_command)
review.add_command(results.policy_command)
review.add_command(results.export_command)


def wishes_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say more about a SOURCE; a request file says everything itself."""
    options = (
        click.option("--entrypoint", metavar="PATH", help="The JavaScript file, or the Python program, to start."),
        click.option("--argv", metavar="WORD", multiple=True, help="An argument of the server; may be repeated."),
        click.option("--as-of", metavar="DATE", help="Of npm and pypi: resolve nothing that came later."),
        click.option("--network", metavar="MODE", help="SINKHOLE (the default), NONE, ALLOWLIST or OPEN."),
        click.option("--allow", metavar="HOST:PORT", multiple=True, help="A public host for ALLOWLIST; repeatable."),
        click.option(
            "--prepare", metavar="PROFILE", help="npm_build runs `npm run build` first; python_build builds a wheel."
        ),
        click.option("--timeout", metavar="SECONDS", type=int, help="Seconds of EXERCISE, 5 to 120 (default 60)."),
        click.option("--profile", metavar="PROFILE", help="mcp_list (the default), mcp_call or mcp_initialize."),
        click.option("--era", metavar="ERA", help="legacy (the default), modern, or both, each in a fresh process."),
        click.option("--repeat", metavar="N", type=int, help="1; 2 starts it again in its home; 3 in a fresh one too."),
        click.option("--question", metavar="TEXT", help="What the reviewer wants to know."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def asked(text: str, wishes: Wishes, relative_to: Path | None = None) -> Asked:
    """The request that TEXT stands for: a SOURCE with wishes, or the name of a request file without any."""
    if source.is_source(text):
        if relative_to is not None:
            raise RefusedError("--relative-to is for a request file", remedy="write dir:PATH as it is")
        named = source.parse(text)
        return Asked(request=request.convert(source.request(named, wishes)), beside=Path(named.folder or "."))
    if wishes != Wishes():
        raise RefusedError("a request file says everything itself", remedy="leave the options out, or edit the file")
    path = Path(text)
    try:
        data = files.read(path, size=limits.JSON_REQUEST_BYTES)
    except files.UnreadableFileError as error:
        if "://" in text:
            words = f"{text[:200]!a} is neither a request file nor a source"
            raise source.SourceError(words, remedy=f"write {source.FORMS}") from None
        raise files.UnreadableFileError(error.message, remedy=f"{error.remedy}, or write {source.FORMS}") from None
    try:
        parsed = request.parse(data)
    except jsonio.JsonError as error:
        raise RefusedError(f"{path.name[:80]!a} is no request: {error.message}", remedy=error.remedy) from None
    except request.RequestRefusedError:
        if serverjson.is_one(jsonio.parse(data, size=limits.JSON_REQUEST_BYTES)):
            words = "the file is a registry's server.json, and no request"
            raise RefusedError(
                words, remedy="fumehood review request prints a request for each of its packages"
            ) from None
        raise
    return Asked(request=parsed, beside=relative_to or path.parent)


@review.command("request", short_help="Print a request for a SOURCE.")
@click.argument("source_text", metavar="SOURCE|server.json")
@click.option("--package", metavar="N", type=int, help="Of a server.json: this package alone, counted from 0.")
@wishes_options
def request_command(source_text: str, package: int | None, **options: Any) -> None:  # noqa: ANN401 - click's options, typed by Wishes
    """Print a request for npm:NAME@VERSION, pypi:NAME==VERSION, github:OWNER/REPO@SHA40 or dir:PATH.

    For a registry's server.json one request per npm or pypi package, each on a line where there are several. What is
    not passed on (variables, secrets, words for a client's runner) is said on stderr.
    """
    from fumehood.cli.start import start

    start()
    if not source.is_source(source_text) and source_text.endswith(".json"):
        serverfile.requests(Path(source_text), package, wishes_of(options))
        return
    if package is not None:
        raise RefusedError("--package is for a server.json", remedy="leave it out")
    named = source.parse(source_text)
    made = request.convert(source.request(named, wishes_of(options)))
    render.document(request.to_value(made))
    if named.folder is not None:
        render.words("the path of a dir target is relative to the request: save it inside that folder")


@review.command("run", short_help="Run a review and write what the target did.")
@click.argument("text", metavar="REQUEST.json|SOURCE")
@click.option("--out", metavar="DIR", required=True, type=click.Path(path_type=Path), help="A new or empty folder.")
@click.option(
    "--relative-to",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where a dir target of a request file is found (default: beside the file).",
)
@click.option("--tethered", is_flag=True, help="End as if interrupted when standard input closes.")
@wishes_options
def run_command(text: str, out: Path, relative_to: Path | None, *, tethered: bool, **options: Any) -> int:  # noqa: ANN401 - click's options, typed by Wishes
    """Run REQUEST.json, or npm:NAME@VERSION, pypi:NAME==VERSION, github:OWNER/REPO@SHA40, dir:PATH.

    Writes what it did: DIR/result.json, DIR/events.ndjson, and for a browser DIR/report.html.

    Exit: 0 COMPLETED, 1 TARGET_FAILED, 3 RUNTIME_UNSUPPORTED, 4 TIMEOUT or STOPPED, 5 HARNESS_ERROR; 2 refused.
    """
    return reviewing.run(asked(text, wishes_of(options), relative_to), out, tethered=tethered)


@review.command("batch", short_help="Run many reviews, and go on where it stopped.")
@click.argument("path", metavar="REQUESTS.jsonl", type=click.Path(path_type=Path))
@click.option(
    "--out", metavar="DIR", required=True, type=click.Path(path_type=Path), help="A new folder, or a batch's."
)
@click.option("--workers", metavar="N", type=int, help="Reviews at once on this host (default: one a core).")
@click.option("--scheduler", metavar="URL", help="tcp://HOST:PORT or tls://HOST:PORT of a Dask cluster.")
@click.option("--unsafe-plain-scheduler", is_flag=True, help="Let tcp:// leave this host: whoever connects runs code.")
@click.option("--skip-refused", is_flag=True, help="Leave out refused lines instead of starting nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON document.")
def batch_command(path: Path, **options: Any) -> int:  # noqa: ANN401 - click's options, typed by Wanted
    """Run each request of REQUESTS.jsonl, one JSON object a line; write DIR/DIGEST/attempt-NNNN/ and DIR/summary.md.

    What has a result is not run again: the same command goes on where an earlier one was ended.

    Exit: 0 every request has a result, whatever its state; 5 some have none or HARNESS_ERROR; 2 refused.
    """
    from fumehood.cli import batching

    return batching.run(batching.Wanted(path=path, **options))


@review.command("validate", short_help="Say whether a result fits the published schema.")
@click.argument("path", metavar="RESULT.json", type=click.Path(path_type=Path))
def validate_command(path: Path) -> int:
    """Say whether a result fits the published schema: 0 it does, 1 it does not, 2 it cannot be read."""
    from fumehood.cli.start import start

    start()
    data = files.read(path, size=limits.JSON_RESULT_BYTES)
    problems = _problems(_json(path.name, data), len(data))
    for problem in problems[:_SHOWN_PROBLEMS]:
        render.data(problem)
    if len(problems) > _SHOWN_PROBLEMS:
        render.data(f"and {len(problems) - _SHOWN_PROBLEMS} more")
    render.words(f"{path.name}: {'does not fit' if problems else 'fits'} the schema of a review result")
    return UNFIT if problems else 0


def _json(name: str, data: bytes) -> jsonio.JsonValue:
    try:
        return jsonio.parse(data, size=limits.JSON_RESULT_BYTES)
    except jsonio.JsonError as error:
        remedy = f"name the result.json of a review, or {error.remedy}"
        raise RefusedError(f"{name[:80]!a} is no review result: {error.message}", remedy=remedy) from None


def _problems(value: jsonio.JsonValue, size: int) -> list[str]:
    """Why a value is no result. Of a large one that cannot even be converted only the first reason is looked for."""
    import msgspec

    from fumehood.review import result
    from fumehood.wire import schema

    try:
        msgspec.convert(value, result.ReviewResult)
    except msgspec.ValidationError as error:
        if size > limits.JSON_LISTED_BYTES:
            return [f"{str(error)[:400]} (a large document: there may be more)"]
    found = schema.problems(result.schema(), value)
    return [f"{rules.dotted(problem.path) or 'result'}: {problem.message[:200]}" for problem in found]


def wishes_of(options: dict[str, Any]) -> Wishes:
    """The options of the command line as wishes."""
    return Wishes(
        entrypoint=options["entrypoint"],
        argv=options["argv"],
        network=options["network"],
        allow=options["allow"],
        prepare=options["prepare"],
        timeout_seconds=options["timeout"],
        question=options["question"],
        as_of=options["as_of"],
        profile=options["profile"],
        era=options["era"],
        repeat=options["repeat"],
    )
