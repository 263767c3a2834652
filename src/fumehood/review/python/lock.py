"""The lock of a Python target: what uv wrote, as packages with their hashes. Pure.

Source: pip's documentation of the requirements file format, in the form that `uv pip compile --generate-hashes`
writes: one exact version a package, one `--hash=sha256:…` a line.
"""

import re
from dataclasses import dataclass

from fumehood.review.python.names import normal
from fumehood.review.states import ReviewEndedError, State

NAME = "requirements.txt"
LOCK_BYTES = 4 * 1024 * 1024  # that of the largest application in the field, of 400 packages, is 700 KiB

_PACKAGE = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.!+_-]+)(?: ;[^\n\\]*)?\s*\\?")
_BUILT = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*) @ file://\$\{PROJECT_ROOT\}/\.build/dist/"
    r"[A-Za-z0-9._]+-(?P<version>[A-Za-z0-9.!+_]+)-[A-Za-z0-9._-]+\.whl\s*\\?"
)
_HASH = re.compile(r"\s+--hash=sha256:(?P<digest>[0-9a-f]{64})\s*\\?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """One package of a lock."""

    name: str  # in its normal form
    version: str
    sha256: tuple[str, ...]  # of every file of that version that may be installed


def parse(data: bytes) -> tuple[Locked, ...]:
    """The packages of a lock. Ends the review at a line that is neither a package nor a hash: it is not uv's."""
    packages: list[tuple[str, str, list[str]]] = []
    for line in data.decode("utf-8", "replace").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if package := _PACKAGE.fullmatch(line) or _BUILT.fullmatch(line):
            packages.append((normal(package["name"]), package["version"], []))
        elif packages and (digest := _HASH.fullmatch(line)):
            packages[-1][2].append(digest["digest"])
        else:
            raise ReviewEndedError(
                State.TARGET_FAILED, "bad_lock", "the lock has a line that is no package and no hash"
            )
    return tuple(Locked(name=name, version=version, sha256=tuple(hashes)) for name, version, hashes in packages)


def entry(packages: tuple[Locked, ...], name: str) -> Locked:
    """The lock's entry of the reviewed package; ends the review when it is missing or any package has no hash."""
    found = next((one for one in packages if one.name == normal(name)), None)
    if found is None:
        raise ReviewEndedError(State.TARGET_FAILED, "unknown_version", f"the lock names no {normal(name)}")
    demand_hashes(packages)
    return found


def demand_hashes(packages: tuple[Locked, ...]) -> None:
    """End the review when any package has no hash."""
    bare = next((one.name for one in packages if not one.sha256), None)
    if bare is not None:
        message = f"the index has no SHA-256 for {bare}: nothing would be checked while it is fetched"
        raise ReviewEndedError(State.TARGET_FAILED, "no_integrity", message)
