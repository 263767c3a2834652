"""Turn one observation into a fact without noise, in the section where it is compared. Pure.

Which keys of a row are kept is a table here: what is not in it varies from run to run (a time, a number of bytes, a
number of a process) or says what another row says too. docs/reference/behaviour.md has the table with its reasons.
"""

import enum
import json
import urllib.parse
from collections.abc import Callable, Mapping
from typing import TypeAlias

from fumehood.observe.model import Kind, Value
from fumehood.review.behaviour.noise import Noise
from fumehood.review.result import Row

Fact: TypeAlias = dict[str, Value]

_LEVELS = 6  # of a body whose fields are named
_FIELDS = 64  # of one body
_CODE = (".js", ".mjs", ".cjs", ".py", ".so", ".node", ".wasm", ".sh", ".jar", ".exe", ".dll")
_DIGESTS = "members"  # of a definition: the digest of each of its members, by name
_OURS = ("sent",)  # frames in this direction are ours. Tuples here: a stranger may write a list, which no set takes
_EXECUTABLE = 0o111


class Section(enum.StrEnum):
    """Where facts are compared with their like."""

    DEFINITIONS = "definitions"
    PROTOCOL = "protocol"
    HOSTS = "hosts"
    REQUESTS = "requests"
    PROGRAMS = "programs"
    REFUSED = "refused_calls"
    FILES = "files"
    READS = "reads"
    CANARIES = "canaries"


SECTIONS: Mapping[Kind, Section | None] = {
    Kind.PROCESS_EXEC: Section.PROGRAMS,
    Kind.PROCESS_EXIT: None,  # what we end and what ends by itself race; the step's own end is compared
    Kind.PROCESS_REFUSED: Section.REFUSED,
    Kind.NETWORK_DNS: Section.HOSTS,
    Kind.NETWORK_CONNECT: Section.HOSTS,
    Kind.NETWORK_TLS: Section.HOSTS,
    Kind.NETWORK_HTTP: Section.REQUESTS,
    Kind.NETWORK_OTHER: Section.HOSTS,
    Kind.FILE_CREATED: Section.FILES,
    Kind.FILE_CHANGED: Section.FILES,
    Kind.FILE_DELETED: Section.FILES,
    Kind.FILE_READ: Section.READS,
    Kind.FILE_REFUSED: Section.READS,
    Kind.PROTOCOL_FRAME: Section.PROTOCOL,
    Kind.PROTOCOL_NOISE: Section.PROTOCOL,
    Kind.PROTOCOL_FACT: Section.PROTOCOL,
    Kind.OUTPUT_TEXT: None,  # words for people: times, durations, numbers of processes
    Kind.CANARY_READ: Section.CANARIES,
    Kind.CANARY_SENT: Section.CANARIES,
}
_KEPT: Mapping[Kind, tuple[str, ...]] = {
    Kind.PROCESS_EXEC: ("program", "argv", "outcome"),
    Kind.PROCESS_REFUSED: ("program", "call", "error"),
    Kind.NETWORK_DNS: ("name", "query_type"),
    Kind.NETWORK_TLS: ("name", "port", "decision"),
    Kind.NETWORK_OTHER: ("name", "protocol", "address", "port", "decision", "call", "path"),
    Kind.FILE_READ: ("program", "path", "how", "outcome"),
    Kind.FILE_REFUSED: ("program", "path", "how", "outcome"),
    Kind.PROTOCOL_FRAME: ("direction", "kind", "method", "problem"),
    Kind.PROTOCOL_NOISE: (),
}
# Of facts whose keys are many: what varies without the target having changed.
_DROPPED_OF_FACTS = frozenset(
    {
        "bytes",
        "sha256_of_frame",
        "seconds",
        "at_seconds",
        "duration_seconds",
        "id",
        "process",
        "parent",
        "pid",
        "call_id",
    }
)
_DROPPED_OF_CALLS = _DROPPED_OF_FACTS | {"sha256", "first", "text", "call"}  # what a tool answers may tell the time
_DROPPED_OF_CANARIES = _DROPPED_OF_FACTS | {"sha256", "value", "offset", "count", "first"}


def fact(row: Row, noise: Noise, programs: Mapping[object, str]) -> tuple[Section, Fact] | None:
    """The fact of a row and its section; None for what is not compared. `programs`: number of a process → program."""
    section = SECTIONS[row.type]
    if section is None or (row.type is Kind.PROTOCOL_FRAME and row.detail.get("direction") in _OURS):
        return None
    detail: Fact = dict(row.detail)
    process = detail.get("process")
    if "program" not in detail and isinstance(process, int) and process in programs:
        detail["program"] = programs[process]
    make = _MAKERS.get(row.type, _kept)
    made = {"type": row.type.value, "phase": row.phase.value, "step": child(row.step), **make(row.type, detail, noise)}
    if made.get("fact") in ("definition", "listed"):
        section = Section.DEFINITIONS
    return section, {key: value for key, value in made.items() if value is not None}


def child(step: str) -> str:
    """The confined child of a step's name: what was under way in it is a matter of moments."""
    return step.partition("/")[0]


def clean(value: Value, noise: Noise, key: str = "") -> Value:
    """A value without noise. Digests stay."""
    if isinstance(value, str):
        return value if key.endswith("sha256") else noise.text(value)
    if isinstance(value, list):
        return [clean(entry, noise, key) for entry in value]
    if isinstance(value, dict):
        if key == _DIGESTS:
            return value
        return {noise.text(name): clean(entry, noise, name) for name, entry in value.items()}
    return value


def _kept(kind: Kind, detail: Fact, noise: Noise) -> Fact:
    return {key: _member(key, detail[key], noise) for key in _KEPT[kind] if key in detail}


def _member(key: str, value: Value, noise: Noise) -> Value:
    if key in {"name", "host", "address"} and isinstance(value, str):
        return noise.name(value)
    if key == "port" and isinstance(value, int):
        return noise.port(value)
    return clean(value, noise, key)


def _connected(_: Kind, detail: Fact, noise: Noise) -> Fact:
    """A connection: by name where it has one, by address else; of the relay's record the decision, else the outcome."""
    address, name, port = detail.get("address"), detail.get("name"), detail.get("port")
    by_name = name if isinstance(name, str) else None
    where = noise.name(by_name) if by_name else None
    if where is None and isinstance(address, str):
        where = noise.text(address)
        where = noise.places.get(where, where)
    relayed = "decision" in detail
    keys = ("decision",) if relayed else ("program", "family", "path", "abstract")
    made = {"host": where, "port": noise.port(port) if isinstance(port, int) else None}
    return made | {key: clean(detail[key], noise, key) for key in keys if key in detail}


def _requested(_: Kind, detail: Fact, noise: Noise) -> Fact:
    """A request: where to, which method and target, the names of its fields and of its body's fields."""
    made: Fact = {
        key: _member(key, detail[key], noise) for key in ("name", "port", "decision", "host") if key in detail
    }
    made |= {key: clean(detail[key], noise, key) for key in ("request", "method", "target") if key in detail}
    headers = detail.get("headers")
    if headers is not None:
        made["headers"] = [*sorted({noise.text(name.lower()) for name in _names(headers)})]
    body = detail.get("body")
    if isinstance(body, str) and body:
        made["body"] = [noise.text(name) for name in fields(body)] or ["<text>"]
    elif detail.get("body_bytes"):
        made["body"] = ["<bytes>"]
    return made


def _names(headers: Value) -> list[str]:
    """The names of fields, from a mapping, from pairs, or from lines."""
    if isinstance(headers, dict):
        return list(headers)
    found = []
    for entry in headers if isinstance(headers, list) else []:
        first = entry[0] if isinstance(entry, list) and entry else entry
        if isinstance(entry, dict):
            first = entry.get("name")
        if isinstance(first, str):
            found.append(first.partition(":")[0].strip())
    return found


def fields(body: str) -> tuple[str, ...]:
    """The fields of a body of JSON or of a form, as `path: type`, sorted; nothing for any other."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return _form(body)
    found: set[str] = set()
    _walk(value, "", found, 0)
    return tuple(sorted(found))[:_FIELDS]


def _walk(value: object, path: str, found: set[str], level: int) -> None:
    if len(found) >= _FIELDS * 4:
        return
    if isinstance(value, dict) and level < _LEVELS:
        for key, entry in value.items():
            _walk(entry, f"{path}.{key[:80]}" if path else key[:80], found, level + 1)
    elif isinstance(value, list) and level < _LEVELS:
        for entry in value[:_FIELDS]:
            _walk(entry, f"{path}[]", found, level + 1)
    else:
        found.add(f"{path or '$'}: {_TYPES.get(type(value), 'object')}")


_TYPES: Mapping[type, str] = {
    str: "text",
    int: "number",
    float: "number",
    bool: "truth",
    type(None): "null",
    list: "list",
}


def _form(body: str) -> tuple[str, ...]:
    if "=" not in body or any(c in body for c in "\n\r {<"):
        return ()
    pairs = urllib.parse.parse_qsl(body[:65536], keep_blank_values=True, max_num_fields=None)
    return tuple(sorted({f"{name[:80]}: text" for name, _ in pairs}))[:_FIELDS]


def _file(_: Kind, detail: Fact, noise: Noise) -> Fact:
    """A file: its path, kind, mode and link; its content where it is code, which carries no name of the run."""
    made: Fact = {
        key: clean(detail[key], noise, key)
        for key in ("path", "kind", "mode", "link", "how", "outcome")
        if key in detail
    }
    if "how" in detail and "program" in detail:
        made["program"] = clean(detail["program"], noise)
    if _is_code(detail) and "sha256" in detail:
        made["sha256"] = detail["sha256"]
    return made


def _read(kind: Kind, detail: Fact, noise: Noise) -> Fact:
    """A read. Whether a path that is only looked at was there yet is a matter of moments; `files` tells what became."""
    made = _kept(kind, detail, noise)
    if made.get("how") == "look" and kind is Kind.FILE_READ:
        made.pop("outcome", None)
    return made


def _is_code(detail: Fact) -> bool:
    path, mode = detail.get("path"), detail.get("mode")
    named = isinstance(path, str) and path.endswith(_CODE)
    try:
        bits = int(mode, 8) if isinstance(mode, str) else mode if isinstance(mode, int) else 0
    except ValueError:
        bits = 0
    return named or bool(bits & _EXECUTABLE)


def _stated(_: Kind, detail: Fact, noise: Noise) -> Fact:
    dropped = _DROPPED_OF_CALLS if detail.get("fact") in ("called", "asked") else _DROPPED_OF_FACTS
    return {key: clean(value, noise, key) for key, value in detail.items() if key not in dropped}


def _planted(_: Kind, detail: Fact, noise: Noise) -> Fact:
    return {key: _member(key, value, noise) for key, value in detail.items() if key not in _DROPPED_OF_CANARIES}


_MAKERS: Mapping[Kind, Callable[[Kind, Fact, Noise], Fact]] = {
    Kind.NETWORK_CONNECT: _connected,
    Kind.NETWORK_HTTP: _requested,
    Kind.FILE_CREATED: _file,
    Kind.FILE_CHANGED: _file,
    Kind.FILE_DELETED: _file,
    Kind.FILE_READ: _read,
    Kind.PROTOCOL_FACT: _stated,
    Kind.CANARY_READ: _planted,
    Kind.CANARY_SENT: _planted,
}
