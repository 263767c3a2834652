"""Run one review from the command line: progress on stderr, the summary on stdout, the files in DIR."""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from fumehood.cli import interrupt, render, start, summary
from fumehood.core.clock import SystemClock
from fumehood.review import operator, result, states
from fumehood.review.folder import REPORT, RESULT, OutputFolder
from fumehood.review.report import page
from fumehood.review.request import ReviewRequest
from fumehood.review.run import Job, review
from fumehood.sandbox.probe import host as probe


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, and the folder that a `dir` target's path is relative to."""

    request: ReviewRequest
    beside: Path


def run(asked: Asked, out: Path, *, tethered: bool = False) -> int:
    """Review, write DIR's three files, print the summary; the exit status of the state."""
    settings = start.start()
    with interrupt.interruptible(), OutputFolder(out) as folder:
        if tethered:
            interrupt.tether()
        root = settings.sandbox.run_root
        facts = probe.probe_host(settings.sandbox.tools, quick=True, run_root=Path(root) if root else None)
        job = Job(
            request=asked.request,
            beside=asked.beside,
            host=probe.with_digests(facts),
            settings=settings,
            sources=operator.sources(settings, facts, os.environ, str(asked.request.target.__struct_config__.tag)),
            clock=SystemClock(),
            chance=secrets.SystemRandom(),
            progress=lambda step: render.words(f"  {step} …"),
        )
        finished = interrupt.run(review(job, folder))
        folder.write(REPORT, page.render(finished, folder.lines()))
        folder.finish(result.encode(finished))
    for line in summary.lines(finished, out / RESULT, width=render.width()):
        render.data(line)
    return states.EXIT_STATUS[finished.execution.status]
