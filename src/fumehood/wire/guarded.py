"""A published server whose definitions are sound, and whose arguments and results fit them (T12).

Invariants: a definition with a reference that leaves it, a pattern without a linear form, or more depth than
`wire.foreign` takes is refused before anything is published; no tool sees arguments that do not fit its input schema;
no structured content leaves that does not fit its output schema. A message quotes no value of the caller's.

Not promised: that a result's text half says the same as its structured half.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from fumehood.core import limits
from fumehood.core.budget import Budget
from fumehood.core.errors import HarnessError, InvalidArgumentsError, UnknownToolError
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.wire import foreign
from fumehood.wire.published import Caller, Published
from fumehood.wire.schema import Checker, Problem

_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")  # as 2025-11-25 and later have it
_SHOWN = 200  # characters of one problem
_LISTED = 8  # problems in one message


class BadDefinitionError(HarnessError):
    """A definition cannot be published."""

    code = "bad_definition"


class BadResultError(HarnessError):
    """A tool's result does not fit its own output schema."""

    code = "bad_result"


class Guarded:
    """Stands before a `Published` and has its methods for calls; checks both ways."""

    def __init__(self, published: Published) -> None:
        """Compile every schema. Errors: `BadDefinitionError`."""
        self.published = published
        self.definitions: Sequence[Mapping[str, JsonValue]] = tuple(published.definitions())
        self._inputs: dict[str, Checker] = {}
        self._outputs: dict[str, Checker] = {}
        self.input_schemas: dict[str, Mapping[str, JsonValue]] = {}
        for definition in self.definitions:
            self._register(definition)

    def call(self, name: str, arguments: JsonObject, budget: Budget, caller: Caller) -> JsonObject:
        """Answer one call with a `CallToolResult`. Errors: `UnknownToolError`, and whatever the tool raises besides."""
        refused = self.refusal(name, arguments)
        if refused is not None:
            return refused
        result = self.published.call(name, arguments, budget, caller)
        self._check_result(name, result)
        return result

    def refusal(self, name: str, arguments: JsonObject) -> JsonObject | None:
        """The result of a call whose arguments do not fit; None when they do. Errors: `UnknownToolError`."""
        if name not in self._inputs:
            raise UnknownToolError("unknown tool", remedy="ask for one of tools/list")
        problems = _first(self._inputs[name], arguments)
        if not problems:
            return None
        said = f"the arguments do not fit: {'; '.join(map(_shown, problems))}"
        return self.published.refused(InvalidArgumentsError(said, remedy="see the tool's input schema"))

    def _register(self, definition: Mapping[str, JsonValue]) -> None:
        name, schema, output = (definition.get(key) for key in ("name", "inputSchema", "outputSchema"))
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name) or name in self._inputs:
            raise BadDefinitionError(f"{name!a} is no tool name, or stands twice")
        self._inputs[name] = _checker(name, schema)
        if isinstance(schema, dict):
            self.input_schemas[name] = schema
        if output is not None:
            self._outputs[name] = _checker(name, output)

    def _check_result(self, name: str, result: JsonObject) -> None:
        """A refusal is free in its structured half: it says what went wrong, not what was found."""
        if name not in self._outputs or result.get("isError") is True:
            return
        if problems := _first(self._outputs[name], result.get("structuredContent")):
            raise BadResultError(f"{name}: {'; '.join(map(_shown, problems))}")


def _checker(name: str, schema: JsonValue) -> Checker:
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise BadDefinitionError(f"{name}: a schema is of type object")
    if reason := foreign.refusal(schema):
        raise BadDefinitionError(f"{name}: a schema {reason}")
    try:
        return Checker(schema, mask="the value")
    except ValueError as error:
        raise BadDefinitionError(f"{name}: no JSON Schema of 2020-12") from error


def _first(checker: Checker, value: JsonValue) -> list[Problem]:
    return list(itertools.islice(checker.iter_problems(value), _LISTED))


def _shown(problem: Problem) -> str:
    """Where and what, inert and cut: keys and the message may be the caller's."""
    place = "".join(_steps(problem.path))
    text = ascii(f"${place}: {problem.message}")[1:-1]
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _steps(path: tuple[str | int, ...]) -> Iterator[str]:
    for step in path[: limits.JSON_DEPTH]:
        yield f"[{step}]" if isinstance(step, int) else f".{step[:_SHOWN]}"
