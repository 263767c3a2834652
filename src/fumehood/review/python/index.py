"""What a Python index says of one version, read from what `sandbox.programs.indexpage` printed. Pure.

The index is the operator's, and yet its words are the target's half of the time: names of files, hosts and types are
bounded, and of another form than they must have they are left out.
"""

import re
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from fumehood.core import jsonio, limits
from fumehood.review.result import Attestation
from fumehood.review.states import ReviewEndedError, State

HOSTS = 4  # that the page of one project may name for its files; the public index has one
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,255}")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_URL = re.compile(r"https?://[\x21-\x7e]{1,1000}")
_TYPE = re.compile(r"[\x21-\x7e]{1,200}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,20}Z")
_VERSIONED = re.compile(r"1\.([0-9]{1,4})")
_ATTESTS = 3  # the index API 1.3 brought `provenance` (PEP 740)


class File(Struct, frozen=True, kw_only=True):
    """One file of the version."""

    filename: str
    origin: tuple[str, str, int]  # scheme, host and port
    url: str = ""
    sha256: str | None = None
    yanked: bool = False
    uploaded: str | None = None
    attested: bool = False
    predicate_types: list[str] = []

    @property
    def is_wheel(self) -> bool:
        """Whether it can be installed without being built."""
        return self.filename.endswith(".whl")

    @property
    def is_sources(self) -> bool:
        """Whether a wheel can be built from it (PEP 625)."""
        return self.filename.endswith(".tar.gz")


class _Said(Struct, frozen=True, kw_only=True):
    """The program's answer."""

    status: int
    why: str = ""
    api: str = ""
    files: list[File] = []
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What the index says of one version."""

    api: str
    files: tuple[File, ...]
    builds: bool = False  # whether its wheel is built from its sources

    @property
    def hosts(self) -> tuple[tuple[str, int], ...]:
        """Where what is fetched is, by https: host and port, each once, the first few."""
        wanted = (f for f in self.files if (f.is_sources if self.builds else f.is_wheel))
        named = ((f.origin[1], f.origin[2]) for f in wanted if f.origin[0] == "https")
        return tuple(dict.fromkeys(named))[:HOSTS]

    @property
    def sources(self) -> File | None:
        """The source distribution."""
        return next((file for file in self.files if file.is_sources), None)

    def wheel(self, filename: str) -> File | None:
        """One wheel by its name."""
        return next((file for file in self.files if file.is_wheel and file.filename == filename), None)


def parse(data: bytes) -> Page:
    """The page; ends the review when the index did not answer as one, or has no such project."""
    try:
        said = msgspec.convert(jsonio.parse(data, size=limits.CAPTURE_BYTES), _Said)
    except (jsonio.JsonError, msgspec.ValidationError):
        raise _not_an_index("its answer cannot be read") from None
    if said.status in (404, 410):
        raise ReviewEndedError(State.TARGET_FAILED, "unknown_package", "index: the index has no such package")
    if said.status != 200:  # noqa: PLR2004 - the status of HTTP
        why = said.why if re.fullmatch("[A-Za-z]{1,40}", said.why) else f"status {said.status}"
        raise _not_an_index(why)
    return Page(api=said.api, files=tuple(_checked(file) for file in said.files if _FILE.fullmatch(file.filename)))


def attestation(page: Page, wheel: File | None) -> Attestation:
    """Whether the index offers an attestation for the file: the wheel that was installed, or the sources of one."""
    if wheel is None:
        return Attestation(state="unknown", why="the index did not name the wheel that was installed")
    if wheel.attested:
        types = tuple(one for one in wheel.predicate_types if _TYPE.fullmatch(one))
        return Attestation(state="present", predicate_types=types[:8], why="its signature was not verified")
    version = _VERSIONED.fullmatch(page.api)
    if version is None or int(version[1]) < _ATTESTS:
        spoken = page.api if version else "HTML"
        return Attestation(state="unknown", why=f"the index speaks {spoken} of its API, and attestations came with 1.3")
    return Attestation(state="absent", why="the index names none for this file")


def _checked(file: File) -> File:
    """The file without what has not the form that it must have."""
    scheme, host, port = file.origin
    known = scheme in ("http", "https") and _HOST.fullmatch(host) and 0 < port < 65536  # noqa: PLR2004 - a port
    return msgspec.structs.replace(
        file,
        origin=(scheme, host, port) if known else ("", "", 0),
        url=file.url if known and _URL.fullmatch(file.url) else "",
        sha256=file.sha256 if file.sha256 and _DIGEST.fullmatch(file.sha256) else None,
        uploaded=file.uploaded if file.uploaded and _TIME.fullmatch(file.uploaded) else None,
    )


def _not_an_index(why: str) -> ReviewEndedError:
    message = f"index: the index did not answer as an index does ({why}): no evidence about the target"
    return ReviewEndedError(State.HARNESS_ERROR, "registry", message)
