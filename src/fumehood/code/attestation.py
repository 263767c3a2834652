"""When a self test that was passed earlier still counts. Pure: a record and the facts of now in, reasons out.

Holds: a record counts only for the very things that it was made with, and for a bounded time; everything that the
outcome of a self test depends on, as far as anybody knows, is a field of `Facts`, and one that differs is a reason to
test again. What is no record in this very form counts as none.

Threats: another Deno below the same path, a kernel or a route that changed, a clock that was turned back. Not promised:
that a record was made by who says so: whoever may write as this user could as well replace fumehood itself.
`code.statefile` refuses the file of anybody else.
"""

import datetime as dt
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from fumehood.core import jsonio, limits

WORD_CHARACTERS: Final = 200  # of a release of a kernel with its build: Debian's has 90

_Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_Word = Annotated[str, Meta(min_length=1, max_length=WORD_CHARACTERS)]
_DAY_SECONDS: Final = 86_400
_DEPTH: Final = 4  # a record has three
_NAMES: Final = {
    "uid": "the user",
    "fumehood": "the version of fumehood",
    "sources": "the code of fumehood",
    "deno": "Deno",
    "libraries": "a library of Deno",
    "harness": "the harness",
    "import_map": "the import map",
    "programs": "a program of the self test",
    "bubblewrap": "bubblewrap",
    "setpriv": "setpriv",
    "kernel": "the kernel",
    "machine": "the machine",
    "route": "the route to a sandbox",
    "memory": "what bounds memory",
}


class Facts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the outcome of a self test depends on; digests are SHA-256 in hex."""

    uid: Annotated[int, Meta(ge=0)]
    fumehood: _Word
    sources: _Digest  # names and contents of the files that start, confine and serve a child
    deno: _Digest
    libraries: _Digest  # names and contents, the loader's among them
    harness: _Digest
    import_map: _Digest
    programs: _Digest  # those of the self test
    bubblewrap: _Digest
    setpriv: _Digest
    kernel: _Word
    machine: _Word
    route: _Word
    memory: _Word


class Attestation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A self test of which everything held: when, of what, and how many trials it had."""

    schema_version: Literal[1] = 1
    passed_at: Annotated[int, Meta(ge=0, le=limits.CODE_LAST_MOMENT)]  # Unix time, in seconds
    trials: Annotated[int, Meta(ge=1)]
    facts: Facts

    @property
    def moment(self) -> str:
        """When it was passed, as RFC 3339 in UTC."""
        return dt.datetime.fromtimestamp(self.passed_at, dt.UTC).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is remembered of an earlier self test. It counts where there are no reasons against it."""

    record: Attestation | None
    reasons: tuple[str, ...]


def fits(record: Attestation, facts: Facts, now: float) -> tuple[str, ...]:
    """Why a record does not count for what is here now (Unix time `now`); nothing when it does."""
    reasons = [
        f"{words} has changed" for name, words in _NAMES.items() if getattr(record.facts, name) != getattr(facts, name)
    ]
    if record.passed_at > now:
        reasons.append("its time is still to come")
    elif now - record.passed_at > limits.CODE_ATTESTED_SECONDS:
        reasons.append(f"it is older than {limits.CODE_ATTESTED_SECONDS // _DAY_SECONDS} days")
    return tuple(reasons)


def parse(data: bytes) -> Attestation | None:
    """The record that a file holds; None for anything else, whatever it is."""
    try:
        tree = jsonio.parse(data, depth=_DEPTH, size=limits.CODE_ATTESTATION_BYTES)
        return msgspec.convert(tree, Attestation)
    except (jsonio.JsonError, msgspec.ValidationError):
        return None


def encode(record: Attestation) -> bytes:
    """The bytes that `parse` takes."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
