"""`gateway.toml`, from its text to a topology. Pure.

Invariants: what is returned fits its model and every rule of `gateway.topology.rules`; an unknown key, a value that
does not fit, a key that does not belong to its kind of server, is refused with file, line, key, rule and next step;
every path in it is absolute, relative ones being those of the file's folder; nothing is expanded (`~`, variables).

Shapes: text in, `Topology` out; no other error than `TopologyError`.
"""

import posixpath
import re
from typing import Any, Final

import msgspec

from fumehood.core import limits
from fumehood.core.schemas import DIALECT, components
from fumehood.gateway import lockfile
from fumehood.gateway.guard import policy as policies
from fumehood.gateway.guard.policy import GuardPolicy, GuardPolicyError
from fumehood.gateway.topology import rules, shape, toml
from fumehood.gateway.topology.model import Gateway, Role, Saved, Server, Topology
from fumehood.gateway.topology.place import Keys, Place, TopologyError, shown

_ROLES: Final = 100
_TOOLS: Final = 100
_PATH: Final = re.compile(r"[^\x00-\x1f\x7f]{1,4000}")
_PLACES: Final = ("allow_read", "allow_write")  # of a policy: lists of paths


def parse(text: str, source: str, folder: str) -> Topology:
    """The topology of a file's text. `source` is its name as asked, `folder` the absolute one that it lies in.

    A command without `folder` is started in that of the file; without `lock_file` the pins lie beside it. Errors:
    `TopologyError`.
    """
    place = Place(text, source)
    tree = _tree(text, place)
    shape.fields(tree, Topology, (), place, apart=tuple(field.name for field in msgspec.structs.fields(Topology)))
    reader = _Reader(place, folder)
    found = Topology(
        gateway=reader.gateway(tree.get("gateway", {})),
        servers=reader.servers(tree.get("servers", {})),
        roles=_roles(tree.get("roles", {}), place),
        tools=reader.tools(tree.get("tools", {})),
    )
    rules.check(found, tree, place)
    return found


def schema() -> dict[str, Any]:
    """The published JSON Schema of the file, as JSON would have it.

    It is wider than `parse`, which knows rules that no schema says.
    """
    parts = _ecma(components(Topology))
    policy, server = parts["GuardPolicy"]["properties"], parts["Server"]["properties"]
    del policy["audit_file"]
    for key in _PLACES:
        policy[key]["items"] = next(one for one in server["folder"]["anyOf"] if one.get("type") == "string")
    whole = parts.pop("Topology")
    return {"$schema": DIALECT, "$id": "urn:fumehood:gateway", **whole, "title": "gateway.toml", "$defs": parts}


def _ecma(part: Any) -> Any:  # noqa: ANN401 - a JSON value
    """With patterns as ECMA-262 writes them: its end is `$`, which in Python is also the place before a line end."""
    if isinstance(part, dict):
        return {
            key: value.replace(r"\A", "^").replace(r"\Z", "$") if key == "pattern" else _ecma(value)
            for key, value in part.items()
        }
    return [_ecma(value) for value in part] if isinstance(part, list) else part


def _tree(text: str, place: Place) -> dict[str, Any]:
    try:
        tree = toml.read(text)
    except ValueError as error:  # also a number of more digits than Python reads
        raise place.error((), f"not TOML: {shown(str(error))}", remedy="correct the file") from None
    values: list[object] = [tree]
    for _ in range(limits.JSON_DEPTH):
        values = [inner for value in values for inner in _inner(value)]
        if not values:
            return tree
    raise place.error((), f"nested deeper than {limits.JSON_DEPTH}", remedy="make it flatter")


def _inner(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _roles(value: object, place: Place) -> dict[str, Role]:
    found = shape.named(value, ("roles",), place, most=_ROLES)
    return {name: Role(**shape.fields(given, Role, ("roles", name), place)) for name, given in found.items()}


class _Reader:
    """What has paths in it."""

    def __init__(self, place: Place, folder: str) -> None:
        self._place = place
        self._folder = folder

    def gateway(self, value: object) -> Gateway:
        made = self._fields(value, Gateway, ("gateway",), ("lock_file", "audit_file"))
        made.setdefault("lock_file", self._absolute(lockfile.NAME, ("gateway", "lock_file")))
        return Gateway(**made)

    def servers(self, value: object) -> dict[str, Server]:
        found = shape.named(value, ("servers",), self._place, most=limits.PIN_SERVERS)
        return {name: self._server(given, ("servers", name)) for name, given in found.items()}

    def tools(self, value: object) -> dict[str, Saved]:
        found = shape.named(value, ("tools",), self._place, most=_TOOLS)
        return {
            name: Saved(**self._fields(given, Saved, ("tools", name), ("program",))) for name, given in found.items()
        }

    def _server(self, value: object, keys: Keys) -> Server:
        made = self._fields(value, Server, keys, ("folder", "workspace", "token_file"), apart=("policy",))
        if "command" in made:
            made.setdefault("folder", self._folder)
        given = shape.table(value, keys, self._place)
        if "policy" in given:
            made["policy"] = self._policy(given["policy"], (*keys, "policy"))
        return Server(**made)

    def _policy(self, value: object, keys: Keys) -> GuardPolicy:
        tree = dict(shape.table(value, keys, self._place))
        if "audit_file" in tree:
            remedy = "write gateway.audit_file: all servers have one log"
            raise self._place.error((*keys, "audit_file"), "does not belong here", remedy=remedy)
        for key in set(_PLACES) & set(tree):
            tree[key] = self._paths(tree[key], (*keys, key))
        try:
            return policies.read(tree, lambda key: self._place.words((*keys, key)))
        except GuardPolicyError as error:
            raise TopologyError(error.message, remedy=error.remedy) from None

    def _fields(
        self, value: object, kind: type[msgspec.Struct], keys: Keys, paths: Keys, apart: Keys = ()
    ) -> dict[str, Any]:
        made = shape.fields(value, kind, keys, self._place, apart=apart)
        for key in paths:
            if key in made:
                made[key] = self._absolute(made[key], (*keys, key))
        return made

    def _paths(self, value: object, keys: Keys) -> list[str]:
        paths = (
            [one for one in value if isinstance(one, str) and _PATH.fullmatch(one)] if isinstance(value, list) else []
        )
        if not isinstance(value, list) or len(paths) != len(value):
            raise self._place.error(keys, "must be a list of paths, without control characters")
        return [self._absolute(path, keys) for path in paths]

    def _absolute(self, path: str, keys: Keys) -> str:
        """A path as it is written, from the file's folder. `..` stays: behind a link it leads elsewhere."""
        if path.startswith(("~", "$")):
            remedy = "write the whole path; a relative one begins at the folder of this file"
            raise self._place.error(keys, f"{path[0]} is not expanded", remedy=remedy)
        whole = posixpath.join(self._folder, path)
        return whole if ".." in path.split("/") else posixpath.normpath(whole)
