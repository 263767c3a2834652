"""What one line of the audit log says: who, what, what was decided, digests and sizes. Pure.

Invariants: neither arguments nor answers fit in: each field is a number, a word of a fixed alphabet or a digest. Every
string is printable ASCII, every number an integer below 2**53, so that the bytes of a line are those of RFC 8785 (the
JSON Canonicalization Scheme) and also what any JSON library writes with sorted keys and no white space.

Not promised: that names tell nothing. A tool's name and the key of a token stand in clear.
"""

from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from fumehood.core.schemas import DIALECT, components

VERSION: Final = 1
NOTHING: Final = "0" * 64  # the digest before the first line

Number = Annotated[int, Meta(ge=0, le=2**53 - 1)]  # RFC 8785 3.2.2.3: what every reader can hold
Outcome: TypeAlias = Literal["begun", "ok", "refused", "failed", "cancelled"]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]


class Call(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="call"):
    """One call of a tool: what was decided, and what came of it.

    A call of a tool that may write has two: one with the outcome `begun` before it is made, one after it.
    """

    source: Literal["code", "gateway", "guard", "serve"]  # which part of fumehood stood at the gate
    who: Annotated[str, Meta(pattern=r"^(?:uid:[0-9]{1,10}|(?:token|address):[!-~]{1,128})$")]
    run: Annotated[str, Meta(pattern=r"^[0-9a-f]{16}$", description="the run or connection that it belongs to")]
    call: Annotated[int, Meta(ge=1, le=2**53 - 1, description="its number there")]
    tool: Annotated[str, Meta(pattern=r"^[ -~]{0,256}$", description="as asked, inert and cut")]
    writes: Annotated[bool, Meta(description="whether the tool may change something, as far as is known")]
    decision: Annotated[str, Meta(pattern="^[a-z_]{1,64}$", description="`allowed`, or the rule that denied it")]
    outcome: Outcome
    error: Annotated[str, Meta(pattern=r"^[a-z_]{0,64}$", description="the code of the error; empty without one")]
    arguments_sha256: Annotated[str, Meta(pattern=r"^(?:[0-9a-f]{64})?$", description="of their JSON")]
    arguments_bytes: Number
    answer_bytes: Number
    microseconds: Number


class Recovered(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="recovered"):
    """The bytes just before this line are no line: a crash tore what was being written there."""

    torn_bytes: Annotated[int, Meta(ge=1, le=2**53 - 1, description="up to this line, line ends included")]
    torn_sha256: Digest


Event: TypeAlias = Call | Recovered


class Line(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One line. `digest` is the SHA-256 of the line's own bytes without that member."""

    digest: Digest
    event: Event
    previous: Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="the digest of the line before; else zeros")]
    sequence: Annotated[int, Meta(ge=1, le=2**53 - 1)]
    time: Annotated[
        str,
        Meta(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$", description="RFC 3339, UTC"),
    ]
    version: Literal[1]


def is_durable(event: Event) -> bool:
    """Whether the answer waits until this stands on the disk: what may write, and every decision but `allowed`."""
    return not isinstance(event, Call) or event.writes or event.decision != "allowed"


def schema() -> dict[str, Any]:
    """The published JSON Schema of one line."""
    parts = components(Line)
    whole = parts.pop("Line")
    return {"$schema": DIALECT, "$id": "urn:fumehood:audit-record", **whole, "title": "Audit record", "$defs": parts}
