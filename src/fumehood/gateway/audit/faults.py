"""What goes wrong with an audit log. Pure."""

from fumehood.core.errors import HarnessError, RefusedError


class AuditPlaceError(RefusedError):
    """The place of an audit log is refused, or what is there cannot be gone on with."""

    code = "audit_place"


class AuditHeldError(AuditPlaceError):
    """Another process writes this log at the moment."""

    def __init__(self) -> None:
        """Say what to do about it."""
        super().__init__(
            "the audit log is refused: another process writes it", remedy="give each process a file of its own"
        )


class AuditError(HarnessError):
    """A record cannot be kept; what it would have recorded is refused. Names no path: a program may see it."""

    code = "audit"
