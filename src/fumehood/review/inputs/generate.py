"""Make arguments for a tool from its JSON Schema. Pure: the same schema, seed and extent give the same arguments.

Every choice hangs on the seed and on its place, never on what was chosen before: a schema that gets one property more
gives the same values for the others. Read are schemas of draft 07 and 2020-12.

Invariants: every call ends, whatever the schema: depth, subschemas, members and characters are bounded, and what was
given up for it is noted. No expression of a schema reaches an engine (`patterns` reads simple ones itself).

Not promised: that the arguments fit. Conditions and `not` are not followed; who asks checks the outcome.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from fumehood.core import limits
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.review.inputs import flat, patterns, scalars, words
from fumehood.review.inputs.flat import Flat, Flattener

Place: TypeAlias = tuple[str | int, ...]

REQUIRED: Final = "required"  # an extent: the required members only
ALL: Final = "all"  # an extent: every property that is described


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Arguments for one call, and what of the schema was given up while they were made."""

    arguments: JsonObject
    notes: tuple[str, ...] = ()


def generate(schema: JsonValue, seed: int, *, extent: str = ALL, attempt: int = 0, about: str = "") -> Inputs:
    """Arguments of one extent for the tool `about`. Further attempts choose otherwise, without examples or defaults."""
    maker = _Maker(schema, f"{seed}:{attempt}", extent, about, plain=attempt == 0)
    made = maker.value(schema, (), 0)
    if not isinstance(made, dict):
        maker.note("not_an_object")
        made = {}
    return Inputs(arguments=made, notes=tuple(maker.notes))


class _Maker:
    """The making of one set of arguments."""

    def __init__(self, root: JsonValue, seed: str, extent: str, about: str, *, plain: bool) -> None:
        self._seed = seed
        self._about = about
        self._extent = extent
        self._plain = plain  # whether examples and defaults are taken
        self._place: Place = ()
        self._turns = 0  # choices made for the text that is being written
        self._members = limits.INPUT_MEMBERS * limits.INPUT_DEPTH  # of everything together
        self._characters = limits.INPUT_TEXT_CHARACTERS * 16
        self._flattener = Flattener(root, self._pick, self.note)
        self.notes: dict[str, None] = {}

    def note(self, what: str) -> None:
        """Say once what was given up."""
        if len(self.notes) < limits.INPUT_NOTES:
            self.notes[what] = None

    def value(self, schema: object, place: Place, depth: int) -> JsonValue:
        """A value for one place."""
        outer, self._place = self._place, place
        try:
            return self._value(self._flattener.flat(schema, simple=depth > limits.INPUT_FULL_DEPTH), place, depth)
        finally:
            self._place = outer

    def _value(self, schema: Flat, place: Place, depth: int) -> JsonValue:
        if depth > limits.INPUT_DEPTH or self._flattener.is_spent:
            self.note("nested_too_deep" if depth > limits.INPUT_DEPTH else "schema_too_large")
            return None
        if flat.is_nothing(schema):
            self.note("nothing_fits")
            return None
        given = [schema["const"]] if "const" in schema else self._enumerated(schema)
        if given:
            return self._given(given[self._pick(len(given), "given")])
        kind = self._type(schema, place)
        if kind == "object":
            return self._object(schema, place, depth)
        return self._array(schema, place, depth) if kind == "array" else self._scalar(kind, schema, place)

    def _scalar(self, kind: str, schema: Flat, place: Place) -> JsonValue:
        match kind:
            case "string":
                return self._string(schema, place)
            case "boolean":
                return self._pick(2, "boolean") == 1
            case "null":
                return None
            case _:
                return self._number(schema, place, whole=kind == "integer")

    def _enumerated(self, schema: Flat) -> list[Any]:
        """What the schema itself offers as values."""
        allowed = flat.types(schema)
        if isinstance(schema.get("enum"), list):
            fitting = [one for one in schema["enum"][: limits.INPUT_STEPS] if scalars.is_of(one, allowed)]
            return fitting or schema["enum"][:1]
        if not self._plain:
            return []
        examples = schema.get("examples")
        if isinstance(examples, list) and (fitting := [one for one in examples[:16] if scalars.is_of(one, allowed)]):
            return fitting
        default = schema.get("default")
        filled = default not in ("", [], {}, None) and "default" in schema
        return [default] if filled and scalars.is_of(default, allowed) else []

    def _given(self, value: Any) -> JsonValue:  # noqa: ANN401  # any JSON value
        """A value of the schema's own, as long as there is room for it."""
        self._characters -= len(json.dumps(value))
        if self._characters < 0:
            self.note("too_many_characters")
            return None
        given: JsonValue = value
        return given

    def _type(self, schema: Flat, place: Place) -> str:
        allowed = flat.types(schema)
        if "type" in schema:
            useful = [kind for kind in allowed if kind != "null"] or allowed
            return useful[self._pick(len(useful), "type")] if not self._plain else useful[0]
        if "properties" in schema or "required" in schema or "additionalProperties" in schema or not place:
            return "object"
        if "items" in schema or "prefixItems" in schema or "minItems" in schema:
            return "array"
        if any(word in schema for word in ("minimum", "maximum", "multipleOf", "exclusiveMinimum")):
            return "number"
        return "string"

    def _object(self, schema: Flat, place: Place, depth: int) -> JsonObject:
        described = schema.get("properties")
        properties: dict[str, Any] = described if isinstance(described, dict) else {}
        required = list(dict.fromkeys(flat.several_names(schema.get("required"))))
        made: JsonObject = {}
        for name in self._names(schema, properties, required, depth):
            if len(made) >= limits.INPUT_MEMBERS or self._members <= 0:
                self.note("too_many_members")
                break
            self._members -= 1
            part = properties.get(name, schema.get("additionalProperties", {}))
            if name not in required and flat.is_nothing(self._flattener.flat(part, simple=True)):
                continue
            made[name] = self.value(part, (*place, name), depth + 1)
        self._fill(made, schema, place, depth)
        return made

    def _names(self, schema: Flat, properties: dict[str, Any], required: list[str], depth: int) -> Iterator[str]:
        """Which members are given: the required ones, then those that hang on them, then the optional ones."""
        short = [name for name in required if len(name) <= limits.INPUT_NAME_CHARACTERS]
        if len(short) < len(required):
            self.note("name_too_long")
        yield from short
        full = self._extent == ALL and depth <= limits.INPUT_FULL_DEPTH
        if full:
            yield from (name for name in properties if name not in required)
        hanging = schema.get("dependentRequired")
        for name, others in hanging.items() if isinstance(hanging, dict) else ():
            if full or name in required:
                yield from (one for one in flat.several_names(others) if one not in required)

    def _fill(self, made: JsonObject, schema: Flat, place: Place, depth: int) -> None:
        """As many members as the schema demands."""
        least = scalars.count(schema.get("minProperties"))
        if least <= len(made):
            return
        if least > limits.INPUT_MEMBERS:
            self.note("too_many_members")
        described = schema.get("properties")
        known = [*described] if isinstance(described, dict) else []
        other = schema.get("additionalProperties", {})
        names = known if other is False else [*known, *(f"member{number}" for number in range(limits.INPUT_MEMBERS))]
        for name in names:
            if len(made) >= min(least, limits.INPUT_MEMBERS) or self._members <= 0:
                return
            self._members -= 1
            if name not in made:
                part = described[name] if isinstance(described, dict) and name in described else other
                made[name] = self.value(part, (*place, name), depth + 1)

    def _array(self, schema: Flat, place: Place, depth: int) -> list[JsonValue]:
        first, rest = schema.get("prefixItems", []), schema.get("items", {})
        if isinstance(rest, list):  # draft 07
            first, rest = rest, schema.get("additionalItems", {})
        parts = list(first)[: limits.INPUT_MEMBERS] if isinstance(first, list) else []
        least, most = scalars.count(schema.get("minItems")), scalars.count(schema.get("maxItems"), limits.INPUT_MEMBERS)
        if "contains" in schema and least == 0:
            least = 1
        wanted = max(least, len(parts) if depth <= limits.INPUT_FULL_DEPTH else 0)
        if wanted == 0 and depth <= limits.INPUT_FULL_DEPTH and rest is not False:
            wanted = 1
        if wanted > limits.INPUT_MEMBERS:
            self.note("too_many_members")
        made: list[JsonValue] = []
        for index in range(min(wanted, most, limits.INPUT_MEMBERS)):
            if self._members <= 0:
                self.note("too_many_members")
                break
            self._members -= 1
            part = parts[index] if index < len(parts) else rest
            if index == len(parts) and "contains" in schema:
                part = {"allOf": [part, schema["contains"]]}
            self._append(made, part, (*place, index), depth, unique=schema.get("uniqueItems") is True)
        return made

    def _append(self, made: list[JsonValue], part: object, place: Place, depth: int, *, unique: bool) -> None:
        one = self.value(part, place, depth + 1)
        for again in range(limits.INPUT_TRIES * 2 if unique else 0):
            if one not in made:
                break
            one = scalars.another(self.value(part, (*place, again), depth + 1), len(made), again)
        made.append(one)

    def _string(self, schema: Flat, place: Place) -> str:
        least, most = (
            scalars.count(schema.get("minLength")),
            scalars.count(schema.get("maxLength"), limits.INPUT_TEXT_CHARACTERS),
        )
        if least > limits.INPUT_TEXT_CHARACTERS or self._characters <= 0:
            self.note("too_many_characters")
        least = min(least, limits.INPUT_TEXT_CHARACTERS, max(0, self._characters))
        self._turns = 0
        text = self._matching(schema, least, most)
        if text is None:
            name = next((str(word) for word in reversed(place) if isinstance(word, str)), "")
            known = words.by_format(schema.get("format"), lambda count: self._pick(count, f"format{self._turn()}"))
            text = known if known is not None else words.by_name(name, self._about)
            if known is None and least > len(text):
                text = f"{text} " * (least // (len(text) + 1) + 1)
                text = text[:least]
            text = text if len(text) <= most else text[:most]
        self._characters -= len(text)
        return text

    def _matching(self, schema: Flat, least: int, most: int) -> str | None:
        pattern = schema.get("pattern")
        if not isinstance(pattern, str):
            return None
        text = patterns.write(pattern, least, most, lambda count: self._pick(count, f"pattern{self._turn()}"))
        if text is None:
            self.note("pattern_not_followed")
        return text

    def _number(self, schema: Flat, place: Place, *, whole: bool) -> int | float:
        name = next((str(word) for word in reversed(place) if isinstance(word, str)), "")
        known = words.number(name) if self._plain else None
        wanted = known if known is not None else 1 + self._pick(9, "number")
        return scalars.near(wanted, schema, whole=whole)

    def _turn(self) -> int:
        """Another number each time, so that characters of one text differ."""
        self._turns += 1
        return self._turns

    def _pick(self, count: int, what: str) -> int:
        """A number below `count`, for this place and purpose."""
        if count <= 1:
            return 0
        words_ = json.dumps([self._seed, *self._place, what]).encode()
        return int.from_bytes(hashlib.sha256(words_).digest()[:8], "big") % count
