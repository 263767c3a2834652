"""The definitions of code mode's own tools, and the check of what they are called with. Pure.

They are written to be short: with two hundred tools behind them, they are all that a model has to read at first.
"""

from typing import Final

from fumehood.code.backend import Tool
from fumehood.code.gate import Deny, Gate, Scope, write
from fumehood.content import fencing
from fumehood.core import limits
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.codemode.offers import DESCRIBE, RUN, SEARCH
from fumehood.gateway.gate.model import Offered
from fumehood.gateway.topology.model import SAVED

_READS: Final[JsonObject] = {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False}
_MAY_WRITE: Final[JsonObject] = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}
_NAME: Final[JsonObject] = {"type": "string", "minLength": 1, "maxLength": limits.CODE_NAME_CHARACTERS}


def _object(properties: JsonObject, *required: str) -> JsonObject:
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


def _output(properties: JsonObject) -> JsonObject:
    """Whatever else a result has, these members have these types; a refusal has `error`, `message` and `remedy`."""
    return {"type": "object", "properties": properties}


DEFINITIONS: Final[dict[str, JsonObject]] = {
    SEARCH: {
        "name": SEARCH,
        "title": "Find tools",
        "description": f"Find tools by what they do, in words. Gives names for {DESCRIBE} and {RUN}. {fencing.HINT}",
        "inputSchema": _object(
            {
                "query": {"type": "string", "maxLength": limits.CODE_QUERY_CHARACTERS},
                "limit": {"type": "integer", "minimum": 1, "maximum": limits.CODE_FOUND_TOOLS_MAX},
            },
            "query",
        ),
        "outputSchema": _output({"tools": {"type": "array"}, "total": {"type": "integer"}}),
        "annotations": _READS,
    },
    DESCRIBE: {
        "name": DESCRIBE,
        "title": "Describe tools",
        "description": f"TypeScript declarations of tools, as a program calls them. {fencing.HINT}",
        "inputSchema": _object(
            {
                "names": {
                    "type": "array",
                    "items": _NAME,
                    "minItems": 1,
                    "maxItems": limits.CODEMODE_DESCRIBED_TOOLS,
                }
            },
            "names",
        ),
        "outputSchema": _output({"declarations": {"type": "string"}}),
        "annotations": _READS,
    },
    RUN: {
        "name": RUN,
        "title": "Run a program",
        "description": (
            "Run JavaScript or TypeScript, the body of an async function, in a sandbox without files and network. "
            "`await tools.NAME({…})` calls a tool and gives {text, structured}; a refusal is thrown. "
            "`return` what you want to see: only that and console.log come back, so read, filter and combine there. "
            f"`input` is the argument of that name. {fencing.HINT}"
        ),
        "inputSchema": _object(
            {
                "code": {"type": "string", "minLength": 1, "maxLength": limits.CODE_BYTES},
                "input": {"description": "any JSON value"},
                "tools": {
                    "type": "array",
                    "items": _NAME,
                    "maxItems": limits.CODE_TOOLS,
                    "description": "the only tools that it may call; all without it",
                },
                "timeout": {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": limits.CODE_WALL_SECONDS_MAX,
                    "description": "seconds, the time of the tools and of questions to a person included",
                },
            },
            "code",
        ),
        "outputSchema": _output({"state": {"type": "string"}, "ok": {"type": "boolean"}, "logs": {"type": "array"}}),
        "annotations": _MAY_WRITE,
    },
}


def offered(name: str) -> Offered:
    """One of them as it is offered. That it writes nothing itself is true: what a program calls is judged by itself."""
    definition = DEFINITIONS[name]
    return Offered(name=name, server=SAVED, tool=name, definition=definition, writes=False, egress=False, trusted=True)


class Arguments:
    """Checks the arguments of one tool of ours. ValueError for an input schema that cannot be held."""

    def __init__(self, name: str, schema: JsonObject) -> None:
        """Compile its input schema."""
        self._name = name
        self._gate = Gate([Tool(name=name, description="", input_schema=schema)], allowed=[name], scope=Scope.WRITE)
        if reason := self._gate.left_out.get(name):
            raise ValueError(reason)

    def read(self, arguments: JsonValue) -> JsonObject:
        """The same arguments, if they fit. Errors: `InvalidArgumentsError`, which lists the parameters."""
        decision = self._gate.decide(self._name, write(arguments))
        if isinstance(decision, Deny):
            raise decision.error
        return decision.arguments
