"""A review's result in a dozen lines for a person. Facts only; the file has all of them."""

from collections import Counter
from pathlib import Path

from fumehood.observe.model import Kind, Phase
from fumehood.review.request import DirTarget, GitTarget, NpmTarget, PypiTarget, Target
from fumehood.review.result import ErrorRecord, ReviewResult, Row
from fumehood.sandbox.containment import WallState

_NAMES = 6  # how many names stand in one line


def lines(result: ReviewResult, place: Path) -> list[str]:
    """The lines, without colours. Every text of the target's in a result is inert already."""
    execution = result.execution
    wall = sum(step.wall_seconds for step in execution.steps)
    head = f"{execution.status}  {_target(result.request.target)}  ({result.environment.route}, {wall:.1f} s)"
    body = [
        *(("error", _error(error)) for error in result.errors),
        ("protocol", _protocol(result)),
        ("lists", _lists(result)),
        *(("differs", text) for text in _differences(result)),
        ("calls", _calls(result)),
        ("install", _install(result)),
        ("programs", _programs(result)),
        ("network", _network(result)),
        ("files", _files(result)),
        ("walls", _walls(result)),
        ("sensors", _sensors(result)),
        ("behaviour", _behaviour(result)),
        ("result", str(place)),
    ]
    return [head, *(f"  {name:<9} {text}" for name, text in body if text)]


def _error(error: ErrorRecord) -> str:
    """The step and the message, the step once: some messages begin with it."""
    before = f"{error.step or 'start'}: "
    return before + error.message.removeprefix(before)


def _target(target: Target) -> str:
    match target:
        case GitTarget(repository=repository, ref=ref):
            return f"git:{repository}@{ref[:12]}"
        case NpmTarget(name=name, version=version):
            return f"npm:{name}@{version}"
        case PypiTarget(name=name, version=version):
            return f"pypi:{name}=={version}"
        case DirTarget(path=path):
            return f"dir:{path}"


def _rows(result: ReviewResult, kind: Kind, *phases: Phase) -> list[Row]:
    rows = result.observations.items
    return [row for row in rows if row.type is kind and (not phases or row.phase in phases)]


def _protocol(result: ReviewResult) -> str:
    for row in _rows(result, Kind.PROTOCOL_FACT):
        detail = row.detail
        if detail.get("fact") == "initialized":
            name, version = detail.get("server_name"), detail.get("server_version")
            offers = ", ".join(str(c) for c in detail.get("capabilities", [])) or "nothing"
            return f"{detail.get('protocol_version')}, {name} {version}, offers {offers}"
    return ""


def _lists(result: ReviewResult) -> str:
    """How many of what the first start listed, with what is not whole."""
    parts = []
    facts = _rows(result, Kind.PROTOCOL_FACT)
    main = next((row.step.partition("/")[0] for row in facts if row.detail.get("fact") == "initialized"), "")
    for row in facts:
        detail = row.detail
        if detail.get("fact") == "listed" and detail.get("offered") and row.step.partition("/")[0] == main:
            what, count = str(detail.get("what")).replace("_", " "), detail.get("count")
            more = "" if detail.get("complete") else f" (not whole: {detail.get('why')})"
            parts.append(f"{count} {what}{'' if count == 1 else 's'}{more}")
    return ", ".join(parts)


def _differences(result: ReviewResult) -> list[str]:
    """What differs between starts, a line for each two that were compared."""
    found: dict[str, Counter[str]] = {}
    for row in _rows(result, Kind.PROTOCOL_FACT):
        if row.detail.get("fact") in {"era_difference", "repeat_difference"}:
            named = f"{row.detail.get('what')} {row.detail.get('name') or ''}".strip()
            found.setdefault(str(row.detail.get("between")), Counter())[named] += 1
    return [f"{between}: {_listed(names)}" for between, names in found.items()]


def _calls(result: ReviewResult) -> str:
    """How many tools were called, and how the calls ended."""
    rows = _rows(result, Kind.PROTOCOL_FACT)
    outcomes = Counter(str(row.detail.get("outcome")) for row in rows if row.detail.get("fact") == "called")
    if not outcomes:
        return ""
    listed = result.coverage.tools_listed
    ends = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    return f"{result.coverage.tools_called} of {'?' if listed is None else listed} tools called: {ends}"


def _install(result: ReviewResult) -> str:
    lock = result.provenance.lockfile
    if lock is None:
        return ""
    declared, run = result.coverage.hooks_declared, result.coverage.hooks_run
    packages = f"{lock.packages if lock.packages is not None else '?'} packages locked"
    if result.provenance.kind == "pypi":
        return (
            f"{packages}, {'unknown' if declared is None else declared} files that Python runs or reads at each start"
        )
    hooks = "unknown" if declared is None else str(declared)
    seen = "" if run is None else f", {run} scripts run"
    return f"{packages}, {hooks} with install scripts{seen}"


def _programs(result: ReviewResult) -> str:
    rows = _rows(result, Kind.PROCESS_EXEC, Phase.INSTALL, Phase.PREPARE, Phase.EXERCISE)
    started = Counter(str(row.detail.get("program", "?")) for row in rows if row.detail.get("outcome") == "started")
    failed = Counter(
        f"{(row.detail.get('argv') or ['?'])[0]} {row.detail.get('outcome')}"
        for row in rows
        if row.detail.get("outcome") != "started"
    )
    return _listed(started) + (f"; tried: {_listed(failed)}" if failed else "")


def _network(result: ReviewResult) -> str:
    rows = _rows(result, Kind.NETWORK_CONNECT, Phase.INSTALL, Phase.PREPARE, Phase.EXERCISE)
    names = Counter(
        f"{row.detail.get('name') or row.detail.get('address')}:{row.detail.get('port')} {row.detail.get('decision')}"
        for row in rows
        if row.collector == "egress"
    )
    questions = _rows(result, Kind.NETWORK_DNS, Phase.INSTALL, Phase.PREPARE, Phase.EXERCISE)
    asked = Counter(str(row.detail.get("name")) for row in questions)
    tried = _listed(names) or "no connection"
    return f"{tried}; names asked: {_listed(asked)}" if asked else tried


def _files(result: ReviewResult) -> str:
    parts = []
    for phase in (Phase.INSTALL, Phase.PREPARE, Phase.EXERCISE):
        counts = [
            f"{len(_layered(result, kind, phase))} {kind.value.partition('.')[2]}"
            for kind in (Kind.FILE_CREATED, Kind.FILE_CHANGED, Kind.FILE_DELETED)
            if _layered(result, kind, phase)
        ]
        if counts:
            parts.append(f"{phase}: {', '.join(counts)}")
    return "; ".join(parts) or "none written"


def _layered(result: ReviewResult, kind: Kind, phase: Phase) -> list[Row]:
    return [row for row in _rows(result, kind, phase) if row.collector != "strace"]


def _walls(result: ReviewResult) -> str:
    if not result.containment:
        return "none: nothing was started"
    missing = {w.name for c in result.containment for w in c.walls if w.state is WallState.UNAVAILABLE}
    stood = {w.name for c in result.containment for w in c.walls if w.state is WallState.ENFORCED}
    return f"{len(stood)} enforced" + (f"; unavailable: {', '.join(sorted(missing))}" if missing else "")


def _sensors(result: ReviewResult) -> str:
    if not result.collectors:
        return "none: nothing was started"
    parts = []
    for collector in result.collectors:
        if collector.state != "active" or collector.lost:
            lost = f", lost {collector.lost}" if collector.lost else ""
            parts.append(f"{collector.phase} {collector.name} {collector.state}{lost}")
    return "; ".join(parts) or "all active, nothing lost"


def _behaviour(result: ReviewResult) -> str:
    return "" if result.behaviour is None else f"{result.behaviour.sha256} ({result.behaviour.version})"


def _listed(names: Counter[str]) -> str:
    shown = [f"{name} ({n} times)" if n > 1 else name for name, n in names.most_common(_NAMES)]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
