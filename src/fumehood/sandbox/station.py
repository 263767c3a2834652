"""A place for many runs, one after the other and side by side: one folder, one lock and one janitor for all of them.

Each run has a seat of its own for as long as it lasts: as root a uid (`slots`), and in any case a new folder that only
that uid may enter, and cgroups named after it. All uids are taken at the beginning, so that the janitor keeps the
locks of every one of them: if the owner is killed no uid is given to anybody before the janitor is done.

Invariant: a seat is given again only once its folder and its cgroups are gone, and no process has its uid. One of which
that cannot be said is set aside, and looked at again when no other is left.

Not promised: that a run has nothing to do with another as an ordinary user, beyond what folder and sandbox hold: then
there is one uid, which is one's own.
"""

import contextlib
import logging
import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fumehood.core.errors import BusyError
from fumehood.sandbox import slots
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.programs import janitor
from fumehood.sandbox.runs import Run, RunFolderError, give_to, locked

_LOG: Final = logging.getLogger(__name__)
_ENTERED: Final = 0o711  # by every uid of it, on the way to its own folder: names in it are not shown


@dataclass(frozen=True, slots=True, kw_only=True)
class _Used:
    """A seat that cannot be given yet, with what is left of its run."""

    uid: int
    path: Path
    name: str


class Station:
    """Seats for runs. Made by `open_station` only."""

    def __init__(self, path: Path, uids: Sequence[int], host: HostFacts) -> None:
        """Take over a locked folder and uids that nobody else has."""
        self.path: Final = path
        self._roots = [str(root) for root in host.cgroups.roots.values()]
        self._free = deque(uids)
        self._aside: list[_Used] = []
        self._count = 0

    @property
    def free(self) -> int:
        """How many seats can be given now."""
        return len(self._free)

    @contextlib.contextmanager
    def run(self) -> Iterator[Run]:
        """A seat for one sandbox; on the way out it is made free. Raises `BusyError` and `RunFolderError`."""
        uid = self._take()
        self._count += 1
        path = self.path / str(self._count)
        used = _Used(uid=uid, path=path, name=f"{self.path.name}-{self._count}")
        ended = False
        try:
            run = self._seated(used)
            try:
                run.prepare_helper()
                yield run
                ended = True
            finally:
                run.close_helper()
        finally:
            self._leave(used, ended=ended)

    def _take(self) -> int:
        if not self._free:
            aside, self._aside = self._aside, []
            for used in aside:
                self._leave(used, ended=False)
        if not self._free:
            raise BusyError("every seat is taken", remedy="try again when a run has ended")
        return self._free.popleft()  # the one that has been free for longest

    def _seated(self, used: _Used) -> Run:
        try:
            used.path.mkdir(mode=0o700)
        except OSError as error:
            raise RunFolderError(f"{used.path}: {os.strerror(error.errno or 0)}") from error
        give_to(used.path, used.uid)
        return Run(used.path, used.uid, once=True, name=used.name)

    def _leave(self, used: _Used, *, ended: bool) -> None:
        """Make a seat free. `ended`: its sandbox ended as it should, and nothing can wait to be started any more."""
        try:
            free = self._is_cleared(used, ended=ended)
        except OSError:  # no descriptor is left to look with, for one
            free = False
        if free:
            self._free.append(used.uid)
        else:
            _LOG.warning("a seat could not be made free", extra={"uid": used.uid})
            self._aside.append(used)

    def _is_cleared(self, used: _Used, *, ended: bool) -> bool:
        janitor.remove_cgroups(self._roots, used.name)
        if not ended:
            janitor.end_waiting(str(used.path))
        return janitor.purge(str(used.path)) and (used.uid == os.geteuid() or not slots.seen_running(used.uid))


@contextlib.contextmanager
def open_station(host: HostFacts, seats: int) -> Iterator[Station]:
    """A station with so many seats; on the way out everything of it is removed, in whatever way that comes.

    Raises `NoSlotError` and `RunFolderError`.
    """
    with locked(host, seats) as (path, uids):
        if uids[0] != os.geteuid():
            path.chmod(_ENTERED)
        yield Station(path, uids, host)
