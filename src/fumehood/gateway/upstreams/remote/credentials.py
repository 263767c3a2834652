"""What a remote server is sent so that it knows us: headers of the operator, checked at the start. Pure.

Invariants: every value is visible ASCII, so that none ends its line or reads otherwise elsewhere; no header of the
protocol or of the framing is taken; no message, repr or log holds a value. Nothing here comes from a client of ours:
its token is never seen, so it cannot be passed on (the specification's "token passthrough").

Sources: RFC 9110, 5.5 (field values); RFC 6750, 2.1 (bearer tokens); the MCP specification, security best practices.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from fumehood.core import limits
from fumehood.core.errors import RefusedError
from fumehood.gateway.topology.model import Server

Header: TypeAlias = tuple[bytes, bytes]

_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_OURS: Final = frozenset(  # of the framing, of the connection, or of the protocol
    {
        *("accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect"),
        *("host", "keep-alive", "last-event-id", "te", "trailer", "transfer-encoding", "upgrade", "user-agent"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Headers that go to one origin."""

    headers: tuple[Header, ...] = field(default=(), repr=False)


def credentials(server: Server, environment: Mapping[str, str], token_file: bytes | None = None) -> Credentials:
    """What is sent to a server; `token_file`: the bytes of the file that it names. Errors: `RefusedError`."""
    return Credentials(headers=(*_bearer(server, environment, token_file), *_further(server, environment)))


def _bearer(server: Server, environment: Mapping[str, str], token_file: bytes | None) -> Iterator[Header]:
    if server.token_env is not None and server.token_file is not None:
        raise RefusedError("token_env and token_file: one of them at most")
    if server.token_env is not None:
        yield _authorization("token_env", _variable("token_env", server.token_env, environment))
    elif server.token_file is not None:
        try:
            text = (token_file or b"").decode("ascii")
        except UnicodeDecodeError:
            text = ""
        yield _authorization("token_file", text.removesuffix("\n").removesuffix("\r"))


def _authorization(key: str, token: str) -> Header:
    if not _TOKEN.fullmatch(token) or len(token) > limits.HTTP_TOKEN_CHARACTERS:
        remedy = f"one line of at most {limits.HTTP_TOKEN_CHARACTERS} visible characters of ASCII, without spaces"
        raise RefusedError(f"{key}: holds no bearer token", remedy=remedy)
    return b"Authorization", f"Bearer {token}".encode("ascii")


def _further(server: Server, environment: Mapping[str, str]) -> Iterator[Header]:
    seen = {"authorization"} if server.token_env or server.token_file else set()
    for name, variable in server.headers_env.items():
        key = f"headers_env.{name}"
        lower = name.lower()
        if lower in _OURS or lower.startswith(("mcp-", "proxy-")):
            raise RefusedError(f"{key}: this header is fumehood's own")
        if lower in seen:
            raise RefusedError(f"{key}: the header is set twice")
        seen.add(lower)
        value = _variable(key, variable, environment)
        if not _VALUE.fullmatch(value) or len(value) > limits.HTTP_TOKEN_CHARACTERS:
            raise RefusedError(f"{key}: the value of {variable} is no header value", remedy="visible ASCII, one line")
        yield name.encode("ascii"), value.encode("ascii")


def _variable(key: str, name: str, environment: Mapping[str, str]) -> str:
    value = environment.get(name, "")
    if not value:
        raise RefusedError(f"{key}: the variable {name} is not set", remedy="set it where the gateway is started")
    return value
