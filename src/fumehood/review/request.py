"""A review request: bytes become a `ReviewRequest`, or every rule that they break is told at once. Pure.

Invariants: what `parse` returns fits the published schema of its version, names one exact target, carries no
command, no free-form word that is ever run, and nothing that this build does not do. A field or value that nobody
knows is refused by its name.

Flow: `core.jsonio` (strict JSON) → the schema of the version and of the target's kind (`wire.schema`) → rules that
span fields → `msgspec.convert`. The Structs below are the one definition: schema and conversion come from them.
"""

import enum
import functools
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from fumehood.core import jsonio, limits
from fumehood.core.addresses import Endpoint, parse_endpoint
from fumehood.core.jsonio import JsonValue
from fumehood.core.schemas import DIALECT, components
from fumehood.review import rules
from fumehood.review.rules import Refusal, RequestRefusedError
from fumehood.sandbox.egress import Mode

__all__ = [
    "Refusal",
    "RequestRefusedError",
    "ReviewRequest",
    "convert",
    "endpoints",
    "parse",
    "schema",
    "to_value",
]

# One step of a path: neither empty, `.` nor `..`, without `/` or control characters. Linear in every engine.
_STEP = r"(?:[^/.\x00-\x1f\x7f]|\.[^/.\x00-\x1f\x7f]|\.\.[^/\x00-\x1f\x7f])[^/\x00-\x1f\x7f]*"
_INSIDE = rf"^(?:\./)?{_STEP}(?:/{_STEP})*$"
_NUMBER = "(?:0|[1-9][0-9]{0,15})"
_TAGS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
# The repository's name may begin with a dot and is neither `.` nor `..`.
_REPOSITORY = (
    r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}/(?:[A-Za-z0-9_-]|\.[A-Za-z0-9_-]|\.\.[A-Za-z0-9_.-])[A-Za-z0-9_.-]{0,99}$"
)
_RELEASE = "(?:(?:0|[1-9][0-9]{0,8})!)?(?:0|[1-9][0-9]{0,15})(?:\\.(?:0|[1-9][0-9]{0,15})){0,15}"
_LOCAL = r"(?:\+[a-z0-9]+(?:\.[a-z0-9]+)*)?"
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_UNIQUE: dict[str, Any] = {"uniqueItems": True}


class PrepareProfile(enum.StrEnum):
    """What runs between INSTALL and EXERCISE."""

    NONE = "NONE"
    NPM_BUILD = "npm_build"  # exactly `npm run build`
    PYTHON_BUILD = "python_build"  # the wheel of a pypi target, from its source distribution


class Evidence(enum.StrEnum):
    """The kinds of evidence that a request asks for."""

    PROCESS = "process"
    NETWORK = "network"
    FILESYSTEM = "filesystem"
    PROTOCOL = "protocol"


class StopCondition(enum.StrEnum):
    """What ends a run as STOPPED."""

    OUTPUT_CAPTURE_LIMIT = "output_capture_limit"


_AsOf = Annotated[
    str,
    Meta(
        pattern=rf"^{_DATE}(?:[Tt]{_TIME}(?:[Zz]|[+-][0-9]{{2}}:[0-9]{{2}}))?$",
        description="a date, which counts to its end in UTC, or a time of RFC 3339: nothing newer is resolved",
    ),
]


class GitTarget(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="git"):
    """One commit of a public repository of the forge."""

    repository: Annotated[
        str,
        Meta(
            pattern=_REPOSITORY,
            max_length=200,
            description="`owner/repository` as the forge writes it, without a host",
        ),
    ]
    ref: Annotated[str, Meta(pattern="^[0-9A-Fa-f]{40}$", description="the 40 hex digits of one commit")]


class NpmTarget(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="npm"):
    """One exact version of a package of the npm registry."""

    name: Annotated[
        str,
        Meta(
            pattern=r"^(?:@[A-Za-z0-9~][A-Za-z0-9._~-]*/)?[A-Za-z0-9~][A-Za-z0-9._~-]*$",
            max_length=214,
            description="the package's name, `package` or `@scope/package`",
        ),
    ]
    version: Annotated[
        str,
        Meta(
            pattern=rf"^{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_TAGS})?(?:\+{_TAGS})?$",
            max_length=256,
            description="one exact version such as `1.2.3`, neither a range nor a tag",
        ),
    ]
    as_of: _AsOf | UnsetType = UNSET


class PypiTarget(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="pypi"):
    """One exact version of a package of the Python index."""

    name: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$",
            max_length=214,
            description="the package's name, as PEP 508 writes it",
        ),
    ]
    version: Annotated[
        str,
        Meta(
            pattern=rf"^{_RELEASE}(?:(?:a|b|rc){_NUMBER})?(?:\.post{_NUMBER})?(?:\.dev{_NUMBER})?{_LOCAL}$",
            max_length=256,
            description="one exact version such as `1.2.3`, in the normal form of PEP 440",
        ),
    ]
    as_of: _AsOf | UnsetType = UNSET


class DirTarget(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="dir"):
    """A folder beside the request. Unpinned: the result says so and carries its digest."""

    path: Annotated[
        str,
        Meta(
            pattern=rf"^(?:\.|(?:\./)?{_STEP}(?:/{_STEP})*/?)$",
            max_length=1000,
            description="a folder relative to the request's own folder, neither absolute nor with `..`",
        ),
    ]


Target: TypeAlias = GitTarget | NpmTarget | PypiTarget | DirTarget

_Entrypoint = Annotated[
    str,
    Meta(
        pattern=_INSIDE,
        max_length=500,
        description="a file inside the workspace, relative, without `..`; for npm inside the package, for pypi the "
        "name of a console script; for these two it may be left out",
    ),
]
_TargetField = Annotated[Target, Meta(description="what is reviewed: an object with `kind`")]


class _Request(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=False, tag_field="schema_version"
):
    """What both versions have."""

    prepare_profile: Annotated[
        PrepareProfile,
        Meta(
            description="what runs before the start; `npm_build` is exactly `npm run build`, "
            "`python_build` builds the wheel of a pypi target from its sources"
        ),
    ] = PrepareProfile.NONE
    credentials: Annotated[Literal["NONE"], Meta(description="no credential is ever handed in")]
    question: Annotated[
        str, Meta(min_length=1, max_length=1000, description="what the reviewer wants to know; 1 to 1000 characters")
    ]
    argv: Annotated[
        tuple[
            Annotated[str, Meta(max_length=1000, pattern=r"^[^\x00]*$", description="an argument, without NUL bytes")],
            ...,
        ],
        Meta(max_length=32, description="at most 32 arguments of at most 1000 characters, without NUL bytes"),
    ] = ()
    evidence: Annotated[
        tuple[Evidence, ...],
        Meta(min_length=1, extra_json_schema=_UNIQUE, description="which kinds of evidence, each at most once"),
    ]
    timeout_seconds: Annotated[
        int, Meta(ge=5, le=int(limits.EXERCISE_SECONDS), description="seconds of EXERCISE, 5 to 120")
    ]
    stop_conditions: Annotated[
        tuple[StopCondition, ...], Meta(extra_json_schema=_UNIQUE, description="what ends the run early as STOPPED")
    ] = ()


class RequestVersion1(_Request, frozen=True, kw_only=True, tag=1):
    """Version 1: one commit, network OPEN."""

    prepare_profile: Annotated[
        PrepareProfile,
        Meta(
            extra_json_schema={"enum": ["NONE", "npm_build"]},
            description="what runs before the start; `npm_build` is exactly `npm run build`",
        ),
    ] = PrepareProfile.NONE
    target: Annotated[GitTarget, Meta(description="one commit of a public repository")]
    adapter: Annotated[Literal["node_stdio"], Meta(description="how the target is started and spoken to")]
    action_profile: Annotated[Literal["mcp_initialize"], Meta(description="what is done with it once it runs")]
    network_mode: Annotated[
        Mode, Meta(extra_json_schema={"enum": ["OPEN"]}, description="version 1 knows OPEN only: all that is public")
    ]
    entrypoint: _Entrypoint

    schema_version: ClassVar[int] = 1
    allow: ClassVar[tuple[str, ...]] = ()
    linger_seconds: ClassVar[float] = limits.LINGER_SECONDS_DEFAULT
    protocol_era: ClassVar[str] = "legacy"
    repeat: ClassVar[int] = 1
    canaries: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Hold what the schema says of the network, also for a value made without it."""
        if self.network_mode is not Mode.OPEN:
            raise ValueError("version 1 knows OPEN only")
        if self.prepare_profile is PrepareProfile.PYTHON_BUILD:
            raise ValueError("version 1 knows no python_build")


class RequestVersion2(_Request, frozen=True, kw_only=True, tag=2):
    """Version 2: more targets, more network modes, lingering."""

    target: _TargetField
    adapter: Annotated[
        Literal["node_stdio", "python_stdio"],
        Meta(description="how the target is started and spoken to; python_stdio for pypi, node_stdio for the others"),
    ]
    action_profile: Annotated[
        Literal["mcp_initialize", "mcp_list", "mcp_call"],
        Meta(
            description="what is done with it once it runs: the handshake; all of its lists too; each tool called, too"
        ),
    ]
    network_mode: Annotated[
        Mode,
        Meta(
            description="NONE: loopback only. SINKHOLE: everything is answered here, nothing leaves. "
            "ALLOWLIST: what `allow` names. OPEN: all that is public"
        ),
    ]
    allow: Annotated[
        tuple[Annotated[str, Meta(max_length=260)], ...],
        Meta(
            max_length=32,
            extra_json_schema=_UNIQUE,
            description="`host:port` or `[address]:port`, up to 32 public ones; with ALLOWLIST at least one, else none",
        ),
    ] = ()
    named_entrypoint: _Entrypoint | UnsetType = msgspec.field(default=UNSET, name="entrypoint")
    linger_seconds: Annotated[
        float,
        Meta(ge=0, le=limits.LINGER_SECONDS_MAX, description="seconds that a phase is watched on, 0 to 60"),
    ] = limits.LINGER_SECONDS_DEFAULT
    protocol_era: Annotated[
        Literal["legacy", "modern", "both"],
        Meta(description="which revisions of MCP are spoken; `both` in two fresh processes"),
    ] = "legacy"
    canaries: Annotated[
        bool, Meta(description="whether the home is lived in, with credentials made up for the run, which are watched")
    ] = False
    repeat: Annotated[
        int,
        Meta(ge=1, le=3, description="how often it is started: 2 once more in the same home, 3 in a fresh one as well"),
    ] = 1

    schema_version: ClassVar[int] = 2

    @property
    def entrypoint(self) -> str | None:
        """The entrypoint; None only for npm and pypi: its one program."""
        return None if self.named_entrypoint is UNSET else self.named_entrypoint


ReviewRequest: TypeAlias = RequestVersion1 | RequestVersion2
_FIRST = ("schema_version", "target", "adapter", "action_profile", "entrypoint", "argv", "network_mode", "allow")
_VERSIONS: dict[int, type[ReviewRequest]] = {1: RequestVersion1, 2: RequestVersion2}


def parse(data: bytes) -> ReviewRequest:
    """The request that `data` is; `JsonError` when it is not JSON, `RequestRefusedError` with every broken rule."""
    return convert(jsonio.parse(data, size=limits.JSON_REQUEST_BYTES))


def convert(value: JsonValue) -> ReviewRequest:
    """The request that a JSON value is; `RequestRefusedError` with every broken rule."""
    rules.refuse_unwritable(value)
    version = rules.version(value)
    fields = cast("dict[str, JsonValue]", value)
    refusals = rules.check(fields, version, schema_of(version))
    if refusals:
        raise RequestRefusedError(refusals)
    try:
        request = msgspec.convert(_lower_ref(fields), _VERSIONS[version])
    except msgspec.ValidationError as error:  # the schema let it pass: a whole number written as 5.0
        text, _, place = str(error).partition(" - at ")
        path = place.strip("`").removeprefix("$").removeprefix(".")
        raise RequestRefusedError([Refusal(path=path, rule=text.lower(), remedy="write it as asked")]) from None
    return request


def endpoints(request: ReviewRequest) -> tuple[Endpoint, ...]:
    """What `allow` names: hosts in lower case or addresses in canonical form, with their ports."""
    return tuple(endpoint for entry in request.allow if (endpoint := parse_endpoint(entry)) is not None)


def to_value(request: ReviewRequest) -> dict[str, JsonValue]:
    """The request as a JSON value that `convert` takes back."""
    value: dict[str, JsonValue] = msgspec.json.decode(msgspec.json.encode(request))
    return {name: value[name] for name in (*_FIRST, *value) if name in value}


def schema() -> dict[str, Any]:
    """The published JSON Schema of both versions."""
    return {
        "$schema": DIALECT,
        "$id": "urn:fumehood:review-request",
        "title": "Review request",
        "description": "One bounded review of one exact target. Every field that is not named here is refused.",
        "oneOf": [{"$ref": "#/$defs/RequestVersion1"}, {"$ref": "#/$defs/RequestVersion2"}],
        "$defs": components(ReviewRequest),
    }


@functools.cache
def schema_of(version: int) -> dict[str, Any]:
    """The schema of one version, with its definitions. Not to be changed: the same value is given to everybody."""
    whole = schema()
    return {"$schema": DIALECT, **whole["$defs"][f"RequestVersion{version}"], "$defs": whole["$defs"]}


def _lower_ref(fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A commit's hex digits in lower case, as git prints them."""
    target = cast("dict[str, JsonValue]", fields["target"])
    ref = target.get("ref")
    return {**fields, "target": {**target, "ref": ref.lower()} if isinstance(ref, str) else target}
