"""Arguments of a tool that its server wants as headers, too (`x-mcp-header`). Pure.

Invariants: what is mirrored was named by the schema that the server listed, once, at a property of a plain type that a
chain of properties leads to; a tool whose schema says otherwise is not listed, as the specification demands. Names are
tokens and values are encoded, so that no argument ends a line. Work and size are bounded.

Source: the MCP specification 2026-07-28, Streamable HTTP, custom headers from tool parameters.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fumehood.core import limits
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.upstreams.remote.credentials import Header
from fumehood.gateway.upstreams.remote.heads import encoded

_KEY: Final = "x-mcp-header"
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # a token, RFC 9110, 5.6.2
_TYPES: Final = ("string", "integer", "boolean")
_MAPS: Final = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})  # of names to schemas
_DATA: Final = frozenset({"default", "examples", "const", "enum"})
_EXACT: Final = range(-(2**53) + 1, 2**53)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """One argument, by its path, and the header that repeats it."""

    path: tuple[str, ...]
    header: bytes


class BadMirrorError(ValueError):
    """A schema asks for headers in a way that the specification does not allow."""


def listed(tools: JsonValue) -> tuple[list[JsonValue], dict[str, tuple[Mirrored, ...]], int]:
    """A list of tools without those whose schemas ask wrongly, what the others ask for, and how many were left out."""
    kept: list[JsonValue] = []
    asked: dict[str, tuple[Mirrored, ...]] = {}
    every = tools if isinstance(tools, list) else []
    for tool in every:
        name, schema = (tool.get("name"), tool.get("inputSchema")) if isinstance(tool, dict) else (None, None)
        try:
            found = mirrored(schema)
        except BadMirrorError:
            continue
        kept.append(tool)
        if found and isinstance(name, str):
            asked[name] = found
    return kept, asked, len(every) - len(kept)


def mirrored(schema: JsonValue) -> tuple[Mirrored, ...]:
    """What one schema asks for. Errors: `BadMirrorError`."""
    found: dict[str, Mirrored] = {}
    for path, place in _places(schema):
        if _KEY not in place:
            continue
        name = place[_KEY]
        if not path or place.get("type") not in _TYPES or not isinstance(name, str) or not _NAME.fullmatch(name):
            raise BadMirrorError
        if name.lower() in found or len(found) >= limits.REMOTE_MIRRORED:
            raise BadMirrorError
        found[name.lower()] = Mirrored(path=path, header=f"Mcp-Param-{name}".encode("ascii"))
    return tuple(found.values())


def headers(asked: tuple[Mirrored, ...], arguments: JsonValue) -> tuple[Header, ...] | None:
    """The headers for one call; None where they are larger than a head can be."""
    found = tuple((one.header, value) for one in asked if (value := _value(arguments, one.path)) is not None)
    total = sum(len(name) + len(value) + 4 for name, value in found)
    return found if total <= limits.REMOTE_MIRRORED_BYTES else None


def _value(arguments: JsonValue, path: tuple[str, ...]) -> bytes | None:
    value = arguments
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    match value:
        case bool():
            return b"true" if value else b"false"
        case int() if value in _EXACT:
            return str(value).encode("ascii")
        case str():
            return encoded(value)
        case _:
            return None


def _places(schema: JsonValue) -> Iterator[tuple[tuple[str, ...] | None, JsonObject]]:
    """Every subschema; with the names that lead to it, None where something else than properties does."""
    stack: list[tuple[tuple[str, ...] | None, JsonValue]] = [((), schema)]
    count = 0
    while stack:
        path, place = stack.pop()
        if not isinstance(place, dict):
            continue
        count += 1
        if count > limits.SCHEMA_SUBSCHEMAS:
            raise BadMirrorError
        yield path, place
        for key, value in place.items():
            stack += _below(path, key, value)


def _below(
    path: tuple[str, ...] | None, key: str, value: JsonValue
) -> Iterator[tuple[tuple[str, ...] | None, JsonValue]]:
    match value:
        case dict() if key == "properties":
            yield from (((*path, name) if path is not None else None, one) for name, one in value.items())
        case dict() if key in _MAPS:
            yield from ((None, one) for one in value.values())
        case dict() if key not in _DATA:
            yield None, value
        case list() if key not in _DATA:
            yield from ((None, one) for one in value)
        case _:
            pass
