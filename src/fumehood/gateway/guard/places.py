"""Which paths of the host a guarded server may be shown, and what is made of them. Pure: what is there is told.

Invariants: a path is judged as it resolves, and only where it was asked for it is shown; a server is shown neither the
whole system, the kernel's surfaces, the sockets of the host's services nor anything that fumehood itself is made of or
configured by; it may not write where programs of the system lie, nor to a home as a whole.

Not promised: that what lies in an allowed folder is harmless. A socket of a service in it can be connected to, and a
file that something else runs later (a shell's start, a hook) is written like any other.
"""

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from fumehood.gateway.guard.policy import GuardPolicyError
from fumehood.sandbox.spec import Bind

Kind: TypeAlias = Literal["file", "folder", "missing", "other"]

_SURFACES: Final = ("/proc", "/sys", "/dev", "/run")  # the kernel's, and the sockets of the host's services
_PROGRAMS: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/etc")
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/alternatives")  # seen by every server


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """How who wrote a policy writes its parts, so that an error names what can be typed."""

    read: str
    write: str
    env: str
    more: str  # lets a path be read, which comes behind it

    def shows(self, path: str) -> str:
        """The next step that lets a server read a path."""
        return f"{self.more} {path}"


FLAGS: Final = Spelling(read="--allow-read", write="--allow-write", env="--env", more="add --allow-read")
KEYS: Final = Spelling(
    read="policy.allow_read", write="policy.allow_write", env="policy.env", more="add to policy.allow_read:"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One path that a policy names, and what is there."""

    asked: str
    resolved: str
    kind: Kind
    writable: bool
    spelling: Spelling = FLAGS
    unreachable: str = ""  # why the uid of the server could not use it, where it has another than we

    @property
    def flag(self) -> str:
        """The flag, or the key, that names such a path."""
        return self.spelling.write if self.writable else self.spelling.read


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """Places of fumehood's own, and folders that are somebody's home. All resolved."""

    kept: tuple[str, ...]  # neither read nor written: settings, runs, logs, pins
    programs: tuple[str, ...]  # not written: what fumehood runs, or goes by
    homes: tuple[str, ...]


def within(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies below it."""
    return folder in {path, "/"} or path.startswith(f"{folder}/")


def binds(places: Iterable[Place], own: Own) -> tuple[Bind, ...]:
    """The mounts for these places, shallow ones first, so that a deeper one is seen. Errors: `GuardPolicyError`."""
    places = [*places]
    written = [place for place in places if place.writable]
    made: dict[str, Bind] = {}
    for place in sorted(places, key=lambda one: (one.asked.count("/"), one.writable)):
        if problem := refusal(place, own) or _led_out(place, written):
            raise GuardPolicyError(f"{place.flag} {place.asked!a}: {problem[0]}", remedy=problem[1])
        if place.writable or not is_system(place.asked):
            bind = Bind(source=Path(place.resolved), target=place.asked, writable=place.writable)
            made[place.asked] = bind  # writable comes last of one path
    return tuple(made.values())


def refusal(place: Place, own: Own) -> tuple[str, str] | None:
    """Why a place is refused, and the next step; None when it is not."""
    if posixpath.normpath(place.asked) != place.asked or place.asked.startswith("//"):
        return "is not a plain absolute path", "write it without `.`, `..` and double slashes"
    if place.kind == "missing":
        return "there is nothing", "name what exists: nothing is made on the host"
    if place.kind == "other":
        return "is neither a file nor a folder", "sockets, pipes and devices of the host are not shown"
    for problem in (_host(place), _unwritable(place, own), _fumehood(place.resolved, own)):
        if problem is not None:
            return problem
    if place.unreachable:
        return place.unreachable, "run fumehood as the user whose file it is, or let others pass"
    return None


def _host(place: Place) -> tuple[str, str] | None:
    for path in (place.asked, place.resolved):
        if path == "/":
            return "is the whole system", "name the folders that the server needs"
        if path == "/etc":
            return "is the whole configuration of the host", "name the files that the server needs"
        if surface := next((one for one in _SURFACES if within(path, one)), None):
            return f"{surface} is the host's own: the server has its own, or none", "leave it out"
    return None


def _fumehood(path: str, own: Own) -> tuple[str, str] | None:
    if any(within(path, one) or within(one, path) for one in own.kept):
        return "holds, or is, what fumehood itself is configured by or keeps", "name folders beside it"
    return None


def _led_out(place: Place, written: Iterable[Place]) -> tuple[str, str] | None:
    """A link in a folder that the server writes is the server's word: it would say at the next start what is shown."""
    for folder in written:
        named = within(place.asked, folder.asked) or within(place.asked, folder.resolved)
        if named and not within(place.resolved, folder.resolved):
            return f"leads out of {folder.asked!a}, which the server may write", f"name {place.resolved!a} itself"
    return None


def _unwritable(place: Place, own: Own) -> tuple[str, str] | None:
    path = place.resolved
    if not place.writable:
        return None
    if any(within(path, one) or within(one, path) for one in _PROGRAMS):
        return "is the system's own, and not to be written", "let it be read only, or name a folder of its own"
    if any(within(one, path) for one in own.homes):
        return "is a home as a whole, or holds one", "name a folder in it"
    if any(within(path, one) or within(one, path) for one in own.programs):
        return "holds, or is, what fumehood runs or goes by", "name a folder of its own"
    return None


def is_system(path: str) -> bool:
    """Whether every server sees this path anyway."""
    return any(within(path, one) for one in _SYSTEM)


def is_shown(path: str, shown: Iterable[Bind]) -> bool:
    """Whether a server sees what is at this path."""
    return is_system(path) or any(within(path, bind.target) for bind in shown)


def notes(places: Iterable[Place]) -> list[str]:
    """What the operator is told of links: where a path really leads."""
    return [f"{one.flag} {one.asked} is {one.resolved}" for one in places if one.asked != one.resolved]
