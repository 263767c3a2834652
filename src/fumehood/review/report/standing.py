"""The parts of the page that can be read without its program. Pure.

What was reviewed, how it ended, what was seen, what could not be seen, which walls stood, and where it all came from.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from fumehood.core.limits import MIB
from fumehood.observe.model import CollectorState
from fumehood.review.report.facts import Fact, facts, plural, where
from fumehood.review.report.island import Embedded
from fumehood.review.report.markup import Child, Element, code, element, listing, section, table, terms
from fumehood.review.result import ContainmentRecord, ReviewResult, StepRecord
from fumehood.review.states import State
from fumehood.sandbox.containment import WallState

_MEANING = {
    State.COMPLETED: "The action profile reached its end. This says how the run ended, not what the target is like.",
    State.TARGET_FAILED: "The target, or what it is made of, did not do its part.",
    State.RUNTIME_UNSUPPORTED: "This kind of target is outside what fumehood reviews. It says nothing about it.",
    State.TIMEOUT: "A limit of time ended it.",
    State.STOPPED: "The request's stop condition ended it.",
    State.HARNESS_ERROR: "fumehood, or what it stands on, failed. It is no evidence about the target.",
}
_MARKS = {WallState.ENFORCED: "●", WallState.UNAVAILABLE: "○", WallState.NOT_REQUESTED: "·"}


def target(result: ReviewResult) -> tuple[str, str]:
    """What was reviewed: its name, and which version or commit of it."""
    fields: dict[str, str] = msgspec.to_builtins(result.request.target)
    name = fields.get("name") or fields.get("repository") or fields.get("path", "")
    return f"{fields.get('kind', '')}:{name}", fields.get("version") or fields.get("ref", "")


def masthead(result: ReviewResult) -> Element:
    """What was reviewed, when, and how it ended."""
    name, version = target(result)
    execution, request = result.execution, result.request
    seconds = sum(step.wall_seconds for step in execution.steps)
    pairs: list[tuple[str, Child]] = [
        ("State", element("strong", execution.status.value)),
        ("Reviewed", element("time", _moment(execution.started_at), datetime=execution.started_at)),
        ("Steps took", f"{seconds:.1f} s"),
        ("Profile", request.action_profile),
        ("Network", request.network_mode.value),
        ("Route", str(result.environment.route or "nothing was started")),
    ]
    if result.behaviour is not None:
        pairs.append((f"Behaviour digest ({result.behaviour.version})", code(result.behaviour.sha256)))
    return element(
        "header",
        element("p", "fumehood review", class_="eyebrow"),
        element("h1", *_breaking(name), *((element("span", f" {version}", class_="version"),) if version else ())),
        terms(*pairs, class_="headline"),
        element("p", _MEANING[execution.status], class_="meaning"),
        element("p", element("span", "Asked: ", class_="label"), request.question, class_="question"),
        class_="masthead",
    )


def errors(result: ReviewResult) -> Element | None:
    """What ended the review or went wrong in it."""
    if not result.errors:
        return None
    told = [
        element("span", code(error.code), f" {error.step or 'start'}: ", error.message.removeprefix(f"{error.step}: "))
        for error in result.errors
    ]
    return section("errors", "What ended it or went wrong", listing(*told))


def seen(result: ReviewResult) -> Element:
    """The facts, a card a topic."""
    cards = [_card(fact) for fact in facts(result)]
    return section(
        "seen",
        "What was seen",
        element("div", *cards, class_="cards"),
        intro="In the phases in which the target's own programs run: INSTALL, PREPARE and EXERCISE.",
    )


def unseen(result: ReviewResult, embedded: Embedded) -> Element:
    """What could not be seen or held, and how much was covered."""
    first, *others = result.limitations
    lost = [
        element("span", f"{plural(entry.count, 'row')} of {entry.type.value} in {entry.phase} not kept in result.json")
        for entry in result.observations.lost
    ]
    gaps = [
        element(
            "span", f"{c.name} in {where(c)}: {c.state.value}" + _why(c.why) + (f", lost {c.lost:,}" if c.lost else "")
        )
        for c in result.collectors
        if c.lost or c.state is not CollectorState.ACTIVE
    ]
    left = []
    if embedded.left_out:
        left.append(f"{plural(embedded.left_out, 'row')} left to events.ndjson: this page has {embedded.rows:,}")
    points: list[Child] = [*others, *gaps, *lost, *left]
    return section(
        "unseen",
        "What this does not say",
        element("p", first, class_="standing"),
        listing(*points)
        if points
        else element("p", "No sensor lost anything, and no further limitation was recorded."),
        element("h3", "Coverage"),
        terms(*_coverage(result), class_="coverage"),
        element("h3", "Sensors"),
        _collectors(result),
    )


def walls(result: ReviewResult) -> Element:
    """Which walls stood around each step."""
    records = result.containment
    if not records:
        return section("walls", "Containment", element("p", "Nothing was started, so no wall stood."))
    names = list(dict.fromkeys(wall.name for record in records for wall in record.walls))
    rows: list[tuple[Child, ...]] = [
        (_words(name), *(_wall(record, name) for record in records), _how(records, name)) for name in names
    ]
    missing = [
        element("span", f"{record.step}: {_words(wall.name)} unavailable{_why(wall.why)}", f" {wall.remedy}".rstrip())
        for record in records
        for wall in record.walls
        if wall.state is WallState.UNAVAILABLE
    ]
    counts = ", ".join(f"{r.step} {sum(w.state is WallState.ENFORCED for w in r.walls)}" for r in records)
    children: list[Child] = [element("p", f"Enforced: {counts}."), *([listing(*missing)] if missing else [])]
    heads = ("Wall", *(record.step for record in records), "How")
    return section("walls", "Containment", *children, table("Walls of each step", heads, rows))


def steps(result: ReviewResult) -> Element:
    """How each step ended and what it used."""
    heads = ("Step", "Phase", "Ended", "Wall", "Processor", "Peak memory", "Network", "Trace")
    rows: list[tuple[Child, ...]] = [
        (
            step.name,
            step.phase.value,
            _ended(step),
            f"{step.wall_seconds:.2f} s",
            "not counted" if step.cpu_seconds is None else f"{step.cpu_seconds:.2f} s",
            "not counted" if step.peak_memory_bytes is None else f"{step.peak_memory_bytes / MIB:.0f} MiB",
            step.network_mode,
            step.trace or "none",
        )
        for step in result.execution.steps
    ]
    return table("Steps", heads, rows) if rows else element("p", "No step was started.")


def origin(result: ReviewResult, digest: str) -> Element:
    """Where the target came from, what ran it, and what was asked."""
    environment = msgspec.to_builtins(result.environment)
    tools: list[tuple[Child, ...]] = [
        (tool.name, tool.version, tool.origin, code(tool.path), code(tool.sha256)) for tool in result.environment.tools
    ]
    environment.pop("tools", None)
    children = [
        element("h3", "Provenance"),
        terms(*_pairs(msgspec.to_builtins(result.provenance)), class_="pairs"),
        element("h3", "Request"),
        terms(*_pairs(msgspec.to_builtins(result.request)), class_="pairs"),
        element("h3", "Environment"),
        terms(*_pairs(environment), class_="pairs"),
        *((table("Programs used", ("Program", "Version", "Origin", "Path", "SHA-256"), tools),) if tools else ()),
        element("p", "This page shows result.json with SHA-256 ", code(digest), ".", class_="digest"),
    ]
    return section("origin", "Provenance and environment", *children)


def _breaking(name: str) -> list[Child]:
    """A name that breaks behind its slashes where it has no room."""
    first, *others = name.split("/")
    return [first, *(piece for other in others for piece in ("/", element("wbr"), other))]


def _card(fact: Fact) -> Element:
    said = [element("p", text) for text in fact.said]
    rests = [element("p", text, class_="sensor") for text in fact.sensors]
    heading = element("h3", element("a", fact.topic, href=f"#{fact.place}"))
    return element("article", heading, *said, *rests, class_="card")


def _coverage(result: ReviewResult) -> list[tuple[str, Child]]:
    values: dict[str, Any] = msgspec.to_builtins(result.coverage)
    return [(_words(name), "not known" if value is None else _value(value)) for name, value in values.items()]


def _collectors(result: ReviewResult) -> Element:
    if not result.collectors:
        return element("p", "Nothing was started, so no sensor ran.")
    rows: list[tuple[Child, ...]] = [
        (
            f"{c.name}, {where(c)}",
            c.state.value + _why(c.why),
            f"{c.lost:,}",
            ", ".join(f"{_words(name)} {count:,}" for name, count in c.counts.items()),
            _folded(c.limitations),
        )
        for c in result.collectors
    ]
    return table("Sensors of each step", ("Sensor", "State", "Lost", "Counted", "Cannot see"), rows)


def _folded(points: Sequence[str]) -> Child:
    if not points:
        return "nothing stated"
    return element("details", element("summary", plural(len(points), "limitation")), listing(*points))


def _wall(record: ContainmentRecord, name: str) -> Child:
    wall = next((wall for wall in record.walls if wall.name == name), None)
    if wall is None:
        return "no record"
    mark = element("span", _MARKS[wall.state], class_="mark", aria_hidden="true")
    return element("span", mark, f" {_words(wall.state.value)}", class_=wall.state.value)


def _how(records: Sequence[ContainmentRecord], name: str) -> str:
    ways = dict.fromkeys(wall.how for record in records for wall in record.walls if wall.name == name and wall.how)
    return "; ".join(ways)


def _ended(step: StepRecord) -> str:
    more = "" if step.status is None else f", status {step.status}"
    return step.end.value + more + ("" if step.signal is None else f", signal {step.signal}")


def _pairs(values: dict[str, Any], before: str = "") -> list[tuple[str, Child]]:
    """Each value that says something, under its name; what lies in an object follows as `object name`."""
    pairs: list[tuple[str, Child]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            pairs += _pairs(value, f"{before}{name} ")
        elif value not in (None, "", [], ()):
            pairs.append((_words(f"{before}{name}"), code(_value(value))))
    return pairs


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{_words(str(name))} {_value(entry)}" for name, entry in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(_value(entry) for entry in value) or "none"
    return str(value)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _why(why: str) -> str:
    return f" ({why})" if why else ""


def _moment(text: str) -> str:
    """`2026-11-30T07:46:51.203Z` as `2026-11-30 07:46:51 UTC`; another text as it is."""
    day, _, clock = text.partition("T")
    return f"{day} {clock[:8]} UTC" if clock.endswith("Z") else text
