"""FETCH, INSTALL and PREPARE: fill the cache with scripts off, then make the run that a user would have.

Invariants: FETCH's layer never becomes part of what runs; INSTALL starts from the sources and the cache alone; PREPARE
runs exactly `npm run build`.
"""

from typing import Any

from fumehood.observe.model import Phase
from fumehood.review import steps
from fumehood.review.acquire import Ground, PinnedSource
from fumehood.review.node import npm, plan
from fumehood.review.states import NO_SIGN, ReviewEndedError, State
from fumehood.review.steps import Ran
from fumehood.review.work import Work
from fumehood.sandbox.egress import Policy


async def install(work: Work, source: PinnedSource, ground: Ground, network: Policy, linger_seconds: float) -> None:
    """Run FETCH and INSTALL; what the scripts did is the difference of their layers."""
    fetched = await fetch(work, source, ground)
    work.stack.set_fetched(fetched.layer, work.bench.is_package)
    work.stack.push(work.stack.read(ground.cache_layer))
    installed = await steps.perform(work, plan.install(work.bench, network, linger_seconds))
    work.stack.push(installed.layer)
    _demand(work, installed, "install")


async def fetch(work: Work, source: PinnedSource, ground: Ground) -> Ran:
    """Run FETCH: its layer has the packages, each with the integrity that its lock names; no script has run."""
    work.coverage["hooks_declared"] = npm.hooks(source.lock)
    fetched = await steps.perform(work, plan.fetch(work.bench), scratch=ground.cache)
    _demand(work, fetched, "fetch")
    _refuse_foreign_engine(fetched, work, source)
    return fetched


async def prepare(work: Work, network: Policy, linger_seconds: float) -> None:
    """Run `npm run build`."""
    built = await steps.perform(work, plan.build(work.bench, network, linger_seconds))
    work.stack.push(built.layer)
    _demand(work, built, "build")


def _demand(work: Work, ran: Ran, step: str) -> None:
    """End the review unless a step ended with 0."""
    if ended := steps.ended_badly(work, ran):
        raise ended
    if ran.exit.status != 0:
        refused = ran.refused_names if ran.step.phase is Phase.FETCH else ()
        raise npm.failure(step, ran.exit.status, ran.stderr.data, refused_hosts=refused)


def _refuse_foreign_engine(ran: Ran, work: Work, source: PinnedSource) -> None:
    """A target that asks for another engine is outside this adapter; a dependency that does is npm's warning only."""
    warned = npm.bad_engines(ran.stderr.data)
    if warned and _target_id(work, source) in warned:
        raise ReviewEndedError(
            State.RUNTIME_UNSUPPORTED,
            "engine",
            f"the target asks for another engine than Node 24. {NO_SIGN}",
        )


def _target_id(work: Work, source: PinnedSource) -> str:
    """`name@version` as npm writes it."""
    named: Any = source.manifest if isinstance(source.manifest, dict) else work.provenance
    return f"{named.get('name')}@{named.get('version')}" if isinstance(named, dict) else ""
