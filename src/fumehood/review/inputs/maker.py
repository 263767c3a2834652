"""Ask the child for arguments, check them against their schema, and believe nothing else of it.

Invariants: a schema reaches a generator only in a process without rights, with a limit of CPU and of memory; one that
ends it, or takes it too long, costs that schema its inputs and nothing else. What comes back is read by `core.jsonio`
within bounds and checked by `wire.foreign`, whose patterns are linear and whose references stay in the document.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from fumehood.core import jsonio, limits
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.review.inputs import generate
from fumehood.review.inputs.made import Made, NotMade
from fumehood.sandbox import launch
from fumehood.sandbox.launch import PIPE, Process, Streams
from fumehood.wire import foreign

_PROGRAM: Final = """
import sys
sys.path[:0] = sys.argv[2:]
from fumehood.review.inputs import child
child.main(unsafe_without_walls=sys.argv[1] == 'without-walls')
"""


class _LostError(Exception):
    """The child ended or did not answer in time."""


class Maker:
    """Makes inputs, one schema after another. Made by `maker`, which ends its child."""

    def __init__(self, *, unsafe_without_walls: bool = False) -> None:
        """No child runs until the first question."""
        self._word = "without-walls" if unsafe_without_walls else "walls"
        self._child: Process | None = None
        self._rest = b""
        self._starts = 0
        self.without: tuple[str, ...] = ()  # walls that its child could do without, and why they did not stand

    async def make(self, schema: JsonValue, seed: int, extent: str, about: str = "") -> Made | NotMade:
        """Arguments that fit, or else the first that were made. A schema gets INPUT_TRIES attempts."""
        first: Made | None = None
        for attempt in range(limits.INPUT_TRIES):
            made = await self._made(
                schema,
                {"seed": seed, "extent": extent, "attempt": attempt, "about": about[: limits.INPUT_NAME_CHARACTERS]},
            )
            if isinstance(made, NotMade):
                return first or made
            if made.valid is not False:
                return made
            first = first or made
        return first or NotMade(reason="no arguments were made")

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.close()
        self._child, self._rest = None, b""

    async def _made(self, schema: JsonValue, how: JsonObject) -> Made | NotMade:
        line = jsonio.dump({"schema": schema, **how})
        if len(line) > limits.INPUT_SCHEMA_BYTES:
            return NotMade(reason=f"the schema has more than {limits.INPUT_SCHEMA_BYTES} bytes")
        for again in (False, True):  # a child may be at its limits through the schemas before this one
            fresh = self._child is None
            try:
                return _read(schema, await self._ask(line))
            except _LostError as error:
                self.close()
                if fresh or again:
                    return NotMade(reason=str(error))
        return NotMade(reason="the child that makes inputs ended")

    async def _ask(self, line: bytes) -> bytes:
        try:
            async with asyncio.timeout(limits.INPUT_SECONDS):
                child = self._child or await self._start()
                await asyncio.to_thread(_write, child, line)
                return await self._line(child)
        except TimeoutError:
            raise _LostError(f"the child that makes inputs did not answer within {limits.INPUT_SECONDS:g} s") from None

    async def _start(self) -> Process:
        if self._starts >= limits.INPUT_STARTS:
            raise _LostError("the schemas before this one ended too many children")
        self._starts += 1
        places = [place for place in sys.path if Path(place).is_absolute()]
        argv = [sys.executable, "-I", "-S", "-c", _PROGRAM, self._word, *places]
        child = self._child = launch.spawn(argv, streams=Streams(stdin=PIPE, stdout=PIPE))
        said = jsonio.parse(await self._line(child), size=limits.INPUT_BYTES)
        fields = said if isinstance(said, dict) else {"refused": None}
        if "refused" in fields:
            raise _LostError(f"the child that makes inputs has no walls: {fields['refused']}")
        without = fields.get("without")
        self.without = tuple(map(str, without)) if isinstance(without, list) else ()
        return child

    async def _line(self, child: Process) -> bytes:
        """The next line that the child says."""
        stdout = child.stdout
        while stdout is not None and b"\n" not in self._rest:
            await launch.readable(stdout.fileno())
            data = os.read(stdout.fileno(), 65536)
            if not data or len(self._rest) > limits.INPUT_BYTES:
                raise _LostError("the child that makes inputs ended")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line


@asynccontextmanager
async def maker(*, unsafe_without_walls: bool = False) -> AsyncIterator[Maker]:
    """A maker whose child ends with it."""
    opened = Maker(unsafe_without_walls=unsafe_without_walls)
    try:
        yield opened
    finally:
        opened.close()


def extents(schema: JsonValue) -> tuple[str, ...]:
    """With which members a tool is called: the required ones; then all that are described, where that is more."""
    described = schema.get("properties") if isinstance(schema, dict) else None
    required = schema.get("required") if isinstance(schema, dict) else None
    if isinstance(described, dict) and isinstance(required, list) and described.keys() <= {*map(str, required)}:
        return (generate.ALL,)
    return (generate.REQUIRED, generate.ALL) if described else (generate.ALL,)


def _write(child: Process, line: bytes) -> None:
    """Hand over one line; a child that does not read holds this up until it is ended."""
    view = memoryview(line)
    with contextlib.suppress(OSError, ValueError):
        while view and child.stdin is not None:
            view = view[child.stdin.write(view) or 0 :]


def _read(schema: JsonValue, line: bytes) -> Made | NotMade:
    """What the child said, as far as it is what it should be."""
    try:
        said = jsonio.parse(line, size=limits.INPUT_BYTES)
    except jsonio.JsonError:
        raise _LostError("the child that makes inputs said what is no answer") from None
    fields = said if isinstance(said, dict) else {}
    arguments, notes, reason = fields.get("arguments"), fields.get("notes"), fields.get("reason")
    if isinstance(reason, str):
        return NotMade(reason=reason[: limits.INPUT_NAME_CHARACTERS])
    if not isinstance(arguments, dict) or not isinstance(notes, list):
        raise _LostError("the child that makes inputs said what is no answer")
    valid, why = check(schema, arguments)
    shown = tuple(str(note)[: limits.INPUT_NAME_CHARACTERS] for note in notes[: limits.INPUT_NOTES])
    return Made(arguments=arguments, valid=valid, why=why, notes=shown)


def check(schema: JsonValue, arguments: JsonObject) -> tuple[bool | None, str]:
    """Whether arguments fit a tool's schema; None with a reason where that cannot be said."""
    if not isinstance(schema, dict | bool):
        return None, "not a JSON Schema"
    found = foreign.check(schema, arguments)
    if isinstance(found, foreign.Uncheckable):
        return None, found.reason
    if not found.problems:
        return (None, "a pattern has no linear form") if found.skipped_patterns else (True, "")
    return False, f"does not fit {found.problems[0].keyword}"
