"""Who may use what: from a caller and the roles of the topology to rights, and from rights to each tool. Pure.

The same two questions, `may_use` and `may_see_server`, are asked for a list, a call, a program's call, a completion, a
prompt and a resource: what a list shows can be called, and what can be called is shown.

Invariants: without `[roles]` everybody may use everything but for what a token's own scopes leave out; with `[roles]`
nobody may use anything without a role, and a role that the file does not know is none. A scope of a token only ever
takes away, except `role:NAME`, which is what gives. Doubt is a refusal.

| a token's scope | what it says |
|---|---|
| `role:NAME` | a role of the file; several add up: what one of them allows |
| `tool:NAME` | these tools only, by the names that a client sees, and neither prompts nor resources |
| `tools:read` | no tool that may change something |
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from fumehood.gateway.gate.model import Offered, Rights
from fumehood.gateway.topology.model import Role, Topology
from fumehood.gateway.topology.patterns import fits_any
from fumehood.wire.published import LOCAL, Caller

_ROLE: Final = "role:"
_TOOL: Final = "tool:"
_READING: Final = "tools:read"
_RULES: Final = ("role_server", "role_tool", "role_read")  # in the order in which they are asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """A caller may use what its rights say."""

    rights: Rights


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """A caller may use nothing; why, fit to be shown to it."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Allow:
    """It may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """It may not. `rule` is a word for the audit log: `scope`, `role_server`, `role_tool` or `role_read`."""

    rule: str


Answer: TypeAlias = Allow | Deny

_ALLOW: Final = Allow()


def decide(topology: Topology, caller: Caller) -> Granted | Nothing:
    """What a caller may use."""
    scopes = caller.scopes
    only = None
    if scopes is not None:
        only = frozenset(word.removeprefix(_TOOL) for word in scopes if word.startswith(_TOOL)) or None
    reading = scopes is not None and _READING in scopes
    if topology.roles:
        roles = _roles(topology, caller)
        if not roles:
            return Nothing(reason=_without_a_role(topology, caller))
        return Granted(rights=Rights(roles=roles, only=only, reading=reading))
    if scopes is not None and only is None and not reading:
        return Nothing(reason="the token has no scope that means something here")
    return Granted(rights=Rights(only=only, reading=reading))


def is_local(caller: Caller) -> bool:
    """Whether somebody came without a token: over a pipe, or to an HTTP server that asks for none."""
    return caller.scopes is None and (caller.principal == LOCAL.principal or caller.principal.startswith("local "))


def may_use(rights: Rights, offered: Offered) -> Answer:
    """Whether a tool may be seen and called: the one is the other."""
    if rights.only is not None and offered.name not in rights.only:
        return Deny(rule="scope")
    if rights.reading and offered.writes:
        return Deny(rule="scope")
    if rights.roles is None:
        return _ALLOW
    reached = max((_reached(role, offered) for role in rights.roles), default=0)
    return _ALLOW if reached == len(_RULES) else Deny(rule=_RULES[reached])


def may_see_server(rights: Rights, server: str) -> bool:
    """Whether prompts and resources of a server may be listed, got and completed."""
    if rights.only is not None:  # good for some tools, and for nothing else
        return False
    return rights.roles is None or any(fits_any(role.servers, server) for role in rights.roles)


def is_limited(rights: Rights) -> bool:
    """Whether somebody sees other lists than others may, so that nobody else may be given them."""
    return rights != Rights()


def _reached(role: Role, offered: Offered) -> int:
    """How many of the rules of a role a tool passes, one after the other."""
    if not fits_any(role.servers, offered.server):
        return 0
    if not fits_any(role.tools, offered.name):
        return 1
    return 2 if offered.writes and role.access != "write" else len(_RULES)


def _roles(topology: Topology, caller: Caller) -> tuple[Role, ...]:
    if is_local(caller):
        names = [topology.gateway.local_role] if topology.gateway.local_role is not None else []
    else:
        words = sorted(caller.scopes or ())
        names = [word.removeprefix(_ROLE) for word in words if word.startswith(_ROLE)]
    return tuple(topology.roles[name] for name in names if name in topology.roles)


def _without_a_role(topology: Topology, caller: Caller) -> str:
    if is_local(caller):
        named = topology.gateway.local_role is not None
        return "gateway.local_role names no role" if named else "nobody may use this without a token"
    return "the token has no role of this gateway"
