"""Calls at the gate as events of an audit log: who asked is known here, and nowhere behind the gate. Pure."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from fumehood.code.gate import AuditRecord
from fumehood.gateway.audit.record import Call, Outcome

Source: TypeAlias = Literal["code", "gateway", "guard", "serve"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whose calls they are."""

    source: Source
    who: str  # `user` or `token`
    run: str  # 16 hex digits


def user(uid: int) -> str:
    """A user of this machine."""
    return f"uid:{uid}"


def token(key: str) -> str:
    """The key of a token, as `wire.auth` names it: never the token."""
    return f"token:{key.removeprefix('token ')}"


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
