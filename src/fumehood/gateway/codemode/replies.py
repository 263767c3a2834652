"""What code mode answers a model with: controlled as a whole, in one fence, told of, bounded. Pure.

Invariants: every foreign word (descriptions, declarations, what a program returned, threw or logged) stands inside of
the fence of the text half, and beside it in `structuredContent`; both halves have passed the search for credentials and
for instructions together; what is outside of the fence is ours. Nothing is larger than its bound, and what was left
out is counted.

Not promised: that a program's value holds nothing of what it read in another form. It is marked with the servers whose
results it got and which are not trusted, whatever it looks like.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from fumehood.code.job import CallRecord, JobResult, LogLine
from fumehood.content import control, taint
from fumehood.content.control import Controls
from fumehood.content.passage import Answer, Passage
from fumehood.core import jsonio, limits
from fumehood.core.errors import FumehoodError
from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.core.untrusted import Untrusted
from fumehood.gateway.codemode import offers
from fumehood.gateway.gate.model import Offered

RUN = "fumehood/run"  # the member of `_meta` that says which walls stood around a program, and what it used
_REMEDY = "see what was asked, and ask again"


def found(tools: Sequence[Offered], every: int, controls: Controls) -> JsonObject:
    """The answer of a search: what fits, of how many."""
    listed: list[JsonValue] = []
    lines = []
    for one in tools:
        words = offers.short(offers.of_program(one).description)
        listed.append({"name": one.name, "description": words, "writes": one.writes, "sends": one.egress})
        marks = ", ".join(word for word, is_so in (("writes", one.writes), ("sends", one.egress)) if is_so)
        lines.append(f"{one.name}{f' ({marks})' if marks else ''}: {words}")
    note = f"{len(tools)} of {every} tools. {offers.DESCRIBE} says how they are called."
    return _presented(
        Answer(passages=_passages(lines), facts={"tools": listed, "total": every}, notes=(note,)), controls
    )


def described(declarations: str, left_out: Sequence[str], controls: Controls) -> JsonObject:
    """The answer of a description; `left_out` are names for which there was no room."""
    facts: JsonObject = {"declarations": declarations}
    notes = []
    if left_out:
        facts["left_out"] = [*left_out]
        notes.append(f"{len(left_out)} tools are left out for their size: ask for fewer at once.")
    return _presented(Answer(passages=_passages([declarations]), facts=facts, notes=tuple(notes)), controls)


def ran(result: JobResult, sources: Collection[str], controls: Controls) -> JsonObject:
    """The answer of a run. `sources`: servers that are not trusted, and whose results the program may have got."""
    value, logs = _value(result), _logs(result.logs)
    facts: JsonObject = {"state": result.state.value, "ok": result.ok, "value": value.whole}
    facts["error"] = None if result.error is None else msgspec.to_builtins(result.error)
    facts |= {"logs": logs.lines, "calls": _calls(result.calls)}
    if value.left_out:
        facts["value_bytes"] = value.size
    if logs.left_out:
        facts["logs_left_out"] = logs.left_out
    passages = [_passage(value.heading, value.text)] if value.text else []
    passages += [_passage("logged:", logs.text)] if logs.text else []
    made = _presented(Answer(passages=tuple(passages), facts=facts, notes=_notes(result, value)), controls)
    meta = made["_meta"]
    if isinstance(meta, dict) and isinstance(mark := meta[taint.MEMBER], dict):
        mark |= {"source": "program", "servers": [*sorted(sources)]}
        meta[RUN] = {
            "containment": {**result.containment},
            "limitations": [*result.limitations],
            "usage": None if result.usage is None else msgspec.to_builtins(result.usage),
        }
    return {**made, "isError": not result.ok}


def refused(error: FumehoodError, controls: Controls) -> JsonObject:
    """An error as a result that fits every output schema of ours."""
    shown, remedy = control.present_error(error.message, controls), error.remedy or _REMEDY
    facts: JsonObject = {"error": error.code, "message": shown.message, "remedy": remedy}
    text = f"{error.code}: {shown.message}\nnext step: {remedy}"
    return {"content": [{"type": "text", "text": text}], "structuredContent": facts, "isError": True}


def _presented(answer: Answer, controls: Controls) -> JsonObject:
    shown = control.present(answer, controls)
    return {
        "content": [{"type": "text", "text": shown.text}],
        "structuredContent": {**shown.facts, **shown.report},
        "isError": False,
        "_meta": {taint.MEMBER: taint.of(shown.report)},
    }


def _passages(lines: Sequence[str]) -> tuple[Passage, ...]:
    return (_passage(None, "\n".join(lines)),) if lines else ()


def _passage(heading: str | None, text: str) -> Passage:
    whole = text.replace("\r\n", "\n")
    whole = whole if whole.endswith("\n") else f"{whole}\n"
    return Passage(text=_untrusted(whole), heading=None if heading is None else _untrusted(heading))


def _untrusted(text: str) -> Untrusted:
    return Untrusted(text.encode("utf-8", "surrogatepass"), source="program")


# --- of a run


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """What a program returned or threw: whole where there is room, and as text."""

    heading: str
    text: str
    whole: JsonValue = None
    size: int = 0
    left_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Logs:
    """What a program logged, as far as there is room."""

    lines: list[JsonValue]
    text: str
    left_out: int


def _value(result: JobResult) -> _Value:
    if result.error is not None:
        error = result.error
        place = f" (line {error.line}, column {error.column})" if error.line is not None else ""
        return _Value(heading="error:", text=f"{error.name}: {error.message}{place}\n{error.stack}")
    whole: JsonValue = result.value
    data = jsonio.dump(whole)
    text = whole if isinstance(whole, str) else _readable(whole, data)
    heading = "value, a text:" if isinstance(whole, str) else "value, as JSON:"
    if len(data) <= limits.CODEMODE_VALUE_BYTES:
        return _Value(heading=heading, text=text, whole=whole, size=len(data))
    return _Value(heading=heading, text=text[: limits.CODEMODE_VALUE_BYTES], size=len(data), left_out=True)


def _readable(value: JsonValue, data: bytes) -> str:
    """JSON in short lines, where that does not make much more of it."""
    if len(data) <= limits.LINE_CHARACTERS:
        return data.decode("ascii")
    spread = jsonio.dump(value, indent=1)
    return (spread if len(spread) <= limits.CODEMODE_VALUE_BYTES else data).decode("ascii")


def _logs(logged: Sequence[LogLine]) -> _Logs:
    lines: list[JsonValue] = []
    words: list[str] = []
    room = limits.CODEMODE_LOG_CHARACTERS
    for one in logged:
        room -= len(one.level) + len(one.message) + 3
        if room < 0:
            break
        lines.append({"level": one.level, "message": one.message})
        words.append(f"{one.level}: {one.message}")
    return _Logs(lines=lines, text="\n".join(words), left_out=len(logged) - len(lines))


def _calls(calls: Sequence[CallRecord]) -> list[JsonValue]:
    """Which tools were called, how it ended, and how often: those called first come first."""
    counted = Counter((one.name, one.outcome) for one in calls)
    told: list[JsonValue] = [
        {"tool": name, "outcome": outcome, "count": count} for (name, outcome), count in counted.items()
    ]
    return told[: limits.CODEMODE_CALLS_SHOWN]


def _notes(result: JobResult, value: _Value) -> tuple[str, ...]:
    """What a reader of the text half alone must know."""
    outcomes = Counter(one.outcome for one in result.calls)
    ended = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    notes = [f"The run ended with the state {result.state.value}; calls: {ended or 'none'}."]
    if result.ok and result.value is None:
        notes.append("It returned nothing: end the program with `return …`.")
    if value.left_out:
        notes.append(f"The value has {value.size} bytes, and only its beginning is shown: return less.")
    return tuple(notes)
