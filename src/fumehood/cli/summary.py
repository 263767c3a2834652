"""A review's result in some lines for a person. Facts only; the file has all of them."""

import textwrap
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from fumehood.observe.model import Kind, Phase
from fumehood.review.folder import REPORT
from fumehood.review.request import DirTarget, GitTarget, NpmTarget, PypiTarget, Target
from fumehood.review.result import ErrorRecord, ReviewResult, Row
from fumehood.sandbox.containment import WallState

WIDTH = 100  # of a line, where nobody knows the terminal's
_NAMES = 6  # how many names stand in one line
_WORD = 80  # characters of a name that the target chose
_INDENT = 12  # where the facts begin
_SEVERAL = 2
_LEAST = 40  # columns of a terminal below which lines are not made shorter still
_TARGETS = (Phase.INSTALL, Phase.PREPARE, Phase.EXERCISE)  # where the target runs, or may


def lines(result: ReviewResult, place: Path, *, width: int = WIDTH) -> list[str]:
    """The lines, without colours. Every text of the target's in a result is inert already."""
    execution = result.execution
    wall = sum(step.wall_seconds for step in execution.steps)
    head = f"{execution.status}  {_target(result.request.target)}  ({wall:.1f} s, route {result.environment.route})"
    body = [
        ("asked", _asked(result)),
        *(("error", _error(error)) for error in result.errors),
        ("last said", _last_words(result)),
        *(_seen(result) if _ran(result) else [("target", "nothing of it was run")]),
        ("walls", _walls(result)),
        ("sensors", _sensors(result)),
        ("behaviour", _behaviour(result)),
    ]
    wide = max(width, _LEAST)
    shown = [line for name, text in body if text for line in _wrapped(name, text, wide)]
    return [head, *shown, f"  {'result':<9} {place}", f"  {'report':<9} {place.with_name(REPORT)}"]


def _seen(result: ReviewResult) -> list[tuple[str, str]]:
    """What the target did, a line a topic; an empty one is left out."""
    return [
        ("protocol", _protocol(result)),
        ("lists", _lists(result)),
        ("calls", _calls(result)),
        ("starts", _starts(result)),
        *(("differs", text) for text in _differences(result)),
        ("install", _install(result)),
        ("programs", _programs(result)),
        ("network", _network(result)),
        ("requests", _requests(result)),
        *(("canaries", text) for text in _canaries(result)),
        ("files", _files(result)),
    ]


def _wrapped(name: str, text: str, width: int) -> list[str]:
    """A topic over as many lines as it needs; a word that is longer than a line keeps its own."""
    first = f"  {name:<9} "
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=" " * _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _ran(result: ReviewResult) -> bool:
    return any(step.phase in _TARGETS for step in result.execution.steps)


def _asked(result: ReviewResult) -> str:
    """Under which conditions it ran: without them nothing below means much."""
    request = result.request
    planted = "planted credentials" if request.canaries else "no planted credentials"
    more = [f"era {request.protocol_era}"] if request.protocol_era != "legacy" else []
    more += [f"repeat {request.repeat}"] if request.repeat > 1 else []
    return ", ".join((str(request.action_profile), f"network {request.network_mode}", planted, *more))


def _error(error: ErrorRecord) -> str:
    """The step and the message, the step once: some messages begin with it."""
    before = f"{error.step or 'start'}: "
    return before + error.message.removeprefix(before).removeprefix(f"{error.step} ")


def _last_words(result: ReviewResult) -> str:
    """The last line that a step which went wrong wrote to standard error."""
    steps = {error.step for error in result.errors}
    texts = [
        str(row.detail.get("text") or "")
        for row in _rows(result, Kind.OUTPUT_TEXT, *_TARGETS)
        if row.detail.get("stream") == "stderr" and row.step.partition("/")[0] in steps
    ]
    said = "\n".join(texts).split("\n")
    return _cut(next((line.strip() for line in reversed(said) if line.strip()), ""))


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
    starts = len({row.step.partition("/")[0] for row in rows if row.detail.get("fact") == "called"})
    often = f" in {starts} starts" if starts > 1 else ""
    return f"{result.coverage.tools_called} of {'?' if listed is None else listed} tools called{often}: {ends}"


def _starts(result: ReviewResult) -> str:
    """Where there were several: how each era ended, and that nothing differs when nothing does."""
    steps = [step.name for step in result.execution.steps if step.phase is Phase.EXERCISE]
    if len(steps) < _SEVERAL:
        return ""
    eras = [
        f"{row.detail.get('era')} {'completed' if row.detail.get('completed') else row.detail.get('code')}"
        for row in _rows(result, Kind.PROTOCOL_FACT)
        if row.detail.get("fact") == "era"
    ]
    same = "" if _differences(result) else "no difference recorded"
    return "; ".join(part for part in (f"{len(steps)}: {', '.join(steps)}", ", ".join(eras), same) if part)


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
    rows = _rows(result, Kind.PROCESS_EXEC, *_TARGETS)
    started = Counter(str(row.detail.get("program", "?")) for row in rows if row.detail.get("outcome") == "started")
    failed = Counter(
        f"{(row.detail.get('argv') or ['?'])[0]} {row.detail.get('outcome')}"
        for row in rows
        if row.detail.get("outcome") != "started"
    )
    return _listed(started) + (f"; tried: {_listed(failed)}" if failed else "")


def _network(result: ReviewResult) -> str:
    rows = _rows(result, Kind.NETWORK_CONNECT, *_TARGETS)
    names = Counter(
        f"{row.detail.get('name') or row.detail.get('address')}:{row.detail.get('port')} {row.detail.get('decision')}"
        for row in rows
        if row.collector == "egress"
    )
    questions = _rows(result, Kind.NETWORK_DNS, *_TARGETS)
    asked = Counter(str(row.detail.get("name")) for row in questions)
    tried = _listed(names) or "no connection"
    return f"{tried}; names asked: {_listed(asked)}" if asked else tried


def _requests(result: ReviewResult) -> str:
    """HTTP that could be read: the method, where to, and the target."""
    details = [row.detail for row in _rows(result, Kind.NETWORK_HTTP, *_TARGETS)]
    return _listed(Counter(f"{d.get('method') or '?'} {_cut(_address(d))}" for d in details))


def _address(detail: Mapping[str, object]) -> str:
    return f"{detail.get('name') or detail.get('host') or '?'}{detail.get('target') or ''}"


def _canaries(result: ReviewResult) -> list[str]:
    """Which planted credentials were read by whom, and where they turned up: a line a program and a place."""
    if not any(sensor.name == "canary" for sensor in result.collectors):
        return []
    found: dict[str, Counter[str]] = {}
    for row in _rows(result, Kind.CANARY_READ):
        program = str(row.detail.get("program") or "?").rpartition("/")[2]
        found.setdefault(f"read by {_cut(program)}", Counter()).setdefault(str(row.detail.get("canary")), 1)
    for row in _rows(result, Kind.CANARY_SENT):
        found.setdefault(_carried(row), Counter()).setdefault(str(row.detail.get("canary")), 1)
    shown = [f"{place}: {_listed(names)}" for place, names in list(found.items())[:_NAMES]]
    if len(found) > _NAMES:
        shown.append(f"and {len(found) - _NAMES} more places")
    return shown or ["none read, none found again"]


def _carried(row: Row) -> str:
    """Where a value was found, and in which wrapping."""
    detail = row.detail
    place = str(detail.get("where"))
    by = row.step.partition("/")[2] if place == "result" else str(detail.get("name") or detail.get("path") or "")
    how = "" if detail.get("encoding") == "plain" else f", as {detail.get('encoding')}"
    return f"in {place}{' of ' if by else ''}{_cut(by)}{how}"


def _cut(text: str) -> str:
    return text if len(text) <= _WORD else text[:_WORD] + "…"


def _files(result: ReviewResult) -> str:
    parts = []
    for phase in _TARGETS:
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
    if result.behaviour is None or not _ran(result):
        return ""
    return f"{result.behaviour.sha256} (form {result.behaviour.version.rpartition('/')[2]})"


def _listed(names: Counter[str]) -> str:
    shown = [f"{name} ({n} times)" if n > 1 else name for name, n in names.most_common(_NAMES)]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
