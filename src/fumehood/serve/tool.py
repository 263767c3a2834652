"""What a published tool is: its definition, and the function that answers a call.

Every tool is read-only. A tool gets a `Context` and nothing else: it opens no path by itself, starts no process and
knows no socket. It raises the errors of `core.errors`; the dispatcher makes results of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NewType, TypeAlias

from fumehood.content.passage import Answer
from fumehood.core.jsonio import JsonValue
from fumehood.serve.context import Context

ToolName = NewType("ToolName", str)
Arguments: TypeAlias = Mapping[str, JsonValue]  # they fit the tool's input schema
Schema: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One published tool. The schemas are JSON Schema 2020-12 of an object, closed, with local references only.

    `output_schema` names the members of `facts`; what every result carries besides is added by `serve.registry`.
    """

    name: ToolName
    title: str
    description: str
    input_schema: Schema
    output_schema: Schema
    run: Callable[[Arguments, Context], Answer]
