"""`gateway.toml`: which servers there are, how each is confined and believed, and who may use what. Pure.

Nothing here is a setting of fumehood itself (`core.sections`): this file holds only the topology.
"""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, field

from fumehood.core import limits
from fumehood.gateway.guard.policy import GuardPolicy

_Path = Annotated[str, Meta(pattern=r"\A[^\x00-\x1f\x7f]+\Z", max_length=4000)]  # relative to the file, or absolute
_Word = Annotated[str, Meta(pattern=r"\A[^\x00]*\Z", max_length=4000)]
_Pattern = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_./*-]{1,200}\Z", max_length=200, description="`*` fits anything")]
_Patterns = Annotated[tuple[_Pattern, ...], Meta(max_length=500)]
_Variable = Annotated[str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z", max_length=limits.GUARD_NAME_CHARACTERS)]
_Header = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9-]{1,64}\Z", max_length=64)]
_Name = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9](?:-|_?[A-Za-z0-9]){0,31}\Z", max_length=64, description="no `__`")]

_Command = Annotated[tuple[_Word, ...], Meta(max_length=200)]
_Url = Annotated[str, Meta(max_length=2000)]
_Title = Annotated[str, Meta(max_length=200)]
_Role = Annotated[str, Meta(max_length=64)]

Access: TypeAlias = Literal["read", "write"]
Trust: TypeAlias = Literal["trusted", "untrusted"]

SEPARATOR = "__"  # between a server's name and a tool's
SAVED = "code"  # the server's part of the name of a saved tool


class Server(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One server: exactly one of `command`, `url` and `workspace`."""

    command: Annotated[_Command | None, Meta(description="a program, confined")] = None
    folder: Annotated[_Path | None, Meta(description="where a command is started; else the folder of this file")] = None
    url: Annotated[_Url | None, Meta(description="a remote server, Streamable HTTP")] = None
    workspace: Annotated[_Path | None, Meta(description="a folder, served read-only by `fumehood serve`")] = None

    policy: Annotated[GuardPolicy, Meta(description="what a command may see, change and reach")] = GuardPolicy()

    token_env: Annotated[_Variable | None, Meta(description="the variable that holds the bearer token")] = None
    token_file: Annotated[_Path | None, Meta(description="the file that holds it, one line")] = None
    headers_env: Annotated[
        dict[_Header, _Variable], Meta(max_length=16, description="further headers, each from a variable")
    ] = {}
    allow_private: Annotated[bool, Meta(description="the host of `url` may have private or loopback addresses")] = False

    trust: Annotated[Trust, Meta(description="whether its results are believed, or taint who gets them")] = "untrusted"
    reads: Annotated[_Patterns | None, Meta(description="tools that change nothing; all others are taken to")] = None
    egress: Annotated[_Patterns | None, Meta(description="tools that send something out; None: see the reference")] = (
        None
    )

    enabled: bool = True
    call_seconds: Annotated[float, Meta(gt=0, le=600.0)] = 60.0


class Role(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What its holders may use."""

    servers: Annotated[_Patterns, Meta(description="whose tools, prompts and resources")] = ("*",)
    tools: Annotated[_Patterns, Meta(description="which tools, by the names that a client sees")] = ("*",)
    access: Annotated[Access, Meta(description="read: no tool that may change something")] = "read"


class Saved(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A program that is offered as a tool: `code__NAME`."""

    program: Annotated[_Path, Meta(description="the file that holds it")]
    description: Annotated[str, Meta(min_length=1, max_length=2000)]
    title: _Title | None = None
    input_schema: Annotated[dict[str, Any], Meta(description="JSON Schema of its input, an object")] = field(
        default_factory=lambda: {"type": "object", "additionalProperties": False}
    )
    tools: Annotated[tuple[str, ...], Meta(max_length=100, description="exactly the tools that it may call")] = ()


class Gateway(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The gateway itself."""

    show: Annotated[
        Literal["both", "direct", "code"],
        Meta(description="what a client sees: each tool, three tools for programs, or both"),
    ] = "both"
    names: Annotated[
        Literal["prefixed", "plain"], Meta(description="plain: a tool is named as its only server names it")
    ] = "prefixed"
    local_role: Annotated[_Role | None, Meta(description="the role of who comes without a token")] = None
    lock_file: Annotated[_Path | None, Meta(description="the pins; else fumehood.lock beside this file")] = None
    audit_file: Annotated[_Path | None, Meta(description="the audit log; else that of the settings")] = None


class Topology(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole file."""

    gateway: Gateway = Gateway()
    servers: Annotated[dict[_Name, Server], Meta(max_length=limits.PIN_SERVERS)] = {}
    roles: Annotated[dict[_Name, Role], Meta(max_length=100)] = {}
    tools: Annotated[dict[_Name, Saved], Meta(max_length=100)] = {}
