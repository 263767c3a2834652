"""Every error that fumehood raises, one family per exit status.

::

    FumehoodError
    ├── FailedError       1   the other side failed
    │   └── GitFailedError          git could not answer
    ├── RefusedError      2   what was asked is refused
    │   ├── OutsideWorkspaceError   the path leads out, or through a link
    │   ├── NotFoundError           nothing is there
    │   ├── NotAFileError           a FIFO, a device, a socket, or a folder where a file was asked for
    │   ├── NotAFolderError         a file where a folder was asked for
    │   ├── HardLinkError           the file has a second name, perhaps outside
    │   ├── UnreadableError         the system does not let this process read it
    │   ├── DeniedPathError         a name or content on the denylist
    │   ├── BinaryFileError         not text in any encoding that is read
    │   ├── BadPatternError         a pattern that the linear engine does not take
    │   ├── BadCursorError          no cursor of this tool and these arguments
    │   ├── InvalidArgumentsError   arguments that do not fit the tool's schema
    │   ├── UnknownToolError        no tool of that name
    │   └── NotARepositoryError     no repository whose every part lies inside
    ├── UnsupportedError  3   this host cannot
    ├── LimitError        4   a limit of time or size ended it
    │   ├── TooLargeError           a file is larger than the caller reads
    │   ├── TimedOutError           a call took longer than it may
    │   ├── CancelledError          who asked does not want the answer any more
    │   └── BusyError               as many calls run and wait as may
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


class OutsideWorkspaceError(RefusedError):
    """A path leads out of the workspace, or through a link. Names the path as asked, never as resolved."""

    code = "outside_workspace"


class NotFoundError(RefusedError):
    """Nothing of that name is inside."""

    code = "not_found"


class NotAFileError(RefusedError):
    """A file was asked for, and what is there is none."""

    code = "not_a_file"


class NotAFolderError(RefusedError):
    """A folder was asked for, and what is there is none."""

    code = "not_a_directory"


class HardLinkError(RefusedError):
    """The file has more than one name; another of them may lie outside."""

    code = "hard_link"


class UnreadableError(RefusedError):
    """The system does not let this process read what was asked for."""

    code = "unreadable"


class DeniedPathError(RefusedError):
    """A name or a content is on the denylist. Names the path as asked, and never which rule."""

    code = "denied_path"


class BinaryFileError(RefusedError):
    """A file is not text in any encoding that is read."""

    code = "binary_file"


class BadPatternError(RefusedError):
    """A pattern is too long, or not one that a linear engine takes."""

    code = "bad_pattern"


class BadCursorError(RefusedError):
    """A cursor was not given by this tool for these arguments."""

    code = "bad_cursor"


class InvalidArgumentsError(RefusedError):
    """Arguments do not fit a tool's schema."""

    code = "invalid_arguments"


class UnknownToolError(RefusedError):
    """No published tool has that name."""

    code = "unknown_tool"


class NotARepositoryError(RefusedError):
    """There is no repository here whose every part lies inside the workspace."""

    code = "not_a_repository"


class GitFailedError(FailedError):
    """git could not answer: a revision it does not know, a broken object."""

    code = "git_failed"


class UnsupportedError(FumehoodError):
    """The host cannot do what was asked."""

    code = "unsupported"
    exit_status = 3


class LimitError(FumehoodError):
    """A limit of time or size ended it."""

    code = "limit"
    exit_status = 4


class TooLargeError(LimitError):
    """A file is larger than the caller reads."""

    code = "too_large"


class TimedOutError(LimitError):
    """A call took longer than it may."""

    code = "timed_out"


class CancelledError(LimitError):
    """Whoever asked does not want the answer any more."""

    code = "cancelled"


class BusyError(LimitError):
    """As many calls run and wait as may; the same call may be tried again."""

    code = "busy"


class HarnessError(FumehoodError):
    """Our own fault, or that of what we stand on: no evidence about the other side."""

    code = "harness"
    exit_status = 5
