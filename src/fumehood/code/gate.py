"""The one gate between a program and the tools. Pure: it decides, and does nothing.

Invariants: a tool is called only when the job names it, its scope covers it, its schemas could be compiled within
bounds, and the arguments fit; an answer is passed on only when it fits the tool's own output schema and its size.
Doubt is a refusal. Every decision can be told in an `AuditRecord`, which holds neither arguments nor answers.

Threats: a program that calls what its caller may not; arguments that a tool does not expect; a schema that makes a
check endless (`wire.foreign`); an answer that floods a child.

Not promised: that a tool which says that it only reads does; whoever makes a `Tool` answers for its `writes`.
"""

import enum
import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias

from fumehood.code.backend import Answer, Tool
from fumehood.core import jsonio, limits
from fumehood.core.errors import (
    FailedError,
    FumehoodError,
    InvalidArgumentsError,
    RefusedError,
    TooLargeError,
    UnknownToolError,
)
from fumehood.core.jsonio import JsonValue
from fumehood.wire.foreign import Checked, ForeignChecker, Uncheckable

_SHOWN: Final = 200  # characters of one problem or parameter
_NO_JSON: Final = "no JSON can be written of it"
_LISTED: Final = 8  # problems in one message


class ScopeError(RefusedError):
    """A tool may change something, and the run may only read."""

    code = "read_only"


class BadAnswerError(FailedError):
    """A tool's answer does not fit its own output schema, or is no JSON."""

    code = "bad_answer"


class Scope(enum.StrEnum):
    """What a run may do."""

    READ = "read"
    WRITE = "write"


class Rule(enum.StrEnum):
    """Why a call is denied."""

    NOT_ALLOWED = "not_allowed"
    SCOPE = "scope"
    ARGUMENTS = "arguments"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allow:
    """The call may be made."""

    tool: Tool
    arguments: dict[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """The call is not made; the program gets to see the error."""

    rule: Rule
    error: RefusedError


Decision: TypeAlias = Allow | Deny


@dataclass(frozen=True, slots=True)
class Written:
    """A value and its JSON: written once, for its bound, its digest, its record, and who passes it on. See `write`."""

    value: JsonValue
    data: bytes = b""  # empty for what is no JSON

    def digest(self) -> str:
        """SHA-256 of the JSON; empty without."""
        return hashlib.sha256(self.data).hexdigest() if self.data else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One call at the gate: what was asked, what was decided, what came of it. No arguments, no answer."""

    sequence: int  # from 1
    tool: str  # as asked, inert and cut
    decision: str  # `allowed`, or the rule that denied it
    outcome: str  # begun (of a tool that may write, before it is called), ok, refused, failed, cancelled
    error: str  # the code of the error; empty without one
    arguments_sha256: str  # of their JSON, so that two calls can be compared
    arguments_bytes: int
    answer_bytes: int
    milliseconds: float
    writes: bool = False  # whether the tool may change something; False for what is no tool of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guard:
    """A tool and what is checked at it."""

    tool: Tool
    arguments: ForeignChecker
    answers: ForeignChecker | None


class Gate:
    """Decides for one run."""

    def __init__(self, tools: Sequence[Tool], *, allowed: Collection[str], scope: Scope = Scope.READ) -> None:
        """Take the tools that the job names. `left_out` says of each that cannot be offered why."""
        self.left_out: dict[str, str] = {}
        self._guards: dict[str, _Guard] = {}
        self._beyond_scope: set[str] = set()
        wanted = frozenset(allowed)
        for tool in islice((tool for tool in tools if tool.name in wanted), limits.CODE_TOOLS):
            if tool.writes and scope is Scope.READ:
                self._beyond_scope.add(tool.name)
                continue
            try:
                self._guards[tool.name] = _guard(tool)
            except ValueError as error:
                self.left_out[tool.name] = str(error)

    @property
    def tools(self) -> list[Tool]:
        """Every tool that may be called, in the order of their source."""
        return [guard.tool for guard in self._guards.values()]

    def named(self, names: Sequence[str]) -> list[Tool]:
        """The tools of these names, each once. `UnknownToolError` names the first that may not be called."""
        for name in names:
            if name not in self._guards:
                raise _not_allowed(name)
        return [self._guards[name].tool for name in dict.fromkeys(names)]

    def writes(self, name: str) -> bool:
        """Whether a tool of the job may change something, also where the scope forbids it."""
        return name in self._beyond_scope or (name in self._guards and self._guards[name].tool.writes)

    def decide(self, name: str, arguments: Written) -> Decision:
        """Whether a call may be made."""
        if name in self._beyond_scope:
            words = f"{_inert(name)} may change something, and this run may only read"
            return Deny(rule=Rule.SCOPE, error=ScopeError(words, remedy="use a tool that reads"))
        guard = self._guards.get(name)
        if guard is None:
            return Deny(rule=Rule.NOT_ALLOWED, error=_not_allowed(name))
        value = arguments.value
        if not isinstance(value, dict):
            return _misfit(guard.tool, "they are no object")
        size = len(arguments.data)
        if problem := _oversize(size) or _problem(guard.arguments.check(value, size)):
            return _misfit(guard.tool, problem)
        return Allow(tool=guard.tool, arguments=value)

    def passed(self, tool: Tool, answer: Answer) -> Written:
        """What the program gets of an answer. Errors: `BadAnswerError`, `TooLargeError`."""
        written = write({"text": answer.text, "structured": answer.structured})
        size = len(written.data)
        checker = self._guards[tool.name].answers
        if checker is not None and (problem := _problem(checker.check(answer.structured, size or None))):
            raise BadAnswerError(f"the answer of {tool.name} does not fit its own output schema: {problem}")
        if not written.data:
            raise BadAnswerError(f"the answer of {tool.name} cannot be passed on: {_NO_JSON}")
        if size > limits.CODE_ANSWER_BYTES:
            words = f"the answer of {tool.name} has {size} bytes, where {limits.CODE_ANSWER_BYTES} are passed on"
            raise TooLargeError(words, remedy="ask for less")
        return written


def write(value: JsonValue) -> Written:
    """A value with its JSON, if it has any."""
    try:
        return Written(value, jsonio.line(value))
    except (TypeError, ValueError, RecursionError):
        return Written(value)


def inert_name(name: str) -> str:
    """A name as asked, for a record."""
    return _inert(name)


def outcome_of(error: FumehoodError) -> str:
    """Whose doing an error was: `refused` the asker's, `failed` the tool's."""
    return "refused" if isinstance(error, RefusedError) else "failed"


def _guard(tool: Tool) -> _Guard:
    """ValueError with the reason when a schema cannot be held."""
    if tool.input_schema.get("type") != "object":
        raise ValueError("the input schema is not one of objects")
    output = tool.output_schema
    return _Guard(
        tool=tool,
        arguments=ForeignChecker(tool.input_schema),
        answers=None if output is None else ForeignChecker(output),
    )


def _not_allowed(name: str) -> UnknownToolError:
    """The same words for what does not exist and for what this run may not use."""
    return UnknownToolError(f"{_inert(name)} is no tool of this run", remedy="amcp.search(query) says which there are")


def _misfit(tool: Tool, problem: str) -> Deny:
    words = f"the arguments of {tool.name} do not fit: {problem}"
    return Deny(rule=Rule.ARGUMENTS, error=InvalidArgumentsError(words, remedy=f"it takes {_parameters(tool)}"))


def _parameters(tool: Tool) -> str:
    """The parameters of a tool in one line: the required ones first."""
    properties = tool.input_schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return "no parameters"
    wanted = tool.input_schema.get("required")
    required = [name for name in wanted if isinstance(name, str)] if isinstance(wanted, list) else []
    names = sorted(properties, key=lambda name: name not in required)
    listed = [_parameter(name, properties[name], name in required) for name in names[: limits.CODE_LISTED_PARAMETERS]]
    return ", ".join(listed) + (", …" if len(names) > len(listed) else "")


def _parameter(name: str, schema: Any, required: bool) -> str:  # noqa: ANN401, FBT001 - a subschema; one of two truths
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    kinds = kind if isinstance(kind, list) else [kind]
    words = " or ".join(one for one in kinds if isinstance(one, str))
    notes = ", ".join(note for note in (words, "required" if required else "") if note)
    return _inert(f"{name} ({notes})" if notes else name)


def _oversize(size: int) -> str:
    if size == 0:
        return _NO_JSON
    return f"they have more than {limits.CODE_MESSAGE_BYTES} bytes" if size > limits.CODE_MESSAGE_BYTES else ""


def _problem(found: Checked | Uncheckable) -> str:
    """What is wrong in words; empty when everything fits."""
    if isinstance(found, Uncheckable):
        return f"they cannot be checked: {found.reason}"
    return "; ".join(
        _inert(f"${''.join(_steps(problem.path))}: {problem.message}") for problem in found.problems[:_LISTED]
    )


def _steps(path: tuple[str | int, ...]) -> Iterator[str]:
    for step in path[: limits.JSON_DEPTH]:
        yield f"[{step}]" if isinstance(step, int) else f".{step[:_SHOWN]}"


def _inert(text: str) -> str:
    plain = ascii(text)[1:-1]
    return plain if len(plain) <= _SHOWN else plain[:_SHOWN] + "..."
