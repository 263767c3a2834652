"""Run one program for a guest: a child, a guest of its own at the gate, and an answer that a model may see.

Invariants: a program never has more rights than the guest who runs it, and where a manifest says so fewer; the taint
of what it read is its guest's before the guest gets anything of it, and also where the run broke or was cancelled; the
answer passes the content controls as a whole. A cancelled request ends the child (`code.run`).

Not promised: that a tool which a program had called when it ended undid what it did.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fumehood.code import job
from fumehood.code.backend import ToolBackend
from fumehood.code.job import Job, JobResult
from fumehood.content.control import Controls
from fumehood.core import limits
from fumehood.core.errors import FumehoodError, TooLargeError, UnsupportedError
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.codemode import replies
from fumehood.gateway.codemode.inner import Inner
from fumehood.gateway.gate import guests
from fumehood.gateway.gate.model import Calls, Guest, Offered, Way


class Place(Protocol):
    """Where programs run (`codemode.place`)."""

    @property
    def unavailable(self) -> str:
        """Why no program runs there; nothing where they do, or where that is being found out."""
        ...

    async def run(self, job: Job, backend: ToolBackend) -> JobResult:
        """What came of one program. Errors: `BusyError`, `UnsupportedError`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is to be run."""

    code: str
    value: JsonValue = None
    tools: Sequence[Offered]  # that it may call, and no other
    seconds: float | None = None


class Engine:
    """Runs programs of guests."""

    def __init__(self, calls: Calls, place: Place, controls: Controls, fresh: Callable[[], str]) -> None:
        """`fresh` gives 16 hex digits, each time others: the name of a run."""
        self.calls = calls
        self.controls = controls
        self._place = place
        self._fresh = fresh

    @property
    def unavailable(self) -> str:
        """Why no program runs here; nothing where they do."""
        return self._place.unavailable

    async def run(self, guest: Guest, program: Program, way: Way) -> JsonObject:
        """What came of it, fit to be shown: also of one that could not be begun."""
        names = tuple(one.name for one in program.tools)
        child = guests.fork(guest, run=self._fresh(), only=frozenset(names))
        inner = Inner(self.calls, child, program.tools, way)
        try:
            ended = await self._ended(program, names, inner, way)
        except FumehoodError as error:
            return replies.refused(error, self.controls)
        finally:
            inner.close()
            guests.join(guest, child)
        # A large value takes a while to look through: nobody else waits for that.
        return await asyncio.to_thread(replies.ran, ended, child.tainted_by, self.controls)

    def _ended(self, program: Program, names: tuple[str, ...], inner: Inner, way: Way) -> Awaitable[JobResult]:
        if reason := self._place.unavailable:
            raise UnsupportedError(reason, remedy="the operator's log says more")
        if len(names) > limits.CODE_TOOLS:
            words = f"{len(names)} tools are too many for one program, which may be given {limits.CODE_TOOLS}"
            raise TooLargeError(words, remedy="name those that it calls in `tools`")
        asked: JsonObject = {"code": program.code, "input": program.value, "tools": [*names]}
        asked["limits"] = {"wall_seconds": _seconds(program, way)}
        return self._place.run(job.read(asked), inner)


def _seconds(program: Program, way: Way) -> float:
    """As asked for; else longer where a person may be asked meanwhile: people need more time than tools."""
    if program.seconds is not None:
        return program.seconds
    return limits.CODE_WALL_SECONDS if way.ask is None else limits.CODE_WALL_SECONDS_MAX
