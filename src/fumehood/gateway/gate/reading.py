"""Prompts, resources and completions of servers: the same way as calls, with errors of the protocol.

Invariants: a name or URI leads to one server that this guest may see, and is else refused as one that does not exist;
then `gateway.gate.passing`: a server that may send something out, by the operator's word on its tools or on the method
(`egress = ["resources/read"]`), is asked by a tainted guest only with a person's word, since a URI or an argument can
carry what was read elsewhere. What a server answers taints as a call does. Recorded with the method and the server;
of a URI and of arguments only the digest.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from fumehood.core.errors import FumehoodError
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.gate import paging, refusals, scopes, standings
from fumehood.gateway.gate.gathering import gathered
from fumehood.gateway.gate.model import Guest, Offered, Way
from fumehood.gateway.gate.passing import Errand, Parts, Passing
from fumehood.gateway.gate.places import Places
from fumehood.gateway.gate.unpinned import Kind
from fumehood.gateway.guard import results
from fumehood.gateway.guard.results import ResultError
from fumehood.gateway.topology import marks
from fumehood.gateway.upstreams.model import Up
from fumehood.wire import jsonrpc
from fumehood.wire.hosting import Era, HostError

_GET: Final = "prompts/get"
_READ: Final = "resources/read"
_COMPLETE: Final = "completion/complete"
_CAPABILITY: Final = {_GET: "prompts", _READ: "resources", _COMPLETE: "completions"}
_MEMBER: Final = {_GET: "messages", _READ: "contents", _COMPLETE: "completion"}
_COMPLETIONS: Final = 100  # MCP 2025-11-25, completion: at most so many values

_Control: TypeAlias = Callable[[JsonObject], JsonObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One request, resolved to a server."""

    method: str
    server: str
    name: str  # as the log has it
    params: JsonObject  # for the server


class Reading:
    """What clients read of servers beside their tools."""

    def __init__(self, parts: Parts, passing: Passing) -> None:
        """Nothing is kept but how places are made."""
        self._parts = parts
        self._passing = passing
        self._places = Places(parts.topology)

    async def page(self, kind: Kind, guest: Guest, cursor: JsonValue) -> JsonObject:
        """One page of a list. Errors: `HostError`."""
        found = await gathered(kind, guest, self._parts, self._places)
        entries = [paging.entry(one) for one in found.items]
        page = paging.page(kind.method, entries, cursor, self._parts.controls.key)
        made: JsonObject = {kind.member: page.items}
        if page.cursor is not None:
            made["nextCursor"] = page.cursor
        return standings.told(made, found.left_out)

    async def prompt(self, guest: Guest, params: JsonObject, way: Way, era: Era) -> JsonObject:
        """A result of `prompts/get`. Errors: `HostError`."""
        name = _word(params, "name")
        server, own = self._places.own_prompt(name)
        given: JsonObject = {"name": own}
        if (arguments := params.get("arguments")) is not None:
            given["arguments"] = _words(arguments, "arguments")
        asked = _Asked(method=_GET, server=server, name=f"{_GET} {name}", params=given)
        return await self._passed(guest, asked, way, era)

    async def resource(self, guest: Guest, params: JsonObject, way: Way, era: Era) -> JsonObject:
        """A result of `resources/read`. Errors: `HostError`."""
        server, own = self._places.own_uri(_word(params, "uri"))
        asked = _Asked(method=_READ, server=server, name=f"{_READ} {server}", params={"uri": own})
        return await self._passed(guest, asked, way, era)

    async def completion(self, guest: Guest, params: JsonObject, way: Way, era: Era) -> JsonObject:
        """A result of `completion/complete`; nothing of a server that completes nothing. Errors: `HostError`."""
        server, ref = self._ref(params.get("ref"))
        given: JsonObject = {"ref": ref, "argument": _words(params.get("argument"), "argument")}
        context = params.get("context")
        if isinstance(context, dict) and "arguments" in context:
            given["context"] = {"arguments": _words(context["arguments"], "context.arguments")}
        if self._has(guest, server, "prompts", "resources") and not self._has(guest, server, "completions"):
            return {"completion": {"values": []}}
        asked = _Asked(method=_COMPLETE, server=server, name=f"{_COMPLETE} {server}", params=given)
        return await self._passed(guest, asked, way, era)

    def _ref(self, ref: JsonValue) -> tuple[str, JsonObject]:
        match ref:
            case {"type": "ref/prompt", "name": str(name)}:
                server, own = self._places.own_prompt(name)
                return server, {"type": "ref/prompt", "name": own}
            case {"type": "ref/resource", "uri": str(uri)}:
                server, own = self._places.own_uri(uri)
                return server, {"type": "ref/resource", "uri": own}
            case _:
                raise HostError("ref is {type: ref/prompt, name} or {type: ref/resource, uri}")

    def _has(self, guest: Guest, server: str, *capabilities: str) -> bool:
        """Whether a guest may see a server that is there, and that says it has one of these."""
        upstreams = self._parts.upstreams
        if server not in upstreams.servers or not scopes.may_see_server(guest.rights, server):
            return False
        standing = upstreams.standing(server)
        if not isinstance(standing, Up):
            return True  # what it has is not known; asking it says why
        return any(one in standing.introduction.capabilities for one in capabilities)

    async def _passed(self, guest: Guest, asked: _Asked, way: Way, era: Era) -> JsonObject:
        try:
            async with self._passing.counted(guest, asked.name, asked.params):
                return await self._judged(guest, asked, way)
        except FumehoodError as error:
            raise refusals.raised(asked.server, error, self._parts.controls, era) from None

    async def _judged(self, guest: Guest, asked: _Asked, way: Way) -> JsonObject:
        recording = self._passing.recording(guest, asked.name, asked.params, writes=False)
        if not self._has(guest, asked.server, _CAPABILITY[asked.method]):
            await recording.refused("not_offered", "not_found")
            raise HostError(_absent(asked.method, crowded=self._places.is_crowded))
        server = self._parts.topology.servers[asked.server]
        errand = Errand(
            guest=guest,
            offered=Offered(
                name=asked.name,
                server=asked.server,
                tool=asked.method,
                definition={},
                writes=False,
                egress=marks.sends(server, asked.method),
                trusted=marks.is_trusted(server),
            ),
            method=asked.method,
            params=asked.params,
            arguments=asked.params,
            way=way,
        )
        decision = await self._passing.decision(errand, recording, lambda: True)
        control = self._controlled(asked)
        return await recording.performed(decision, lambda: self._passing.asked(errand, control))

    def _controlled(self, asked: _Asked) -> _Control:
        controls = self._parts.controls

        def control(found: JsonObject) -> JsonObject:
            value = found.get(_MEMBER[asked.method])
            if asked.method == _COMPLETE:
                return results.completion({"completion": _completion(value)}, controls)
            if not isinstance(value, list):
                raise ResultError(f"its answer has no {_MEMBER[asked.method]}")
            made = (results.prompt if asked.method == _GET else results.resource)(found, controls)
            return self._places.linked(asked.server, made)

        return control


def _completion(value: JsonValue) -> JsonObject:
    values = value.get("values") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise ResultError("its answer is no completion")
    made: JsonObject = {"values": values[:_COMPLETIONS]}
    if isinstance(total := value.get("total"), int) and not isinstance(total, bool):
        made["total"] = total
    more = value.get("hasMore") is True or len(values) > _COMPLETIONS
    return {**made, "hasMore": True} if more else made


def _absent(method: str, *, crowded: bool) -> str:
    if crowded:
        return "with plain names and several servers there are neither prompts nor resources"
    what = {_GET: "prompt", _READ: "resource", _COMPLETE: "prompt or template"}[method]
    return f"there is no such {what} that you may use"


def _word(params: Mapping[str, JsonValue], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise HostError(f"{name} is a text that is not empty", number=jsonrpc.INVALID_PARAMS)
    return value


def _words(value: JsonValue, name: str) -> JsonObject:
    """An object of texts, as the protocol has it."""
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise HostError(f"{name} is an object of texts", number=jsonrpc.INVALID_PARAMS)
    return value
