"""The published tools, and what every definition and every result carries besides.

Invariants: every tool is read-only and says so; every input schema is closed; no schema refers to anything outside
itself (`published` refuses one that does). The order is fixed, so that two lists are the same bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fumehood.content import fencing
from fumehood.core.errors import HarnessError
from fumehood.core.jsonio import JsonValue
from fumehood.serve.tool import Tool

# What a client may rely on: MCP specification, ToolAnnotations; `idempotentHint` means nothing beside readOnlyHint.
ANNOTATIONS: dict[str, JsonValue] = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "openWorldHint": False,
}
_LEVELS: list[JsonValue] = ["none", "low", "medium", "high"]
# Members of every result beside its tool's own. A refusal has `error`, `message` and `remedy` instead.
_REPORT: dict[str, JsonValue] = {
    "level": {"enum": _LEVELS},
    "risk": {"type": "number"},
    "signals": {"type": "array"},
    "redaction": {"type": "object"},
    "error": {"type": "string"},
    "remedy": {"type": "string"},
}


def definition(tool: Tool) -> dict[str, JsonValue]:
    """A tool as `tools/list` shows it."""
    return {
        "name": tool.name,
        "title": tool.title,
        "description": f"{tool.description} {fencing.HINT}",
        "inputSchema": dict(tool.input_schema),
        "outputSchema": output_schema(tool),
        "annotations": dict(ANNOTATIONS),
    }


def output_schema(tool: Tool) -> dict[str, JsonValue]:
    """The tool's own members, those of every result, and that a result is one or the other: found, or refused."""
    own = dict(tool.output_schema)
    required = list(own.pop("required", []))
    return {
        **own,
        "properties": {**own.get("properties", {}), **_REPORT},
        "anyOf": [{"required": ["error", "remedy"]}, {"required": [*required, "level", "risk"]}],
    }


def published(tools: Sequence[Tool]) -> dict[str, Tool]:
    """Tools by name; `HarnessError` when one is not fit to be published."""
    for tool in tools:
        if tool.input_schema.get("type") != "object" or tool.input_schema.get("additionalProperties") is not False:
            raise HarnessError(f"the input schema of {tool.name} is not a closed object")
        for schema in (tool.input_schema, tool.output_schema):
            if outside := [text for text in _references(schema) if not text.startswith("#/")]:
                raise HarnessError(f"a schema of {tool.name} refers to something outside itself: {outside[0]!a}")
    by_name = {tool.name: tool for tool in tools}
    if len(by_name) != len(tools):
        raise HarnessError("two tools have one name")
    return {str(name): tool for name, tool in by_name.items()}


def _references(value: Any) -> list[str]:  # noqa: ANN401 - any JSON value
    """Every `$ref`, `$dynamicRef` and `$id` in a schema."""
    if isinstance(value, Mapping):
        own = [str(value[key]) for key in ("$ref", "$dynamicRef", "$id") if isinstance(value.get(key), str)]
        return own + [text for inner in value.values() for text in _references(inner)]
    if isinstance(value, list | tuple):
        return [text for inner in value for text in _references(inner)]
    return []
