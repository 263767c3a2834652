"""What a server says of each call, and who keeps it: the values that `serve.recording` fills in. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from fumehood.sandbox.containment import Containment

Outcome: TypeAlias = Literal["ok", "refused", "failed", "cancelled"]

ALLOWED: Final = "allowed"
NOT_ALLOWED: Final = "not_allowed"  # there is no such tool
ARGUMENTS: Final = "arguments"  # they do not fit the tool's schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One call. Neither its arguments nor its answer."""

    number: int  # from 1, of this server
    principal: str  # as `wire.published.Caller` has it
    tool: str  # as asked, inert and cut
    decision: str  # ALLOWED, NOT_ALLOWED, ARGUMENTS, or the code of the rule that denied it
    outcome: Outcome
    error: str  # the code of the error; empty without one
    arguments_sha256: str  # of their JSON; empty for what is none
    arguments_bytes: int
    answer_bytes: int  # of the result; 0 without one
    microseconds: int


class Records(Protocol):
    """Keeps records. Made before the walls of this process stand, used behind them, by any thread."""

    @property
    def containments(self) -> Sequence[Containment]:
        """The walls of whoever writes, where that is another process; known once `ready` has returned."""
        ...

    @property
    def is_alive(self) -> bool:
        """Whether a record could be kept."""
        ...

    def ready(self) -> None:
        """Return once records can be kept. Errors: those of whoever keeps them; the start ends with them."""
        ...

    def keep(self, record: Record) -> None:
        """Return when a record is kept; where it is a denial, when it is on the disk. Errors: any `FumehoodError`."""
        ...
