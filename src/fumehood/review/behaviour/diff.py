"""Say what two results record differently: conditions first, then facts by section. Pure; decides on canonical forms.

Invariants: a sensor that was missing, degraded or lost something in one of the two makes each section that it feeds
`not_comparable`, whatever else is there, and it is named; nothing is read as "no change" for want of a sensor. A result
compared with itself differs in nothing. The other order gives the same with old and new exchanged.

Threats: results come from strangers. Their texts are shown by whoever renders, inert.
Not promised: what docs/limits/behaviour.md says.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from fumehood.core import jcs
from fumehood.core.schemas import DIALECT, components
from fumehood.observe.model import CollectorState, Value
from fumehood.review.behaviour import canonical
from fumehood.review.behaviour.facts import SECTIONS, Fact, Section
from fumehood.review.request import to_value
from fumehood.review.result import ReviewResult
from fumehood.sandbox.spec import End

Outcome: TypeAlias = Literal["same", "differs", "not_comparable", "not_recorded"]

# Which sensors a section lives on. `layer` and `snapshot` are two ways to look at the same thing.
_FEEDS: Mapping[Section, tuple[str, ...]] = {
    Section.DEFINITIONS: ("protocol",),
    Section.PROTOCOL: ("protocol",),
    Section.HOSTS: ("egress", "strace"),
    Section.REQUESTS: ("egress",),
    Section.PROGRAMS: ("strace",),
    Section.REFUSED: ("strace",),
    Section.FILES: ("layer", "snapshot", "strace"),
    Section.READS: ("strace",),
    Section.CANARIES: ("canary", "strace", "egress", "layer", "snapshot", "output", "protocol"),
}
# By these members two facts are the same thing that changed, rather than one that went and one that came.
_IDENTITY: Mapping[Section, tuple[str, ...]] = {
    Section.DEFINITIONS: ("fact", "what", "name", "step"),
    Section.PROTOCOL: ("fact", "what", "name", "tool", "call", "step", "direction", "kind", "method"),
    Section.REQUESTS: ("step", "name", "port", "method", "target", "request"),
    Section.FILES: ("type", "step", "path"),
    Section.CANARIES: ("type", "step", "canary", "where", "name", "path"),
}
_CUT_SHORT = frozenset({End.DEADLINE, End.MEMORY, End.LAYER})
_MACHINE = ("harness_version", "system", "machine", "kernel", "route")
_COUNTED = (
    *("hooks_declared", "hooks_run", "tools_listed", "tools_called", "prompts_listed", "resources_listed"),
    "resource_templates_listed",
)


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of a comparison."""


class Side(_Part, frozen=True, kw_only=True):
    """One of the two results."""

    target: dict[str, Any]
    status: str
    behaviour: Annotated[str, Meta(description="SHA-256 of its form, made anew")]


class Changed(_Part, frozen=True, kw_only=True):
    """One value that is not the same in both; null: not there."""

    name: str
    old: Any
    new: Any


class Member(_Part, frozen=True, kw_only=True):
    """One member of a fact that is in both. For lists, the entries that went and came."""

    member: Annotated[str, Meta(description="dotted where it is deeper")]
    old: Any = None
    new: Any = None
    removed: tuple[Any, ...] = ()
    added: tuple[Any, ...] = ()


class ChangedFact(_Part, frozen=True, kw_only=True):
    """One thing that both results have, and not alike."""

    what: Annotated[dict[str, Any], Meta(description="the members by which it is the same thing")]
    members: tuple[Member, ...]


class SectionDifference(_Part, frozen=True, kw_only=True):
    """One section. `removed`: facts of the old result alone; `added`: of the new one."""

    section: str
    outcome: Annotated[Outcome, Meta(description="not_comparable outranks differs; not_recorded: no sensor in either")]
    why: Annotated[tuple[str, ...], Meta(description="what makes it not comparable")] = ()
    changed: tuple[ChangedFact, ...] = ()
    removed: tuple[dict[str, Any], ...] = ()
    added: tuple[dict[str, Any], ...] = ()


class Comparison(_Part, frozen=True, kw_only=True):
    """What two results record differently."""

    schema_version: Literal[1] = 1
    form: Annotated[str, Meta(description="the version of the forms that were compared")] = canonical.VERSION
    old: Side
    new: Side
    differs: Annotated[bool, Meta(description="something differs, or could not be compared")]
    conditions: Annotated[tuple[Changed, ...], Meta(description="of the requests; named first")]
    ends: Annotated[tuple[Changed, ...], Meta(description="state, errors and steps")]
    sensors: Annotated[tuple[Changed, ...], Meta(description="sensors that were not alike, `PHASE step name`")]
    limits: Annotated[tuple[str, ...], Meta(description="limits that one or both reached")]
    sections: tuple[SectionDifference, ...]
    machine: Annotated[tuple[Changed, ...], Meta(description="where they ran; no difference of behaviour")]
    coverage: Annotated[tuple[Changed, ...], Meta(description="counts; no difference of behaviour")]


def compare(old: ReviewResult, new: ReviewResult) -> Comparison:
    """What `new` records that `old` does not, and the other way round."""
    forms = canonical.form(old), canonical.form(new)
    sides = Sides(old, new, forms)
    sections = tuple(sides.section(section) for section in Section)
    conditions = tuple(_members_of(forms, "conditions"))
    ends = (*_members_of(forms, "state"), *_whole(forms, "errors"), *_whole(forms, "steps"))
    sensors = tuple(sides.sensors())
    told = any(section.outcome in {"differs", "not_comparable"} for section in sections)
    return Comparison(
        old=_side(old, forms[0]),
        new=_side(new, forms[1]),
        differs=bool(told or conditions or ends or sensors),
        conditions=conditions,
        ends=ends,
        sensors=sensors,
        limits=(*_limits("old", old), *_limits("new", new)),
        sections=sections,
        machine=tuple(_machine(old, new)),
        coverage=tuple(_attributes(_COUNTED, old.coverage, new.coverage)),
    )


def schema() -> dict[str, Any]:
    """The published JSON Schema of a comparison."""
    parts = components(Comparison)
    whole = parts.pop("Comparison")
    return {"$schema": DIALECT, "$id": "urn:fumehood:review-diff", **whole, "title": "Review diff", "$defs": parts}


class Sides:
    """Both results while they are compared."""

    def __init__(self, old: ReviewResult, new: ReviewResult, forms: tuple[canonical.Form, canonical.Form]) -> None:
        """Look at what the sensors were."""
        self._forms = forms
        self._states = _states(old), _states(new)
        self._incomplete = _incomplete(forms[0]), _incomplete(forms[1])

    def sensors(self) -> Iterator[Changed]:
        """The sensors that were not the same in both."""
        first, second = self._states
        for key in sorted({*first, *second}):
            if first.get(key) != second.get(key):
                yield Changed(name=f"{key[0]} {key[1]}", old=first.get(key), new=second.get(key))

    def section(self, section: Section) -> SectionDifference:
        """What differs in one section, and whether it can be compared at all."""
        first, second = (_facts(form, section) for form in self._forms)
        removed = [fact for key, fact in first.items() if key not in second]
        added = [fact for key, fact in second.items() if key not in first]
        changed, removed, added = _paired(section, removed, added)
        why = (*self._unlike(section), *self._overflowed(section))
        outcome: Outcome = "differs" if changed or removed or added else "same"
        if why:
            outcome = "not_comparable"
        elif outcome == "same" and not first and not self._fed(section):
            outcome = "not_recorded"
        return SectionDifference(
            section=section.value,
            outcome=outcome,
            why=why,
            changed=tuple(changed),
            removed=tuple(removed),
            added=tuple(added),
        )

    def _unlike(self, section: Section) -> Iterator[str]:
        first, second = self._states
        for key in sorted({*first, *second}):
            if key[1] not in _FEEDS[section]:
                continue
            old, new = first.get(key, "missing"), second.get(key, "missing")
            if not old == new == CollectorState.ACTIVE.value:
                yield f"{key[0]} {key[1]}: {old}" + ("" if old == new else f" in the old result, {new} in the new one")

    def _overflowed(self, section: Section) -> Iterator[str]:
        of_section = {kind.value for kind, place in SECTIONS.items() if place is section}
        if section is Section.DEFINITIONS:
            of_section = {kind.value for kind, place in SECTIONS.items() if place is Section.PROTOCOL}
        for name, lists in zip(("old", "new"), self._incomplete, strict=True):
            yield from (
                f"{phase} {kind}: the list of the {name} result overflowed"
                for phase, kind in lists
                if kind in of_section
            )

    def _fed(self, section: Section) -> bool:
        return any(key[1] in _FEEDS[section] for states in self._states for key in states)


def _side(result: ReviewResult, form: canonical.Form) -> Side:
    target: Any = to_value(result.request)["target"]
    return Side(target=target, status=result.execution.status.value, behaviour=canonical.digest(form))


def _states(result: ReviewResult) -> dict[tuple[str, str], str]:
    """By step and name: the state of a sensor, the worst where it is told twice; what lost some is not `active`."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for sensor in result.collectors:
        lossy = sensor.lost > 0 and sensor.state is CollectorState.ACTIVE
        found[f"{sensor.phase.value} {sensor.step}".strip(), sensor.name].add(
            "active, but it lost some" if lossy else sensor.state.value
        )
    return {key: next((s for s in _WORST_FIRST if s in states), "active") for key, states in found.items()}


_WORST_FIRST = ("unavailable", "degraded", "active, but it lost some")


def _incomplete(form: canonical.Form) -> list[tuple[str, str]]:
    lists = form["incomplete"]
    return (
        [(str(one["phase"]), str(one["type"])) for one in lists if isinstance(one, dict)]
        if isinstance(lists, list)
        else []
    )


def _facts(form: canonical.Form, section: Section) -> dict[bytes, Fact]:
    facts = form[section.value]
    return {jcs.encode(fact): fact for fact in facts if isinstance(fact, dict)} if isinstance(facts, list) else {}


def _paired(
    section: Section, removed: list[Fact], added: list[Fact]
) -> tuple[list[ChangedFact], list[Fact], list[Fact]]:
    """What went and came of the same thing is one change; where several could be meant, none is."""
    names = _IDENTITY.get(section, ())
    if not names:
        return [], removed, added
    went, came = _by_identity(names, removed), _by_identity(names, added)
    pairs = {key: (went[key][0], came[key][0]) for key in went if len(went[key]) == len(came.get(key, ())) == 1}
    changed = [
        ChangedFact(what={name: old[name] for name in names if name in old}, members=tuple(_differing("", old, new)))
        for old, new in pairs.values()
    ]
    return changed, _but(pairs, went), _but(pairs, came)


def _but(pairs: Container[bytes], side: Mapping[bytes, list[Fact]]) -> list[Fact]:
    return [fact for key, facts in side.items() if key not in pairs for fact in facts]


def _by_identity(names: Iterable[str], facts: Iterable[Fact]) -> dict[bytes, list[Fact]]:
    found: dict[bytes, list[Fact]] = defaultdict(list)
    for fact in facts:
        found[jcs.encode([fact.get(name) for name in names])].append(fact)
    return found


def _differing(path: str, old: Mapping[str, Value], new: Mapping[str, Value]) -> Iterator[Member]:
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        place = f"{path}.{name}" if path else name
        if before == after and (name in old) == (name in new):
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _differing(place, before, after)
        elif isinstance(before, list) and isinstance(after, list):
            yield _entries(place, before, after)
        else:
            yield Member(member=place, old=before, new=after)


def _entries(place: str, before: list[Value], after: list[Value]) -> Member:
    first, second = ({jcs.encode(entry): entry for entry in entries} for entries in (before, after))
    removed = tuple(entry for key, entry in first.items() if key not in second)
    added = tuple(entry for key, entry in second.items() if key not in first)
    if removed or added:
        return Member(member=place, removed=removed, added=added)
    return Member(member=place, old=before, new=after)  # another order, or another number


def _members_of(forms: tuple[canonical.Form, canonical.Form], name: str) -> Iterator[Changed]:
    old, new = forms[0][name], forms[1][name]
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                yield Changed(name=key, old=old.get(key), new=new.get(key))


def _whole(forms: tuple[canonical.Form, canonical.Form], name: str) -> Iterator[Changed]:
    if forms[0][name] != forms[1][name]:
        yield Changed(name=name, old=forms[0][name], new=forms[1][name])


def _limits(name: str, result: ReviewResult) -> Iterator[str]:
    for step in result.execution.steps:
        if step.end in _CUT_SHORT:
            yield f"{name}: {step.phase} {step.name} ended at its limit ({step.end.value})"
    if result.stop_condition_triggered is not None:
        yield f"{name}: stopped at {result.stop_condition_triggered.value}"
    if result.coverage.bytes_dropped:
        yield f"{name}: output was cut"


def _machine(old: ReviewResult, new: ReviewResult) -> Iterator[Changed]:
    yield from _attributes(_MACHINE, old.environment, new.environment)
    yield from _attributes(("node_version", "npm_version"), old.provenance, new.provenance)


def _attributes(names: Iterable[str], old: object, new: object) -> Iterator[Changed]:
    for name in names:
        before, after = msgspec.to_builtins(getattr(old, name, None)), msgspec.to_builtins(getattr(new, name, None))
        if before != after:
            yield Changed(name=name, old=before, new=after)
