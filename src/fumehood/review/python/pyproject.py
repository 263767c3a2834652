"""What a source distribution says of its own build, and the wheel that the build left, read as hostile data. Pure.

Source: PEP 517 and 518 (`build-system`: what it requires, which backend, whether that lies in the sources), PEP 508
(the form of a requirement), the binary distribution format (names of wheels).

Invariant: a requirement that is handed to uv is a name with versions and markers: no option, no path, no address.
"""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct

from fumehood.core import jsonio, limits
from fumehood.review.python.names import normal
from fumehood.review.states import ReviewEndedError, State

FILE = "pyproject.toml"
BYTES = 128 * 1024  # of pyproject.toml; the largest seen in the field has some 40 KiB
REQUIRES = 64  # of one build; the largest in the field has 12
_DEFAULT = ("setuptools>=40.8.0",)  # PEP 518: where nothing is said
_LEGACY = "setuptools.build_meta:__legacy__"
_REQUIREMENT = re.compile(
    r"""[A-Za-z0-9][A-Za-z0-9._-]{0,100}(?:[ \[(<>=!~;][A-Za-z0-9._\-,<>=!~ \[\]();"'*+]{0,400})?"""
)
_BACKEND = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,200}(?::[A-Za-z_][A-Za-z0-9_.]{0,200})?")
_WHEEL = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._]{0,213})-(?P<version>[A-Za-z0-9.!+_]{1,256})-[A-Za-z0-9._-]{1,300}\.whl"
)
_RELEASE = re.compile(r"(?P<numbers>(?:[0-9]+!)?[0-9]+(?:\.[0-9]+)*)(?P<rest>.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSystem:
    """How the sources say that they are built."""

    requires: tuple[str, ...]
    backend: str
    in_tree: bool  # whether the backend is the sources' own


class _Said(Struct, frozen=True, kw_only=True):
    """What `sandbox.programs.sdist` printed."""

    said: str
    why: str = ""
    files: int = 0


_REASONS = frozenset(
    [
        *("too large", "a path that leads elsewhere", "a link or a device", "more than one folder", "a name twice"),
        *("no archive of its kind", "a file that cannot be written"),
    ]
)


def demand_unpacked(data: bytes) -> int:
    """How many files were unpacked; ends the review when the program says that they were not."""
    try:
        said = msgspec.convert(jsonio.parse(data, size=limits.CAPTURE_BYTES), _Said)
    except (jsonio.JsonError, msgspec.ValidationError):
        said = _Said(said="network", why="no answer")
    if said.said == "ok":
        return said.files
    if said.said == "hash":
        message = "the source distribution does not have the hash that the index names"
        raise ReviewEndedError(State.TARGET_FAILED, "integrity_mismatch", message)
    if said.said == "bad":
        why = said.why if said.why in _REASONS else "an unknown reason"
        message = f"the source distribution is none that is unpacked: it has, or is, {why}"
        raise ReviewEndedError(State.TARGET_FAILED, "bad_sources", message)
    why = said.why if re.fullmatch("[A-Za-z0-9 ]{1,40}", said.why) else "no answer"
    message = f"the source distribution could not be had ({why}): no evidence about the target"
    raise ReviewEndedError(State.HARNESS_ERROR, "registry", message)


def build_system(data: bytes | None) -> BuildSystem:
    """What `pyproject.toml` says; ends the review when it cannot be read, or asks for what is no plain requirement."""
    if data is None:
        return BuildSystem(requires=_DEFAULT, backend=_LEGACY, in_tree=False)
    try:
        said: Any = tomllib.loads(data.decode("utf-8")).get("build-system", {})
    except (ValueError, RecursionError):  # not TOML, or not UTF-8
        raise _bad("cannot be read") from None
    if not isinstance(said, dict):
        raise _bad("has a build-system that is no table")
    requires, backend = said.get("requires", list(_DEFAULT)), said.get("build-backend", _LEGACY)
    if not isinstance(backend, str) or not _BACKEND.fullmatch(backend):
        raise _bad("names a build backend that is none")
    if not isinstance(requires, list) or len(requires) > REQUIRES:
        raise _bad(f"requires for its build what is no list of at most {REQUIRES}")
    if not all(isinstance(one, str) and _REQUIREMENT.fullmatch(one.strip()) for one in requires):
        raise _bad("requires for its build what is no plain name with versions")
    return BuildSystem(
        requires=tuple(one.strip() for one in requires), backend=backend, in_tree=bool(said.get("backend-path"))
    )


def wheel(filenames: Iterable[str], name: str, version: str) -> str:
    """The one wheel of the target among the files that the build left; ends the review when there is none."""
    found = [one for one in filenames if is_wheel(one, name, version)]
    if len(found) != 1:
        message = f"build: it left {len(found)} wheels of the target's name and version, and must leave one"
        raise ReviewEndedError(State.TARGET_FAILED, "build_failed", message)
    return found[0]


def is_wheel(filename: str, name: str, version: str) -> bool:
    """Whether a file's name is that of a wheel of this name and version."""
    named = _WHEEL.fullmatch(filename)
    return (
        named is not None
        and normal(named["name"]) == normal(name)
        and _release(named["version"].replace("_", "-")) == _release(version.replace("_", "-"))
    )


def _release(version: str) -> tuple[str, str]:
    """A version, so that 1.0 and 1.0.0 are one."""
    found = _RELEASE.fullmatch(version.lower())
    return (re.sub(r"(?:\.0+)+$", "", found["numbers"]), found["rest"].replace("-", ".")) if found else (version, "")


def _bad(what: str) -> ReviewEndedError:
    return ReviewEndedError(State.TARGET_FAILED, "bad_sources", f"pyproject.toml of the source distribution {what}")
