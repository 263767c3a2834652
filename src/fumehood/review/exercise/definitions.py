"""What a server says of one tool, prompt, resource or template: a JSON value becomes facts about it. Pure.

Invariants: nothing that a server may send raises; each fact is bounded, and its words are inert; the digest is of the
whole value, whatever of it is shown, so that two definitions with one digest say the same to a model. What is kept of a
definition takes about as much memory as the line that it came in, and looking at it little more.

Threats: words that nobody sees (tags, selectors, zero width), schemas that point to a host (`$ref`), definitions that
are none, or that are large once they are read: `[]` and `"k":1` take twenty times their bytes in Python.
Not promised: that a visible word is true.
"""

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec

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
_NAME_CHARACTERS: Final = 1000  # by which a definition is known among others; the protocol advises at most 128
_PATH_CHARACTERS: Final = 1000  # of where something stands
_KEY_CHARACTERS: Final = 200  # of one key in it
_JSON: Final = msgspec.json.Encoder(order="sorted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One definition: who it is among those of its list, its digest, and the facts."""

    what: What
    name: str  # as the server wrote it, a long one cut and with its digest; "" where it has none
    digest: str  # SHA-256 of its canonical JSON
    size: int  # bytes of the canonical form
    packed: bytes  # the value as JSON: what Python makes of it is only there while it is looked at

    @property
    def value(self) -> JsonValue:
        """What the server said."""
        value: JsonValue = msgspec.json.decode(self.packed)
        return value

    @property
    def detail(self) -> dict[str, Value]:
        """The facts, as the detail of an observation."""
        value = self.value
        fields = value if isinstance(value, dict) else {}
        members = itertools.islice(fields.items(), _SHOWN)
        return {
            "what": self.what,
            "name": show_text(self.name) if self.name else None,
            "sha256": self.digest,
            "bytes": self.size,
            "title": _shown(fields.get("title")),
            "description": _shown(fields.get("description")),
            "annotations": _annotations(fields.get("annotations")),
            "invisible_characters": list(itertools.islice(_invisible(_texts(value)), _SHOWN)) or None,
            "network_refs": list(itertools.islice(_network_refs(_texts(value)), _SHOWN)) or None,
            "members": {show_text(key): _digest(member) for key, member in members} or None,
            "problems": list(_problems(self.what, value)) or None,
        }

    def members_unlike(self, other: "Definition") -> Iterator[str]:
        """The members, inert, that this one and another have not alike, in order."""
        mine, others = (one if isinstance(one, dict) else {} for one in (self.value, other.value))
        for key in itertools.chain(mine, (key for key in others if key not in mine)):
            alike = key in mine and key in others and _JSON.encode(mine[key]) == _JSON.encode(others[key])
            if not alike:
                yield show_text(key)


def read(what: What, value: JsonValue) -> Definition:
    """The definition that a value of a list is, whatever it is."""
    data = jsonio.canonical(value)
    name = value.get(_NAMED_BY[what]) if isinstance(value, dict) else None
    return Definition(
        what=what,
        name=_identity(name) if isinstance(name, str) else "",
        digest=hashlib.sha256(data).hexdigest(),
        size=len(data),
        packed=_JSON.encode(value),
    )


def _identity(name: str) -> str:
    """A name, or its beginning with the digest of the whole: ten thousand of any length would fill the memory."""
    if len(name) <= _NAME_CHARACTERS:
        return name
    return f"{name[:_NAME_CHARACTERS]}… {hashlib.sha256(name.encode()).hexdigest()}"


def _digest(value: JsonValue) -> str:
    return hashlib.sha256(jsonio.canonical(value)).hexdigest()


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


def _invisible(texts: Iterable[tuple["_Place", str]]) -> Iterator[Value]:
    """Each run of characters that nobody sees: where it stands, what it is, and what it spells."""
    for place, text in texts:
        for evidence in unicode.invisible(text.encode("utf-8", "surrogatepass")):
            run: dict[str, Value] = {"at": show_text(_path(place)), "signal": evidence.name}
            run["bytes"] = evidence.end - evidence.start
            if evidence.spelled:
                run["spelled"] = show(evidence.spelled)
            yield run


def _network_refs(texts: Iterable[tuple["_Place", str]]) -> Iterator[Value]:
    """Each reference of a schema that leads out of the schema: where it stands, and to what."""
    for place, text in texts:
        if place is not None and place[1] in _REFERENCES and not text.startswith("#"):
            yield {"at": show_text(_path(place)), "ref": show_text(text)}


_Place: TypeAlias = "tuple[_Place, str | int] | None"  # what holds it, and the key or index there; None: the whole


def _texts(value: JsonValue) -> Iterator[tuple[_Place, str]]:
    """Every string of the first _NODES values with its place, keys included (with the place of what holds them)."""
    for place, here in itertools.islice(_nodes(value), _NODES):
        if isinstance(here, str):
            yield place, here
        elif isinstance(here, dict):
            yield from ((place, key) for key in here if not key.isascii())


def _nodes(value: JsonValue) -> Iterator[tuple[_Place, JsonValue]]:
    """A value and everything in it, in order. Memory is its depth, which is bounded, whatever its width."""
    waiting: list[Iterator[tuple[_Place, JsonValue]]] = [iter([(None, value)])]
    while waiting:
        one = next(waiting[-1], None)
        if one is None:
            waiting.pop()
            continue
        yield one
        if isinstance(one[1], list | dict):
            waiting.append(_within(*one))


def _within(place: _Place, value: JsonValue) -> Iterator[tuple[_Place, JsonValue]]:
    """What a list or an object holds, each with its place."""
    if isinstance(value, list):
        yield from (((place, index), one) for index, one in enumerate(value))
    elif isinstance(value, dict):
        yield from (((place, key), one) for key, one in value.items())


def _path(place: _Place) -> str:
    """A place in words: `/inputSchema/properties/0`."""
    keys: list[str] = []
    while place is not None:
        place, key = place
        keys.append(str(key)[:_KEY_CHARACTERS])
    return "".join(f"/{key}" for key in reversed(keys))[:_PATH_CHARACTERS]


def _problems(what: What, value: JsonValue) -> Iterator[Value]:
    """Why a value is no such definition, or was not looked at whole, in words of ours."""
    if next(itertools.islice(_nodes(value), _NODES, None), None) is not None:
        yield f"more than {_NODES} values: the others were not looked at"
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
