"""What a server says of one tool, prompt, resource or template: a JSON value becomes facts about it. Pure.

Invariants: nothing that a server may send raises; each fact is bounded, and its words are inert; the digest is of the
whole value, whatever of it is shown, so that two definitions with one digest say the same to a model.

Threats: words that nobody sees (tags, selectors, zero width), schemas that point to a host (`$ref`), definitions that
are none. Not promised: that a visible word is true.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from fumehood.content import unicode
from fumehood.core import jsonio
from fumehood.core.jsonio import JsonValue
from fumehood.observe.model import Value
from fumehood.review.show import show, show_text

What: TypeAlias = Literal["tool", "prompt", "resource", "resource_template"]

_NAMED_BY: Final[Mapping[What, str]] = {
    "tool": "name",
    "prompt": "name",
    "resource": "uri",
    "resource_template": "uriTemplate",
}
_REQUIRED: Final[Mapping[What, tuple[tuple[str, type], ...]]] = {
    "tool": (("name", str), ("inputSchema", dict)),
    "prompt": (("name", str),),
    "resource": (("uri", str), ("name", str)),
    "resource_template": (("uriTemplate", str), ("name", str)),
}
_WORDS: Final[Mapping[type, str]] = {str: "a string", dict: "an object"}
_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_SHOWN: Final = 16  # of invisible runs, references, annotations
_NODES: Final = 100_000  # of one definition that are looked at; a frame of 4 MiB can have more


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One definition: who it is among those of its list, its digest, and the facts."""

    what: What
    name: str  # as the server wrote it; "" where it has none
    digest: str  # SHA-256 of its canonical JSON
    members: Mapping[str, str]  # each member's own digest, for a comparison
    value: JsonValue
    size: int  # bytes of the canonical form

    @property
    def detail(self) -> dict[str, Value]:
        """The facts, as the detail of an observation."""
        value = self.value
        fields = value if isinstance(value, dict) else {}
        return {
            "what": self.what,
            "name": show_text(self.name) if self.name else None,
            "sha256": self.digest,
            "bytes": self.size,
            "title": _shown(fields.get("title")),
            "description": _shown(fields.get("description")),
            "annotations": _annotations(fields.get("annotations")),
            "invisible_characters": list(_invisible(value)) or None,
            "network_refs": list(_network_refs(value)) or None,
            "members": {show_text(key): digest for key, digest in list(self.members.items())[:_SHOWN]} or None,
            "problems": list(_problems(self.what, value)) or None,
        }


def read(what: What, value: JsonValue) -> Definition:
    """The definition that a value of a list is, whatever it is."""
    data = jsonio.canonical(value)
    fields = value if isinstance(value, dict) else {}
    name = fields.get(_NAMED_BY[what])
    return Definition(
        what=what,
        name=name if isinstance(name, str) else "",
        digest=hashlib.sha256(data).hexdigest(),
        members={key: hashlib.sha256(jsonio.canonical(member)).hexdigest() for key, member in fields.items()},
        value=value,
        size=len(data),
    )


def digest_of(digests: list[str]) -> str:
    """The digest of a set: of its members' digests in order, one a line, however the server ordered them."""
    return hashlib.sha256("".join(f"{digest}\n" for digest in sorted(digests)).encode()).hexdigest()


def _shown(value: JsonValue) -> str | None:
    return show_text(value) if isinstance(value, str) else None


def _annotations(value: JsonValue) -> Value:
    """Hints as they are said: true, false, a number, words; of anything deeper only what kind of thing it is."""
    if not isinstance(value, dict):
        return None
    shown: dict[str, Value] = {}
    for key, hint in list(value.items())[:_SHOWN]:
        if isinstance(hint, str):
            shown[show_text(key)] = show_text(hint)
        else:
            shown[show_text(key)] = "…" if isinstance(hint, dict | list) else hint
    return shown


def _invisible(value: JsonValue) -> Iterator[Value]:
    """Each run of characters that nobody sees: where it stands, what it is, and what it spells."""
    found = 0
    for path, text in _texts(value):
        for evidence in unicode.invisible(text.encode("utf-8", "surrogatepass")):
            found += 1
            if found > _SHOWN:
                return
            run: dict[str, Value] = {"at": show_text(path), "signal": evidence.name}
            run["bytes"] = evidence.end - evidence.start
            if evidence.spelled:
                run["spelled"] = show(evidence.spelled)
            yield run


def _network_refs(value: JsonValue) -> Iterator[Value]:
    """Each reference of a schema that leads out of the schema: where it stands, and to what."""
    found = 0
    for path, text in _texts(value):
        if path.rpartition("/")[2] in _REFERENCES and not text.startswith("#"):
            found += 1
            if found > _SHOWN:
                return
            yield {"at": show_text(path), "ref": show_text(text)}


def _texts(value: JsonValue) -> Iterator[tuple[str, str]]:
    """Every string of a value with its path, keys included (with the path of what holds them)."""
    waiting: list[tuple[str, JsonValue]] = [("", value)]
    for _ in range(_NODES):
        if not waiting:
            return
        path, here = waiting.pop()
        if isinstance(here, str):
            yield path, here
        elif isinstance(here, list):
            waiting += [(f"{path}/{index}"[:1000], one) for index, one in enumerate(here)]
        elif isinstance(here, dict):
            for key, one in here.items():
                if not key.isascii():
                    yield path, key
                waiting.append((f"{path[:1000]}/{key[:200]}", one))


def _problems(what: What, value: JsonValue) -> Iterator[Value]:
    """Why a value is no such definition, in words of ours."""
    if not isinstance(value, dict):
        yield "is not an object"
        return
    for name, kind in _REQUIRED[what]:
        if name not in value:
            yield f"{name} is missing"
        elif not isinstance(value[name], kind):
            yield f"{name} is not {_WORDS[kind]}"
    if not isinstance(value.get("description", ""), str):
        yield "description is not a string"
