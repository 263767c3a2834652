"""What the bridge asks for a program: the tools, behind one gate. Authority is here and nowhere in the child."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from fumehood.core.jsonio import JsonValue


class ToolBackend(Protocol):
    """The tools of one run. It raises errors of `core.errors`; their message is what the program gets to see."""

    async def search(self, query: str, limit: int) -> JsonValue:
        """Tools that fit a query, best first: name and description each."""
        ...

    async def describe(self, names: Sequence[str]) -> JsonValue:
        """Declarations of tools by name, as TypeScript text."""
        ...

    async def run(self, name: str, arguments: JsonValue) -> JsonValue:
        """The result of one tool. `RefusedError` when it is not allowed or the arguments do not fit."""
        ...


@runtime_checkable
class RefusalKeeper(Protocol):
    """A `ToolBackend` that keeps a record also of calls that are refused before they come to it."""

    async def refused(self, name: str, arguments: JsonValue) -> None:
        """Take note of a call of a tool that the job does not name. An error is what the program gets to see."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool as programs know it. Its words and schemas may be another side's."""

    name: str  # `server.tool`
    description: str
    input_schema: Mapping[str, Any]  # of the arguments, an object
    output_schema: Mapping[str, Any] | None = None  # of the structured half of an answer
    writes: bool = True  # whether it may change anything; who does not know says yes


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a tool answered: words, and values beside them where the tool has any."""

    text: str
    structured: JsonValue = None


class ToolSource(Protocol):
    """Where tools come from: what stands behind the gate and knows none of its rules."""

    @property
    def tools(self) -> Sequence[Tool]:
        """Every tool, always in the same order."""
        ...

    async def call(self, name: str, arguments: JsonValue) -> Answer:
        """The answer of one tool; an error of `core.errors` when it refuses or fails."""
        ...
