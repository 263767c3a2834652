"""`run_code`: one program of a model, with the tools that its guest may use.

Invariants: the tools of a program are those that its guest may use, or fewer, by name; each call of it is judged as
its guest's own (`codemode.engine`, `codemode.inner`). Where no program may run on this host the tool is not offered.
"""

from typing import Final

from fumehood.core.errors import FumehoodError
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.codemode import offers, own, replies
from fumehood.gateway.codemode.engine import Engine, Program
from fumehood.gateway.codemode.offers import RUN
from fumehood.gateway.gate.model import Guest, Offered, Way

_INPUT: Final = own.DEFINITIONS[RUN]["inputSchema"]


class RunCode:
    """An `OwnTool`."""

    def __init__(self, engine: Engine) -> None:
        """Run programs there."""
        self._engine = engine
        self._arguments = own.Arguments(RUN, _INPUT if isinstance(_INPUT, dict) else {})

    @property
    def offered(self) -> Offered:
        """What it is."""
        return own.offered(RUN)

    def is_for(self, guest: Guest) -> bool:
        """For everybody, where programs run at all."""
        del guest
        return not self._engine.unavailable

    async def call(self, guest: Guest, arguments: JsonObject, way: Way) -> JsonObject:
        """What came of the program."""
        try:
            program = self._program(guest, self._arguments.read(arguments))
        except FumehoodError as error:
            return replies.refused(error, self._engine.controls)
        return await self._engine.run(guest, program, way)

    def _program(self, guest: Guest, given: JsonObject) -> Program:
        every = self._engine.calls.offered(guest)
        names, seconds = given.get("tools"), given.get("timeout")
        return Program(
            code=str(given["code"]),
            value=given.get("input"),
            tools=offers.named(every, [str(name) for name in names]) if isinstance(names, list) else every,
            seconds=float(seconds) if isinstance(seconds, int | float) else None,
        )
