"""The rules of a topology that reach over more than one key. Pure.

`tree` is what the file holds, for what is written and what is only a default are told apart; `place` finds its lines.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from fumehood.core import jsonio
from fumehood.gateway.topology import urls
from fumehood.gateway.topology.model import SAVED, SEPARATOR, Role, Saved, Server, Topology
from fumehood.gateway.topology.place import Keys, Place, near, shown
from fumehood.wire.foreign import ForeignChecker

_KINDS: Final = ("command", "url", "workspace")
_OF_KIND: Final[Mapping[str, tuple[str, ...]]] = {
    "command": ("folder", "policy"),
    "url": ("token_env", "token_file", "headers_env", "allow_private"),
    "workspace": (),
}
_SETTING: Final = "FUMEHOOD_"
# What the transport says itself, or what says where a message ends and who is asked (RFC 9110, RFC 9112, MCP).
_OWN_HEADERS: Final = re.compile(
    r"accept|accept-encoding|connection|content-.*|expect|host|keep-alive|last-event-id|mcp-.*|origin|proxy-.*|te"
    r"|trailer|transfer-encoding|upgrade",
    re.IGNORECASE,
)
_URL: Final = "write it as https://mcp.example.com/mcp, and a credential as token_env or headers_env"
_TOOL: Final = re.compile(r"[A-Za-z0-9_.-]{1,200}")


def check(topology: Topology, tree: Mapping[str, Any], place: Place) -> None:
    """Refuse what breaks a rule. Errors: `TopologyError`."""
    for name, server in topology.servers.items():
        _server(name, server, tree["servers"][name], place)
    _plain(topology, place)
    _roles(topology, tree, place)
    for name, saved in topology.tools.items():
        _saved(topology, ("tools", name), saved, place)


def is_own_header(name: str) -> bool:
    """Whether a header is written by the transport, and by nobody else."""
    return _OWN_HEADERS.fullmatch(name) is not None


# --- servers


def _server(name: str, server: Server, given: Mapping[str, Any], place: Place) -> None:
    keys = ("servers", name)
    if name == SAVED:
        raise place.error(keys, "is what saved tools are named by", remedy="give the server another name")
    kinds = [kind for kind in _KINDS if kind in given]
    if len(kinds) != 1:
        said = " and ".join(kinds) if kinds else "none of them is there"
        raise place.error(keys, f"exactly one of command, url and workspace: {said}", remedy="one server is one thing")
    _belongs(keys, kinds[0], given, place)
    if server.command is not None:
        _command(keys, server.command, place)
    if server.url is not None:
        _remote(keys, server, server.url, place)


def _belongs(keys: Keys, kind: str, given: Mapping[str, Any], place: Place) -> None:
    for other, own in _OF_KIND.items():
        for key in own:
            if other != kind and key in given:
                raise place.error((*keys, key), f"belongs to a {other}, and this is a {kind}", remedy="leave it out")


def _command(keys: Keys, command: tuple[str, ...], place: Place) -> None:
    if not command or not command[0]:
        raise place.error((*keys, "command"), "names no program", remedy='write command = ["PROGRAM", "ARGUMENT", …]')
    if command[0].startswith(("~", "$")):
        raise place.error((*keys, "command"), f"{command[0][0]} is not expanded", remedy="write the whole path")


def _remote(keys: Keys, server: Server, url: str, place: Place) -> None:
    if problem := urls.problem(url, private=server.allow_private):
        remedy = "write https, or allow_private = true where the network is your own" if "plain" in problem else _URL
        raise place.error((*keys, "url"), problem, remedy=remedy)
    has_token = server.token_env is not None or server.token_file is not None
    if server.token_env is not None and server.token_file is not None:
        raise place.error((*keys, "token_file"), "token_env is there too", remedy="leave one of the two out")
    _variable((*keys, "token_env"), server.token_env, place)
    seen: dict[str, str] = {}
    for header, variable in server.headers_env.items():
        at = (*keys, "headers_env", header)
        if is_own_header(header):
            raise place.error(at, "is a header that fumehood writes itself", remedy="leave it out")
        if header.lower() == "authorization" and has_token:
            raise place.error(at, "the token is this header", remedy="leave one of the two out")
        if header.lower() in seen:
            raise place.error(at, f"is {shown(seen[header.lower()])} in other letters", remedy="leave one out")
        seen[header.lower()] = header
        _variable(at, variable, place)


def _variable(keys: Keys, name: str | None, place: Place) -> None:
    if name is not None and name.startswith(_SETTING):
        raise place.error(keys, f"{shown(name)} would be a setting of fumehood's own", remedy="name it otherwise")


def _plain(topology: Topology, place: Place) -> None:
    if topology.gateway.names != "plain":
        return
    enabled = [name for name, server in topology.servers.items() if server.enabled]
    if len(enabled) != 1:
        remedy = 'write names = "prefixed", or enabled = false for the others'
        raise place.error(("gateway", "names"), f"plain needs exactly one server, here are {len(enabled)}", remedy)


# --- roles


def _roles(topology: Topology, tree: Mapping[str, Any], place: Place) -> None:
    role = topology.gateway.local_role
    if "roles" in tree and not topology.roles:
        raise place.error(("roles",), "names no role", remedy="leave it out, or write [roles.NAME]")
    if role is not None and role not in topology.roles:
        known = near(role, topology.roles) if topology.roles else f"write [roles.{shown(role)}], or leave it out"
        raise place.error(("gateway", "local_role"), f"there is no role {shown(role)}", remedy=known)
    for name, made in topology.roles.items():
        _role(topology, ("roles", name), made, place)


def _role(topology: Topology, keys: Keys, role: Role, place: Place) -> None:
    known = {*topology.servers, SAVED}
    for server in role.servers:
        if "*" not in server and server not in known:
            raise place.error((*keys, "servers"), f"there is no server {shown(server)}", remedy=near(server, known))
    if topology.gateway.names == "plain":
        return
    for pattern in role.tools:
        server, found, _ = pattern.partition(SEPARATOR)
        if found and "*" not in server and server not in known:
            raise place.error((*keys, "tools"), f"there is no server {shown(server)}", remedy=near(server, known))


# --- saved tools


def _saved(topology: Topology, keys: Keys, saved: Saved, place: Place) -> None:
    if not saved.description.strip():
        raise place.error((*keys, "description"), "is empty", remedy="say what the tool does")
    seen = set()
    for tool in saved.tools:
        at = (*keys, "tools")
        if problem := _manifest(topology, tool):
            raise place.error(at, f"{shown(tool)}: {problem[0]}", remedy=problem[1])
        if tool in seen:
            raise place.error(at, f"{shown(tool)} stands there twice", remedy="leave one out")
        seen.add(tool)
    if problem := _schema(saved.input_schema):
        raise place.error((*keys, "input_schema"), problem[0], remedy=problem[1])


def _manifest(topology: Topology, tool: str) -> tuple[str, str] | None:
    """Why a saved tool cannot call this one, and what to write."""
    server, found, own = tool.partition(SEPARATOR)
    if not _TOOL.fullmatch(tool):
        return "is no name of a tool", "write the name that a client sees, without patterns"
    if server == SAVED and found:
        return "is a saved tool, and those call no other ones", "name the tools that it calls"
    if topology.gateway.names == "plain":
        return None
    if not found or not own:
        return "is no name of a tool here", f"write SERVER{SEPARATOR}TOOL"
    if server not in topology.servers:
        return "there is no such server", near(server, topology.servers)
    return None


def _schema(schema: Mapping[str, Any]) -> tuple[str, str] | None:
    """Why this is no schema of an input, and what to write."""
    if schema.get("type") != "object":
        return 'its type is not "object"', 'write type = "object" in it'
    try:
        jsonio.parse(jsonio.dump(schema))
        skipped = ForeignChecker(schema).skipped_patterns
    except TypeError:
        return "holds a date or a time, which JSON cannot", "write it as a text"
    except (ValueError, jsonio.JsonError) as error:
        return f"cannot be used: {shown(str(error))}", "write a JSON Schema of 2020-12 that refers to nothing outside"
    return ("holds a pattern that has no linear form", "leave look-around and back-references out") if skipped else None
