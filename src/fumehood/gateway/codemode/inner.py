"""The tools of one program, over the gate that direct calls pass, too. Pure: it judges nothing itself.

Invariants: every call of a program becomes one call of its own guest at the gate, which decides, asks, records and
controls it; also one of a name that the program was not given, so that its refusal is recorded. What comes back is
redacted and without a fence: a program computes with values, and what it returns is fenced as a whole. Nothing else of
a program reaches its client before its taint does: progress names only tools that it was given.
"""

from collections.abc import Sequence
from typing import Final

from fumehood.code import declare
from fumehood.code.finding import Index
from fumehood.core.errors import RefusedError
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.codemode import offers
from fumehood.gateway.gate.model import Calls, Guest, Offered, Way

_TEXT: Final = "text"
_FINDS: Final = "amcp.search(query)"


class InnerRefusedError(RefusedError):
    """A tool, or the gate before it, refused a call of a program; its words, which begin with the code of the rule."""

    code = "tool_refused"


class Inner:
    """A `ToolBackend`, and a `RefusalKeeper`, for one program of one guest."""

    def __init__(self, calls: Calls, program: Guest, every: Sequence[Offered], way: Way) -> None:
        """`every`: the tools that the program may call. `way` leads back to whoever runs it."""
        self._calls = calls
        self._program = program
        self._every = every
        self._index = Index([offers.of_program(one) for one in every])
        self._progress = way.progress
        self._way = Way(ask=way.ask, trace=way.trace)
        self._done = 0

    async def search(self, query: str, limit: int) -> JsonValue:
        """Name and description of the tools that fit, best first."""
        found = self._index.find(query, limit)
        return [{"name": tool.name, "description": tool.description} for tool in found]

    async def describe(self, names: Sequence[str]) -> JsonValue:
        """TypeScript for these tools. `UnknownToolError` for a name that may not be called."""
        return declare.declare([offers.of_program(one) for one in offers.named(self._every, names, _FINDS)])

    async def run(self, name: str, arguments: JsonValue) -> JsonValue:
        """`{text, structured}` of one call. Errors: `InnerRefusedError`."""
        given = arguments if isinstance(arguments, dict) else {}
        try:
            return value(await self._calls.call(self._program, name, given, self._way))
        finally:
            self._tell(name)

    async def refused(self, name: str, arguments: JsonValue) -> None:
        """Let the gate record and refuse a call of a tool that the program was not given."""
        await self.run(name, arguments)

    def close(self) -> None:
        """Forget what searches were made with."""
        self._index.close()

    def _tell(self, name: str) -> None:
        """One notification for each call that has ended, where the client asked for them."""
        self._done += 1
        if self._progress is not None:
            known = any(one.name == name for one in self._every)
            shown = name if known else "a tool that it was not given"  # a name can be anything that it read
            self._progress({"progress": self._done, "message": f"the program has called {shown}"})


def value(result: JsonObject) -> JsonValue:
    """What a program gets of a result. Errors: `InnerRefusedError`."""
    content = result.get("content")
    blocks = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    text = "\n".join([words for block in blocks if (words := _text(block)) is not None])
    structured = result.get("structuredContent")
    if result.get("isError") is True:
        raise _refusal(text, structured)
    others: list[JsonValue] = [str(block.get("type")) for block in blocks if _text(block) is None]
    made: JsonObject = {"text": text, "structured": structured}
    return {**made, "others": others} if others else made


def _text(block: JsonObject) -> str | None:
    """The words of a block; None of a picture, sound, or a link."""
    resource = block.get("resource")
    words = (
        block.get(_TEXT) if block.get("type") == _TEXT else resource.get(_TEXT) if isinstance(resource, dict) else None
    )
    return words if isinstance(words, str) else None


def _refusal(text: str, structured: JsonValue) -> InnerRefusedError:
    match structured:
        case {"error": str(code), "message": str(message), "remedy": str(remedy)}:
            return InnerRefusedError(f"{code}: {message}", remedy=remedy)
        case _:
            return InnerRefusedError(text or "the tool failed, and said nothing")
