"""The tools of one guarded server, held against what they were when they were first seen, or accepted since.

Invariants: the first list is pinned, and said; after that anything but the same set withholds every tool, and what
differs is kept beside the pin, so that what a person accepts is what was shown. Each server has a file of its own: two
guards that start at once take nothing from each other. A pin that cannot be read or kept is an error, not a new pin.

Not promised: that the first list was good: whoever is first is believed. That a server does what it says.
"""

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from fumehood.code import statefile
from fumehood.core import limits
from fumehood.core.clock import Clock, rfc3339
from fumehood.core.errors import HarnessError, RefusedError
from fumehood.core.jsonio import JsonValue
from fumehood.gateway import definitions, lockfile, lockstore, pins
from fumehood.gateway.guard.listing import Judgement, Taken, Withheld
from fumehood.gateway.lockfile import Lock
from fumehood.gateway.pins import Drift, PinError, Same

_FIRST: Final = "fumehood guard, first seen"
_ACCEPTED: Final = "fumehood guard --accept"
_SHOWN: Final = 16  # hex digits of a digest that a person compares
_NEXT: Final = "a person has to look at it, and run the same command as: fumehood guard --accept -- …"
_NAMED: Final = 5  # tools in one message; the whole difference is on stderr and at the acceptance


class NoPinError(RefusedError):
    """There is no place for pins, or nothing that could be accepted."""

    code = "guard_pin"


class Proposal(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a server has now, and how it differs from what was accepted."""

    tools: dict[str, dict[str, str]]
    difference: Annotated[list[str], Meta(max_length=limits.GUARD_SAID)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the pin of one server lies."""

    folder: Path
    server: str

    @property
    def lock(self) -> Path:
        """The pin."""
        return self.folder / f"{self.server}.lock"

    @property
    def proposal(self) -> Path:
        """What waits to be accepted."""
        return self.folder / f"{self.server}.proposed"


def folder(environ: Mapping[str, str]) -> Path:
    """The folder of this user's pins, which is made where it is not. Errors: `NoPinError`."""
    place = statefile.place(environ, "guard")
    if place is None:
        raise NoPinError("there is no home to keep the pins of tools in", remedy="set HOME, or XDG_STATE_HOME")
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = place.stat()
    except OSError as error:
        words = f"{place} cannot be made: {os.strerror(error.errno or 0)}"
        raise NoPinError(words, remedy="set XDG_STATE_HOME") from None
    if found.st_uid not in {0, os.geteuid()} or found.st_mode & 0o022:
        raise NoPinError(f"{place} may be changed by others", remedy="chown it to you and chmod go-w")
    return place


class Pinning:
    """Judges each list of one server."""

    def __init__(self, place: Place, clock: Clock) -> None:
        """Look at the pin, so that one that cannot be read stops the start. Errors: `LockError`."""
        self._place = place
        self._clock = clock
        lockstore.load(place.lock)

    def __call__(self, found: Sequence[JsonValue]) -> Judgement:
        """Whether these are the tools that were accepted. Errors: `LockError`, `HarnessError`."""
        try:
            tools = pins.pin(found)
        except PinError as error:
            return Withheld(reason=f"its list of tools cannot be pinned: {error.message}")
        pinned = lockstore.load(self._place.lock).servers.get(self._place.server)
        if pinned is None:
            _save(self._place, tools, self._clock, command=_FIRST)
            return Taken(said=(first_seen(tools),))
        compared = pins.compare(pinned.tools, tools)
        match compared:
            case Same():
                return Taken()
            case Drift():
                shown = [one for one in found if isinstance(one, dict)]
                lines = definitions.difference(compared, shown)[: limits.GUARD_SAID]
                _replace(self._place.proposal, msgspec.json.encode(Proposal(tools=tools, difference=lines)))
                return Withheld(reason=f"its tools changed: {summary(compared)}; {_NEXT}", said=tuple(lines))


def first_seen(tools: pins.Tools) -> str:
    """What is said of a first list, which is believed: how many tools, and the digest of what they were."""
    many = "1 tool is" if len(tools) == 1 else f"{len(tools)} tools are"
    return f"its {many} pinned from now on, with the digest {pins.digest(tools)[:_SHOWN]}"


def summary(drift: Drift) -> str:
    """What differs, in a line: the names of a few tools, inert."""
    told = [f"renamed {one.old!a} to {one.new!a}" for one in drift.renamed]
    told += [f"changed {one.name!a}" for one in drift.changed]
    told += [f"added {name!a}" for name in drift.added]
    told += [f"removed {name!a}" for name in drift.removed]
    more = len(told) - _NAMED
    return ", ".join(told[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def accept(place: Place, clock: Clock) -> list[str]:
    """Take what waits to be accepted as the pin; what differed, a line each. Errors: `NoPinError`, `LockError`."""
    try:
        data = place.proposal.read_bytes()
        found = msgspec.json.decode(data, type=Proposal)
    except FileNotFoundError:
        words = "nothing of this server waits to be accepted"
        raise NoPinError(words, remedy="start it first, with the same command: a change is shown then") from None
    except (OSError, msgspec.MsgspecError):
        raise NoPinError(f"{place.proposal} cannot be read", remedy="remove it, and start the server again") from None
    _save(place, found.tools, clock, command=_ACCEPTED)
    place.proposal.unlink(missing_ok=True)
    return found.difference


def _save(place: Place, tools: pins.Tools, clock: Clock, *, command: str) -> None:
    lock = lockfile.accepted(Lock(servers={}), place.server, tools, time=rfc3339(clock.now()), command=command)
    lockstore.save(place.lock, lock)


def _replace(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        words = f"{path} cannot be written: {os.strerror(error.errno or 0)}"
        raise HarnessError(words, remedy="look at its folder") from error
