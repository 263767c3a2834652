"""Run a batch from the command line: the list is checked, a pass is made, the summary is written and printed."""

import os
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import msgspec

from fumehood.cli import batchprogress, extras, interrupt, render, start
from fumehood.core import limits
from fumehood.core.clock import SystemClock
from fumehood.core.errors import RefusedError
from fumehood.review import files
from fumehood.review.batch import listing, table
from fumehood.review.batch.crew import Crew, LocalCrew
from fumehood.review.batch.listing import Listing, ListRefusedError
from fumehood.review.batch.place import Place
from fumehood.review.batch.run import Orders, Pass
from fumehood.review.batch.table import NO_RESULT, Summary
from fumehood.review.states import State

SUMMARY_JSON, SUMMARY_MARKDOWN = "summary.json", "summary.md"
_WITHOUT = frozenset({NO_RESULT, State.HARNESS_ERROR})  # states that say nothing about the target


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the command line says."""

    path: Path
    out: Path
    workers: int | None = None
    scheduler: str | None = None
    unsafe_plain_scheduler: bool = False
    skip_refused: bool = False
    as_json: bool = False


def run(wanted: Wanted) -> int:
    """Make one pass; the exit status."""
    start.start()
    workers = _workers(wanted)
    if wanted.scheduler is not None:
        _check_scheduler(wanted.scheduler, unsafe_plain=wanted.unsafe_plain_scheduler)
    listed = _listed(wanted)
    with interrupt.interruptible(), Place(wanted.out) as place:
        made = _passed(wanted, listed, place, workers)
        place.write(SUMMARY_JSON, table.encode(made))
        place.write(SUMMARY_MARKDOWN, table.markdown(made))
    _print(made, wanted)
    return 5 if _WITHOUT & set(made.states) else 0


def _passed(wanted: Wanted, listed: Listing, place: Place, workers: int) -> Summary:
    """The summary of a pass; one that is interrupted says how to go on."""
    watch = batchprogress.watch(workers)
    crew = _crew(wanted, workers)
    settings = _settings() if wanted.scheduler is None else None  # a worker has its own
    orders = Orders(beside=_folder(wanted.path), harness=metadata.version("fumehood"), settings=settings)
    going = Pass(place, crew, orders, watch=watch, clock=SystemClock())
    try:
        rows = going.run(listed.entries)
    except BaseException:
        watch.close()
        render.words("ending the reviews that run …")
        with interrupt.undisturbed():
            crew.close()
        render.words(f"{going.done} of {len(listed.entries)} requests are done; the same command goes on from there")
        raise
    watch.close()
    crew.close()
    made = table.summary(rows, refused_lines=listed.refused_lines, repeated_lines=len(listed.repeated))
    weakened = ("unsafe_plain_scheduler",) if wanted.unsafe_plain_scheduler else ()
    return msgspec.structs.replace(made, weakened=weakened)


def _crew(wanted: Wanted, workers: int) -> Crew:
    if wanted.scheduler is None:
        return LocalCrew(workers)
    from fumehood.review.batch import cluster

    render.words(f"on {wanted.scheduler}: each worker uses its own settings; see docs/limits/batch.md")
    return cluster.ClusterCrew(wanted.scheduler)


def _workers(wanted: Wanted) -> int:
    if wanted.workers is None:
        return min(len(os.sched_getaffinity(0)), limits.BATCH_WORKERS)
    if wanted.scheduler is not None:
        raise RefusedError("--workers is for this host, --scheduler for a cluster", remedy="give one of them")
    if not 1 <= wanted.workers <= limits.BATCH_WORKERS:
        raise RefusedError(f"--workers {wanted.workers}", remedy=f"write 1 to {limits.BATCH_WORKERS}")
    return wanted.workers


def _check_scheduler(url: str, *, unsafe_plain: bool) -> None:
    """Refuse, before anything is read, what cannot or should not be connected to."""
    extras.need("cluster")
    from fumehood.review.batch import cluster

    cluster.check(url, unsafe_plain=unsafe_plain)
    if unsafe_plain:
        render.words("unsafe_plain_scheduler: whoever reaches that port runs code on every worker, and here")


def _listed(wanted: Wanted) -> Listing:
    """The list, with every refused and every repeated line told; an error when nothing may be started."""
    listed = listing.parse(files.read(wanted.path, size=limits.BATCH_BYTES), folder=_folder(wanted.path))
    for bad in listed.refused:
        for reason in bad.reasons:
            render.words(f"line {bad.line}: {reason}")
    untold = listed.refused_lines - len(listed.refused)
    if untold:
        render.words(f"and {untold} more refused lines")
    for line, first in listed.repeated[: limits.BATCH_REFUSED_LINES]:
        render.words(f"line {line}: asks for the same as line {first}, and is run once")
    if listed.refused_lines and not wanted.skip_refused:
        count = listed.refused_lines
        raise ListRefusedError(
            f"{count} {'line is' if count == 1 else 'lines are'} refused; nothing was started",
            remedy="mend them, or leave them out with --skip-refused",
        )
    if not listed.entries:
        raise ListRefusedError("no line is left", remedy="write one request as JSON on each line")
    return listed


def _folder(path: Path) -> str:
    """The list's own folder, by its one true name."""
    return str(path.parent.resolve())


def _settings() -> str | None:
    """The settings file that this command was given, as a child in whatever folder finds it."""
    import click

    named = click.get_current_context().find_root().params.get("settings")
    return str(Path(named).resolve()) if named else None


def _print(made: Summary, wanted: Wanted) -> None:
    if wanted.as_json:
        render.document(table.to_value(made))
        return
    for line in batchprogress.lines(made):
        render.data(line)
    render.words(f"{wanted.out / SUMMARY_MARKDOWN} has all columns")
