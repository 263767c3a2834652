"""When a server is started again, and whether a call is passed to it at all. Pure: time and chance are arguments.

Invariants: a wait is never shorter than the floor nor longer than the ceiling of its `Pace`, whatever chance says; it
grows until the server has been well for so long; of an open breaker at most one call at a time finds out whether the
server answers again, and no other is passed on.

Threats: a server that ends as soon as it is started, and one that lets every call wait for its deadline: each would
cost a start, or a place in the queue of every client, without end.

Source of both: M. Nygard, Release It!, the pattern "Circuit Breaker"; jitter, so that many do not come back at once.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from fumehood.core import limits

_MOST: Final = 64  # doublings: beyond, no pace has a ceiling that is not reached


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long is waited: twice as long after each failure, from the floor to the ceiling, both in seconds."""

    floor: float
    ceiling: float
    well: float  # after so long without a failure it begins at the floor again


RESTARTS: Final = Pace(
    floor=limits.UPSTREAM_AGAIN_SECONDS,
    ceiling=limits.UPSTREAM_AGAIN_MOST_SECONDS,
    well=limits.UPSTREAM_WELL_SECONDS,
)
RELISTS: Final = Pace(
    floor=limits.UPSTREAM_RELIST_SECONDS,
    ceiling=limits.UPSTREAM_RELIST_MOST_SECONDS,
    well=limits.UPSTREAM_RELIST_WELL_SECONDS,
)
REFUSALS: Final = Pace(
    floor=limits.UPSTREAM_REFUSING_SECONDS,
    ceiling=limits.UPSTREAM_AGAIN_MOST_SECONDS,
    well=limits.UPSTREAM_WELL_SECONDS,
)


class Backoff:
    """How long to wait before the next attempt."""

    def __init__(self, pace: Pace) -> None:
        """Nothing has failed."""
        self._pace = pace
        self._failures = 0

    def failed(self, well_seconds: float, chance: float) -> float:
        """The seconds to wait, after it was well for so long; `chance` is from 0 to 1, and takes away up to a half."""
        if well_seconds >= self._pace.well:
            self._failures = 0
        whole = min(self._pace.ceiling, self._pace.floor * 2.0 ** min(self._failures, _MOST))
        self._failures += 1
        return max(self._pace.floor, whole * (1 - min(max(chance, 0.0), 1.0) / 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A call may be passed on; what becomes of it is told with this."""

    probe: bool = False  # whether it is the one that finds out


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusing:
    """No call is passed on now."""

    reason: str
    again_seconds: float


Admission: TypeAlias = Admitted | Refusing


class Breaker:
    """The calls of one server. A failure is a call without an answer: one that ran out of time, or was lost."""

    def __init__(self, pace: Pace = REFUSALS) -> None:
        """It is closed: every call is passed on."""
        self._backoff = Backoff(pace)
        self._failures: list[float] = []  # when, since the last answer
        self._why = ""
        self._until: float | None = None  # open, and until when nobody may try
        self._closed = float("-inf")  # since when
        self._probing = False

    @property
    def is_open(self) -> bool:
        """Whether calls are refused, but for one."""
        return self._until is not None

    def admit(self, now: float) -> Admission:
        """Whether a call may be passed on at this moment."""
        if self._until is None:
            return Admitted()
        if not self._probing and now >= self._until:
            self._probing = True
            return Admitted(probe=True)
        return Refusing(reason=self._why, again_seconds=max(0.0, self._until - now))

    def answered(self, call: Admitted, now: float) -> None:
        """The server answered, also if it refused. Of an open breaker only the probe's answer counts."""
        if self._until is None or call.probe:
            if self._until is not None:
                self._closed = now
            self._failures, self._until = [], None
        self._release(call)

    def failed(self, call: Admitted, why: str, now: float, chance: float) -> None:
        """No answer came; `why` is a sentence of ours."""
        self._release(call)
        if self._until is not None and not call.probe:
            return  # it began before the breaker opened
        since = now - limits.UPSTREAM_FAILURES_SECONDS
        self._failures = [*(at for at in self._failures if at >= since), now][-limits.UPSTREAM_FAILURES :]
        if call.probe or len(self._failures) >= limits.UPSTREAM_FAILURES:
            self._why = f"its last calls had no answer: {why}"
            self._until = now + self._backoff.failed(0.0 if call.probe else now - self._closed, chance)

    def left(self, call: Admitted) -> None:
        """Whoever called does not wait any more: nothing is known of the server."""
        self._release(call)

    def _release(self, call: Admitted) -> None:
        if call.probe:
            self._probing = False
