"""A comparison of two results in lines for a person: conditions first. Pure; every text of the target's is quoted."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from fumehood.review.batch import listing
from fumehood.review.behaviour.diff import Changed, ChangedFact, Comparison, Member, SectionDifference

_SHOWN = 40  # entries of one section
_WORDS = 400  # characters of one line's facts
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+:,./_<>-$&?=~#")
_ONE_LINE = {ord("\n"): "\\n", ord("\t"): "\\t"}  # the others that a terminal acts on are the renderer's
_DIGEST = re.compile("[0-9a-f]{64}")
_DIGEST_SHOWN = 12  # figures of a digest beside another; --json has all of them
_LAST = ("type", "phase", "step")  # said in front of a fact


def lines(found: Comparison) -> Iterator[str]:
    """The lines. What could not be compared is said at its section, never left out."""
    yield from (line.translate(_ONE_LINE) for line in _lines(found))


def _lines(found: Comparison) -> Iterator[str]:
    yield from _sides(found)
    yield from _table("condition", found.conditions)
    yield from (f"limit: {text}" for text in found.limits)
    yield from _ends(found.ends)
    yield from _sensors(found.sensors)
    for section in found.sections:
        yield from _section(section)
    yield from _table("machine (no difference of behaviour)", found.machine)
    yield from _table("coverage (no difference of behaviour)", found.coverage)
    yield "something differs, or could not be compared" if found.differs else "nothing differs in what was recorded"


def _sides(found: Comparison) -> Iterator[str]:
    """The two results under each other, with the whole of their digests."""
    rows = [
        (word, _cut(listing.target({"target": side.target})), side.status, side.behaviour)
        for word, side in (("old", found.old), ("new", found.new))
    ]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))


def _ends(changes: tuple[Changed, ...]) -> Iterator[str]:
    """How the runs ended; of their steps only those that are not in both alike."""
    for change in changes:
        if change.name != "steps" or not isinstance(change.old, list) or not isinstance(change.new, list):
            yield from _table("end", (change,))
            continue
        gone = [step for step in change.old if step not in change.new]
        come = [step for step in change.new if step not in change.old]
        marked = [f"- {_step(step)}" for step in gone] + [f"+ {_step(step)}" for step in come]
        yield "end steps:" if marked else "end steps: in another order"
        yield from _some(f"  {text}" for text in marked)


def _step(step: object) -> str:
    if not isinstance(step, dict):
        return _value(step)
    return " ".join(_value(step[name]) for name in ("phase", "name", "end") if name in step) + "".join(
        f" {name}={_value(step[name])}" for name in ("status", "signal", "trace") if step.get(name) is not None
    )


def _sensors(changes: tuple[Changed, ...]) -> Iterator[str]:
    """The sensors that were not alike, those of one step that differ in the same way on one line."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for change in changes:
        step, _, name = change.name.rpartition(" ")
        grouped.setdefault((step, f"{_state(change.old)} -> {_state(change.new)}"), []).append(name)
    yield from _some(_cut(f"sensor {step} {', '.join(names)}: {how}") for (step, how), names in grouped.items())


def _state(state: object) -> str:
    return "missing" if state is None else _value(state)


def _table(name: str, changes: tuple[Changed, ...]) -> Iterator[str]:
    yield from _some(f"{name} {change.name}: {_value(change.old)} -> {_value(change.new)}" for change in changes)


def _some(lines: Iterable[str]) -> Iterator[str]:
    """The first of the lines, and how many are not shown."""
    every = list(lines)
    yield from every[:_SHOWN]
    if len(every) > _SHOWN:
        yield f"  and {len(every) - _SHOWN} more (--json has them)"


def _section(section: SectionDifference) -> Iterator[str]:
    name = section.section.replace("_", " ")
    match section.outcome:
        case "same":
            return
        case "not_recorded":
            yield f"{name}: not recorded in either"
        case "not_comparable":
            one = len(section.why) == 1
            yield f"{name}: NOT COMPARABLE:{' ' + section.why[0] if one else ''}"
            yield from () if one else _some(f"  ! {why}" for why in section.why)
        case "differs":
            yield f"{name}:"
    entries = [*map(_changed, section.changed)]
    entries += [f"- {_fact(fact)}" for fact in section.removed] + [f"+ {_fact(fact)}" for fact in section.added]
    yield from _some(f"  {entry}" for entry in entries)


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
    """A value as it stands when it is one plain word, quoted as JSON else; of a digest the beginning."""
    if isinstance(value, str) and _DIGEST.fullmatch(value):
        return f"{value[:_DIGEST_SHOWN]}…"
    if isinstance(value, str) and value and set(value) <= _PLAIN:
        return _cut(value)
    return _cut("none" if value is None else json.dumps(value))


def _cut(text: str) -> str:
    return text if len(text) <= _WORDS else text[:_WORDS] + "…"
