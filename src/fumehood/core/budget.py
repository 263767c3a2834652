"""What one call may spend: time until a deadline, and only while somebody wants its answer.

Whoever loops or waits for a call asks `check()` in each turn; whoever waits in the kernel waits at most
`remaining_seconds()`, in steps of `STEP_SECONDS`, so that a cancellation is seen.
"""

import threading

from fumehood.core import limits
from fumehood.core.clock import Clock, SystemClock
from fumehood.core.errors import CancelledError, TimedOutError

STEP_SECONDS = 0.05  # until a waiting call notices that nobody wants it


class Budget:
    """The time of one call. Any thread may `cancel()` it."""

    __slots__ = ("_cancelled", "_clock", "_deadline", "seconds")

    def __init__(self, seconds: float = limits.CALL_SECONDS, *, clock: Clock | None = None) -> None:
        """Start the time now."""
        self.seconds = seconds
        self._clock = clock or SystemClock()
        self._deadline = self._clock.monotonic() + seconds
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Say that nobody wants the answer any more."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        """Whether somebody said so."""
        return self._cancelled.is_set()

    def remaining_seconds(self) -> float:
        """What is left; never below zero."""
        return max(0.0, self._deadline - self._clock.monotonic())

    def check(self) -> None:
        """Raise `CancelledError` or `TimedOutError` when the call must end."""
        if self._cancelled.is_set():
            raise CancelledError("the call was cancelled")
        if self._clock.monotonic() >= self._deadline:
            raise TimedOutError(
                f"the call took longer than {self.seconds:g} seconds",
                remedy="ask for less: a subfolder, a narrower glob",
            )
