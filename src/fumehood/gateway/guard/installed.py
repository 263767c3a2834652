"""A package of npm that was acquired: its record, and which of its programs is started. Pure.

Invariants: a record is taken only when it is of the package and version that are asked for; the program is the one that
npx would take, a file inside of the package, to be run by Node.
"""

import hashlib
import posixpath
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from fumehood.core.errors import FailedError, UnsupportedError
from fumehood.core.jsonio import JsonValue
from fumehood.gateway.guard.command import Package

_INTEGRITY: Final = r"^sha(256|384|512)-[A-Za-z0-9+/]{40,100}={0,2}$"  # W3C Subresource Integrity, as npm's lock has it
_DIGITS: Final = 16
_SCRIPTS: Final = (".js", ".mjs", ".cjs")


class PackageError(FailedError):
    """A package is not what it should be."""

    code = "guard_package"


class NoProgramError(UnsupportedError):
    """A package has no program that is run here."""

    code = "guard_no_program"


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What was acquired, beside its files."""

    name: str
    version: str
    integrity: Annotated[str, Meta(pattern=_INTEGRITY)]
    lock_sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    packages: int
    install_scripts: int  # packages of the lock that have some: none has run
    registry: str
    acquired: str  # RFC 3339
    program: str  # relative to the package


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A package that is ready to be started."""

    record: Record
    folder: str  # of the host: it holds node_modules
    node: str  # of the host: the program
    arguments: tuple[str, ...] = ()


def folder(package: Package, integrity: str) -> str:
    """The name of a package's folder, by its version and its integrity."""
    return _stem(package) + hashlib.sha256(integrity.encode()).hexdigest()[:_DIGITS]


def is_of(name: str, package: Package) -> bool:
    """Whether a folder of this name holds the package in this version, with whatever integrity."""
    rest = name.removeprefix(_stem(package))
    return name.startswith(_stem(package)) and len(rest) == _DIGITS and set(rest) <= set("0123456789abcdef")


def _stem(package: Package) -> str:
    return f"{package.name.replace('/', '+')}@{package.version}-"


def record(data: bytes, package: Package) -> Record:
    """The record of a folder. Errors: `PackageError`."""
    try:
        found = msgspec.json.decode(data, type=Record)
    except msgspec.MsgspecError:
        raise PackageError(f"{package.name}: its record cannot be read", remedy="remove it from the cache") from None
    if (found.name, found.version) != (package.name, package.version):
        raise PackageError(f"{package.name}: its record is another package's", remedy="remove it from the cache")
    return found


def program(manifest: JsonValue, package: Package) -> str:
    """The file that npx would run, relative to the package. Errors: `NoProgramError`."""
    raw = manifest.get("bin") if isinstance(manifest, dict) else None
    own = package.name.rpartition("/")[2]
    table = {own: raw} if isinstance(raw, str) else raw if isinstance(raw, dict) else {}
    paths = {name: path for name, path in table.items() if isinstance(path, str)}
    if not paths:
        raise NoProgramError(f"{package.name} has no program", remedy="name another package")
    if len(set(paths.values())) > 1 and own not in paths:
        listed = ", ".join(sorted(ascii(name[:60])[1:-1] for name in paths)[:16])
        raise NoProgramError(f"{package.name} has several programs, none of its own name: {listed}")
    path = posixpath.normpath(paths.get(own) or next(iter(paths.values())))
    if path.startswith(("/", "../")) or path in {".", ".."} or "\0" in path:
        raise PackageError(f"{package.name}: its program leads out of the package")
    return path


def is_of_node(path: str, head: bytes) -> bool:
    """Whether Node runs a file with this beginning."""
    first = head.partition(b"\n")[0]
    return b"node" in first if first.startswith(b"#!") else path.endswith(_SCRIPTS)


def hooks(lock: JsonValue) -> int:
    """How many packages of a lock have install scripts."""
    packages = lock.get("packages") if isinstance(lock, dict) else None
    found = packages.values() if isinstance(packages, dict) else ()
    return sum(1 for one in found if isinstance(one, dict) and one.get("hasInstallScript") is True)
