"""One subschema with what it refers to and what it is combined with, as one flat mapping. Pure and bounded.

What is not followed (references out of the document, conditions) is left out and noted: the arguments that are made
are checked afterwards anyway, by an engine that knows all of it.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias, TypeGuard
from urllib.parse import unquote

from fumehood.core import limits
from fumehood.core.jsonio import JsonValue

Flat: TypeAlias = dict[str, Any]

NOTHING: Final[Flat] = {"not": {}}  # what nothing fits
SCALARS: Final = ("string", "integer", "number", "boolean", "null")
TYPES: Final = (*SCALARS, "array", "object")
_LEAST: Final = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"})
_MOST: Final = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"})
_SKIPPED: Final = frozenset({"allOf", "anyOf", "oneOf", "$ref"})
_UNFOLLOWED: Final = ("if", "not", "propertyNames", "patternProperties", "dependentSchemas", "$dynamicRef")


class Flattener:
    """The schema of one tool, whose subschemas are flattened. `note` is told what is given up."""

    def __init__(self, root: JsonValue, pick: Callable[[int, str], int], note: Callable[[str], None]) -> None:
        """Nothing looked at yet; `pick` chooses among so many, for a word."""
        self._root = root
        self._pick = pick
        self._note = note
        self._left = limits.INPUT_STEPS

    @property
    def is_spent(self) -> bool:
        """Whether no further subschema is looked at."""
        return self._left <= 0

    def flat(self, schema: object, *, simple: bool = False) -> Flat:
        """A subschema as one mapping; with `simple`, of alternatives that which ends soonest."""
        return self._flat(schema, 0, simple=simple)

    def _flat(self, schema: object, depth: int, *, simple: bool) -> Flat:
        self._left -= 1
        if schema is False:
            return dict(NOTHING)
        if not isinstance(schema, dict):
            return {}
        if self._left <= 0 or depth > limits.INPUT_DEPTH:
            self._note("schema_too_large" if self._left <= 0 else "nested_too_deep")
            return {}
        made: Flat = {key: value for key, value in schema.items() if key not in _SKIPPED}
        for word in _UNFOLLOWED:
            if word in made and made[word] not in ({}, True):
                self._note(f"not_followed: {word}")
        if "$ref" in schema:
            made = merge(made, self._flat(self._resolve(schema["$ref"]), depth + 1, simple=simple))
        for part in _several(schema.get("allOf")):
            made = merge(made, self._flat(part, depth + 1, simple=simple))
        for word in ("anyOf", "oneOf"):
            if _several(schema.get(word)):
                made = self._choose(made, _several(schema[word]), depth, simple=simple)
        return made

    def _choose(self, made: Flat, choices: list[Any], depth: int, *, simple: bool) -> Flat:
        """`made` with the first alternative that it can have at all."""
        begin = self._pick(len(choices), "alternative")
        order = [*choices[begin:], *choices[:begin]]
        order.sort(key=lambda choice: _weight(choice, simple=simple))
        for choice in order[: limits.INPUT_MEMBERS]:
            merged = merge(made, self._flat(choice, depth + 1, simple=simple))
            if not is_nothing(merged):
                return merged
        return made

    def _resolve(self, reference: object) -> object:
        """What a JSON Pointer (RFC 6901) into the document leads to."""
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            self._note("reference_not_followed")
            return {}
        place: object = self._root
        for word in reference.split("/")[1 : limits.INPUT_DEPTH]:
            name = unquote(word).replace("~1", "/").replace("~0", "~")
            if isinstance(place, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(place):
                place = place[int(name[:9])]
            elif isinstance(place, dict) and name in place:
                place = place[name]
            else:
                self._note("reference_not_followed")
                return {}
        return place


def merge(one: Flat, other: Flat) -> Flat:
    """What fits both. Keywords that cannot be put together keep the value of the second."""
    made = dict(one)
    for key, value in other.items():
        made[key] = _both(key, made[key], value) if key in made else value
    if types(made) == []:
        return dict(NOTHING)
    return made


def types(schema: Flat) -> list[str]:
    """The types that a flat schema allows, in its order; all of them where it names none."""
    named = schema.get("type")
    if isinstance(named, str):
        return [named] if named in TYPES else []
    if isinstance(named, list):
        return [one for one in named if isinstance(one, str) and one in TYPES]
    return list(TYPES)


def is_nothing(schema: Flat) -> bool:
    """Whether a flat schema says itself that no value fits."""
    return schema.get("not") in ({}, True) or schema.get("enum") == [] or not types(schema)


def _both(key: str, one: Any, other: Any) -> Any:  # noqa: ANN401  # any JSON value
    """One keyword of two schemas."""
    if key == "type":
        return _common_types(one, other)
    if isinstance(one, list) and isinstance(other, list):
        return _both_lists(key, one, other)
    if key in ("properties", "$defs", "definitions") and isinstance(one, dict) and isinstance(other, dict):
        return one | {name: {"allOf": [one[name], part]} if name in one else part for name, part in other.items()}
    if key in ("items", "additionalProperties"):
        return {"allOf": [one, other]} if one is not False and other is not False else False
    if key in _LEAST | _MOST and is_number(one) and is_number(other):
        return max(one, other) if key in _LEAST else min(one, other)
    return one if key in ("description", "title", "default") else other


def _both_lists(key: str, one: list[Any], other: list[Any]) -> list[Any]:
    if key == "required":
        return [*one, *(name for name in other[: limits.INPUT_STEPS] if name not in one[: limits.INPUT_MEMBERS * 16])]
    if key == "enum":
        return [value for value in one[: limits.INPUT_MEMBERS * 16] if value in other[: limits.INPUT_MEMBERS * 16]]
    return other


def _common_types(one: Any, other: Any) -> list[str]:  # noqa: ANN401  # any JSON value
    mine, theirs = types({"type": one}), types({"type": other})
    both = [kind for kind in mine if kind in theirs]
    if "integer" not in both and (_spans(mine, theirs) or _spans(theirs, mine)):
        both.append("integer")
    return both


def _spans(one: list[str], other: list[str]) -> bool:
    return "integer" in one and "number" in other


def is_number(value: object) -> TypeGuard[int | float]:
    """A number, and no boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _several(value: object) -> list[Any]:
    return value[: limits.INPUT_STEPS] if isinstance(value, list) else []


def _weight(choice: object, *, simple: bool) -> int:
    """Null last of all; where it has to end soon, null and scalars first."""
    if not isinstance(choice, dict):
        return 1
    kinds = types(choice) if "type" in choice else []
    if not kinds and ("const" in choice or "enum" in choice):
        kinds = ["string"]
    if simple:
        return 0 if kinds and all(kind in SCALARS for kind in kinds) else 1
    return 1 if kinds == ["null"] else 0


def several_names(value: object) -> Iterator[str]:
    """The texts of a list."""
    yield from (one for one in _several(value) if isinstance(one, str))
