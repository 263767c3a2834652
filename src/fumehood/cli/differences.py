"""A comparison of two results in lines for a person: conditions first. Pure; every text of the target's is quoted."""

import json
from collections.abc import Iterator, Mapping

from fumehood.review.diff import Changed, ChangedFact, Comparison, Member, SectionDifference

_SHOWN = 40  # entries of one section
_WORDS = 400  # characters of one line's facts
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+:,./_<>-$&?=~#")
_ONE_LINE = {ord("\n"): "\\n", ord("\t"): "\\t"}  # the others that a terminal acts on are the renderer's
_LAST = ("type", "phase", "step")  # said in front of a fact


def lines(found: Comparison) -> Iterator[str]:
    """The lines. What could not be compared is said at its section, never left out."""
    yield from (line.translate(_ONE_LINE) for line in _lines(found))


def _lines(found: Comparison) -> Iterator[str]:
    for name, side in (("old", found.old), ("new", found.new)):
        yield f"{name}  {side.status}  {_flat(side.target)}  {side.behaviour}"
    yield from _table("condition", found.conditions)
    yield from (f"limit: {text}" for text in found.limits)
    yield from _table("end", found.ends)
    yield from _table("sensor", found.sensors)
    for section in found.sections:
        yield from _section(section)
    yield from _table("machine (no difference of behaviour)", found.machine)
    yield from _table("coverage (no difference of behaviour)", found.coverage)
    yield "something differs, or could not be compared" if found.differs else "nothing differs in what was recorded"


def _table(name: str, changes: tuple[Changed, ...]) -> Iterator[str]:
    for change in changes[:_SHOWN]:
        yield f"{name} {change.name}: {_value(change.old)} -> {_value(change.new)}"


def _section(section: SectionDifference) -> Iterator[str]:
    name = section.section.replace("_", " ")
    match section.outcome:
        case "same":
            return
        case "not_recorded":
            yield f"{name}: not recorded in either"
        case "not_comparable":
            yield f"{name}: NOT COMPARABLE: {'; '.join(section.why)}"
        case "differs":
            yield f"{name}:"
    entries = [*map(_changed, section.changed)]
    entries += [f"- {_fact(fact)}" for fact in section.removed] + [f"+ {_fact(fact)}" for fact in section.added]
    yield from (f"  {entry}" for entry in entries[:_SHOWN])
    if len(entries) > _SHOWN:
        yield f"  and {len(entries) - _SHOWN} more (--json has them)"


def _changed(change: ChangedFact) -> str:
    return f"~ {_fact(change.what)}: {'; '.join(map(_member, change.members))}"


def _member(member: Member) -> str:
    if member.removed or member.added:
        parts = [f"-{_value(entry)}" for entry in member.removed] + [f"+{_value(entry)}" for entry in member.added]
        return f"{_value(member.member)} {' '.join(parts)}"
    return f"{_value(member.member)} {_value(member.old)} -> {_value(member.new)}"


def _fact(fact: Mapping[str, object]) -> str:
    head = " ".join(_value(fact[name]) for name in _LAST if name in fact)
    return f"{head} {_flat({key: value for key, value in fact.items() if key not in _LAST})}".strip()


def _flat(value: Mapping[str, object]) -> str:
    return _cut(" ".join(f"{name}={_value(entry)}" for name, entry in value.items()))


def _value(value: object) -> str:
    """A value as it stands when it is one plain word, quoted as JSON else."""
    if isinstance(value, str) and value and set(value) <= _PLAIN:
        return _cut(value)
    return _cut("none" if value is None else json.dumps(value))


def _cut(text: str) -> str:
    return text if len(text) <= _WORDS else text[:_WORDS] + "…"
