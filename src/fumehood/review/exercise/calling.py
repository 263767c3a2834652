"""Call each listed tool of a live server: first with what it requires, then with everything that it describes.

Two rounds, each in the order of the list, so that no tool's second call takes the time of another's first. Inputs hang
on the target of the request and on the tool's schema: two parties who review the same version send the same.

Afterwards the list of tools is read once more: a description that changes once a tool was used is a fact.

Invariants: each call has its own deadline and all of them one; a server that ends is asked nothing more; what was not
called is told with its reason. Annotations are recorded and never obeyed: what a tool destroys lies in the sandbox.
Threats: a tool that never answers, floods, asks back, ends its server, or has a schema that is made to cost time.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fumehood.core import jsonio, limits
from fumehood.core.jsonio import JsonValue
from fumehood.review.exercise import called, lists
from fumehood.review.exercise.called import Calls
from fumehood.review.exercise.child import Live
from fumehood.review.exercise.definitions import Definition
from fumehood.review.exercise.listing import Listing
from fumehood.review.inputs import maker
from fumehood.review.inputs.made import NotMade
from fumehood.review.inputs.maker import Maker
from fumehood.review.request import ReviewRequest, to_value
from fumehood.wire.conversation import Ended, Reply, TimedOut

_LINGER_SHARE: Final = 0.25  # of the time that is left when the first tool is called, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What calls are made with; an instance is what is done once the handshake was completed."""

    seed: int
    workspace: str
    linger_seconds: float

    async def __call__(self, live: Live) -> None:
        """Read the lists, then call each tool that they name; what came of it stands in `live.calls`."""
        await lists.read(live)
        live.calls = Calls(seed=self.seed)
        tools = list(_tools(live.lists.get("tool"), live.calls))
        until = live.deadline - min(self.linger_seconds, live.seconds_left * _LINGER_SHARE)
        async with maker.maker() as inputs:
            rounds = _Rounds(self, live, live.calls, inputs, until)
            for number in (1, 2):
                for one in tools:
                    await rounds.call(one, number)
            live.calls.without = inputs.without
        first = live.lists.get("tool")
        if live.calls.details and first is not None and first.complete and live.talk.ended is None:
            live.calls.later = Listing(first.sort, offered=True)
            await lists.fill(live, live.calls.later)


class _Rounds:
    """The calls of one start."""

    def __init__(self, caller: Caller, live: Live, calls: Calls, inputs: Maker, until: float) -> None:
        self._caller = caller
        self._live = live
        self._calls = calls
        self._inputs = inputs
        self._until = until
        self._given_up: set[str] = set()

    async def call(self, tool: Definition, number: int) -> None:
        """One call of one tool, as far as there is one to be made."""
        value = tool.value
        fields = value if isinstance(value, dict) else {}
        name, schema = str(fields.get("name")), fields.get("inputSchema", {})
        extents = maker.extents(schema)
        if number > len(extents) or name in self._given_up:
            return
        reason = self._not_now()
        if reason:
            if number == 1:
                self._calls.pass_over(name, reason)
            return
        made = await self._inputs.make(schema, self._seed(name), extents[number - 1], name)
        if isinstance(made, NotMade):
            self._given_up.add(name)
            self._calls.give_up(name, made)
            return
        reply = await self._ask(name, called.placed(made.arguments, self._caller.workspace))
        self._calls.tools.add(name)
        large = not isinstance(reply, TimedOut | Ended)
        arguments = (name, number, extents[number - 1], made, reply)
        detail = await asyncio.to_thread(called.detail, *arguments) if large else called.detail(*arguments)
        self._calls.details.append((called.activity(name), detail))
        if isinstance(reply, Ended):
            self._calls.ended, self._calls.ended_by = reply, called.short(name)
        if isinstance(reply, TimedOut):
            self._given_up.add(name)  # it had its time
        else:
            await self._settle()

    async def _settle(self) -> None:
        """Read on for a moment: a request that a tool sent without waiting for it belongs to that tool's activity."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(limits.CALL_SETTLE_SECONDS, self._seconds_left()))):
                await self._live.talk.drain()

    def _not_now(self) -> str:
        """Why nothing more is called; empty while something is."""
        ended = self._calls.ended or self._live.talk.ended
        if ended is not None:
            self._calls.ended = ended
            return called.why_ended(ended)
        return called.NO_TIME if self._seconds_left() <= 0 else ""

    def _seconds_left(self) -> float:
        return self._until - asyncio.get_running_loop().time()

    async def _ask(self, name: str, arguments: JsonValue) -> Reply:
        seconds = min(limits.TOOL_CALL_SECONDS, max(0.0, self._seconds_left()))
        return await self._live.talk.request(
            "tools/call", {"name": name, "arguments": arguments}, seconds=seconds, activity=called.activity(name)
        )

    def _seed(self, name: str) -> int:
        return _number(f"{self._caller.seed}:{name}".encode("utf-8", "surrogatepass"))


def seed(request: ReviewRequest) -> int:
    """What the inputs of a review hang on: its target."""
    return _number(jsonio.canonical(to_value(request)["target"]))


def _number(data: bytes) -> int:
    return int.from_bytes(hashlib.sha256(data).digest()[:6], "big")


def _tools(listing: Listing | None, calls: Calls) -> Iterator[Definition]:
    """The tools that are called, each name once; the others are passed over."""
    names: set[str] = set()
    for one in listing.definitions if listing else ():
        if not one.name:
            calls.pass_over("", called.NAMELESS)
        elif one.name in names:
            continue
        elif len(names) >= limits.CALLED_TOOLS:
            calls.pass_over(one.name, called.TOO_MANY)
        else:
            names.add(one.name)
            yield one
