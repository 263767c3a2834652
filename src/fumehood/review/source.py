"""A SOURCE as people type it, turned into a request of version 2. Pure.

`npm:NAME@VERSION`, `pypi:NAME==VERSION`, `github:OWNER/REPO@SHA40`, `dir:PATH`. The request still has to pass
`review.request`, which holds the rules; what is decided here is only which text is the name and which the version.
"""

from dataclasses import dataclass

from fumehood.core import limits
from fumehood.core.errors import RefusedError
from fumehood.core.jsonio import JsonValue

DEFAULT_QUESTION = "What does it do when it is installed and started?"
DEFAULT_TIMEOUT_SECONDS = 60  # half of what a request may ask for; the slowest start in the field took 20
FORMS = "npm:NAME@VERSION, pypi:NAME==VERSION, github:OWNER/REPO@SHA40 or dir:PATH"


class SourceError(RefusedError):
    """A SOURCE is not of one of the four forms."""

    code = "bad_source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A target, and for `dir` the folder that its path is relative to (as typed, to be opened by the caller)."""

    target: dict[str, JsonValue]
    folder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the command line may say besides the source; None leaves the default."""

    entrypoint: str | None = None
    argv: tuple[str, ...] = ()
    network: str | None = None
    allow: tuple[str, ...] = ()
    prepare: str | None = None
    timeout_seconds: int | None = None
    question: str | None = None
    as_of: str | None = None
    profile: str | None = None
    era: str | None = None
    repeat: int | None = None


def is_source(text: str) -> bool:
    """Whether `text` is meant as a SOURCE and not as the name of a request file."""
    return text.partition(":")[0] in _READERS and ":" in text


def parse(text: str) -> Source:
    """The target that `text` names, or a `SourceError` that shows the forms."""
    scheme, colon, rest = text.partition(":")
    if not colon or scheme not in _READERS or not rest:
        raise SourceError(f"{_shown(text)} is not a source", remedy=f"write {FORMS}")
    return _READERS[scheme](rest)


def request(source: Source, wishes: Wishes | None = None) -> dict[str, JsonValue]:
    """A request of version 2 for `source`: its lists, SINKHOLE and all evidence unless something else is wished."""
    wishes = wishes or Wishes()
    value: dict[str, JsonValue] = {
        "schema_version": 2,
        "target": source.target if wishes.as_of is None else {**source.target, "as_of": wishes.as_of},
        "adapter": "python_stdio" if source.target["kind"] == "pypi" else "node_stdio",
        "action_profile": wishes.profile or "mcp_list",
        "network_mode": wishes.network or ("ALLOWLIST" if wishes.allow else "SINKHOLE"),
        "credentials": "NONE",
        "question": DEFAULT_QUESTION if wishes.question is None else wishes.question,
        "argv": list(wishes.argv),
        "evidence": ["process", "network", "filesystem", "protocol"],
        "timeout_seconds": DEFAULT_TIMEOUT_SECONDS if wishes.timeout_seconds is None else wishes.timeout_seconds,
        "linger_seconds": limits.LINGER_SECONDS_DEFAULT,
        "canaries": True,
    }
    if wishes.allow:
        value["allow"] = list(wishes.allow)
    if wishes.prepare is not None:
        value["prepare_profile"] = wishes.prepare
    if wishes.era is not None:
        value["protocol_era"] = wishes.era
    if wishes.repeat is not None:
        value["repeat"] = wishes.repeat
    if wishes.entrypoint is not None:
        value["entrypoint"] = wishes.entrypoint
    return value


def _npm(rest: str) -> Source:
    name, at, version = rest.rpartition("@")
    if not at or not name or not version:
        raise SourceError(f"npm:{_shown(rest)} names no version", remedy="write npm:NAME@1.2.3, one exact version")
    return Source(target={"kind": "npm", "name": name, "version": version})


def _pypi(rest: str) -> Source:
    name, equals, version = rest.partition("==")
    if not equals or not name or not version:
        raise SourceError(f"pypi:{_shown(rest)} names no version", remedy="write pypi:NAME==1.2.3, one exact version")
    return Source(target={"kind": "pypi", "name": name, "version": version})


def _github(rest: str) -> Source:
    repository, at, ref = rest.rpartition("@")
    if not at or not repository or not ref:
        raise SourceError(f"github:{_shown(rest)} names no commit", remedy="write github:OWNER/REPO@ and 40 hex digits")
    return Source(target={"kind": "git", "repository": repository, "ref": ref})


def _dir(rest: str) -> Source:
    if "\0" in rest:
        raise SourceError("a path cannot hold a NUL byte", remedy="write dir:PATH")
    return Source(target={"kind": "dir", "path": "."}, folder=rest)


def _shown(text: str) -> str:
    """What was typed, cut and inert."""
    return ascii(text if len(text) <= 80 else text[:80] + "…")  # noqa: PLR2004 - one line of a terminal


_READERS = {"npm": _npm, "pypi": _pypi, "github": _github, "dir": _dir}
