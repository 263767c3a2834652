"""The six states in which a review ends, and the one exception that carries them.

Which fault leads to which state is the table of docs/reference/states.md. A state is evidence about a run; none of
them judges the target.
"""

import enum


class State(enum.StrEnum):
    """How a review ended."""

    COMPLETED = "COMPLETED"
    TARGET_FAILED = "TARGET_FAILED"
    TIMEOUT = "TIMEOUT"
    STOPPED = "STOPPED"
    RUNTIME_UNSUPPORTED = "RUNTIME_UNSUPPORTED"
    HARNESS_ERROR = "HARNESS_ERROR"


EXIT_STATUS = {
    State.COMPLETED: 0,
    State.TARGET_FAILED: 1,
    State.RUNTIME_UNSUPPORTED: 3,
    State.TIMEOUT: 4,
    State.STOPPED: 4,
    State.HARNESS_ERROR: 5,
}


NO_SIGN = "That is no sign of anything unsafe"  # said where this bench, and not the target, is what does not fit


class ReviewEndedError(Exception):
    """A review ends here, in a state that is not COMPLETED. Not an error of ours: it becomes a result."""

    def __init__(self, state: State, code: str, message: str) -> None:
        """`code` is a stable word for programs; `message` says what happened, in words of ours."""
        super().__init__(message)
        self.state = state
        self.code = code
        self.message = message
        self.step: str | None = None  # None: the last one
