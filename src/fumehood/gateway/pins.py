"""What the tools of a server were when somebody accepted them, and what they are now. Pure.

A pin is a digest of each member of each definition, whatever its name: nothing that a definition says can change
unseen, also what a later revision of the protocol adds. Digests are of canonical JSON (sorted keys, no white space), so
that the order of tools and of keys means nothing and everything else does.

Invariants: two sets of definitions have one digest only if they say the same, as far as SHA-256 holds; anything but
`Same` is a reason to withhold the tools of that server, a tool under another name too.

Threats: a server that changes its tools after they were looked at, between two starts or on one connection; one that
evades the pin of a tool by giving it another name; a list that floods.

Not promised: that a tool does what its definition says, or that it still does what it did. A pin is of words.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from fumehood.core import jsonio, limits
from fumehood.core.errors import FailedError
from fumehood.core.jsonio import JsonValue

_NAME: Final = "name"

Fields: TypeAlias = Mapping[str, str]  # the members of one definition, and the digest of each
Tools: TypeAlias = Mapping[str, Fields]  # by name


class PinError(FailedError):
    """A server's list of tools is none that can be pinned. Its own words stand in no message but escaped."""

    code = "no_pin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A tool that is still there, and the members of its definition that are not as they were."""

    name: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Renamed:
    """A definition that is as it was, but for its name."""

    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Same:
    """Nothing differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Something differs; names in order."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[Changed, ...] = ()
    renamed: tuple[Renamed, ...] = ()


Comparison: TypeAlias = Same | Drift


def pin(definitions: Sequence[JsonValue]) -> dict[str, dict[str, str]]:
    """The digests of a list of tools as `tools/list` gives it, in the order of names. Errors: `PinError`."""
    if len(definitions) > limits.PIN_TOOLS:
        raise PinError(f"the server has {len(definitions)} tools, where {limits.PIN_TOOLS} are taken")
    found: dict[str, dict[str, str]] = {}
    for definition in definitions:
        name, fields = _definition(definition)
        if name in found:
            raise PinError(f"the server has two tools with the name {_shown(name)}")
        found[name] = fields
    return dict(sorted(found.items()))


def digest(tools: Tools) -> str:
    """The digest of a whole set."""
    return _digest({name: dict(fields) for name, fields in tools.items()})


def compare(pinned: Tools, found: Tools) -> Comparison:
    """What differs between what was accepted and what a server has now."""
    removed, added = set(pinned) - set(found), set(found) - set(pinned)
    renamed = _renamed(pinned, found, removed, added)
    removed -= {one.old for one in renamed}
    added -= {one.new for one in renamed}
    changed = tuple(
        Changed(name=name, fields=fields)
        for name in sorted(set(pinned) & set(found))
        if (fields := _differing(pinned[name], found[name]))
    )
    if not (added or removed or changed or renamed):
        return Same()
    return Drift(added=tuple(sorted(added)), removed=tuple(sorted(removed)), changed=changed, renamed=renamed)


def _definition(definition: JsonValue) -> tuple[str, dict[str, str]]:
    if not isinstance(definition, dict) or not isinstance(name := definition.get(_NAME), str):
        raise PinError("a tool of the server has no name")
    if not 1 <= len(name) <= limits.CODE_NAME_CHARACTERS:
        raise PinError(f"a tool of the server has a name of {len(name)} characters")
    if len(definition) > limits.PIN_FIELDS:
        raise PinError(f"{_shown(name)} has more than {limits.PIN_FIELDS} members in its definition")
    if long := next((key for key in definition if len(key) > limits.PIN_FIELD_CHARACTERS), None):
        raise PinError(f"{_shown(name)} has a member with a name of {len(long)} characters")
    try:
        return name, {key: _digest(definition[key]) for key in sorted(definition)}
    except (ValueError, TypeError, RecursionError):
        raise PinError(f"the definition of {_shown(name)} is no JSON") from None


def _renamed(pinned: Tools, found: Tools, removed: set[str], added: set[str]) -> tuple[Renamed, ...]:
    """Pairs of a tool that went and one that came with the same definition, each in one pair at most."""
    came: dict[str, list[str]] = {}
    for name in sorted(added, reverse=True):
        came.setdefault(_nameless(found[name]), []).append(name)
    return tuple(
        Renamed(old=name, new=others.pop()) for name in sorted(removed) if (others := came.get(_nameless(pinned[name])))
    )


def _nameless(fields: Fields) -> str:
    return _digest({key: value for key, value in fields.items() if key != _NAME})


def _differing(old: Fields, new: Fields) -> tuple[str, ...]:
    return tuple(key for key in sorted({*old, *new}) if old.get(key) != new.get(key))


def _digest(value: JsonValue) -> str:
    return hashlib.sha256(jsonio.canonical(value)).hexdigest()


def _shown(name: str) -> str:
    return ascii(name[: limits.CODE_NAME_CHARACTERS])
