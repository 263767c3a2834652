"""Run one program from the command line: the host, the tools and the job together; value, words and status apart."""

import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, TypeAlias

import click
import msgspec

from fumehood.cli import auditing, extras, interrupt, render, start
from fumehood.code import attest, grounding
from fumehood.code.backend import Answer, ToolBackend, ToolSource
from fumehood.code.gate import AuditRecord, Gate
from fumehood.code.gated import Audit, Gated
from fumehood.code.job import Job, JobResult, ProgramError, State
from fumehood.code.run import Ground, run_job
from fumehood.code.trials import Outcome, Tried
from fumehood.core.clock import SystemClock
from fumehood.core.errors import UnknownToolError, UnsupportedError
from fumehood.core.jsonio import JsonValue
from fumehood.core.sections import Settings
from fumehood.gateway import backend
from fumehood.gateway.upstreams.served import ServedFolder
from fumehood.sandbox.hostfacts import Tool

EXIT_STATUS: Final = {
    State.OK: 0,
    State.USER_ERROR: 1,
    State.SYNTAX_ERROR: 1,
    State.CHILD_EXIT: 1,
    State.PROTOCOL_VIOLATION: 1,
    State.RUNNER_UNAVAILABLE: 3,
    State.TIMEOUT_WALL: 4,
    State.TIMEOUT_CPU: 4,
    State.OUT_OF_MEMORY: 4,
    State.OUTPUT_LIMIT: 4,
    State.CALL_LIMIT: 4,
    State.CANCELLED: 130,
}
RunJob: TypeAlias = Callable[[Job, ToolBackend], Awaitable[JobResult]]
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A program, its input, and whose tools it is given, if any: those of a folder, or of a gateway."""

    program: str
    value: JsonValue
    workspace: Path | None = None
    gateway: Path | None = None


class NoTools:
    """A `ToolSource` without tools, for a program that was given none."""

    tools: tuple[()] = ()

    async def call(self, name: str, arguments: JsonValue) -> Answer:
        """Never reached: the gate allows nothing."""
        del arguments
        raise UnknownToolError(f"{name} is no tool of this run")


def run(asked: Asked) -> JobResult:
    """What came of it, also where nothing can be run here. Errors: those of the settings and of the workspace."""
    settings = start.start()
    with interrupt.interruptible():
        try:
            run = _elsewhere(settings) if settings.code.runner_url else _here(settings)
        except UnsupportedError as error:
            return unavailable(str(error))
        if asked.gateway is None:
            return interrupt.run(_run(asked, run, settings))
        from fumehood.cli import tooled

        return interrupt.run(tooled.run(asked, asked.gateway, run, settings))


def _here(settings: Settings) -> RunJob:
    ground, _ = ground_of(settings)

    async def run(job: Job, backend: ToolBackend) -> JobResult:
        return await run_job(job, backend, ground)

    return run


def _elsewhere(settings: Settings) -> RunJob:
    """The runner of `code.runner_url`, and none of this machine's."""
    extras.need("code")
    from fumehood.code.dialing import Runner, run_remote
    from fumehood.code.service.secret import read_token

    runner = Runner(url=settings.code.runner_url or "", token=read_token(settings.code.runner_token_file))

    async def run(job: Job, backend: ToolBackend) -> JobResult:
        return await run_remote(job, backend, runner)

    return run


def selftest(*, as_json: bool) -> int:
    """Try the walls; the status is 0 when every trial held, and 3 otherwise. `UnsupportedError` where none can run."""
    settings = start.start()
    with interrupt.interruptible():
        ground, _ = ground_of(settings)
        done = interrupt.run(attest.attest(ground, wanted()))
    report = done.report
    if report.ok and done.unkept:
        render.words(f"not remembered: {done.unkept}")
    if as_json:
        render.document(msgspec.to_builtins(report))
    else:
        held = sum(one.outcome is Outcome.HELD for one in report.trials)
        render.data(f"{held} of {len(report.trials)} held")
    return 0 if report.ok else UnsupportedError.exit_status


def wanted() -> attest.Wanted:
    """Where this user's record of the self test lies, and whom to tell."""
    return attest.Wanted(file=attest.file(os.environ), clock=SystemClock(), progress=_say, say=render.words)


def _say(one: Tried) -> None:
    sides = f"{one.with_walls} / without: {one.without_walls}" if one.without_walls else one.with_walls
    render.words(f"  {one.name}  {one.outcome.value.replace('_', ' ')}\n      {sides}")


def show(result: JobResult, *, as_json: bool) -> None:
    """The whole result as one document, or the value on stdout and everything else in words."""
    if as_json:
        render.document(msgspec.to_builtins(result))
        return
    for line in result.logs:
        render.words(f"{line.level}: {line.message}")
    if result.ok:
        render.document(result.value)
    elif result.error is not None:
        render.words(f"{result.state.value}: {result.error.name}: {result.error.message}{_place(result.error)}")
        if result.error.stack:
            render.words(result.error.stack)


def unavailable(reason: str) -> JobResult:
    """The result where no child could be made."""
    error = ProgramError(name="RunnerUnavailable", message=reason)
    return JobResult(state=State.RUNNER_UNAVAILABLE, ok=False, error=error)


def ground_of(settings: Settings) -> tuple[Ground, Tool]:
    """Where children run on this host, and the Deno of it. `UnsupportedError` when they cannot."""
    return grounding.find(settings)


async def _run(asked: Asked, run: RunJob, settings: Settings) -> JobResult:
    async with auditing.kept(settings, asked.workspace) as kept, _source(asked.workspace) as source:
        names = tuple(tool.name for tool in source.tools)
        gate = Gate(source.tools, allowed=names)
        for name, reason in gate.left_out.items():
            render.words(f"{name} is not offered, for its schema: {reason}")
        job = Job(code=asked.program, input=asked.value, tools=tuple(tool.name for tool in gate.tools))
        return await run(job, Gated(source, gate, clock=SystemClock(), audit=_audit(kept)))


@contextlib.asynccontextmanager
async def _source(folder: Path | None) -> AsyncIterator[ToolSource]:
    if folder is None:
        yield NoTools()
        return
    named = click.get_current_context().find_root().params.get("settings")
    settings_file = Path(named) if named else None
    async with backend.workspace(
        ServedFolder(folder=folder, settings_file=settings_file, environ=os.environ)
    ) as served:
        yield served


def _audit(kept: Audit | None) -> Audit:
    """The log of the process, and the audit log where there is one."""

    def audit(record: AuditRecord) -> Awaitable[None] | None:
        _record(record)
        return None if kept is None else kept(record)

    return audit


def _record(record: AuditRecord) -> None:
    _LOG.info("call", extra=asdict(record))


def _place(error: ProgramError) -> str:
    if error.line is None:
        return ""
    return f" (line {error.line}" + (f", column {error.column})" if error.column is not None else ")")
