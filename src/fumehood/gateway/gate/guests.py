"""Who asks, for as long as it is remembered: guests of connections, and the programs within them. Pure.

Invariants: a guest is one principal on one connection with one set of scopes; what it is tainted by is shared with the
same principal's other scopes on that connection, and with nobody else; a program starts with the taint of whoever
started it and gives its own back; a taint is never taken away from a guest that goes on. The table is bounded: where it
is full, a guest without taint that asks nothing at the moment is forgotten first, since a new one is the same; the
taint of any other that has to be forgotten is from then on every new guest's, so that nobody is cleaned by a crowd.

Not promised: that a client which ends its connection and opens another forgets what it read.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from fumehood.core import limits
from fumehood.core.errors import BusyError
from fumehood.gateway.audit import calls
from fumehood.gateway.gate.model import Guest, Rights
from fumehood.wire.published import Caller

_Key = tuple[Hashable, str]


def fork(guest: Guest, *, run: str, only: frozenset[str] | None = None) -> Guest:
    """A program of a guest: its rights, or fewer, its taint, and nothing of what was approved."""
    had = guest.rights.only
    rights = replace(guest.rights, only=only if had is None else had if only is None else had & only)
    return Guest(
        who=guest.who,
        rights=rights,
        run=run,
        tainted_by=set(guest.tainted_by),
        program=True,
        refusals=guest.refusals,
    )


def join(guest: Guest, program: Guest) -> None:
    """Give a guest the taint of its program: before it gets anything of it, and also when it ended otherwise."""
    guest.tainted_by |= program.tainted_by
    guest.refusals = max(guest.refusals, program.refusals)


@dataclass(slots=True, kw_only=True)
class _Entry:
    """One principal on one connection."""

    tainted_by: set[str]
    guests: dict[frozenset[str] | None, Guest] = field(default_factory=dict)
    asking: int = 0


class Guests:
    """The guests of all connections."""

    def __init__(self, uid: int, fresh: Callable[[], str], *, most: int = limits.GATE_GUESTS) -> None:
        """Nobody is there. `fresh` gives 16 hex digits, each time others."""
        self._uid = uid
        self._fresh = fresh
        self._most = most
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        self._forgotten: set[str] = set()  # servers; bounded by the topology

    @contextmanager
    def asking(self, connection: Hashable, caller: Caller, rights: Rights) -> Iterator[Guest]:
        """The guest of one request; it is not forgotten before this is left. Errors: `BusyError`."""
        entry = self._entry((connection, caller.principal))
        guest = entry.guests.get(caller.scopes)
        if guest is None:
            guest = self._guest(entry, caller, rights)
        entry.asking += 1
        try:
            yield guest
        finally:
            entry.asking -= 1

    def left(self, connection: Hashable) -> None:
        """Forget the guests of a connection that is over."""
        for key in [key for key in self._entries if key[0] == connection]:
            del self._entries[key]

    def _entry(self, key: _Key) -> _Entry:
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= self._most:
                self._forget()
            entry = self._entries[key] = _Entry(tainted_by=set(self._forgotten))
        self._entries.move_to_end(key)
        return entry

    def _guest(self, entry: _Entry, caller: Caller, rights: Rights) -> Guest:
        if len(entry.guests) >= limits.GATE_SCOPES:
            raise BusyError("too many sets of scopes are used on one connection", remedy="open another connection")
        guest = Guest(
            who=calls.who(caller.principal, self._uid), rights=rights, run=self._fresh(), tainted_by=entry.tainted_by
        )
        entry.guests[caller.scopes] = guest
        return guest

    def _forget(self) -> None:
        """Make room for one."""
        idle = [key for key, entry in self._entries.items() if not entry.asking]
        found = next((key for key in idle if not self._entries[key].tainted_by), next(iter(idle), None))
        if found is None:
            raise BusyError("as many clients ask at once as may", remedy="ask again later")
        self._forgotten |= self._entries.pop(found).tainted_by
