"""Tools without a server: a source that implements the real protocol, and the real gate before it."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from fumehood.code.backend import Answer, Tool
from fumehood.code.gate import AuditRecord, Gate, Scope
from fumehood.code.gated import Gated
from fumehood.core.clock import SystemClock
from fumehood.core.errors import NotFoundError
from fumehood.core.jsonio import JsonValue

Behaviour = Callable[[Any], Answer]


def tool(name: str, description: str = "", *, properties: Any = None, **more: Any) -> Tool:
    """A tool whose arguments are exactly `properties`, of which `required` must be there."""
    schema = {
        "type": "object",
        "properties": {} if properties is None else properties,
        "required": more.pop("required", []),
        "additionalProperties": False,
    }
    return Tool(name=name, description=description, input_schema=schema, **{"writes": False, **more})


ECHO = tool(
    "fake.echo",
    "Give back the words that it is given.",
    properties={"words": {"type": "string", "description": "what to say"}},
    required=["words"],
    output_schema={"type": "object", "properties": {"length": {"type": "integer"}}, "required": ["length"]},
)
MISSING = tool("fake.missing", "Never finds anything.", properties={"path": {"type": "string"}})
NEVER = tool("fake.never", "Does not answer.")
ERASE = tool("fake.erase", "Erase everything.", writes=True)


def _missing(arguments: Any) -> Answer:
    del arguments
    raise NotFoundError("nothing of that name", remedy="look at the list")


class FakeTools:
    """Implements `ToolSource`: each tool does what its behaviour says; `fake.never` waits until it is cancelled."""

    def __init__(self, behaviours: dict[str, tuple[Tool, Behaviour]] | None = None) -> None:
        self.heard: list[tuple[str, JsonValue]] = []
        self.waiting = asyncio.Event()  # set once `fake.never` was called
        self._behaviours = behaviours or {
            ECHO.name: (ECHO, lambda given: Answer(text=given["words"], structured={"length": len(given["words"])})),
            MISSING.name: (MISSING, _missing),
            NEVER.name: (NEVER, lambda _: Answer(text="")),
            ERASE.name: (ERASE, lambda _: Answer(text="erased")),
        }

    @property
    def tools(self) -> list[Tool]:
        return [one for one, _ in self._behaviours.values()]

    async def call(self, name: str, arguments: JsonValue) -> Answer:
        self.heard.append((name, arguments))
        if name == NEVER.name:
            self.waiting.set()
            await asyncio.Event().wait()
        return self._behaviours[name][1](arguments)


def gated(
    source: FakeTools, *, allowed: Collection[str] | None = None, scope: Scope = Scope.READ
) -> tuple[Gated, list[AuditRecord]]:
    """A backend over the fake, and the records that its calls leave."""
    records: list[AuditRecord] = []
    names = [one.name for one in source.tools] if allowed is None else allowed
    gate = Gate(source.tools, allowed=names, scope=scope)
    return Gated(source, gate, clock=SystemClock(), audit=records.append), records
