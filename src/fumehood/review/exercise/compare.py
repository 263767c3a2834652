"""What one start of a server said, and how another start of it differs. Pure.

Invariants: what is equal gives no difference; each difference names one thing, with what it was before and after, and
for a definition which of its members changed; their number is bounded, and what is beyond is counted.

Not promised: that what a server would say a third time is the same.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fumehood.core import limits
from fumehood.observe.model import Value
from fumehood.review.exercise.definitions import Definition
from fumehood.review.show import show_text

Detail = dict[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class List:
    """One list as it was read: whether it was offered and came whole, and its definitions by name."""

    state: str  # "complete", or why not
    digest: str
    definitions: Mapping[str, Definition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What one start said and did, as far as two starts can be compared."""

    handshake: str  # "completed", or the code of what it came to
    server: Mapping[str, str] = field(default_factory=dict)  # each inert or a digest
    capabilities: Mapping[str, str] = field(default_factory=dict)  # name → digest of what is said of it
    lists: Mapping[str, List] = field(default_factory=dict)
    programs: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()


def differences(before: Heard, after: Heard) -> list[Detail]:
    """Everything that differs, in a fixed order."""
    said = _said(before, after)
    found = [_with_members(*one) for one in itertools.islice(said, limits.DIFFERENCES)]
    beyond = sum(1 for _ in said)
    return [*found, _one("further", None, None, beyond)] if beyond else found


def acted(before: Heard, after: Heard) -> list[Detail]:
    """Programs and hosts that one of two starts had and the other had not."""
    found: list[Detail] = []
    for what, one, other in (
        ("program", before.programs, after.programs),
        ("host", before.hosts, after.hosts),
    ):
        found += [_one(what, name, name in one, name in other) for name in sorted(one ^ other)]
    return found[: limits.DIFFERENCES]


def changed(before: Heard, after: Heard) -> Iterator[Definition]:
    """The definitions that the later start has and the earlier has not, or has otherwise."""
    for what, listed in after.lists.items():
        known = before.lists[what].definitions if what in before.lists else {}
        for name, one in listed.definitions.items():
            if name not in known or known[name].digest != one.digest:
                yield one


_Said = tuple[Detail, Definition | None, Definition | None]  # a difference, and the two definitions that are unlike


def _with_members(detail: Detail, old: Definition | None, new: Definition | None) -> Detail:
    """A difference; of a definition that both have with the first members that are unlike."""
    if old is not None and new is not None:
        detail["members"] = list(itertools.islice(old.members_unlike(new), limits.MEMBERS_UNLIKE))
    return detail


def _said(before: Heard, after: Heard) -> Iterator[_Said]:
    if before.handshake != after.handshake:
        yield _one("handshake", None, before.handshake, after.handshake), None, None
        return  # who never answered has no lists that could be missed
    for what, old, new in (
        ("server", before.server, after.server),
        ("capability", before.capabilities, after.capabilities),
    ):
        yield from ((one, None, None) for one in _members(what, old, new))
    for what in dict.fromkeys((*before.lists, *after.lists)):
        yield from _lists(what, before.lists.get(what), after.lists.get(what))


def _members(what: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Detail]:
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) != after.get(name):
            yield _one(what, show_text(name), before.get(name), after.get(name))


def _lists(what: str, before: List | None, after: List | None) -> Iterator[_Said]:
    listed = f"{what} list"
    if before is None or after is None:
        yield _one(listed, None, before.state if before else None, after.state if after else None), None, None
        return
    if before.state != after.state:
        yield _one(listed, None, before.state, after.state), None, None
    elif before.digest != after.digest and _same(before.definitions, after.definitions):
        yield _one(listed, None, before.digest, after.digest), None, None  # in what has no name, or one name twice
    for name in dict.fromkeys((*before.definitions, *after.definitions)):
        old, new = before.definitions.get(name), after.definitions.get(name)
        if old is None or new is None or old.digest != new.digest:
            yield _one(what, show_text(name), old.digest if old else None, new.digest if new else None), old, new


def _same(before: Mapping[str, Definition], after: Mapping[str, Definition]) -> bool:
    return {name: one.digest for name, one in before.items()} == {name: one.digest for name, one in after.items()}


def _one(what: str, name: str | None, before: Value, after: Value) -> Detail:
    return {"what": what, "name": name, "before": before, "after": after}
