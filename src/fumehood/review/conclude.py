"""Put a review's result together from what its steps left. Pure but for reading npm's own version."""

import datetime as dt
import json
from collections.abc import Iterator
from importlib import metadata
from typing import Any, Literal

import msgspec

from fumehood.content import secrets
from fumehood.core.clock import rfc3339
from fumehood.observe.model import CollectorState
from fumehood.review import plan
from fumehood.review.behaviour import canonical
from fumehood.review.request import GitTarget, PrepareProfile, ReviewRequest, StopCondition
from fumehood.review.result import (
    Coverage,
    Environment,
    Execution,
    Preparation,
    Provenance,
    ReviewResult,
    ToolRecord,
)
from fumehood.review.states import State
from fumehood.review.work import Work
from fumehood.sandbox.containment import WallState
from fumehood.sandbox.spec import End

_ARGV_CHARACTERS = 1000  # the most that the schema of a request takes; a placeholder may be longer than its secret
ASSUMPTIONS = (
    "the kernel of this host enforces its namespaces, its filters and its limits",
    "bubblewrap, strace, nft, setpriv, git, Node, uv and Python are the programs that their digests name",
    "target and sensors share one kernel: a fault of the kernel ends all of it",
)
_NO_CREDENTIALS = "credentials: none were given; the environment of every step was built from constants"
_CANARIES = "credentials: none were given; what looks like one in the home and the environment was made up for this run"


def result(
    request: ReviewRequest, work: Work, state: State, *, started: dt.datetime, ended: dt.datetime
) -> ReviewResult:
    """The result of a review that has ended in `state`."""
    ledger = work.ledger
    for record in ledger.containment:
        for wall in record.walls:
            if wall.state is WallState.UNAVAILABLE:
                ledger.limitation(f"{record.step}: the wall {wall.name} did not stand: {wall.why}")
    for name, remote in _asked_of(request, work):
        for text in _reached(name, remote):
            ledger.limitation(text)
    coverage = msgspec.convert(_coverage(work), Coverage)
    made = ReviewResult(
        request=_without_secrets(request),
        environment=_environment(work),
        provenance=_provenance(request, work),
        execution=Execution(
            status=state, started_at=rfc3339(started), ended_at=rfc3339(ended), steps=tuple(work.steps)
        ),
        collectors=ledger.collectors,
        observations=ledger.observations,
        stop_condition_triggered=StopCondition.OUTPUT_CAPTURE_LIMIT if work.output_limit_reached else None,
        errors=ledger.errors,
        containment=ledger.containment,
        limitations=ledger.limitations,
        coverage=ledger.covered(coverage),
    )
    return msgspec.structs.replace(made, behaviour=canonical.behaviour(made))


def _without_secrets(request: ReviewRequest) -> ReviewRequest:
    """The request without credentials of known shape in its free words, which is where somebody may have put one."""
    argv = tuple(secrets.redact(word).text[:_ARGV_CHARACTERS] for word in request.argv)
    question = secrets.redact(request.question).text[:_ARGV_CHARACTERS]
    return msgspec.structs.replace(request, argv=argv, question=question)


def _asked_of(request: ReviewRequest, work: Work) -> Iterator[tuple[str, plan.Remote]]:
    """The hosts of the operator's that this target may come from."""
    if work.bench.registry is not None:
        yield "registry", work.bench.registry
    if work.bench.index is not None:
        yield "index", work.bench.index
    if work.bench.forge is not None and isinstance(request.target, GitTarget):
        yield "forge", work.bench.forge


def _reached(name: str, remote: plan.Remote) -> Iterator[str]:
    """What follows from the way to one of them."""
    if remote.plain_http:
        yield f"the {name} {remote.named} is reached over plain http: what it sent could be changed on its way"
    if remote.rule.pins:
        yield f"the {name} {remote.named} is on this host's loopback; inside it is called {remote.rule.host}"


def _environment(work: Work) -> Environment:
    bench, host = work.bench, work.host
    remotes = [remote for remote in (bench.registry, bench.index, bench.forge) if remote is not None]
    files = [rule for rule in bench.index_files if rule.operator]
    return Environment(
        harness_version=metadata.version("fumehood"),
        system=host.system,
        machine=host.machine,
        kernel=host.kernel,
        route=host.routes[0],
        tools=tuple(
            ToolRecord(name=t.name, path=str(t.path), version=t.version, sha256=t.sha256, origin=t.origin)
            for _, t in sorted(host.tools.items())
        ),
        target_user=bench.identity.user,
        target_host=bench.identity.host,
        target_uid=bench.identity.uid,
        workspace=bench.workspace,
        search_path=bench.search_path,
        registry=bench.registry.named if bench.registry else "",
        forge=bench.forge.named if bench.forge else "",
        ca_file=str(bench.ca_file) if bench.ca_file else "",
        index=bench.index.named if bench.index else "",
        operator_hosts=tuple(f"{rule.host}:{rule.port}" for rule in (*(r.rule for r in remotes), *files)),
        weakened=work.settings.weakened(),
        assumptions=(*ASSUMPTIONS, _CANARIES if work.canaries else _NO_CREDENTIALS),
    )


def _provenance(request: ReviewRequest, work: Work) -> Provenance:
    fields: dict[str, Any] = {"kind": type(request.target).__struct_config__.tag, "pinned": False}
    veil = work.ledger.veil
    fields |= {name: veil(word) if isinstance(word, str) else word for name, word in work.provenance.items()}
    tools = {name: tool.version for name, tool in work.host.tools.items()}
    python = work.bench.python is not None
    return Provenance(
        **fields,
        preparation=Preparation(profile=request.prepare_profile.value, status=_preparation(request, work)),
        node_version=None if python else tools.get("node"),
        npm_version=None if python else _npm_version(work),
        python_version=tools.get("python") if python else None,
        uv_version=tools.get("uv") if python else None,
    )


def _preparation(
    request: ReviewRequest, work: Work
) -> Literal["not_requested", "not_reached", "completed", "failed", "timeout"]:
    if request.prepare_profile is PrepareProfile.NONE:
        return "not_requested"
    built = next((step for step in work.steps if step.name == "build"), None)
    if built is None:
        return "not_reached"
    if built.end is End.DEADLINE:
        return "timeout"
    return "completed" if built.status == 0 else "failed"


def _npm_version(work: Work) -> str | None:
    if work.bench.node_library is None:
        return None
    try:
        text = (work.bench.node_library / "npm" / "package.json").read_text(encoding="utf-8")
        version = json.loads(text).get("version")
    except (OSError, ValueError):
        return None
    return version if isinstance(version, str) else None


def _coverage(work: Work) -> dict[str, object]:
    calls = [c for c in work.ledger.collectors if c.name == "strace" and c.state is not CollectorState.UNAVAILABLE]
    if not calls:
        return {**work.coverage}
    return work.coverage | {
        "calls_traced": sum(c.counts.get("calls", 0) for c in calls),
        "calls_lost": sum(c.lost for c in calls),
    }
