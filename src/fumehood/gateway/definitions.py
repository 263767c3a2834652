"""What stands in foreign definitions of tools, told to a person, and cut for a model. Pure.

Invariants: every foreign word in a line is inert (`content.terminal`) and cut; lines are bounded. What is passed on
has a description of at most DESCRIPTION_CHARACTERS characters, which says that it was cut.

Not promised: that a definition without a notice means well. Plain words can steer a model as well as hidden ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias, assert_never

from fumehood.content import terminal, unicode
from fumehood.core import limits
from fumehood.core.jsonio import JsonValue
from fumehood.gateway.pins import Changed, Drift, Renamed
from fumehood.wire.foreign import ForeignChecker

Definition: TypeAlias = Mapping[str, JsonValue]

_TEXTS: Final = ("title", "description")  # shown as they are now, where they differ
_SCHEMAS: Final = ("inputSchema", "outputSchema")
_CUT: Final = " [cut]"


def difference(drift: Drift, definitions: Sequence[Definition]) -> list[str]:
    """What differs, a line each; of changed texts what they say now, and notices of what came or changed."""
    now = {str(one.get("name")): one for one in definitions}
    entries: list[str | Changed | Renamed] = [*drift.renamed, *drift.changed, *drift.added]
    lines = [f"removed  {_inert(name)}" for name in drift.removed[: limits.PIN_SHOWN]]
    for entry in entries[: limits.PIN_SHOWN]:
        lines += _entry(entry, now)
    more = max(0, len(drift.removed) - limits.PIN_SHOWN) + max(0, len(entries) - limits.PIN_SHOWN)
    return [*lines, f"and {more} more"] if more else lines


def notices(definition: Definition) -> list[str]:
    """What a person should know of a definition before accepting it: invisible characters, lengths, schemas."""
    found = [f"{key}: {reason}" for key in _SCHEMAS if (reason := _unheld(definition.get(key)))]
    if (length := len(_text(definition.get("description")))) > limits.DESCRIPTION_CHARACTERS:
        found.append(f"description: {length} characters, of which {limits.DESCRIPTION_CHARACTERS} are passed on")
    for path, text in _texts(dict(definition)):
        for evidence in unicode.invisible(text.encode("utf-8", "replace")):
            spelled = f", which spell {_inert(evidence.spelled.decode('latin-1'))}" if evidence.spelled else ""
            found.append(f"{_inert(path)}: {evidence.name}{spelled}")
    more = len(found) - limits.PIN_SHOWN
    return [*found[: limits.PIN_SHOWN], f"and {more} more"] if more > 0 else found


def capped(definition: Definition) -> dict[str, JsonValue]:
    """The definition with a description that is cut, if it is too long."""
    description = definition.get("description")
    if not isinstance(description, str) or len(description) <= limits.DESCRIPTION_CHARACTERS:
        return dict(definition)
    return {**definition, "description": description[: limits.DESCRIPTION_CHARACTERS - len(_CUT)] + _CUT}


def _entry(entry: str | Changed | Renamed, now: Mapping[str, Definition]) -> Iterator[str]:
    match entry:
        case Renamed(old=old, new=new):
            yield f"renamed  {_inert(old)} is called {_inert(new)}"
        case Changed(name=name, fields=fields):
            yield f"changed  {_inert(name)}: {', '.join(map(_inert, fields))}"
            definition = now.get(name, {})
            for key in (key for key in _TEXTS if key in fields and key in definition):
                yield f"         {key} is now: {_inert(_text(definition[key]))}"
            yield from _noted(definition)
        case str() as name:
            definition = now.get(name, {})
            yield f"added    {_inert(name)}: {_inert(_text(definition.get('description')))}"
            yield from _noted(definition)
        case _:
            assert_never(entry)


def _noted(definition: Definition) -> Iterator[str]:
    for notice in notices(definition):
        yield f"         {notice}"


def _unheld(schema: JsonValue) -> str:
    """Why values cannot be checked against a schema as it is; empty where they can, or where there is none."""
    if schema is None:
        return ""
    if not isinstance(schema, dict):
        return "no schema of an object"
    try:
        skipped = ForeignChecker(schema).skipped_patterns
    except ValueError as error:
        return f"cannot be held: {error}"
    return f"{len(skipped)} patterns have no linear form and are not checked" if skipped else ""


def _texts(value: JsonValue, path: str = "$") -> Iterator[tuple[str, str]]:
    """Every string and every key, with its place. Depth is bounded by who parsed the value."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _texts(one, f"{path}[{number}]")
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield f"{path} key", key
            yield from _texts(one, f"{path}.{key[: limits.PIN_FIELD_CHARACTERS]}")


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def _inert(text: str) -> str:
    return terminal.inert(text.encode("utf-8", "replace"), limit_bytes=limits.PIN_SHOWN_CHARACTERS)
