"""Time as an argument, so that decisions about time can be tested with plain values."""

import datetime as dt
import time
from typing import Protocol


class Clock(Protocol):
    """What may ask for the time asks one of these."""

    def monotonic(self) -> float:
        """Seconds since some point that does not move."""
        ...

    def now(self) -> dt.datetime:
        """The present moment in UTC."""
        ...


class SystemClock:
    """The clock of this machine."""

    def monotonic(self) -> float:
        """Seconds of CLOCK_MONOTONIC."""
        return time.monotonic()

    def now(self) -> dt.datetime:
        """The present moment in UTC."""
        return dt.datetime.now(dt.UTC)


def rfc3339(moment: dt.datetime) -> str:
    """A moment as RFC 3339 text in UTC with milliseconds, as results carry it."""
    return moment.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
