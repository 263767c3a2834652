"""PREPARE of a Python target: its sources fetched by hash, its build's dependencies locked, its wheel built, confined.

Invariants: nothing of the sources runs before the step `build`: they are unpacked by a program of ours, their
`pyproject.toml` is read through the fence as data, and what their build requires comes as wheels, by hash; `build` has
the network of the request and a layer of its own; its wheel is a regular file, named as the target is.

Not promised: what a backend asks for only once it runs (`get_requires_for_build_wheel`) is not installed.
"""

from dataclasses import dataclass
from importlib import resources

from fumehood.fence.walk import Entry, EntryKind
from fumehood.review import asof, merged, result, steps
from fumehood.review.acquire import Ground
from fumehood.review.python import lock as locks
from fumehood.review.python import plan, pyproject, uv
from fumehood.review.python.index import File, Page
from fumehood.review.request import PypiTarget
from fumehood.review.states import NO_SIGN, ReviewEndedError, State
from fumehood.review.steps import Ran
from fumehood.review.work import Work
from fumehood.sandbox.egress import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Whom the steps may reach, and how long the build is watched after its end."""

    index: Policy
    request: Policy
    linger_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The wheel that a build left."""

    filename: str
    record: result.SourceBuild

    @property
    def requirement(self) -> str:
        """As uv is told: a file, by a path that names neither user nor folder."""
        return f"file://${{PROJECT_ROOT}}/{plan.BUILD}/dist/{self.filename}"


async def built(work: Work, target: PypiTarget, page: Page, ground: Ground, terms: Terms) -> Built:
    """Fetch the sources, lock and fetch what their build requires, and build their wheel."""
    sources = _sources(page)
    await _fetch(work, sources, terms.index)
    wanted = pyproject.build_system(_read(work, f"src/{pyproject.FILE}", pyproject.BYTES))
    packages = await _environment(work, target, wanted.requires, ground, terms.index)
    ran = await steps.perform(work, plan.build(work.bench, terms.request, terms.linger_seconds))
    work.stack.push(ran.layer)
    if ended := steps.ended_badly(work, ran):
        raise ended
    if ran.exit.status != 0:
        message = f"build ended with status {ran.exit.status}"
        raise ReviewEndedError(State.TARGET_FAILED, "build_failed", message)
    left = _left(work, ran)
    filename = pyproject.wheel(left, target.name, target.version)
    return Built(
        filename=filename,
        record=result.SourceBuild(
            sources=sources.filename,
            backend=wanted.backend,
            in_tree=wanted.in_tree,
            dependencies=len(packages),
            wheel_sha256=ran.layer.digest(left[filename]),
        ),
    )


def _sources(page: Page) -> File:
    """The source distribution of the version; ends the review when there is none that can be checked."""
    found = page.sources
    if found is None:
        message = f"the version has no .tar.gz to build from. {NO_SIGN}"
        raise ReviewEndedError(State.RUNTIME_UNSUPPORTED, "no_sources", message)
    if not found.sha256 or not found.url:
        message = "the index has no SHA-256 for the sources: nothing would be checked while they are fetched"
        raise ReviewEndedError(State.TARGET_FAILED, "no_integrity", message)
    return found


async def _fetch(work: Work, sources: File, network: Policy) -> None:
    program = (resources.files("fumehood.sandbox.programs") / "sdist.py").read_text(encoding="utf-8")
    step = plan.fetch_sources(work.bench, program, sources.url, sources.sha256 or "", network)
    ran = await steps.perform(work, step)
    if ended := steps.ended_badly(work, ran):
        raise ended
    if ran.refused_names:
        raise uv.failure(step.name, ran.exit.status, b"", refused_hosts=ran.refused_names)
    pyproject.demand_unpacked(ran.stdout.data)
    work.stack.push(ran.layer)


async def _environment(
    work: Work, target: PypiTarget, requires: tuple[str, ...], ground: Ground, network: Policy
) -> tuple[locks.Locked, ...]:
    """The environment in which the backend runs: what the sources require, as wheels, each by its hash."""
    until = asof.moment(target.as_of) if isinstance(target.as_of, str) else None
    ran = await steps.perform(work, plan.lock_build(work.bench, requires, until, network), scratch=ground.cache)
    _demand(work, ran)
    work.stack.push(ran.layer)
    packages = locks.parse(_read(work, locks.NAME, locks.LOCK_BYTES) or b"")
    if not packages:
        return ()
    locks.demand_hashes(packages)
    ran = await steps.perform(work, plan.fetch_build(work.bench, network), scratch=ground.cache)
    _demand(work, ran)
    work.stack.push(ran.layer)
    return packages


def _demand(work: Work, ran: Ran) -> None:
    if ended := steps.ended_badly(work, ran):
        raise ended
    if ran.exit.status != 0:
        raise uv.failure(ran.step.name, ran.exit.status, ran.stderr.data, refused_hosts=ran.refused_names)


def _read(work: Work, path: str, size: int) -> bytes | None:
    return merged.read(work.layers, f"{work.bench.layer_workspace}/{plan.BUILD}/{path}", size)


def _left(work: Work, ran: Ran) -> dict[str, Entry]:
    """The regular files that the build put where its wheel belongs, by their names."""
    prefix = f"{work.bench.layer_workspace}/{plan.BUILD}/dist/".encode()
    files = (e for e in ran.layer.entries if isinstance(e, Entry) and e.kind is EntryKind.FILE)
    below = {e.path.removeprefix(prefix): e for e in files if e.path.startswith(prefix)}
    return {name.decode("utf-8", "replace"): entry for name, entry in below.items() if b"/" not in name}
