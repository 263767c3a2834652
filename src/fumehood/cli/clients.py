"""What to write into a client's configuration so that it starts one of our servers. Pure.

Sources: the documentation of each client, as of November 2026; `docs/howto/clients.md` has the links' names.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fumehood.core.errors import UnsupportedError
from fumehood.gateway.topology import toml

NAME = "fumehood"
# Without the prefix of a setting: an unknown one of those would stop the server that the same shell starts.
TOKEN_VARIABLE = "MCP_FUMEHOOD_TOKEN"  # noqa: S105 - the name of a variable, not a token


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A server that the client starts: its command line, absolute program first."""

    argv: Sequence[str]
    name: str = NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """A server that listens: its URL, and whether it asks for a bearer token."""

    url: str
    token: bool
    name: str = NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """What to write, and where."""

    text: str
    where: str


def snippet(client: str, server: Started | Listening) -> Snippet:
    """The piece of configuration for `client`, which is one of `CLIENTS`."""
    return CLIENTS[client](server)


def _claude_code(server: Started | Listening) -> Snippet:
    entry = _typed(server, token="${" + TOKEN_VARIABLE + "}")
    return Snippet(text=_json({"mcpServers": {server.name: entry}}), where=".mcp.json of the project")


def _claude_desktop(server: Started | Listening) -> Snippet:
    if isinstance(server, Listening):
        raise UnsupportedError("claude-desktop takes no URL in its file", remedy="use --transport stdio")
    text = _json({"mcpServers": {server.name: _command(server)}})
    return Snippet(text=text, where="claude_desktop_config.json (Settings, Developer, Edit Config)")


def _vscode(server: Started | Listening) -> Snippet:
    entry = _typed(server, token="${input:" + NAME + "-token}")
    document: dict[str, object] = {"servers": {server.name: entry}}
    if isinstance(server, Listening) and server.token:
        prompt = {"type": "promptString", "id": f"{NAME}-token", "description": "token of fumehood", "password": True}
        document["inputs"] = [prompt]
    return Snippet(text=_json(document), where=".vscode/mcp.json, or `MCP: Open User Configuration`")


def _cursor(server: Started | Listening) -> Snippet:
    entry = _command(server) if isinstance(server, Started) else _url(server, "url", "${env:" + TOKEN_VARIABLE + "}")
    return Snippet(text=_json({"mcpServers": {server.name: entry}}), where=".cursor/mcp.json, or ~/.cursor/mcp.json")


def _codex(server: Started | Listening) -> Snippet:
    if isinstance(server, Started):
        fields = [("command", server.argv[0]), ("args", list(server.argv[1:]))]
    else:
        fields = [("url", server.url), *([("bearer_token_env_var", TOKEN_VARIABLE)] if server.token else [])]
    lines = [f"{key} = {toml.value(value)}" for key, value in fields]
    return Snippet(text="\n".join([f"[mcp_servers.{toml.key(server.name)}]", *lines]), where="~/.codex/config.toml")


def _gemini(server: Started | Listening) -> Snippet:
    entry = _command(server) if isinstance(server, Started) else _url(server, "httpUrl", f"${TOKEN_VARIABLE}")
    return Snippet(
        text=_json({"mcpServers": {server.name: entry}}), where=".gemini/settings.json, or ~/.gemini/settings.json"
    )


CLIENTS: Mapping[str, Callable[[Started | Listening], Snippet]] = {
    "claude-code": _claude_code,
    "claude-desktop": _claude_desktop,
    "vscode": _vscode,
    "cursor": _cursor,
    "codex": _codex,
    "gemini": _gemini,
}


def _typed(server: Started | Listening, *, token: str) -> dict[str, object]:
    """An entry of a client that wants the transport named."""
    if isinstance(server, Started):
        return {"type": "stdio", **_command(server)}
    return {"type": "http", **_url(server, "url", token)}


def _command(server: Started) -> dict[str, object]:
    return {"command": server.argv[0], "args": list(server.argv[1:])}


def _url(server: Listening, key: str, token: str) -> dict[str, object]:
    headers = {"headers": {"Authorization": f"Bearer {token}"}} if server.token else {}
    return {key: server.url, **headers}


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=True)
