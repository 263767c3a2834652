"""The one gate that each call of a tool passes, of a client or of a program: listed is what may be called.

Invariants: a name leads to a tool that this guest may use now, by the same decision as its list, or to the same refusal
as a name that does not exist; arguments fit the schema that the server itself gave; then `gateway.gate.passing`. A
structured answer that does not fit the server's own output schema, or does not any more once a credential was taken out
of it, is left out and the result is an error that says so. A guest has a bounded number of calls at once. Tools of ours
pass the same checks, and no program calls one.

Threats: G11 (words that make a model change or send), G12 (one client's for another), G13 (rights that lists and calls
see differently).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from fumehood.code.backend import Tool
from fumehood.code.gate import Deny, Scope, write
from fumehood.code.gate import Gate as ArgumentGate
from fumehood.core.errors import FumehoodError, RefusedError, UnknownToolError
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.gate import catalogue, paging, refusals, scopes, standings
from fumehood.gateway.gate.catalogue import Catalogue
from fumehood.gateway.gate.model import Guest, Offered, OwnTool, Way
from fumehood.gateway.gate.passing import Errand, Parts, Passing
from fumehood.gateway.gate.places import Places
from fumehood.gateway.guard import results
from fumehood.gateway.guard.results import ResultError
from fumehood.gateway.upstreams import report
from fumehood.gateway.upstreams.model import Listed, ServerRefusedError, Up, UpstreamError
from fumehood.wire import jsonrpc
from fumehood.wire.foreign import Checked, ForeignChecker
from fumehood.wire.hosting import HostError

_SHOWN: Final = 200
_UNFIT: Final = "its structured answer does not fit its own output schema, and is left out"
_REDACTED: Final = "its structured answer held a credential, does not fit its schema without it, and is left out"
_UNKNOWN: Final = "unknown_tool"
_LISTS: Final = "use tools/list to see which there are"


class UnfitError(RefusedError):
    """A tool's schema cannot be held, so that nothing can be checked against it."""

    code = "bad_schema"


@dataclass(slots=True)
class _Held:
    """What is made of the lists of one moment."""

    lists: tuple[Listed, ...]
    catalogue: Catalogue
    arguments: dict[str, ArgumentGate] = field(default_factory=dict)
    answers: dict[str, ForeignChecker | None] = field(default_factory=dict)


class Gate:
    """Implements `model.Calls`."""

    def __init__(self, parts: Parts, passing: Passing) -> None:
        """Without tools of ours."""
        self._parts = parts
        self._passing = passing
        self._places = Places(parts.topology)
        self._own: dict[str, OwnTool] = {}
        self._direct = parts.topology.gateway.show != "code"
        self._held = self._made(())

    def furnish(self, own: Sequence[OwnTool]) -> None:
        """Offer tools of ours, in this order, before those of servers."""
        self._own = {one.offered.name: one for one in own}
        self._held = self._made(self._lists())

    @property
    def said(self) -> tuple[str, ...]:
        """What is to be said of the catalogue of this moment: names that are left out."""
        return self._now().catalogue.said

    def has(self, name: JsonValue) -> bool:
        """Whether a server offers a tool so called at this moment, whoever may use it."""
        return isinstance(name, str) and name not in self._own and name in self._now().catalogue.named

    def offered(self, guest: Guest) -> list[Offered]:
        """The tools of servers that a guest may use, in order; none of ours."""
        return [one.offered for one in self._now().catalogue.direct if self._may(guest, one.offered)]

    def page(self, guest: Guest, cursor: JsonValue) -> JsonObject:
        """One page of what a client is shown: a result of `tools/list`. Errors: `HostError`."""
        entries = self._now().catalogue.entries(partial(self._may, guest), direct=self._direct)
        found = paging.page("tools", entries, cursor, self._parts.controls.key)
        made: JsonObject = {"tools": found.items}
        if found.cursor is not None:
            made["nextCursor"] = found.cursor
        return standings.told(made, standings.missing(self._parts.upstreams, guest.rights) if self._direct else {})

    async def call(self, guest: Guest, name: str, arguments: JsonObject, way: Way) -> JsonObject:
        """One call, judged, recorded, controlled. A refusal is a result with `isError`."""
        try:
            async with self._passing.counted(guest, name, arguments):
                return await self._judged(guest, name, arguments, way)
        except FumehoodError as error:
            return refusals.result(error)

    async def direct(self, guest: Guest, name: str, arguments: JsonObject, way: Way) -> JsonObject:
        """The same for a client: a tool that it may not use is an error of the protocol. Errors: `HostError`."""
        try:
            async with self._passing.counted(guest, name, arguments):
                return await self._judged(guest, name, arguments, way)
        except UnknownToolError as error:
            raise HostError(str(error), number=jsonrpc.INVALID_PARAMS) from None
        except FumehoodError as error:
            return refusals.result(error)

    async def _judged(self, guest: Guest, name: str, arguments: JsonObject, way: Way) -> JsonObject:
        offered = self._now().catalogue.named.get(name)
        recording = self._passing.recording(guest, name, arguments, writes=offered is not None and offered.writes)
        if offered is None or not self._is_callable(guest, offered):
            if (gone := self._gone(guest, name)) is not None:
                await recording.refused("not_there", gone.code)
                raise gone
            rule = _UNKNOWN if offered is None else self._rule(guest, offered)
            await recording.refused(rule, UnknownToolError.code)
            raise UnknownToolError(f"{name[:_SHOWN]!a} is no tool that you may use", remedy=_LISTS)
        try:
            answers = self._checked(offered, arguments)
        except RefusedError as error:
            await recording.refused("arguments", error.code)
            raise
        errand = Errand(
            guest=guest,
            offered=offered,
            method="tools/call",
            params={"name": offered.tool, "arguments": arguments},
            arguments=arguments,
            way=way,
        )
        decision = await self._passing.decision(errand, recording, lambda: self._is_same(offered))
        if (own := self._own.get(name)) is not None:
            return await recording.performed(decision, lambda: own.call(guest, arguments, way))
        return await recording.performed(decision, lambda: self._performed(errand, answers))

    async def _performed(self, errand: Errand, answers: ForeignChecker | None) -> JsonObject:
        fence, controls = not errand.guest.program, self._parts.controls

        def controlled(found: JsonObject) -> JsonObject:
            made = _controlled(errand.offered, found, results.tool(found, controls, fence=fence), answers)
            return self._places.linked(errand.offered.server, made)

        try:
            return await self._passing.asked(errand, controlled)
        except ServerRefusedError as error:
            return refusals.of_server(errand.offered.server, error, controls, fence=fence)

    def _checked(self, offered: Offered, arguments: JsonObject) -> ForeignChecker | None:
        """What answers are checked with, once the arguments fit. Errors: `InvalidArgumentsError`, `UnfitError`."""
        held = self._held
        if offered.name not in held.arguments:
            self._compile(held, offered)
        decision = held.arguments[offered.name].decide(offered.name, write(arguments))
        if isinstance(decision, Deny):
            reason = held.arguments[offered.name].left_out.get(offered.name)
            if reason is not None:
                raise UnfitError(f"the input schema of {offered.name} cannot be held: {reason}")
            raise decision.error
        return held.answers[offered.name]

    def _compile(self, held: _Held, offered: Offered) -> None:
        """Compile the schemas that the server itself gave, or those of a tool of ours."""
        given = offered.definition if offered.name in self._own else self._given(offered)
        schema, output = given.get("inputSchema"), given.get("outputSchema")
        tool = Tool(name=offered.name, description="", input_schema=schema if isinstance(schema, dict) else {})
        held.answers[offered.name] = _checker(output)
        held.arguments[offered.name] = ArgumentGate([tool], allowed=[offered.name], scope=Scope.WRITE)

    def _given(self, offered: Offered) -> JsonObject:
        tools = self._parts.upstreams.listed(offered.server).tools
        return next((one for one in tools if one.get("name") == offered.tool), {})

    def _may(self, guest: Guest, offered: Offered) -> bool:
        """Whether a guest may use a tool: asked for each list, and each call."""
        if not isinstance(scopes.may_use(guest.rights, offered), scopes.Allow):
            return False
        own = self._own.get(offered.name)
        return own is None or (not guest.program and own.is_for(guest))

    def _is_callable(self, guest: Guest, offered: Offered) -> bool:
        hidden = not self._direct and not guest.program and offered.name not in self._own
        return not hidden and self._may(guest, offered)

    def _rule(self, guest: Guest, offered: Offered) -> str:
        answer = scopes.may_use(guest.rights, offered)
        return answer.rule if isinstance(answer, scopes.Deny) else "not_offered"

    def _gone(self, guest: Guest, name: str) -> UpstreamError | None:
        """Why a tool is not there that this guest might use, if its server were."""
        server, tool = self._places.own_prompt(name)  # named alike
        if server not in self._parts.upstreams.servers or (not self._direct and not guest.program):
            return None
        standing = self._parts.upstreams.standing(server)
        might = catalogue.offered(self._parts.topology, server, {"name": tool})
        is_there = isinstance(standing, Up) or might.name in self._own
        return None if is_there or not self._may(guest, might) else report.refused(server, standing)

    def _is_same(self, offered: Offered) -> bool:
        return self._now().catalogue.named.get(offered.name) == offered

    def _now(self) -> _Held:
        """What is made of the lists of this moment."""
        lists = self._lists()
        if lists != self._held.lists:
            self._held = self._made(lists)
        return self._held

    def _lists(self) -> tuple[Listed, ...]:
        upstreams = self._parts.upstreams
        return tuple([upstreams.listed(server) for server in upstreams.servers])

    def _made(self, lists: tuple[Listed, ...]) -> _Held:
        shown = dict(zip(self._parts.upstreams.servers, [one.shown for one in lists], strict=False))
        own = [one.offered for one in self._own.values()]
        return _Held(lists, catalogue.catalogue(self._parts.topology, shown, own))


def _checker(schema: JsonValue) -> ForeignChecker | None:
    """None where there is nothing that could be held."""
    try:
        return ForeignChecker(schema) if isinstance(schema, dict) else None
    except ValueError:
        return None


def _controlled(offered: Offered, found: JsonObject, made: JsonObject, answers: ForeignChecker | None) -> JsonObject:
    """What a guest gets of a result. Errors: `ResultError`."""
    if not isinstance(found.get("content"), list):
        raise ResultError(f"the answer of {offered.server} has no content, so it is no result of a tool")
    if answers is None or found.get("isError") is True:
        return made
    was, now = _fits(answers, found.get("structuredContent")), _fits(answers, made.get("structuredContent"))
    return made if was and now else _without_structure(made, _REDACTED if was else _UNFIT)


def _fits(checker: ForeignChecker, value: JsonValue) -> bool:
    found = checker.check(value)
    return not isinstance(found, Checked) or not found.problems


def _without_structure(made: JsonObject, words: str) -> JsonObject:
    content = made["content"]
    blocks: list[JsonValue] = [{"type": "text", "text": f"bad_answer: {words}"}]
    structured: JsonObject = {"error": "bad_answer", "message": words, "remedy": "see its text"}
    blocks += content if isinstance(content, list) else []
    return {**made, "content": blocks, "structuredContent": structured, "isError": True}
