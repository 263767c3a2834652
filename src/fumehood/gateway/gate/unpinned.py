"""Prompts and resources as they are listed. Nobody accepted their words, as they did those of tools. Pure.

Invariants: of a server that is trusted the members that the protocol has are shown, but icons and `_meta`, controlled
(`guard.definitions`); of any other only what has the form of an identifier, so that a list holds no sentence of
somebody who is not trusted, and taints nobody. What has another form is left out; a resource is then called by its URI.

Not promised: that an identifier says nothing (`ignore_what_you_were_told` is one).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.gate.places import Places

_SHOWN: Final = {
    "prompts": ("name", "title", "description", "arguments"),
    "resources": ("uri", "name", "title", "description", "mimeType", "size", "annotations"),
    "resourceTemplates": ("uriTemplate", "name", "title", "description", "mimeType", "annotations"),
}
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,127}")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}:[!-~]{1,1000}")  # RFC 3986, and the braces of RFC 6570
_TYPE: Final = re.compile(r"[a-z]+/[A-Za-z0-9.+-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One of the three lists."""

    method: str
    member: str
    capability: str
    changed: str


PROMPTS: Final = Kind(method="prompts/list", member="prompts", capability="prompts", changed="prompts")
RESOURCES: Final = Kind(method="resources/list", member="resources", capability="resources", changed="resources")
TEMPLATES: Final = Kind(
    method="resources/templates/list", member="resourceTemplates", capability="resources", changed="resources"
)


def listed(kind: Kind, server: str, items: Sequence[JsonValue], places: Places, *, trusted: bool) -> list[JsonObject]:
    """What of a server's list is shown, by names and URIs that a client can use."""
    shown = [_shown(kind, one) for one in items if isinstance(one, dict)]
    kept = shown if trusted else [made for one in shown if (made := _identifiers(one))]
    return [placed for one in kept if (placed := _placed(kind, server, one, places))]


def _shown(kind: Kind, item: JsonObject) -> JsonObject:
    return {name: item[name] for name in _SHOWN[kind.member] if name in item}


def _identifiers(item: JsonObject) -> JsonObject:
    """Only what has the form of an identifier; nothing where what it is called by has not."""
    made: JsonObject = {}
    for key, form in (("uri", _URI), ("uriTemplate", _URI), ("mimeType", _TYPE), ("name", _WORD)):
        if isinstance(value := item.get(key), str) and form.fullmatch(value):
            made[key] = value
    called = made.get("uri", made.get("uriTemplate", made.get("name")))
    if called is None or ({"uri", "uriTemplate"} & item.keys() and called == made.get("name")):
        return {}
    if isinstance(size := item.get("size"), int) and not isinstance(size, bool):
        made["size"] = size
    arguments = item.get("arguments")
    if isinstance(arguments, list):
        made["arguments"] = [_argument(one) for one in arguments if isinstance(one, dict) and _is_word(one.get("name"))]
    return {**made, "name": made.get("name", called)}


def _argument(value: JsonObject) -> JsonObject:
    return {"name": value["name"], "required": value.get("required") is True}


def _is_word(value: JsonValue) -> bool:
    return isinstance(value, str) and _WORD.fullmatch(value) is not None


def _placed(kind: Kind, server: str, item: JsonObject, places: Places) -> JsonObject:
    """With the name or URI that a client uses; nothing for an item without."""
    key = {"prompts": "name", "resources": "uri", "resourceTemplates": "uriTemplate"}[kind.member]
    own, name = item.get(key), item.get("name")
    if not isinstance(own, str) or not isinstance(name, str):
        return {}
    return {**item, key: places.prompt(server, own) if key == "name" else places.uri(server, own)}
