"""The words in which a request is refused: each broken rule with its field, the rule and the next step. Pure.

Invariant: all broken rules are told at once, and no text of the request reaches a message uncut or uninert.
"""

import datetime as dt
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from fumehood.core import addresses, jsonio, limits
from fumehood.core.errors import RefusedError
from fumehood.core.jsonio import JsonValue
from fumehood.wire import schema as wire_schema

Path: TypeAlias = tuple[str | int, ...]
Fields: TypeAlias = Mapping[str, JsonValue]
JsonSchema: TypeAlias = dict[str, Any]

VERSIONS = (1, 2)

_NEWER = ("allow", "linger_seconds", "protocol_era", "canaries", "repeat")  # fields that version 1 has not
_COMMAND = re.compile(
    r"command|cmd|script|shell|exec|spawn|hook|^run|_run$|^env|environment|build|install", re.IGNORECASE
)
_KINDS = ("git", "npm", "pypi", "dir")
_ADAPTERS = ("node_stdio", "python_stdio")
_AS_OF = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_UPGRADE = 'write "schema_version": 2'
_PLAIN = re.compile(r"[A-Za-z0-9_]{1,60}")
_SHOWN = 60  # characters of foreign text in a message
_TYPES = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "array": "a list",
    "object": "an object",
    "boolean": "true or false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One broken rule: the field (empty for the whole request), the rule, and the next step."""

    path: str
    rule: str
    remedy: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.path or 'request'}: {self.rule} ({self.remedy})"


class RequestRefusedError(RefusedError):
    """A review request breaks rules; `refusals` has each of them, `lost` how many more there were."""

    code = "request_refused"

    def __init__(self, refusals: Iterable[Refusal]) -> None:
        """Keep the refusals, the first of many, and say them line by line."""
        every = tuple(refusals)
        self.refusals = every[: limits.REFUSALS]
        self.lost = len(every) - len(self.refusals)
        lines = [f"  {refusal}" for refusal in self.refusals]
        if self.lost:
            lines.append(f"  and {self.lost} more")
        super().__init__("\n".join(["the request is refused; nothing was fetched or run", *lines]))


def version(value: JsonValue) -> int:
    """The version that a request names, or the refusal that ends everything else."""
    if not isinstance(value, dict):
        raise RequestRefusedError([Refusal(path="", rule="must be an object", remedy="write one JSON object")])
    named = value.get("schema_version")
    if type(named) is int and named in VERSIONS:
        return named
    rule = f"is {shown(named)}, which is not a version" if "schema_version" in value else "is required"
    raise RequestRefusedError([Refusal(path="schema_version", rule=rule, remedy="write 1 or 2")])


def refuse_unwritable(value: JsonValue) -> None:
    """Refuse text that has no UTF-8 form: from JSON it cannot come, from a command line it can."""
    try:
        jsonio.dump(value)
    except ValueError:
        refusal = Refusal(path="", rule="has text that is not UTF-8", remedy="write names and words in UTF-8")
        raise RequestRefusedError([refusal]) from None


def check(fields: Fields, number: int, schema: JsonSchema) -> list[Refusal]:
    """Every rule of one version that the fields break, in the order of the schema's findings."""
    kinds = _kinds(schema)
    target = fields.get("target")
    kind = target.get("kind") if isinstance(target, dict) else None
    refusals: list[Refusal] = []
    if isinstance(kind, str) and kind in kinds:
        chosen: JsonSchema = {"$ref": f"#/$defs/{kinds[kind]}"}
    else:
        chosen = {"type": "object", "description": "an object with `kind`: " + " or ".join(kinds)}
        if isinstance(target, dict):
            refusals.append(_unknown_kind(target, number, list(kinds)))
    body = {**schema, "properties": {**schema["properties"], "target": chosen}}
    for path, keyword in _findings(body, fields):
        refusals += _explain(body, fields, path, keyword)
    refusals += _across(fields, kind, number)
    return list(dict.fromkeys(refusals))


def shown(value: JsonValue) -> str:
    """A foreign value, cut and inert; of a list or an object only the kind."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        return ascii(value if len(value) <= _SHOWN else value[:_SHOWN] + "…")
    return json.dumps(value)


def dotted(path: Path) -> str:
    """A path as people write it: `target.ref`, `argv[3]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if _PLAIN.fullmatch(part) else shown(part))
    return text


def _kinds(schema: JsonSchema) -> dict[str, str]:
    """Kind of target → the name of its definition, for the kinds that this version's `target` may have."""
    kinds = {}
    for name, definition in schema["$defs"].items():
        tag = definition.get("properties", {}).get("kind", {}).get("enum")
        if tag and f"#/$defs/{name}" in str(schema["properties"]["target"]):
            kinds[tag[0]] = name
    return kinds


def _unknown_kind(target: Mapping[str, JsonValue], number: int, known: list[str]) -> Refusal:
    kind = target.get("kind")
    remedy = f"use one of: {', '.join(known)}"
    if "kind" not in target:
        return Refusal(path="target.kind", rule="is required", remedy=remedy)
    if number == 1 and kind in ("npm", "pypi", "dir"):
        return Refusal(path="target.kind", rule=f"is {shown(kind)}, and version 1 knows git only", remedy=_UPGRADE)
    return Refusal(path="target.kind", rule=_unknown_value(kind, number), remedy=remedy)


def _findings(schema: JsonSchema, fields: Fields) -> Iterator[tuple[Path, str]]:
    for problem in wire_schema.problems(schema, fields):
        yield problem.path, problem.keyword


def _explain(schema: JsonSchema, fields: Fields, path: Path, keyword: str) -> list[Refusal]:
    """The refusals that one finding of the schema stands for."""
    value = _at(fields, path)
    part = _part(schema, path)
    where = dotted(path)
    number = schema["properties"]["schema_version"]["enum"][0]
    described = part.get("description", "read docs/reference/request.md")
    if keyword == "required" and isinstance(value, dict):
        missing = [name for name in part["required"] if name not in value]
        return [_missing(schema, (*path, name)) for name in missing]
    if keyword == "additionalProperties" and isinstance(value, dict):
        unknown = [name for name in value if name not in part["properties"]]
        return [_unknown_field((*path, name), number, list(part["properties"])) for name in unknown]
    if keyword in {"enum", "const"}:
        known = part.get("enum", [part.get("const")])
        remedy = "use " + " or ".join(shown(choice).strip("'") for choice in known)
        return [Refusal(path=where, rule=_unknown_value(value, number), remedy=remedy)]
    if keyword == "type":
        rule = f"is {shown(value)}, and must be {_TYPES.get(part.get('type', ''), 'of another type')}"
        return [Refusal(path=where, rule=rule, remedy=described)]
    return [Refusal(path=where, rule=_bound(keyword, part.get(keyword), value), remedy=described)]


def _missing(schema: JsonSchema, path: Path) -> Refusal:
    described = _part(schema, path).get("description", "its rules stand in docs/reference/request.md")
    return Refusal(path=dotted(path), rule="is required", remedy=f"add it: {described}")


def _unknown_field(path: Path, number: int, known: list[str]) -> Refusal:
    name = str(path[-1])
    if number == 1 and len(path) == 1 and name in _NEWER:
        return Refusal(path=dotted(path), rule="is a field of version 2", remedy=_UPGRADE)
    if _COMMAND.search(name[:_SHOWN]):
        rule = "is no field: a request carries no commands, environment or scripts"
        return Refusal(path=dotted(path), rule=rule, remedy="remove it; prepare_profile npm_build runs npm run build")
    near = difflib.get_close_matches(name[:_SHOWN], known, n=1)
    remedy = f"did you mean {near[0]}?" if near else "remove it"
    return Refusal(path=dotted(path), rule=f"is no field of version {number}", remedy=remedy)


def _unknown_value(value: JsonValue, number: int) -> str:
    return f"is {shown(value)}, which version {number} does not know"


def _bound(keyword: str, bound: object, value: JsonValue) -> str:
    """A bound in words."""
    words = {
        "minLength": f"must have at least {bound} characters",
        "maxLength": f"must have at most {bound} characters",
        "minItems": f"must have at least {bound} entries",
        "maxItems": f"must have at most {bound} entries",
        "minimum": f"is {shown(value)}, and must be at least {bound}",
        "maximum": f"is {shown(value)}, and must be at most {bound}",
        "uniqueItems": "must not have an entry twice",
        "pattern": f"is {shown(value)}, which has not the form it must have",
    }
    return words.get(keyword, f"breaks the rule {keyword} of the schema")


def _at(value: object, path: Path) -> Any:  # noqa: ANN401 - a JSON value
    for part in path:
        value = value[part]  # type: ignore[index]  # the path came from the validator, for this value
    return value


def _part(schema: JsonSchema, path: Path) -> JsonSchema:
    """The piece of the schema that speaks of one place; its own description wins over a definition's."""
    part = schema
    for step in path:
        part = part.get("items", {}) if isinstance(step, int) else part.get("properties", {}).get(step, {})
        reference = part.get("$ref")
        if reference:
            part = {**schema["$defs"][reference.rpartition("/")[2]], **part}
    return part


def _across(fields: Fields, kind: JsonValue, number: int) -> Iterator[Refusal]:
    """Rules that span fields, and those of `allow`, for version 2."""
    if number == 1:
        return
    allow = fields.get("allow", [])
    mode = fields.get("network_mode")
    if mode == "ALLOWLIST" and allow == []:
        yield Refusal(path="allow", rule="is empty with ALLOWLIST", remedy="name a host:port, or use NONE")
    if mode in ("NONE", "SINKHOLE", "OPEN") and allow != []:
        yield Refusal(path="allow", rule=f"has no meaning with {mode}", remedy="remove it, or use ALLOWLIST")
    for index, entry in enumerate(allow if isinstance(allow, list) else []):
        yield from _endpoint(f"allow[{index}]", entry)
    yield from _by_kind(fields, kind)


def _by_kind(fields: Fields, kind: JsonValue) -> Iterator[Refusal]:
    """Rules that depend on the kind of target."""
    if kind in ("git", "dir") and "entrypoint" not in fields:
        yield Refusal(path="entrypoint", rule=f"is required for {kind}", remedy="name the JavaScript file to start")
    if kind in ("npm", "pypi") and fields.get("prepare_profile") == "npm_build":
        rule = "npm_build is for git and dir: a published package is built"
        remedy = "use NONE, or python_build for a version that has sources alone" if kind == "pypi" else "use NONE"
        yield Refusal(path="prepare_profile", rule=rule, remedy=remedy)
    if kind in _KINDS and kind != "pypi" and fields.get("prepare_profile") == "python_build":
        rule = f"python_build is for pypi, and the target is {kind}"
        yield Refusal(path="prepare_profile", rule=rule, remedy="use NONE, or for git and dir npm_build")
    adapter = "python_stdio" if kind == "pypi" else "node_stdio"
    if kind in _KINDS and fields.get("adapter") in _ADAPTERS and fields.get("adapter") != adapter:
        rule = f"is {shown(fields['adapter'])}, and a {kind} target needs {adapter}"
        yield Refusal(path="adapter", rule=rule, remedy=f"use {adapter}")
    entry = fields.get("entrypoint")
    if kind == "pypi" and isinstance(entry, str) and "/" in entry:
        rule = f"is {shown(entry)}, and for pypi it names a console script, not a path"
        yield Refusal(path="entrypoint", rule=rule, remedy="name the program as pip would install it, or leave it out")
    target = fields.get("target")
    as_of = target.get("as_of") if isinstance(target, dict) else None
    if kind in ("npm", "pypi") and isinstance(as_of, str) and _AS_OF.match(as_of) and not _is_a_time(as_of):
        rule = f"is {shown(as_of)}, which is no day of the calendar"
        yield Refusal(path="target.as_of", rule=rule, remedy="write for example 2026-05-31 or 2026-05-31T12:00:00Z")


def _is_a_time(text: str) -> bool:
    try:
        dt.datetime.fromisoformat(text.upper())
    except ValueError:
        return False
    return True


def _endpoint(where: str, entry: JsonValue) -> Iterator[Refusal]:
    if not isinstance(entry, str):
        return
    endpoint = addresses.parse_endpoint(entry)
    if endpoint is None:
        rule = f"is {shown(entry)}, which is neither host:port nor [address]:port"
        yield Refusal(path=where, rule=rule, remedy="write for example api.example.com:443, a port from 1 to 65535")
    elif addresses.parse_address(endpoint.host) and not addresses.is_public(endpoint.host):
        rule = f"is {shown(entry)}, which is not a public address"
        yield Refusal(path=where, rule=rule, remedy="only the operator's settings may name private addresses")
