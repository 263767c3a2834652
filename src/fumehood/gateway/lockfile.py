"""`fumehood.lock`: for each server, which tools were accepted, when, and by which command. Pure.

JSON, indented, sorted, ASCII: the same pins give the same bytes, and two versions can be compared line by line.

Invariants: what `read` returns was read strictly and within bounds, and the digest of each server is that of its tools:
a file that was edited by hand at one place only is refused, with the server.

Not promised: that nobody edited both. Who may write the file decides what is accepted; keep it under version control.
"""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from fumehood.core import jsonio, limits
from fumehood.core.errors import RefusedError
from fumehood.core.schemas import DIALECT, components
from fumehood.gateway import pins

NAME: Final = "fumehood.lock"
_REMEDY: Final = "take it from version control, or accept the tools anew"

_Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", max_length=64)]
_Tool = Annotated[str, Meta(min_length=1, max_length=limits.CODE_NAME_CHARACTERS)]
_Field = Annotated[str, Meta(max_length=limits.PIN_FIELD_CHARACTERS)]
_Fields = Annotated[dict[_Field, _Digest], Meta(min_length=1, max_length=limits.PIN_FIELDS)]
_Tools = Annotated[dict[_Tool, _Fields], Meta(max_length=limits.PIN_TOOLS)]
_Server = Annotated[str, Meta(pattern="^[A-Za-z0-9_.-]{1,64}$", max_length=64)]


class LockError(RefusedError):
    """A lock file is not one that can be used."""

    code = "bad_lock"


class Pin(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The tools of one server as they were accepted."""

    accepted: Annotated[
        str,
        Meta(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$", max_length=24, description="RFC 3339, UTC"),
    ]
    command: Annotated[str, Meta(pattern="^[ -~]{1,500}$", max_length=500, description="that accepted them")]
    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$", max_length=64, description="of the whole set")]
    tools: Annotated[_Tools, Meta(description="each tool, and the digest of each member of its definition")]
    identity: Annotated[_Digest | None, Meta(description="of what the server is: its command, address or folder")] = (
        None
    )


class Lock(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole file."""

    servers: Annotated[dict[_Server, Pin], Meta(max_length=limits.PIN_SERVERS)]
    version: Literal[1] = 1


def accepted(lock: Lock, server: str, tools: pins.Tools, *, time: str, command: str) -> Lock:
    """The lock with these tools for one server; the other servers as they were."""
    return Lock(servers=lock.servers | {server: pinned(tools, time=time, command=command)})


def pinned(tools: pins.Tools, *, time: str, command: str, identity: str | None = None) -> Pin:
    """The pin of one server."""
    return Pin(
        accepted=time,
        command=command,
        digest=pins.digest(tools),
        tools={name: dict(fields) for name, fields in tools.items()},
        identity=identity,
    )


def write(lock: Lock) -> bytes:
    """The bytes of the file. `LockError` when they could not be read again."""
    plain = msgspec.to_builtins(lock, order="sorted")
    data = msgspec.json.format(jsonio.dump(plain), indent=2) + b"\n"
    read(data)
    return data


def read(data: bytes) -> Lock:
    """The lock that these bytes are. Errors: `LockError`."""
    try:
        value = jsonio.parse(data, size=limits.LOCK_BYTES)
        lock = msgspec.convert(value, Lock)
    except jsonio.JsonError as error:
        raise LockError(f"{NAME} is {error.message}", remedy=_REMEDY) from None
    except msgspec.ValidationError as error:
        raise LockError(f"{NAME}: {ascii(str(error))[1:-1]}", remedy=_REMEDY) from None
    for name, pin in lock.servers.items():
        if pins.digest(pin.tools) != pin.digest:
            raise LockError(f"{NAME}: the digest of {name} is not that of its tools", remedy=_REMEDY)
    return lock


def schema() -> dict[str, Any]:
    """The published JSON Schema of the file."""
    parts = components(Lock)
    whole = parts.pop("Lock")
    return {"$schema": DIALECT, "$id": "urn:fumehood:lock", **whole, "title": NAME, "$defs": parts}
