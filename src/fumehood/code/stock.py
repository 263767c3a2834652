"""How many children a pool has, who waits for one, and when the next is started. Pure: counts and moments.

Invariants: at most `runs` runs are admitted; runs that have or await a child, children that wait for a run, and those
that start are together at most `runs + warm`.
While a run waits, a child starts for it, if fewer than CODE_STARTS do. Nothing is started in advance while starts
fail, but after a pause that doubles each time up to CODE_REFILL_SECONDS_MAX; nor more than one at once beside runs.
"""

import enum
from typing import Final

from fumehood.core import limits
from fumehood.core.errors import BusyError


class Fate(enum.StrEnum):
    """What becomes of a child that is ready."""

    HANDED = "handed"  # to the run that has waited for longest
    KEPT = "kept"
    SURPLUS = "surplus"  # whoever it was for does not want it any more


class Stock:
    """The counts of one pool."""

    def __init__(self, runs: int, warm: int) -> None:
        """So many runs at once, and so many children that wait for one."""
        self._runs: Final = runs
        self._warm: Final = warm
        self.running = 0  # runs that were admitted and have not left
        self.waiting = 0  # those of them that wait for a child
        self.idle = 0  # children that wait for a run
        self.starting = 0
        self._failures = 0  # in a row
        self._again_at = 0.0

    # --- runs

    def admit(self) -> None:
        """Let one run in; `leave` takes it out again. Raises `BusyError`."""
        if self.running >= self._runs:
            words = f"{self._runs} programs run, as many as may"
            raise BusyError(words, remedy="try again when one has ended")
        self.running += 1

    def leave(self) -> None:
        """A run is over."""
        self.running -= 1

    def want(self) -> bool:
        """A run wants a child: whether it takes one of those that wait; otherwise it waits itself."""
        if self.idle:
            self.idle -= 1
            return True
        self.waiting += 1
        return False

    def give_up(self) -> None:
        """A run that waited waits no longer."""
        self.waiting -= 1

    # --- children

    def due(self, now: float) -> int:
        """How many children are to be started now; each that is, is told by `begin`."""
        if self.waiting:
            return max(0, min(self.waiting, limits.CODE_STARTS) - self.starting)
        if now < self._again_at:
            return 0
        at_once = 1 if self.running else limits.CODE_STARTS  # a start takes the processor from those who run
        return max(0, min(self._warm - self.idle, at_once) - self.starting)

    def pause(self, now: float) -> float | None:
        """Seconds until something can be due by time alone; None if nothing ever."""
        if now >= self._again_at or self.idle >= self._warm:
            return None
        return min(self._again_at - now, limits.CODE_REFILL_SECONDS_MAX)  # a difference may be rounded up

    def begin(self) -> None:
        """A child is being started."""
        self.starting += 1

    def ready(self) -> Fate:
        """A child that was started is ready."""
        self.starting -= 1
        if self.waiting:
            self.waiting -= 1
            return Fate.HANDED
        if self.idle < self._warm:
            self.idle += 1
            return Fate.KEPT
        return Fate.SURPLUS

    def abort(self) -> None:
        """A start was ended by us."""
        self.starting -= 1

    def fail(self, now: float) -> bool:
        """A start failed: whether a run that waits is to be told, and waits no longer."""
        self.starting -= 1
        self.back_off(now)
        if not self.waiting:
            return False
        self.waiting -= 1
        return True

    def lose(self, now: float) -> None:
        """A child that waited has ended by itself, or said something that nobody had asked."""
        self.idle -= 1
        self.back_off(now)

    def may_retire(self) -> bool:
        """Whether one may be replaced that has waited for too long: one after the other, and never by nothing."""
        return self.idle >= self._warm and not self.starting and not self.waiting

    def retire(self) -> None:
        """One that waited is ended by us."""
        self.idle -= 1

    def back_off(self, now: float) -> None:
        """Nothing is started in advance for a while."""
        pause = limits.CODE_REFILL_SECONDS * 2.0 ** min(self._failures, _DOUBLINGS)
        self._failures += 1
        self._again_at = now + min(pause, limits.CODE_REFILL_SECONDS_MAX)

    def served(self) -> None:
        """A child came to its run in good order."""
        self._failures = 0
        self._again_at = 0.0


_DOUBLINGS: Final = 16  # more would only make a larger number to be cut
