"""The tools of every server behind the gateway, held against one `fumehood.lock`.

Invariants: the first list of a server is pinned, and said; after that anything but the same tools of the same server
withholds all of them. What differs is kept beside the lock, a file for each server, so that what is accepted is what
was shown; it is gone once the server has its accepted tools again. A server under another name is held against the
pin that it had: neither a tool nor a server evades its pin by a name. A pin that cannot be read or kept is an error,
not a new pin; one that is gone while the gateway runs (a lock that was removed, or another version of it checked out)
makes nothing that is withheld a first list. Whoever changes the lock holds it (`lockstore.held`): two gateways and an
acceptance take nothing from each other.

Threats: a server that changes its tools between two starts or on one connection; an entry of gateway.toml that became
another server under its old name; two that pin at once.

Not promised: that the first list was good: whoever is first is believed. That a server does what it says. Anything
against who may write the lock or the folder that it lies in.
"""

import contextlib
import hashlib
import os
import secrets
import shlex
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from fumehood.core import limits
from fumehood.core.clock import Clock, rfc3339
from fumehood.core.errors import HarnessError, RefusedError
from fumehood.core.jsonio import JsonValue
from fumehood.gateway import definitions, lockfile, lockstore, pins
from fumehood.gateway.guard import pinning
from fumehood.gateway.guard.listing import Judgement, Taken, Withheld
from fumehood.gateway.lockfile import Lock, Pin
from fumehood.gateway.pins import Drift, PinError, Same
from fumehood.gateway.topology.load import Loaded

Stamp: TypeAlias = tuple[int, int, int]
Tools: TypeAlias = dict[str, dict[str, str]]

_FIRST: Final = "fumehood gateway, first seen"
_ACCEPTED: Final = "fumehood gateway accept"
_SHOWN: Final = 16  # hex digits of a digest that a person compares
_OTHER: Final = "identity its command, address or folder is another one than that whose tools were accepted"
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class NothingWaitsError(RefusedError):
    """There is nothing to be accepted, or something else than what was shown."""

    code = "gateway_accept"


class Proposal(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a server has now, and how it differs from the pin that it was held against."""

    server: Annotated[str, Meta(pattern="^[A-Za-z0-9_.-]{1,64}$")]
    identity: str
    pinned: str | None  # what names that pin; None: the server has none of its own
    tools: Tools
    difference: Annotated[list[str], Meta(max_length=limits.GUARD_SAID)]  # inert

    @property
    def digest(self) -> str:
        """What a person compares: of all that would be accepted."""
        return _named(self.identity, pins.digest(self.tools))[:_SHOWN]


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """One server: its name in gateway.toml, and what it is (`identity`)."""

    name: str
    identity: str


class Pins:
    """One `fumehood.lock` and what waits beside it. Any thread may use it; each method may wait for the disk."""

    def __init__(self, lock: Path, clock: Clock, *, config: str = "gateway.toml") -> None:
        """Nothing is read yet. `config` is how a person names the file of the servers."""
        self._lock = lock
        self._config = config
        self._clock = clock
        self._seen: dict[str, Pin] = {}  # of each server the last pin that stood in the lock

    def load(self) -> Lock:
        """The lock as it is. Errors: `LockError`."""
        return lockstore.load(self._lock)

    def stamp(self) -> Stamp | None:
        """What differs where the lock is another one; None where there is none."""
        try:
            found = self._lock.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def judge(self, who: Who, found: Sequence[JsonValue]) -> Judgement:
        """Whether these are the tools that were accepted. Errors: `LockError`, `HarnessError`."""
        try:
            tools = pins.pin(found)
        except PinError as error:
            return Withheld(reason=f"its list of tools cannot be pinned: {error.message}")
        pin = self._pin(self.load(), who)
        if pin is not None and _is_same(pin, who, tools):
            self._withdraw(who.name)
            return Taken()
        with lockstore.held(self._lock):
            lock = self.load()
            pin = self._pin(lock, who)
            gone = self._seen.get(who.name) if pin is None else None
            if gone is not None and not _is_same(gone, who, tools):
                return self._withheld(who, gone, found, own=False)
            if pin is None and (twins := _twins(lock, who)):
                pin = next((twin for twin in twins if _is_same(twin, who, tools)), twins[0])
                if not _is_same(pin, who, tools):
                    return self._withheld(who, pin, found, own=False)
                pin = None
            if pin is None:
                self._save(lock, who, tools, _FIRST)
                return Taken(said=(pinning.first_seen(tools),))
            return Taken() if _is_same(pin, who, tools) else self._withheld(who, pin, found, own=True)

    def _pin(self, lock: Lock, who: Who) -> Pin | None:
        """The pin of a server, which is remembered."""
        if (pin := lock.servers.get(who.name)) is not None:
            self._seen[who.name] = pin
        return pin

    # --- what waits to be accepted

    def waiting(self) -> tuple[str, ...]:
        """The servers of which something waits, in order."""
        try:
            names = sorted(one.name for one in self._folder.iterdir())
        except OSError:
            return ()
        return tuple(name.removesuffix(".json") for name in names if name.endswith(".json") and name[0] != ".")

    def proposal(self, server: str) -> Proposal:
        """What waits of one server. Errors: `NothingWaitsError`."""
        path = self._path(server)
        try:
            with os.fdopen(os.open(path, _READ), "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode) or found.st_uid not in {0, os.geteuid(), self._owner()}:
                    raise NothingWaitsError(f"{path} is not ours", remedy="look at what is there")
                data = file.read(limits.LOCK_BYTES + 1)
            proposal = msgspec.json.decode(data, type=Proposal)
        except FileNotFoundError:
            words = f"nothing of {server!a} waits to be accepted"
            raise NothingWaitsError(words, remedy="start the gateway: a change is shown then, and kept") from None
        except (OSError, ValueError, msgspec.MsgspecError):
            remedy = "remove it, and start the gateway again"
            raise NothingWaitsError(f"{path} cannot be read", remedy=remedy) from None
        if proposal.server != server:
            raise NothingWaitsError(f"{path} is of another server", remedy="remove it, and start the gateway again")
        return proposal

    def accept(self, proposal: Proposal) -> None:
        """Take exactly this as the pin. Errors: `NothingWaitsError`, `LockError`, `HarnessError`."""
        who = Who(name=proposal.server, identity=proposal.identity)
        with lockstore.held(self._lock):
            lock = self.load()
            pin = lock.servers.get(who.name)
            if (None if pin is None else _of(pin)) != proposal.pinned:
                words = f"the pin of {who.name} is another one than what was compared"
                raise NothingWaitsError(words, remedy="let the gateway compare again: start it, or wait a moment")
            self._save(lock, who, proposal.tools, _ACCEPTED)
            with contextlib.suppress(NothingWaitsError):
                if self.proposal(who.name) == proposal:
                    self._withdraw(who.name)

    def _withheld(self, who: Who, pin: Pin, found: Sequence[JsonValue], *, own: bool) -> Withheld:
        tools = pins.pin(found)
        compared = pins.compare(pin.tools, tools)
        lines, told = [], []
        if not _is_known(pin, who):
            lines.append(_OTHER)
            told.append("it is another server than the one that was accepted")
        match compared:
            case Drift():
                lines += definitions.difference(compared, [one for one in found if isinstance(one, dict)])
                told.append(f"its tools changed: {pinning.summary(compared)}")
            case Same():
                pass
        proposal = Proposal(
            server=who.name,
            identity=who.identity,
            pinned=_of(pin) if own else None,
            tools=tools,
            difference=lines[: limits.GUARD_SAID],
        )
        self._propose(proposal)
        typed = f"fumehood gateway accept {who.name} --digest {proposal.digest} --config {shlex.quote(self._config)}"
        reason = f"{', and '.join(told)}; a person has to look at it, and to accept it"
        return Withheld(reason=reason, said=(*proposal.difference, f"to accept: {typed}"))

    def _save(self, lock: Lock, who: Who, tools: Tools, command: str) -> None:
        pin = lockfile.pinned(tools, time=rfc3339(self._clock.now()), command=command, identity=who.identity)
        lockstore.save(self._lock, Lock(servers=lock.servers | {who.name: pin}))

    # --- files beside the lock

    @property
    def _folder(self) -> Path:
        return proposed(self._lock)

    def _path(self, server: str) -> Path:
        if "/" in server or "\0" in server or server.startswith("."):
            raise NothingWaitsError(f"{server!a} is no name of a server", remedy="name one of gateway.toml")
        return self._folder / f"{server}.json"

    def _owner(self) -> int:
        """Whose the lock's folder is: the gateway may run as another user than who accepts as root."""
        return self._lock.parent.stat().st_uid if os.geteuid() == 0 else -1

    def _propose(self, proposal: Proposal) -> None:
        path, data = self._path(proposal.server), msgspec.json.encode(proposal)
        beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with os.fdopen(os.open(beside, _WRITE, 0o600), "wb") as file:
                file.write(data)
            beside.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink()
            words = f"{path} cannot be written: {os.strerror(error.errno or 0)}"
            raise HarnessError(words, remedy="look at its folder") from error

    def _withdraw(self, server: str) -> None:
        """Forget what waited: it is accepted, or the server has its accepted tools again."""
        with contextlib.suppress(OSError):
            self._path(server).unlink()


def proposed(lock: Path) -> Path:
    """The folder of what waits beside a lock."""
    return lock.with_name(f"{lock.name}.proposed")


def pins_of(loaded: Loaded, clock: Clock, *, config: str) -> Pins:
    """The pins of a topology. `config` is how its file was named."""
    named = loaded.topology.gateway.lock_file or str(Path(loaded.folder) / lockfile.NAME)
    return Pins(Path(named), clock, config=config)


def _twins(lock: Lock, who: Who) -> list[Pin]:
    """Pins of the same server under other names."""
    return [pin for _, pin in sorted(lock.servers.items()) if pin.identity == who.identity]


def _is_known(pin: Pin, who: Who) -> bool:
    """A pin without an identity was made by hand, or before there were any: it is of the name alone."""
    return pin.identity in {None, who.identity}


def _is_same(pin: Pin, who: Who, tools: pins.Tools) -> bool:
    return _is_known(pin, who) and isinstance(pins.compare(pin.tools, tools), Same)


def _of(pin: Pin) -> str:
    return _named(pin.identity or "", pin.digest)


def _named(identity: str, digest: str) -> str:
    return hashlib.sha256(f"{identity} {digest}".encode()).hexdigest()
