"""How many calls run and wait at once, and how many may come in a minute, for each caller (T8). Pure.

Invariants: of one principal at most `running` calls run and at most `queued` wait; over a minute at most
`calls_a_minute` begin beyond a burst of as many; the table of principals is bounded, and who is forgotten has neither
a call in flight nor used a part of the rate.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

from fumehood.core import limits
from fumehood.core.clock import Clock, SystemClock
from fumehood.core.errors import BusyError

_MINUTE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What one principal may use."""

    running: int = limits.CALLS_RUNNING
    queued: int = limits.CALLS_QUEUED
    calls_a_minute: int = limits.CALLS_A_MINUTE


@dataclass(slots=True)
class _Account:
    tokens: float
    at: float
    in_flight: int = 0


class Admission:
    """Counts calls by principal. Any thread may use it."""

    def __init__(self, bounds: Bounds, clock: Clock | None = None) -> None:
        """Nobody calls yet."""
        self.bounds = bounds
        self._clock = clock or SystemClock()
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        self._lock = Lock()

    def enter(self, principal: str) -> None:
        """Let one call in; `leave` takes it out again. Errors: `BusyError`."""
        with self._lock:
            account = self._account(principal)
            if account.in_flight >= self.bounds.running + self.bounds.queued:
                raise BusyError(
                    f"{self.bounds.running} calls run and {self.bounds.queued} wait", remedy="try again in a moment"
                )
            if account.tokens < 1:
                raise BusyError(
                    f"more than {self.bounds.calls_a_minute} calls in a minute", remedy="try again in a moment"
                )
            account.tokens -= 1
            account.in_flight += 1

    def leave(self, principal: str) -> None:
        """Take one call out."""
        with self._lock:
            self._accounts[principal].in_flight -= 1

    @contextmanager
    def admitted(self, principal: str) -> Iterator[None]:
        """Both."""
        self.enter(principal)
        try:
            yield
        finally:
            self.leave(principal)

    def _account(self, principal: str) -> _Account:
        now = self._clock.monotonic()
        most = float(self.bounds.calls_a_minute)
        account = self._accounts.get(principal)
        if account is None:
            self._make_room(now)
            account = self._accounts[principal] = _Account(most, now)
        account.tokens = min(most, account.tokens + (now - account.at) * most / _MINUTE)
        account.at = now
        self._accounts.move_to_end(principal)  # used last
        return account

    def _make_room(self, now: float) -> None:
        """Forget who was seen longest ago; an account that a minute has filled up again says nothing."""
        if len(self._accounts) < limits.PRINCIPALS:
            return
        oldest, account = next(iter(self._accounts.items()))
        if account.in_flight or now - account.at < _MINUTE:
            raise BusyError("too many callers at once", remedy="try again in a minute")
        del self._accounts[oldest]
