"""Which activity of a step was under way at a moment. Pure.

A step of a review is one confined child. What happens in it is told apart by what we were doing meanwhile: a server is
started, asked to initialize, asked for its lists, each tool is called, and it is watched on. An event of the operating
system is given the activity that was under way at its moment.

Not promised: that the activity was the event's cause. A timer that a tool set fires in a later one.
"""

import bisect


class Timeline:
    """The activities of one step, in order. Moments are seconds of the wall clock, as strace prints them."""

    def __init__(self, step: str) -> None:
        """Nothing is under way but the step itself."""
        self._step = step
        self._moments: list[float] = []
        self._activities: list[str] = []

    def begin(self, activity: str, moment: float) -> None:
        """From `moment` on this activity is under way; a clock that was put back does not reorder what has begun."""
        self._moments.append(max(moment, self._moments[-1]) if self._moments else moment)
        self._activities.append(activity)

    def at(self, moment: float | None) -> str:
        """The step's name, and after a slash the activity: `exercise/initialize`; without a moment, the step's name."""
        found = 0 if moment is None else bisect.bisect_right(self._moments, moment)
        return f"{self._step}/{self._activities[found - 1]}" if found else self._step
