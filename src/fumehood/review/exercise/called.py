"""The facts about the calls of a server's tools: inputs and replies in, details of observations out; nothing waits.

Invariants: no reply can raise; every text of a server is bounded and inert; a digest is of the whole, whatever is
shown. Arguments are shown and digested as they were made, with `{workspace}` for the workspace: two parties who review
the same version get the same ones. The digest of a result is of its canonical JSON, without the envelope's id.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from fumehood.core import jsonio, limits
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.observe.model import Value
from fumehood.review.exercise.listing import Listing
from fumehood.review.inputs import words
from fumehood.review.inputs.made import Made, NotMade
from fumehood.review.show import show, show_text, show_untrusted
from fumehood.wire.conversation import Answer, Ended, InputRequired, Refusal, Reply, TimedOut, Unreadable

KINDS: Final = frozenset({"text", "image", "audio", "resource", "resource_link"})  # of content; others count as "other"
TOO_MANY: Final = f"more than {limits.CALLED_TOOLS} tools"
NO_TIME: Final = "no time was left"
NAMELESS: Final = "the tool has no name"
_ENDED: Final = {
    "exited": "the server ended",
    "input_closed": "the server closed its input",
    "stream_too_large": "the server sent more than is read",
}


@dataclass(slots=True, kw_only=True)
class Calls:
    """What came of the calls of one start."""

    seed: int
    details: list[tuple[str, dict[str, Value]]] = field(default_factory=list)  # activity, a `called` fact
    not_made: list[dict[str, Value]] = field(default_factory=list)  # `inputs_not_generated` facts
    tools: set[str] = field(default_factory=set)  # names that were called at least once
    left: dict[str, list[str]] = field(default_factory=dict)  # a reason → the names that were not called for it
    without: tuple[str, ...] = ()  # walls that did not stand around the child that made the inputs
    later: Listing | None = None  # the tools as they are listed after the calls
    ended: Ended | None = None
    ended_by: str = ""  # the name of the tool that was called when the server ended

    def pass_over(self, name: str, reason: str) -> None:
        """A tool was not called, or not again."""
        self.left.setdefault(reason, []).append(name)

    def give_up(self, name: str, why: NotMade) -> None:
        """Nothing could be made that it could be called with."""
        detail: dict[str, Value] = {"tool": short(name), "reason": show_text(why.reason)}
        if detail not in self.not_made:
            self.not_made.append(detail)

    def facts(self) -> Iterator[tuple[str, str, dict[str, Value]]]:
        """Activity, name and detail of each fact: how inputs were made, what was called, what was not."""
        yield "tools/call", "inputs", {"seed": self.seed, "tools_called": len(self.tools)}
        yield from ((activity, "called", detail) for activity, detail in self.details)
        yield from (("tools/call", "inputs_not_generated", detail) for detail in self.not_made)
        for reason, names in self.left.items():
            shown: list[Value] = [short(name) for name in names[: limits.CALLED_NAMES]]
            yield "tools/call", "not_called", {"reason": reason, "count": len(names), "tools": shown}


def activity(name: str) -> str:
    """What is under way while a tool is called."""
    return f"tools/call:{short(name)}"


def short(name: str) -> str:
    """A tool's name, inert and on one line, as long as names of the field may get."""
    shown = show_text(name)
    return shown if len(shown) <= limits.CALLED_NAME_CHARACTERS else f"{shown[: limits.CALLED_NAME_CHARACTERS]}…"


def placed(value: JsonValue, workspace: str) -> JsonValue:
    """Arguments with the workspace's own path in its place."""
    if isinstance(value, str):
        return value.replace(words.WORKSPACE, workspace)
    if isinstance(value, list):
        return [placed(one, workspace) for one in value]
    return {key: placed(one, workspace) for key, one in value.items()} if isinstance(value, dict) else value


def detail(name: str, call: int, extent: str, made: Made, reply: Reply) -> dict[str, Value]:
    """One `called` fact."""
    data = jsonio.canonical(made.arguments)
    return {
        "tool": short(name),
        "call": call,
        "members": extent,
        "arguments": show(data.rstrip(b"\n"))[: limits.CALLED_ARGUMENTS_CHARACTERS],
        "arguments_bytes": len(data),
        "arguments_sha256": hashlib.sha256(data).hexdigest(),
        "valid": made.valid,
        "not_validated": show_text(made.why) if made.valid is None and made.why else None,
        "given_up": list(map(show_text, made.notes)) or None,
        **_outcome(reply),
    }


def why_ended(ended: Ended) -> str:
    """In words."""
    return _ENDED[ended.why]


def _outcome(reply: Reply) -> dict[str, Value]:
    match reply:
        case Answer(result=result):
            return _result(result)
        case Refusal(code=code, message=message, line=line):
            return {"outcome": "error", "code": code, "message": show_untrusted(message), "bytes": len(line)}
        case InputRequired(line=line):
            return {"outcome": "input_required", "bytes": len(line)}
        case Unreadable(problem=problem):
            return {"outcome": "unreadable", "message": show_text(problem)}
        case TimedOut(seconds=seconds):
            return {"outcome": "timeout", "message": f"no answer within {seconds:.3g} s"}
        case Ended():
            return {"outcome": "ended", "message": why_ended(reply)}


def _result(result: JsonValue) -> dict[str, Value]:
    data = jsonio.canonical(result)
    fields: JsonObject = result if isinstance(result, dict) else {}
    content = fields.get("content")
    blocks = content if isinstance(content, list) else []
    first = next((text for block in blocks if (text := _text(block)) is not None), None)
    return {
        "outcome": "tool_error" if fields.get("isError") is True else "result",
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "content": dict(sorted(Counter(map(_kind, blocks)).items())),
        "structured": True if "structuredContent" in fields else None,
        "problem": None if isinstance(content, list) else "the result has no list of content",
        "text": None if first is None else show_text(first[: limits.CALLED_TEXT_CHARACTERS]),
    }


def _text(block: JsonValue) -> str | None:
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else None


def _kind(block: JsonValue) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) and kind in KINDS else "other"
