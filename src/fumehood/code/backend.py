"""What the bridge asks for a program: the tools, behind one gate. Authority is here and nowhere in the child."""

from collections.abc import Sequence
from typing import Protocol

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
