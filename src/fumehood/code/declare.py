"""TypeScript declarations of tools, from their JSON Schemas. Pure: the same tools give the same text.

Invariants: whatever a schema holds, nothing is raised, and what comes out is TypeScript whose brackets, strings and
comments close; a description cannot end its comment. Depth, members, choices and characters are bounded; what is left
out is `unknown`, or said in a comment. A reference is followed within the document only, and not into itself.

Not promised: that a declaration says all that a schema says (patterns, ranges and conditions are left out: the gate
checks them), or that a description is true: it is its author's.

Sources: JSON Schema 2020-12, core and validation; RFC 6901 (JSON Pointer).
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from fumehood.code.backend import Tool
from fumehood.core import limits

_IDENTIFIER: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_UNKNOWN: Final = "unknown"
_CUT: Final = "…"
_STEP: Final = "  "
_EXACT: Final = 2**53  # above it a number of JavaScript is another one
_SIMPLE: Final[Mapping[str, str]] = {
    "string": "string",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
    "null": "null",
}
# Keywords that make a schema one of objects or of arrays where it names no type.
_OF_OBJECTS: Final = ("properties", "additionalProperties")
_OF_ARRAYS: Final = ("items", "prefixItems")


@dataclass(frozen=True, slots=True, kw_only=True)
class _At:
    """Where in a declaration a type stands: how deep, how far to the right, and behind which references."""

    indent: int
    depth: int = 0
    references: tuple[str, ...] = ()

    @property
    def below(self) -> "_At":
        return replace(self, depth=self.depth + 1)

    @property
    def inside(self) -> "_At":
        return replace(self, depth=self.depth + 1, indent=self.indent + 1)

    def behind(self, reference: str) -> "_At":
        return replace(self, depth=self.depth + 1, references=(*self.references, reference))


def declare(tools: Sequence[Tool]) -> str:
    """One `declare const tools` with a member for each server, and in it a function for each of its tools."""
    servers: dict[str, list[tuple[str, Tool]]] = {}
    for tool in tools:
        server, dot, name = tool.name.partition(".")
        servers.setdefault(server if dot else "", []).append((name if dot else server, tool))
    lines = ["declare const tools: {"]
    for server, members in servers.items():
        indent = 2 if server else 1
        lines += [f"{_STEP}{_name(server)}: {{"] if server else []
        lines += [_function(name, tool, indent) for name, tool in members]
        lines += [f"{_STEP}}};"] if server else []
    return "\n".join([*lines, "};"])


def _function(name: str, tool: Tool, indent: int) -> str:
    """`name(args): Promise<answer>` with its description."""
    at = _At(indent=indent)
    pad = _STEP * indent
    arguments = _Types(tool.input_schema).of(tool.input_schema, at)
    optional = "" if _names(tool.input_schema.get("required")) else "?"
    output = tool.output_schema
    structured = _UNKNOWN if output is None else _Types(output).of(output, at)
    documented = _comment(tool.description, limits.CODE_DECLARED_WORDS)
    head = f"{pad}{documented}\n" if documented else ""
    answer = f"{{ text: string; structured: {structured} }}"
    return f"{head}{pad}{_name(name)}(args{optional}: {arguments}): Promise<{answer}>;"


class _Types:
    """The types of one schema's document, within one budget of characters."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        """References lead into `root`."""
        self._root = root
        self._left = limits.CODE_DECLARED_CHARACTERS

    def of(self, schema: object, at: _At) -> str:
        """The type of what fits a schema."""
        if schema is False:
            return "never"
        if not isinstance(schema, Mapping) or at.depth > limits.CODE_DECLARED_DEPTH or self._left <= 0:
            return _UNKNOWN
        self._left -= len(_UNKNOWN)  # each type costs, so that a schema of many small ones ends too
        parts = [part for part in self._parts(schema, at) if part != _UNKNOWN]
        distinct = list(dict.fromkeys(parts))
        return " & ".join(f"({part})" if " | " in part and len(distinct) > 1 else part for part in distinct) or _UNKNOWN

    def _parts(self, schema: Mapping[str, Any], at: _At) -> Iterator[str]:
        """Everything that a value must be at once."""
        if isinstance(reference := schema.get("$ref"), str):
            yield self._referred(reference, at)
        if "const" in schema:
            yield self._spent(_literal(schema["const"]))
        elif isinstance(values := schema.get("enum"), list):
            yield self._spent(_union([_literal(value) for value in values[: limits.CODE_DECLARED_CHOICES + 1]]))
        else:
            yield self._typed(schema, at)
        for keyword in ("anyOf", "oneOf"):
            if isinstance(choices := schema.get(keyword), list):
                yield _union([self.of(one, at.below) for one in choices[: limits.CODE_DECLARED_CHOICES + 1]])
        if isinstance(every := schema.get("allOf"), list):
            yield from (self.of(one, at.below) for one in every[: limits.CODE_DECLARED_CHOICES])

    def _spent(self, text: str) -> str:
        """The same words, paid for."""
        self._left -= len(text)
        return text

    def _typed(self, schema: Mapping[str, Any], at: _At) -> str:
        kinds = schema.get("type")
        if isinstance(kinds, list):
            return _union([self._of_kind(kind, schema, at) for kind in kinds[: limits.CODE_DECLARED_CHOICES]])
        if kinds is None:
            kinds = _implied(schema)
        return self._of_kind(kinds, schema, at)

    def _of_kind(self, kind: object, schema: Mapping[str, Any], at: _At) -> str:
        match kind:
            case "object":
                return self._object(schema, at)
            case "array":
                return self._array(schema, at)
            case str():
                return _SIMPLE.get(kind, _UNKNOWN)
            case _:
                return _UNKNOWN

    def _array(self, schema: Mapping[str, Any], at: _At) -> str:
        rest = self.of(schema.get("items", True), at.below)
        if not isinstance(first := schema.get("prefixItems"), list):
            return f"Array<{rest}>"
        members = [self.of(one, at.below) for one in first[: limits.CODE_DECLARED_CHOICES]]
        return f"[{', '.join([*(f'({one})?' for one in members), f'...Array<{rest}>'])}]"

    def _object(self, schema: Mapping[str, Any], at: _At) -> str:
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        if not isinstance(properties, Mapping) or not properties:
            return f"Record<string, {self.of(True if others is None else others, at.below)}>"
        required = _names(schema.get("required"))
        lines: list[str] = []
        for name, part in islice(properties.items(), limits.CODE_DECLARED_MEMBERS):
            if self._left <= 0 or len(str(name)) > limits.CODE_NAME_CHARACTERS:
                break
            lines += self._member(str(name), part, optional=name not in required, at=at.inside)
        pad = _STEP * (at.indent + 1)
        if left_out := len(properties) - sum(not line.lstrip().startswith("/**") for line in lines):
            lines.append(f"{pad}/** {left_out} more {'member' if left_out == 1 else 'members'} */")
        if left_out or (others is not None and others is not False):
            lines.append(f"{pad}[name: string]: {_UNKNOWN};")
        return "\n".join(["{", *lines, f"{_STEP * at.indent}}}"])

    def _member(self, name: str, schema: object, *, optional: bool, at: _At) -> Iterator[str]:
        pad = _STEP * at.indent
        words = schema.get("description") if isinstance(schema, Mapping) else None
        if documented := _comment(words, limits.CODE_DECLARED_NOTE):
            self._left -= len(documented)
            yield f"{pad}{documented}"
        self._left -= len(name)
        yield f"{pad}{_name(name)}{'?' if optional else ''}: {self.of(schema, at)};"

    def _referred(self, reference: str, at: _At) -> str:
        """What a reference leads to; unknown where it leads out, nowhere, or back into itself."""
        if reference in at.references or len(reference) > limits.SCHEMA_REFERENCE_CHARACTERS:
            return _UNKNOWN
        return self.of(self._resolved(reference), at.behind(reference))

    def _resolved(self, reference: str) -> object:
        mark, *words = reference.split("/")
        if mark != "#":
            return None
        place: Any = self._root
        for word in words:
            key = word.replace("~1", "/").replace("~0", "~")
            if isinstance(place, Mapping):
                place = place.get(key)
            elif isinstance(place, list) and re.fullmatch(r"[0-9]{1,6}", key) and int(key) < len(place):
                place = place[int(key)]
            else:
                return None
        return place


def _implied(schema: Mapping[str, Any]) -> str | None:
    if any(keyword in schema for keyword in _OF_OBJECTS):
        return "object"
    return "array" if any(keyword in schema for keyword in _OF_ARRAYS) else None


def _union(types: Sequence[str]) -> str:
    """One of them; unknown when one is, or when there are too many."""
    distinct = list(dict.fromkeys(types))
    if not distinct or _UNKNOWN in distinct or len(types) > limits.CODE_DECLARED_CHOICES:
        return _UNKNOWN
    return " | ".join(f"({one})" if " & " in one else one for one in distinct)


def _literal(value: object) -> str:
    """The type of one value: itself, where it is short and exact."""
    match value:
        case None | bool():
            return json.dumps(value)
        case str():
            return json.dumps(value) if len(value) <= limits.CODE_NAME_CHARACTERS else "string"
        case int():
            return str(value) if abs(value) < _EXACT else "number"
        case float():
            return json.dumps(value) if math.isfinite(value) else "number"
        case list():
            return "Array<unknown>"
        case _:
            return "Record<string, unknown>"


def _names(value: object) -> set[str]:
    return {name for name in value if isinstance(name, str)} if isinstance(value, list) else set()


def _name(name: str) -> str:
    """A name as a member is written: quoted, in ASCII, when it is no plain identifier."""
    return name if _IDENTIFIER.fullmatch(name) else json.dumps(name)


def _comment(words: object, most: int) -> str:
    """A comment of one line that ends where we end it; empty without words."""
    if not isinstance(words, str):
        return ""
    plain = "".join(one if one.isprintable() else " " for one in words[: most * 2])
    text = " ".join(plain.split())
    text = text if len(text) <= most else text[: most - 1] + _CUT
    return f"/** {text.replace('*/', '* /')} */" if text else ""
