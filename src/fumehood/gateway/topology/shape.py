"""From the tree that a file of TOML holds to tables of converted values, key by key, so that a refusal knows its key.

Pure. Invariants: an unknown key is refused, with what may have been meant; what is required is there.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fumehood.gateway.topology.place import Keys, Place, dotted, near

_PATH: Final = "must be a path, without control characters"
_PATTERNS: Final = "must be a list of names, of letters, digits and _ . / -, in which * fits anything"
_VARIABLE: Final = "must be the name of a variable"
_YES: Final = "must be true or false"
_WORDS: Final[Mapping[str, str]] = {
    "command": "must be a list of words: a program, and what it is given",
    "folder": _PATH,
    "workspace": _PATH,
    "token_file": _PATH,
    "program": _PATH,
    "lock_file": _PATH,
    "audit_file": _PATH,
    "url": "must be a URL, of at most 2000 characters",
    "token_env": _VARIABLE,
    "headers_env": "must be a table of at most 16: the name of a header, and the name of the variable that holds it",
    "allow_private": _YES,
    "enabled": _YES,
    "trust": 'must be "trusted" or "untrusted"',
    "access": 'must be "read" or "write"',
    "show": 'must be "both", "direct" or "code"',
    "names": 'must be "prefixed" or "plain"',
    "reads": _PATTERNS,
    "egress": _PATTERNS,
    "servers": _PATTERNS,
    "tools": "must be a list of names of tools",
    "call_seconds": "must be a number, more than 0 and at most 600",
    "description": "must be a text of 1 to 2000 characters",
    "title": "must be a text of at most 200 characters",
    "local_role": "must be the name of a role",
    "input_schema": "must be a table: the JSON Schema of an object",
}
NAME: Final = re.compile(r"[A-Za-z0-9](?:-|_?[A-Za-z0-9]){0,31}")  # that of `model._Name`
_NAME_WORDS: Final = (
    "no name: a letter or a digit, then at most 31 letters, digits and -, between which a single _ may stand"
)


def table(value: object, keys: Keys, place: Place) -> dict[str, Any]:
    """A table of TOML."""
    if not isinstance(value, dict):
        raise place.error(keys, "must be a table", remedy=f"write [{dotted(keys)}]")
    return value


def named(value: object, keys: Keys, place: Place, *, most: int) -> dict[str, Any]:
    """A table of things that have names."""
    found = table(value, keys, place)
    for name in found:
        if not NAME.fullmatch(name):
            raise place.error((*keys, name), _NAME_WORDS, remedy="give it another name")
    if len(found) > most:
        raise place.error(keys, f"more than {most}", remedy="leave some out")
    return found


def fields(
    value: object, kind: type[msgspec.Struct], keys: Keys, place: Place, *, apart: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The values of a table for a Struct; keys of `apart` are known, and left out."""
    found = table(value, keys, place)
    known = {field.name: field for field in msgspec.structs.fields(kind)}
    made: dict[str, Any] = {}
    for key, given in found.items():
        if key not in known:
            raise place.error((*keys, key), "no such key", remedy=near(key, known))
        if key not in apart:
            made[key] = _value(given, known[key].type, (*keys, key), place)
    for name, field in known.items():
        if field.required and name not in found:
            raise place.error(keys, f"{name} is missing", remedy=f"write {name} = … below it")
    return made


def _value(given: object, kind: Any, keys: Keys, place: Place) -> Any:  # noqa: ANN401 - whatever the Struct says
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        where = re.search(r"\$(\[\d+\])", str(error))
        at = (*keys[:-1], f"{keys[-1]}{where[1]}") if where else keys
        raise place.error(at, _WORDS[keys[-1]]) from None
