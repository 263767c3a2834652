"""Calls at the gate as events of an audit log: who asked is known here, and nowhere behind the gate. Pure."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from fumehood.code.gate import AuditRecord
from fumehood.gateway.audit.record import Call, Outcome
from fumehood.serve.records import Record
from fumehood.wire.published import LOCAL

Source: TypeAlias = Literal["code", "gateway", "guard", "serve"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whose calls they are."""

    source: Source
    who: str  # `user`, `token` or `who`
    run: str  # 16 hex digits


def user(uid: int) -> str:
    """A user of this machine."""
    return f"uid:{uid}"


def token(key: str) -> str:
    """The key of a token, as `wire.auth` or `wire.oauth` names it: never the token."""
    return f"token:{key.removeprefix('token ').replace(' ', ':')}"


def who(principal: str, uid: int) -> str:
    """Who a caller of `wire.published` is. Without a token that is the user of this process, or an address of HTTP."""
    if principal == LOCAL.principal:
        return user(uid)
    kind, _, rest = principal.partition(" ")
    return f"address:{rest}" if kind == LOCAL.principal else token(principal)


def served(found: Record, caller: Caller) -> Call:
    """One record of a server, whose tools only read."""
    return Call(
        source=caller.source,
        who=caller.who,
        run=caller.run,
        call=found.number,
        tool=found.tool,
        writes=False,
        decision=found.decision,
        outcome=found.outcome,
        error=found.error,
        arguments_sha256=found.arguments_sha256,
        arguments_bytes=found.arguments_bytes,
        answer_bytes=found.answer_bytes,
        microseconds=found.microseconds,
    )


def event(found: AuditRecord, caller: Caller) -> Call:
    """One record of the gate."""
    return Call(
        source=caller.source,
        who=caller.who,
        run=caller.run,
        call=found.sequence,
        tool=found.tool,
        writes=found.writes,
        decision=found.decision,
        outcome=msgspec.convert(found.outcome, Outcome),
        error=found.error,
        arguments_sha256=found.arguments_sha256,
        arguments_bytes=found.arguments_bytes,
        answer_bytes=found.answer_bytes,
        microseconds=round(found.milliseconds * 1000),
    )
