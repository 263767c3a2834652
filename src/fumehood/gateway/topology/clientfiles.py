"""What clients' configuration files say of their servers: which they are, and what of the file is about nothing else.

Pure. Formats, as of November 2026: `mcpServers` of Claude Code, Claude Desktop, Cursor and Gemini; `servers` of VS
Code's mcp.json, or below `mcp` of its settings; `mcp_servers` of Codex's config.toml. Sources: each client's own
documentation, which docs/howto/clients.md names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fumehood.core import jsonio, limits
from fumehood.core.errors import RefusedError
from fumehood.gateway.topology import jsonc, toml
from fumehood.gateway.topology.place import shown

_REMEDY: Final = "name a file with mcpServers, servers or [mcp_servers.NAME] in it"
_BESIDE: Final[Mapping[str, str]] = {  # keys of files that say something about servers, and are no servers
    "inputs": "what was asked for becomes a variable",
    "projects": "servers of single projects are not imported: name their own .mcp.json",
    "sandbox": "each server has a policy of its own here",
    "mcp": "which servers are on is said by `enabled`",
    "allowedMcpServers": "which servers are on is said by `enabled`",
    "deniedMcpServers": "which servers are on is said by `enabled`",
}


class ImportedError(RefusedError):
    """A file is no configuration that can be imported."""

    code = "import"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFile:
    """The servers of one file, as it has them."""

    servers: Mapping[str, Any]
    beside: tuple[str, ...] = ()  # what else it says of them, in words
    expands: bool = True  # whether the client puts variables in place of `${…}`


def read(text: str, source: str) -> ClientFile:
    """The servers that a file configures. `source` is its name as asked. Errors: `ImportedError`."""
    body = text.lstrip("\ufeff \t\r\n")
    is_json = body.startswith(("{", "//", "/*"))
    tree = _json(text, source) if is_json else _toml(text, source)
    if not is_json and tree is not None and "mcp_servers" not in tree and isinstance(tree.get("servers"), dict):
        words = f"{source}: it is a gateway's already, and no client's"
        raise ImportedError(words, remedy=f"fumehood gateway --config {source}")
    if tree is None:
        raise ImportedError(f"{source}: neither JSON nor TOML", remedy=_REMEDY)
    return _found(tree, source)


def _found(tree: Mapping[str, Any], source: str) -> ClientFile:
    inner = tree.get("mcp")
    below = inner if isinstance(inner, dict) and isinstance(inner.get("servers"), dict) else None
    for key, table, expands in (
        ("mcpServers", tree, True),
        ("mcp_servers", tree, False),
        ("servers", tree, True),
        ("servers", below or {}, True),
    ):
        servers = table.get(key)
        if isinstance(servers, dict):
            beside = tuple(
                f"{name} is not carried over: {why}"
                for name, why in _BESIDE.items()
                if name in table and not (name == "mcp" and below)
            )
            return ClientFile(servers=servers, beside=beside, expands=expands)
    raise ImportedError(f"{source}: it names no servers", remedy=_REMEDY)


def _json(text: str, source: str) -> Mapping[str, Any] | None:
    try:
        value = jsonio.parse(
            jsonc.strict(text.removeprefix("\ufeff")).encode("utf-8", "surrogatepass"), size=limits.IMPORT_BYTES
        )
    except jsonio.JsonError as error:
        # The words of the error may quote a key; its place is enough, and the file is the reader's own.
        words = f"not JSON: line {error.line}, column {error.column}: {shown(error.problem)}"
        raise ImportedError(f"{source}: {words}", remedy="correct the file") from None
    return value if isinstance(value, dict) else None


def _toml(text: str, source: str) -> Mapping[str, Any]:
    try:
        return toml.read(text)
    except ValueError as error:
        raise ImportedError(f"{source}: not TOML: {shown(str(error))}", remedy="correct the file") from None
