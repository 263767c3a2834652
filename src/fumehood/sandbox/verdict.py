"""Why one sandbox ends, and when: its deadline among the reasons.

Invariants: the first reason counts; a broken bound or a lost sensor kills at once, whatever the caller waits for.
"""

import asyncio
import signal
import time
from collections.abc import Callable
from typing import Final

from fumehood.sandbox.cgroup import Usage
from fumehood.sandbox.spec import End, Exit
from fumehood.sandbox.watch import Watch

_SIGNALLED: Final = 128  # a shell's and bubblewrap's word for "ended by signal n" is 128 + n


class Verdict:
    """Of one sandbox. Made and used in one event loop."""

    def __init__(self, kill: Callable[[], None]) -> None:
        """Nothing is decided, and no time counts. `kill` ends the whole tree."""
        self.over: Final = asyncio.Event()
        self.reason: End | None = None
        self._kill = kill
        self._deadline: asyncio.TimerHandle | None = None
        self._armed_at = 0.0
        self._decided_at = 0.0

    def count(self, wall_seconds: float | None) -> None:
        """Begin the time that it has, with its end where there is one."""
        self.stop_counting()
        self._armed_at = time.monotonic()
        if wall_seconds is not None:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(wall_seconds, self.decide, End.DEADLINE)

    def stop_counting(self) -> None:
        """Its deadline is none any more."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def decide(self, reason: End) -> None:
        """It ends, for this reason, unless there is one already."""
        if self.reason is None:
            self.reason = reason
            self._decided_at = time.monotonic()
            self.stop_counting()
            if reason is not End.EXITED:
                self._kill()
            self.over.set()

    def blame_sensor(self) -> None:
        """What looked like its own end was that of its tracer."""
        self.reason = End.SENSOR

    def exit(self, status: int | None, usage: Usage, watch: Watch) -> Exit:
        """How it ended, once nothing of it runs. `status`: of its first process."""
        now = time.monotonic()
        reason, number = self.reason or End.STOPPED, None
        if reason is End.EXITED and status is not None and _SIGNALLED < status < _SIGNALLED + signal.NSIG:
            reason, number = End.SIGNALLED, status - _SIGNALLED
        if usage.out_of_memory and reason in {End.EXITED, End.SIGNALLED, End.STOPPED}:
            reason = End.MEMORY
        return Exit(
            end=reason,
            status=status if reason is End.EXITED else None,
            signal=number,
            wall_seconds=self._decided_at - self._armed_at,
            cpu_seconds=watch.charged(usage.cpu_seconds),
            peak_memory_bytes=usage.peak_memory_bytes or watch.peak_memory_bytes or None,
            stop_seconds=now - self._decided_at,
        )
