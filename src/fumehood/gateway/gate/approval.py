"""The question that a person is asked before a tainted guest may change or send something. Pure.

Invariants: what is shown holds no character that is drawn as nothing, that a terminal obeys or that is there to turn
the order of others, and no credential that is known as one; letters that may look like others, or are written from
right to left, are said to be there; arguments that are too long to be shown whole are said to be cut, by
how much; an approval is of exactly one tool and these arguments, by the digest of their canonical JSON, or, for a
program, of that digest for as long as the program runs; anything but one of the offered words is no approval.

Not promised: that a person reads what is shown.
"""

import enum
import hashlib
import json
import re
import unicodedata
from typing import Final

from fumehood.content.control import Controls
from fumehood.core import limits
from fumehood.core.jsonio import JsonObject
from fumehood.gateway.gate.model import Guest, Offered
from fumehood.gateway.guard import results
from fumehood.gateway.guard.seen import visible
from fumehood.wire.hosting import Question, Reply, Verdict

_FOREIGN: Final = re.compile(r"[^ -~]")
_TURNING: Final = frozenset({"R", "AL", "AN"})  # classes of UAX #9 that are drawn from right to left
_WRITES: Final = "may change something"
_SENDS: Final = "may send something out"
_ANSWER: Final = "answer"
_NO: Final = "no"
_ONCE: Final = "this call"
_BATCH: Final = "this call and identical ones of this program"
REMEDY: Final = (
    "whoever runs the gateway can set trust of a server to trusted in gateway.toml, or name a tool in reads; else use "
    "a client that can ask a person (elicitation)"
)


class Said(enum.Enum):
    """What a person said; the words are those of the audit log."""

    ONCE = "approved"
    BATCH = "approved_batch"
    NO = "approval_denied"
    CANCELLED = "approval_cancelled"


def digest(offered: Offered, arguments: JsonObject) -> str:
    """Equal for the same tool with the same arguments, and for nothing else."""
    call: JsonObject = {"server": offered.server, "tool": offered.tool, "arguments": arguments}
    data = json.dumps(call, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(data.encode("ascii")).hexdigest()


def question(guest: Guest, offered: Offered, arguments: JsonObject, controls: Controls) -> Question:
    """What a person is asked about one call."""
    who = "A program of this client" if guest.program else "This client"
    does = " and ".join([words for on, words in ((offered.writes, _WRITES), (offered.egress, _SENDS)) if on])
    shown = _arguments(arguments, controls)
    lines = [
        f"{who} wants to use {_name(offered.tool)} of the server {_name(offered.server)}, which {does}.",
        f"Before, it read from what is not trusted: {sources(guest)}. That may have told it what to do.",
        f"Arguments: {shown}",
        *_alike(shown),
        f"Digest of the call: {digest(offered, arguments)[:16]}",
    ]
    return Question(message="\n".join(lines), schema=schema(program=guest.program))


def schema(*, program: bool) -> JsonObject:
    """The form of the answer: flat, as MCP's elicitation has it."""
    batch = [_BATCH] if program else []
    answer: JsonObject = {"type": "string", "title": "Allow", "enum": [_NO, _ONCE, *batch], "default": _NO}
    return {"type": "object", "properties": {_ANSWER: answer}, "required": [_ANSWER]}


def said(guest: Guest, reply: Reply) -> Said:
    """What an answer means."""
    if reply.verdict is Verdict.CANCEL:
        return Said.CANCELLED
    answer = reply.content.get(_ANSWER)
    if reply.verdict is not Verdict.ACCEPT:
        return Said.NO
    if answer == _BATCH and guest.program:
        return Said.BATCH
    return Said.ONCE if answer == _ONCE else Said.NO


def sources(guest: Guest) -> str:
    """The servers that tainted a guest, in order, those beyond a bound counted."""
    names = sorted(guest.tainted_by)
    more = len(names) - limits.GATE_QUESTION_SERVERS
    return ", ".join(names[: limits.GATE_QUESTION_SERVERS]) + (f" and {more} more" if more > 0 else "")


def _name(name: str) -> str:
    return visible(name, limits.GUARD_TITLE_CHARACTERS).text.replace("\n", " ")


def _arguments(arguments: JsonObject, controls: Controls) -> str:
    """The arguments as JSON, whole or said to be cut; what nobody would see stands there as an escape."""
    clean = results.clean({"arguments": arguments}, controls, results.Marks())["arguments"]
    text = _FOREIGN.sub(_escaped, json.dumps(clean, ensure_ascii=False, separators=(", ", ": ")))
    most = limits.GATE_QUESTION_CHARACTERS
    return text if len(text) <= most else f"{text[:most]} [cut: {len(text) - most} characters are not shown]"


def _alike(shown: str) -> list[str]:
    """What a person cannot see of these characters: what is none of ASCII may look like something else."""
    foreign = [one for one in shown if not one.isascii()]
    if not foreign:
        return []
    turned = any(unicodedata.bidirectional(one) in _TURNING for one in foreign)
    more = ", and some are written from right to left, which turns what stands beside them" if turned else ""
    return [f"{len(foreign)} of these characters are not ASCII and may look like others{more}."]


def _escaped(match: re.Match[str]) -> str:
    return match[0] if visible(match[0], 1).text else json.dumps(match[0])[1:-1]
