"""One review from its request to its result: the steps in order, and the rim that turns every end into a state.

Invariants: whatever happens there is one result, with what was learnt until then; a wall that is required and cannot
stand is an error before anything runs, and no result; nothing of the review is left when this returns.
"""

import asyncio
import dataclasses
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from fumehood.core.clock import Clock
from fumehood.core.errors import FumehoodError, LimitError, UnsupportedError
from fumehood.core.sections import Settings
from fumehood.review import acquire, conclude, disk, identity, lacking
from fumehood.review.evidence.canaries import Canaries
from fumehood.review.evidence.ledger import Ledger
from fumehood.review.exercise.course import exercise
from fumehood.review.exercise.entrypoint import entrypoint
from fumehood.review.folder import OutputFolder
from fumehood.review.home import lived
from fumehood.review.node import install
from fumehood.review.operator import Sources
from fumehood.review.plan import Bench
from fumehood.review.python import course
from fumehood.review.request import GitTarget, PrepareProfile, PypiTarget, ReviewRequest, StopCondition, endpoints
from fumehood.review.result import ReviewResult
from fumehood.review.stack import Stack, layering_for
from fumehood.review.states import ReviewEndedError, State
from fumehood.review.work import Progress, Work
from fumehood.sandbox.egress import Mode, Policy, Rule
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.relay.outside import World
from fumehood.sandbox.runs import Run, open_run, sweep

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything that one review is given."""

    request: ReviewRequest
    beside: Path  # the folder that a dir target's path is relative to
    host: HostFacts
    settings: Settings
    sources: Sources
    clock: Clock
    chance: random.Random
    progress: Progress
    world: World = World()  # resolver, connect and clock of the relay


async def review(job: Job, folder: OutputFolder) -> ReviewResult:
    """Run it. Raises `UnsupportedError` when this host lacks what every review needs; then there is no result."""
    _require(job.host, job.request)
    sweep(job.host)
    started = job.clock.now()
    ledger = Ledger(folder.events.write)
    with open_run(job.host) as run, Stack(layering_for(job.host, run)) as stack:
        bench = _bench(job, run)
        canaries = None
        if job.request.canaries:
            canaries = Canaries(lived.home(bench.identity, job.chance), bench.identity.home)
            bench = dataclasses.replace(bench, variables=canaries.home.environment)
            ledger.veil = canaries.finder.veil
        for text in stack.layering.limitations:
            ledger.limitation(text)
        stop = StopCondition.OUTPUT_CAPTURE_LIMIT in job.request.stop_conditions
        work = Work(
            host=job.host,
            settings=job.settings,
            run=run,
            bench=bench,
            ledger=ledger,
            progress=job.progress,
            stop_on_output=stop,
            stack=stack,
            world=job.world,
            canaries=canaries,
        )
        state = await _state_of(lambda: _steps(work, job), work)
        return conclude.result(job.request, work, state, started=started, ended=job.clock.now())


def _bench(job: Job, run: Run) -> Bench:
    """What the steps share: Node for one half of the targets, uv and Python for the other."""
    python = isinstance(job.request.target, PypiTarget)
    node = None if python else lacking.demand(job.host, "node")
    return Bench(
        identity=identity.identity(run.uid, job.chance),
        folder=identity.folder(job.chance),
        node=node,
        node_library=node.parent.parent / "lib" / "node_modules" if node else None,
        uv=lacking.demand(job.host, "uv") if python else None,
        python=lacking.demand(job.host, "python") if python else None,
        registry=None if python else job.sources.registry,
        index=job.sources.index if python else None,
        index_files=job.sources.index_files if python else (),
        forge=job.sources.forge,
        ca_file=job.sources.ca_file,
    )


def _require(host: HostFacts, request: ReviewRequest) -> None:
    """An error that says what this host lacks, when it lacks something."""
    if not host.routes:
        reasons = "; ".join(f"{p.name}: {p.detail}" for p in host.probes if not p.ok)
        raise UnsupportedError(f"no route to a sandbox on this host: {reasons}", remedy="fumehood doctor explains each")
    if isinstance(request.target, GitTarget):
        lacking.demand(host, "git")
    for name in ("uv", "python") if isinstance(request.target, PypiTarget) else ("node",):
        lacking.demand(host, name)


async def _state_of(steps: Callable[[], Awaitable[None]], work: Work) -> State:
    """Run the steps and give the state they ended in; what ended them is in the ledger."""
    seconds = work.settings.review.job_seconds
    try:
        async with asyncio.timeout(seconds) as limit:
            await steps()
    except TimeoutError as error:
        if limit.expired():
            ended = ReviewEndedError(State.TIMEOUT, "job", f"the review took longer than {seconds:g} s")
        else:
            ended = _fault(error)  # ETIMEDOUT of a file system is one of these too
    except ReviewEndedError as error:
        ended = error
    except UnsupportedError:
        raise  # a wall that is required cannot stand: no result
    except LimitError as error:
        ended = ReviewEndedError(State.TIMEOUT, error.code, str(error))
    except FumehoodError as error:
        code = "disk_full" if disk.is_cause_of(error) else error.code
        ended = ReviewEndedError(State.HARNESS_ERROR, code, str(error))
    except Exception as error:  # noqa: BLE001 - the rim: a fault of ours is a state, with its traceback in the log
        ended = _fault(error)
    else:
        return State.COMPLETED
    work.ledger.error(ended.code, ended.message, step=ended.step or work.under_way or None)
    return ended.state


def _fault(error: Exception) -> ReviewEndedError:
    """What is nobody's but ours, with its traceback in the log, or a full disk. Called while the error is handled."""
    if disk.is_cause_of(error):
        return ReviewEndedError(State.HARNESS_ERROR, "disk_full", disk.FULL)
    _log.exception("a fault of the harness")
    return ReviewEndedError(State.HARNESS_ERROR, "fault", f"a fault of the harness: {type(error).__name__}")


async def _steps(work: Work, job: Job) -> None:
    request = job.request
    network = policy(request)
    ground = acquire.lay_ground(work)
    if isinstance(request.target, PypiTarget):
        entry = await course.installed(work, request, request.target, ground, network)
    else:
        entry = await _node_program(work, job, request.target, ground, network)
    work.provenance["entrypoint"] = entry
    await exercise(work, request, entry, network)


async def _node_program(
    work: Work, job: Job, target: acquire.NodeTarget, ground: acquire.Ground, network: Policy
) -> str:
    """Acquire, install and build a target of Node's; the file to start, relative to the workspace."""
    request = job.request
    source = await acquire.acquire(work, target, ground, job.beside)
    await install.install(work, source, ground, network, request.linger_seconds)
    if request.prepare_profile is PrepareProfile.NPM_BUILD:
        await install.prepare(work, network, request.linger_seconds)
    return entrypoint(work, source, request.entrypoint)


def policy(request: ReviewRequest) -> Policy:
    """The network of INSTALL, PREPARE and EXERCISE. Pure."""
    rules = tuple(Rule(host=endpoint.host, port=endpoint.port) for endpoint in endpoints(request))
    return Policy(mode=Mode(request.network_mode), rules=rules)
