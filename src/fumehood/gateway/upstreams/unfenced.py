"""A workspace as the gate needs it: what `fumehood serve` answers, without the fence that it puts around it.

The gate puts a fence of its own around whatever a model gets, and gives programs none: a second one inside would be
told to the model as something that imitates a fence, and would stand in the way of a program that computes.

Invariants: only lines that are exactly the markers of the answer's own nonce, which the content cannot know, are taken
out; everything else of an answer stays as it is. Only a server that this process started itself is believed so far.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fumehood.content import fencing
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.upstreams.model import Connection, Introduction, Notified
from fumehood.gateway.upstreams.served import ServedFolder, served
from fumehood.wire.hosting import ReportProgress


@asynccontextmanager
async def workspace(asked: ServedFolder, notified: Notified) -> AsyncIterator[Connection]:
    """The workspace, served, its answers without their fences. Errors: those of `served`."""
    async with served(asked, notified) as connection:
        yield _Unfenced(connection)


def unfenced(result: JsonObject) -> JsonObject:
    """A result of a tool of `fumehood serve` without the markers of its nonce."""
    structured, content = result.get("structuredContent"), result.get("content")
    nonce = structured.get("nonce") if isinstance(structured, dict) else None
    if not isinstance(nonce, str) or not nonce or not isinstance(content, list):
        return result
    markers = frozenset({fencing.begin(nonce), fencing.end(nonce)})
    return {**result, "content": [_without(block, markers) for block in content]}


def _without(block: JsonValue, markers: frozenset[str]) -> JsonValue:
    words = block.get("text") if isinstance(block, dict) else None
    if not isinstance(block, dict) or not isinstance(words, str):
        return block
    lines = words.split("\n")
    kept = [line for line in lines if f"{line}\n" not in markers]
    return {**block, "text": "\n".join(kept)}


@dataclass(frozen=True, slots=True)
class _Unfenced:
    """A `Connection`."""

    connection: Connection

    @property
    def introduction(self) -> Introduction:
        """As it is."""
        return self.connection.introduction

    async def ask(
        self, method: str, params: JsonObject, *, seconds: float, progress: ReportProgress | None = None
    ) -> JsonObject:
        """As it is, but for results of tools."""
        result = await self.connection.ask(method, params, seconds=seconds, progress=progress)
        return unfenced(result) if method == "tools/call" else result

    async def lost(self) -> str:
        """As it is."""
        return await self.connection.lost()
