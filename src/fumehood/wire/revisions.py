"""The revisions of MCP, what an InitializeResult is, and which answers mean another era. Pure.

Sources: the MCP specification, lifecycle and schema of 2024-11-05 … 2025-11-25 (legacy: `initialize`), and
2026-07-28 (modern, stateless: `server/discover`; its -32021 and -32022 say that a request belongs to another revision).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from fumehood.core.jsonio import JsonValue
from fumehood.wire import jsonrpc

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = ("2026-07-28",)
REVIEWED = "2025-06-18"  # what `mcp_initialize` asks for

MISSING_CLIENT_CAPABILITY = -32021
UNSUPPORTED_PROTOCOL_VERSION = -32022
_OTHER_ERA = frozenset({jsonrpc.METHOD_NOT_FOUND, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION})

# Capabilities that the schema of 2025-06-18 names, with their boolean members; others are allowed and are objects.
_CAPABILITIES: Mapping[str, tuple[str, ...]] = {
    "experimental": (),
    "logging": (),
    "completions": (),
    "prompts": ("listChanged",),
    "resources": ("subscribe", "listChanged"),
    "tools": ("listChanged",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeError:
    """One thing that an InitializeResult lacks; both texts are ours."""

    path: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeResult:
    """A result that fits. All text but the version is the peer's."""

    protocol_version: str
    server_name: str
    server_version: str
    server_title: str | None
    capabilities: dict[str, JsonValue]
    instructions: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnotherVersion:
    """The peer offers a version that was not asked for; `known` when it is one of the specification's."""

    offered: str
    known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BadShape:
    """The result is no InitializeResult; every error is listed."""

    errors: tuple[ShapeError, ...]


Reading: TypeAlias = InitializeResult | AnotherVersion | BadShape


def means_another_era(code: int) -> bool:
    """Whether an error to `initialize` says that the peer speaks another era, and nothing more."""
    return code in _OTHER_ERA


def read_initialize_result(result: JsonValue, *, asked: str = REVIEWED) -> Reading:
    """What an answer to `initialize` is. Another version comes first: another version may have another shape."""
    if not isinstance(result, dict):
        return BadShape(errors=(ShapeError(path="$", problem="is not an object"),))
    version = result.get("protocolVersion")
    if isinstance(version, str) and version != asked:
        return AnotherVersion(offered=version, known=version in LEGACY + MODERN)
    if errors := tuple(_errors(result)):
        return BadShape(errors=errors)
    return _read(asked, result)


def _read(version: str, result: dict[str, JsonValue]) -> InitializeResult:
    info, capabilities = result["serverInfo"], result["capabilities"]
    title, instructions = (info.get("title") if isinstance(info, dict) else None), result.get("instructions")
    return InitializeResult(
        protocol_version=version,
        server_name=str(info["name"]) if isinstance(info, dict) else "",
        server_version=str(info["version"]) if isinstance(info, dict) else "",
        server_title=title if isinstance(title, str) else None,
        capabilities=capabilities if isinstance(capabilities, dict) else {},
        instructions=instructions if isinstance(instructions, str) else None,
    )


def _errors(result: dict[str, JsonValue]) -> Iterator[ShapeError]:
    yield from _member(result, "$.protocolVersion", str)
    yield from _member(result, "$.capabilities", dict)
    yield from _member(result, "$.serverInfo", dict)
    yield from _member(result, "$.instructions", str, required=False)
    yield from _member(result, "$._meta", dict, required=False)
    info, capabilities = result.get("serverInfo"), result.get("capabilities")
    if isinstance(info, dict):
        yield from _member(info, "$.serverInfo.name", str)
        yield from _member(info, "$.serverInfo.version", str)
        yield from _member(info, "$.serverInfo.title", str, required=False)
    if isinstance(capabilities, dict):
        yield from _capability_errors(capabilities)


def _capability_errors(capabilities: dict[str, JsonValue]) -> Iterator[ShapeError]:
    for name, flags in _CAPABILITIES.items():
        path = f"$.capabilities.{name}"
        yield from _member(capabilities, path, dict, required=False)
        value = capabilities.get(name)
        if isinstance(value, dict):
            for flag in flags:
                yield from _member(value, f"{path}.{flag}", bool, required=False)


_WORDS: Mapping[type, str] = {str: "a string", dict: "an object", bool: "a boolean"}


def _member(container: dict[str, JsonValue], path: str, kind: type, *, required: bool = True) -> Iterator[ShapeError]:
    name = path.rpartition(".")[2]
    if name not in container:
        if required:
            yield ShapeError(path=path, problem="is missing")
    elif not isinstance(container[name], kind):
        yield ShapeError(path=path, problem=f"is not {_WORDS[kind]}")
