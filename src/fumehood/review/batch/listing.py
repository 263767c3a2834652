"""A list of requests: bytes of JSON lines become entries, and every line that is refused is told. Pure.

Invariants: each entry passed the same check as a request on its own; an entry's digest depends on what is asked for
and on nothing else: neither on the order of keys, on spelled-out defaults, on the line's number nor on the time. Two
lines of one digest are one entry. A `dir` target is found from the list's folder, so that folder counts there.

Not promised: that a `dir` target whose files changed has another digest: its content is read when it is reviewed.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from fumehood.core import jsonio, limits
from fumehood.core.errors import RefusedError
from fumehood.core.jsonio import JsonError, JsonValue
from fumehood.review import request as requests
from fumehood.review.request import ReviewRequest
from fumehood.review.rules import RequestRefusedError


class ListRefusedError(RefusedError):
    """A list of requests cannot be taken; nothing of it was started."""

    code = "list_refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One request: its line in the list, its digest, and its canonical JSON."""

    line: int
    digest: str
    target: str
    canonical: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line that is no request, with each reason."""

    line: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a list says."""

    entries: tuple[Entry, ...]
    refused: tuple[BadLine, ...] = ()
    refused_lines: int = 0  # with those whose reasons are not kept
    repeated: tuple[tuple[int, int], ...] = ()  # a line, and the earlier one that asks for the same


def parse(data: bytes, *, folder: str) -> Listing:
    """The requests of a list. `folder` is the list's own, absolute. Errors: `ListRefusedError` for the whole list."""
    lines = _lines(data)
    entries: dict[str, Entry] = {}
    refused: list[BadLine] = []
    repeated: list[tuple[int, int]] = []
    bad = 0
    for number, line in enumerate(lines, start=1):
        try:
            entry = _entry(number, line, folder)
        except RefusedError as error:
            bad += 1
            if len(refused) < limits.BATCH_REFUSED_LINES:
                refused.append(BadLine(line=number, reasons=_reasons(error)))
            continue
        if entry.digest in entries:
            repeated.append((number, entries[entry.digest].line))
        else:
            entries[entry.digest] = entry
    return Listing(entries=tuple(entries.values()), refused=tuple(refused), refused_lines=bad, repeated=tuple(repeated))


def canonical(request: ReviewRequest) -> dict[str, JsonValue]:
    """The request without what it only repeats: fields at their defaults are left out, keys are sorted.

    So a field that a later version of fumehood adds, with a default, changes no digest of today.
    """
    value = requests.to_value(request)
    _drop_defaults(value, request)
    named = value["target"]
    if isinstance(named, dict):
        _drop_defaults(named, request.target)
    return {key: _sorted(value[key]) for key in sorted(value)}


def digest(value: Mapping[str, JsonValue], folder: str) -> str:
    """SHA-256 over a canonical request, and over the folder that a `dir` target is found from."""
    target = value["target"]
    private = isinstance(target, dict) and target.get("kind") == "dir"
    named = {"folder": folder, "request": value} if private else {"request": value}
    return hashlib.sha256(jsonio.dump(named)).hexdigest()


def target(value: Mapping[str, JsonValue]) -> str:
    """A target as the command line writes it, a commit cut to twelve digits."""
    named = value.get("target")
    if not isinstance(named, dict):
        return "?"
    kind = named.get("kind")
    match kind:
        case "git":
            return f"github:{named.get('repository')}@{str(named.get('ref'))[:12]}"
        case "npm":
            return f"npm:{named.get('name')}@{named.get('version')}"
        case "pypi":
            return f"pypi:{named.get('name')}=={named.get('version')}"
        case _:
            return f"{kind}:{named.get('path')}"


def _lines(data: bytes) -> list[bytes]:
    """The lines, without the empty piece behind the last line end."""
    count = data.count(b"\n")
    if count > limits.BATCH_LINES:
        raise ListRefusedError(
            f"the list has {count} lines, where at most {limits.BATCH_LINES} are read", remedy="cut it into several"
        )
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise ListRefusedError("the list is empty", remedy="write one request as JSON on each line")
    return lines


def _entry(number: int, line: bytes, folder: str) -> Entry:
    value = canonical(requests.parse(line))
    return Entry(line=number, digest=digest(value, folder), target=target(value), canonical=jsonio.dump(value))


def _reasons(error: RefusedError) -> tuple[str, ...]:
    """Why a line is refused, one reason each; places count within the line."""
    if isinstance(error, RequestRefusedError):
        more = (f"and {error.lost} more",) if error.lost else ()
        return (*(str(refusal) for refusal in error.refusals), *more)
    if isinstance(error, JsonError):
        return (f"not JSON: column {error.column}: {error.problem}",)
    return (str(error),)


def _drop_defaults(value: dict[str, JsonValue], struct: msgspec.Struct) -> None:
    for field in msgspec.structs.fields(type(struct)):
        if getattr(struct, field.name) == field.default:
            value.pop(field.encode_name, None)


def _sorted(value: JsonValue) -> JsonValue:
    """A value whose objects have their keys in order."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value
