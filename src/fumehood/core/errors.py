"""Every error that fumehood raises, one family per exit status.

::

    FumehoodError
    ├── FailedError       1   the other side failed
    ├── RefusedError      2   what was asked is refused
    ├── UnsupportedError  3   this host cannot
    ├── LimitError        4   a limit of time or size ended it
    └── HarnessError      5   our own fault, or our surroundings'

A message is fit to be shown to a stranger: it names the thing as it was asked for, never what it resolved to, and
the remedy says the next step.
"""

from typing import ClassVar


class FumehoodError(Exception):
    """Something ended a command; the class says whose side it was on."""

    code: ClassVar[str] = "error"
    exit_status: ClassVar[int] = 5

    def __init__(self, message: str, *, remedy: str = "") -> None:
        """Keep the message and the remedy apart, so that JSON output can carry both."""
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        """The message, then the next step."""
        return f"{self.message} ({self.remedy})" if self.remedy else self.message


class FailedError(FumehoodError):
    """The other side failed."""

    code = "failed"
    exit_status = 1


class RefusedError(FumehoodError):
    """What was asked is refused."""

    code = "refused"
    exit_status = 2


class UnsupportedError(FumehoodError):
    """The host cannot do what was asked."""

    code = "unsupported"
    exit_status = 3


class LimitError(FumehoodError):
    """A limit of time or size ended it."""

    code = "limit"
    exit_status = 4


class HarnessError(FumehoodError):
    """Our own fault, or that of what we stand on: no evidence about the other side."""

    code = "harness"
    exit_status = 5
