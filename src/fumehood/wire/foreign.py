"""Check values against JSON Schemas that a peer wrote, within bounds.

A schema of a few lines can ask for more steps than there are atoms (references that double, references to
themselves), leave the document, or hold patterns that no linear engine takes. So the schema is measured, then the
work that one value would cost is counted in a dry run with a budget, and only then the engine of `wire.schema` runs.

Invariants: no reference leaves the document; depth, subschemas, references, steps and problems are bounded; a pattern
that the linear engine refuses is taken out and told, never run elsewhere. What cannot be checked is `Uncheckable`
with a reason, which says nothing about the value.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import unquote

from fumehood.core import limits
from fumehood.wire import schema as engine
from fumehood.wire.schema import Problem

Schema: TypeAlias = Mapping[str, Any]
Targets: TypeAlias = Mapping[str, Any]  # a reference → the subschema that it leads to

# Draft 2020-12, core section 10: which keywords hold subschemas, and whether they see the same value or its parts.
_SAME_ONE = ("not", "if", "then", "else")
_SAME_MANY = ("allOf", "anyOf", "oneOf")
_PART_ONE = ("items", "contains", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "propertyNames")
_ONE = (*_SAME_ONE, *_PART_ONE)
_MANY = (*_SAME_MANY, "prefixItems")
_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_NOT_FOLLOWED = ("$dynamicRef", "$recursiveRef")
_NOT_MONOTONE = ("not", "if", "oneOf", "maxContains", "unevaluatedItems", "unevaluatedProperties")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Every problem up to a bound, and the patterns that were left out (a peer's text)."""

    problems: tuple[Problem, ...]
    skipped_patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncheckable:
    """The schema is none, or goes over a bound; `reason` is a sentence of ours."""

    reason: str


class _OverError(Exception):
    """A bound is crossed; the first argument is the reason."""


def check(schema: Schema | bool, value: object) -> Checked | Uncheckable:  # noqa: FBT001 - true and false are schemas
    """Where `value` does not fit a peer's `schema`. Both have passed `core.jsonio`, which bounds their size."""
    root: Schema = {"allOf": [schema]} if isinstance(schema, bool) else schema
    try:
        patterns, targets = _measure(root)
        _rehearse(root, value, targets)
        skipped = [pattern for pattern in patterns if not engine.is_linear(pattern)]
        _refuse_unsound(root, skipped)
        found = engine.iter_problems(_without(root, set(skipped)), value)
        problems = tuple(itertools.islice(found, limits.SCHEMA_PROBLEMS))
        return Checked(problems=problems, skipped_patterns=tuple(skipped))
    except _OverError as error:
        return Uncheckable(reason=str(error))
    except ValueError:
        return Uncheckable(reason="not a JSON Schema of 2020-12")


class ForeignChecker:
    """A peer's schema, measured and compiled once for many values; ValueError with a sentence of ours otherwise."""

    __slots__ = ("_engine", "_root", "_steps_each", "_targets", "skipped_patterns")

    def __init__(self, schema: Schema | bool) -> None:  # noqa: FBT001 - true and false are schemas
        """Measure, then compile."""
        self._root: Schema = {"allOf": [schema]} if isinstance(schema, bool) else schema
        try:
            patterns, self._targets = _measure(self._root)
            self.skipped_patterns = tuple(pattern for pattern in patterns if not engine.is_linear(pattern))
            _refuse_unsound(self._root, self.skipped_patterns)
        except _OverError as error:
            raise ValueError(str(error)) from None
        self._steps_each = _steps_each(self._root)
        try:
            self._engine = engine.Checker(_without(self._root, set(self.skipped_patterns)), mask="the value")
        except ValueError:
            raise ValueError("not a JSON Schema of 2020-12") from None

    def check(self, value: object, size: int | None = None) -> Checked | Uncheckable:
        """Where `value` does not fit; no message holds a part of it but its keys.

        `size`: of the value as JSON, in bytes, where it is known: small values then need no rehearsal.
        """
        try:
            if not self.is_cheap(size):
                _rehearse(self._root, value, self._targets)
        except _OverError as error:
            return Uncheckable(reason=str(error))
        problems = tuple(itertools.islice(self._engine.iter_problems(value), limits.SCHEMA_PROBLEMS))
        return Checked(problems=problems, skipped_patterns=self.skipped_patterns)

    def is_cheap(self, size: int | None) -> bool:
        """Whether no value of so many bytes can cost more steps than there may be: then a rehearsal has no say."""
        return size is not None and self._steps_each is not None and self._steps_each * size <= limits.SCHEMA_STEPS


def refusal(schema: Schema) -> str:
    """Why a schema cannot be published by us, whatever the value; empty when it can.

    No pattern may be left out of a schema of ours, and no reference may lead out of it.
    """
    try:
        patterns, _ = _measure(schema)
    except _OverError as error:
        return str(error)
    if any(not engine.is_linear(pattern) for pattern in patterns):
        return "holds a pattern that has no linear form"
    return ""


def _measure(root: Schema) -> tuple[list[str], Targets]:
    """Refuse what is too deep, too large or refers outside; gives the patterns, and what each reference leads to."""
    patterns: dict[str, None] = {}
    targets: dict[str, Any] = {}
    references = 0
    for count, (schema, depth) in enumerate(_walk(root)):
        if depth > limits.SCHEMA_DEPTH:
            raise _OverError(f"nested deeper than {limits.SCHEMA_DEPTH}")
        if count >= limits.SCHEMA_SUBSCHEMAS:
            raise _OverError(f"more than {limits.SCHEMA_SUBSCHEMAS} subschemas")
        if ("$id" in schema and depth > 1) or any(keyword in schema for keyword in _NOT_FOLLOWED):
            raise _OverError("holds a base or a dynamic reference of its own, which is not followed")
        if "$ref" in schema:
            references += 1
            reference = _local(schema["$ref"])
            if reference not in targets:
                targets[reference] = _resolve(root, reference)
        patterns |= dict.fromkeys(_patterns(schema))
        if references > limits.SCHEMA_REFERENCES or len(patterns) > limits.SCHEMA_PATTERNS:
            raise _OverError(f"more than {limits.SCHEMA_REFERENCES} references or {limits.SCHEMA_PATTERNS} patterns")
    return list(patterns), targets


def _walk(root: Schema) -> Iterator[tuple[Schema, int]]:
    """Every subschema that is an object, with its depth."""
    stack: list[tuple[Any, int]] = [(root, 1)]
    while stack:
        schema, depth = stack.pop()
        if isinstance(schema, Mapping):
            yield schema, depth
            stack += [(child, depth + 1) for child in _children(schema)]


def _patterns(schema: Schema) -> Iterator[str]:
    if isinstance(pattern := schema.get("pattern"), str):
        yield pattern
    yield from _mapping(schema.get("patternProperties"))


def _refuse_unsound(root: Schema, skipped: Sequence[str]) -> None:
    """Leaving out a pattern may only make a check more lenient: elsewhere it would invent a problem."""
    if not skipped:
        return
    for schema, _ in _walk(root):
        if any(keyword in schema for keyword in _NOT_MONOTONE) or set(skipped) & {
            *_mapping(schema.get("patternProperties"))
        }:
            raise _OverError("holds a pattern that has no linear form where it cannot be left out")


def _without(schema: Any, skipped: set[str]) -> Any:  # noqa: ANN401  # a subschema is an object or a boolean
    """A copy without the patterns; its depth is measured already."""
    if not skipped or not isinstance(schema, Mapping):
        return schema
    copy = {key: value for key, value in schema.items() if not (key == "pattern" and value in skipped)}
    for keyword in copy.keys() & set(_ONE):
        copy[keyword] = _without(copy[keyword], skipped)
    for keyword in copy.keys() & set(_MANY):
        copy[keyword] = [_without(child, skipped) for child in _sequence(copy[keyword])]
    for keyword in copy.keys() & set(_MAPS):
        copy[keyword] = {name: _without(child, skipped) for name, child in _mapping(copy[keyword]).items()}
    return copy


def _rehearse(root: Schema, value: object, targets: Targets) -> None:
    """Count the pairs of subschema and value that a check may visit; an upper bound, since engines stop early."""
    steps = 0
    stack: list[tuple[Any, object]] = [(root, value)]
    while stack:
        schema, instance = stack.pop()
        steps += 1
        if isinstance(schema, Mapping):
            enum = schema.get("enum")
            steps += len(enum) if isinstance(enum, Sequence) else 0
            pairs = itertools.chain(_same(schema, instance, targets), _parts(schema, instance))
            stack += itertools.islice(pairs, limits.SCHEMA_STEPS + 1)
        if steps + len(stack) > limits.SCHEMA_STEPS:
            raise _OverError(f"more than {limits.SCHEMA_STEPS} steps for this value")


def _steps_each(root: Schema) -> int | None:
    """How many steps a rehearsal takes at most for each byte of a value; None where the schema alone does not say.

    A place of the schema sees each part of a value at most once, and each part has a byte at least, unless places are
    seen again: through a reference, or for `unevaluated…`.
    """
    steps = 0
    for schema, _ in _walk(root):
        if "$ref" in schema or "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            return None
        enum = schema.get("enum")
        steps += 1 + (len(enum) if isinstance(enum, Sequence) else 0)
        steps += sum(not isinstance(child, Mapping) for child in _children(schema))
    return steps


def _same(schema: Schema, instance: object, targets: Targets) -> Iterator[tuple[Any, object]]:
    """Subschemas that see the value itself."""
    found = [schema[keyword] for keyword in _SAME_ONE if keyword in schema]
    for keyword in _SAME_MANY:
        found += _sequence(schema.get(keyword))
    found += _mapping(schema.get("dependentSchemas")).values()
    if "$ref" in schema:
        found.append(targets[schema["$ref"]])
    # Measured: the engine goes through these again for `unevaluated…`, so that n levels of it cost 3 to the n.
    again = 3 if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else 1
    yield from ((child, instance) for child in found * again)


def _parts(schema: Schema, instance: object) -> Iterator[tuple[Any, object]]:
    """Subschemas that see parts of the value; every pattern counts as one that matches."""
    if isinstance(instance, Mapping):
        for name, child in _mapping(schema.get("properties")).items():
            if name in instance:
                yield child, instance[name]
        every = [*_mapping(schema.get("patternProperties")).values()]
        every += [schema[word] for word in ("additionalProperties", "unevaluatedProperties") if word in schema]
        yield from ((child, part) for child in every for part in instance.values())
        if "propertyNames" in schema:
            yield from ((schema["propertyNames"], name) for name in instance)
    elif isinstance(instance, Sequence) and not isinstance(instance, str):
        yield from zip(_sequence(schema.get("prefixItems")), instance, strict=False)
        every = [schema[word] for word in ("items", "contains", "unevaluatedItems") if word in schema]
        yield from ((child, part) for child in every for part in instance)


def _children(schema: Schema) -> Iterator[Any]:
    yield from (schema[keyword] for keyword in _ONE if keyword in schema)
    for keyword in _MANY:
        yield from _sequence(schema.get(keyword))
    for keyword in _MAPS:
        yield from _mapping(schema.get(keyword)).values()


def _sequence(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _local(reference: object) -> str:
    """A reference that is a JSON Pointer (RFC 6901) within the document, of a bounded length."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        raise _OverError("a reference that is no pointer within the document")
    if len(reference) > limits.SCHEMA_REFERENCE_CHARACTERS:
        raise _OverError(f"a reference of more than {limits.SCHEMA_REFERENCE_CHARACTERS} characters")
    return reference


def _resolve(root: Schema, reference: str) -> Any:  # noqa: ANN401  # a subschema is an object or a boolean
    """What a local reference leads to. Only places that `_walk` reaches: any other would escape its bounds."""
    words = [unquote(word).replace("~1", "/").replace("~0", "~") for word in reversed(reference.split("/")[1:])]
    place: Any = root
    while words:
        keyword = words.pop()
        place = _mapping(place).get(keyword)
        if keyword in _MAPS and words:
            place = _mapping(place).get(words.pop())
        elif keyword in _MANY and words:
            place = _item(_sequence(place), words.pop())
        elif keyword not in _ONE:
            place = None
    if not isinstance(place, Mapping | bool):
        raise _OverError("a reference that leads to no definition of the document")
    return place


def _item(items: Sequence[Any], word: str) -> object:
    """An element by its index as RFC 6901 writes it; None where there is none."""
    place = int(word) if re.fullmatch(r"0|[1-9][0-9]{0,5}", word) else len(items)
    return items[place] if place < len(items) else None
