"""How a server stands, in words for an operator and for who asks it. Pure.

Invariants: a line is one line of inert characters, within a bound; an operator's holds no word that is not ours, but
for names of tools, which are escaped where they are made; what who asks is told holds none at all, for of what is
withheld nobody has accepted a name.
"""

from typing import Final, assert_never

from fumehood.content import terminal
from fumehood.core import limits
from fumehood.gateway.upstreams.model import Down, Standing, Starting, Up, UpstreamError, Withheld

WITHHELD: Final = "its tools are withheld: as they are now, whoever runs the gateway has not accepted them"
_LINE_BYTES: Final = 2000  # of one line: a reason names five tools and a command


def lines(server: str, standing: Standing, tools: int = 0, more: str = "") -> list[str]:
    """What an operator is told on stderr, a line each: of what is withheld the whole difference."""
    differing = standing.difference[: limits.GUARD_SAID] if isinstance(standing, Withheld) else ()
    return [_inert(f"{server}: {words(standing, tools)}{more}"), *(_inert(f"{server}: | {line}") for line in differing)]


class Repeats:
    """Whether an operator is told how a server stands: of the same failure the 1st, the 4th, the 16th time, and so on.

    Not promised: that a server which comes up and is lost in turns is told of less; its starts are bounded.
    """

    def __init__(self) -> None:
        """Nothing was told."""
        self._reason = ""
        self._count = 0

    def tells(self, standing: Standing) -> bool:
        """Whether this one is told; it counts."""
        match standing:
            case Starting():
                return False
            case Down(reason=reason):
                self._count = self._count + 1 if reason == self._reason else 1
                self._reason = reason
                return self._count.bit_length() % 2 == 1 and self._count.bit_count() == 1  # a power of four
            case _:
                self._reason, self._count = "", 0
                return True

    @property
    def more(self) -> str:
        """What is told with it: how often it was so."""
        return f" ({self._count} times now)" if self._count > 1 else ""


def words(standing: Standing, tools: int = 0) -> str:
    """How it stands, and what comes next."""
    match standing:
        case Starting():
            return "is being started"
        case Up():
            return f"is up, with {tools} tool{'' if tools == 1 else 's'}"
        case Withheld(reason=reason):
            return f"its tools are withheld: {reason}"
        case Down(reason=reason, again_seconds=None):
            return f"is down: {reason}; it is not tried again before the gateway is started again"
        case Down(reason=reason, again_seconds=seconds):
            return f"is down: {reason}; it is tried again in {max(seconds or 0.0, 0.1):.1f} s"
        case _:
            assert_never(standing)


def refused(server: str, standing: Standing) -> UpstreamError:
    """What who asks it is told."""
    how = WITHHELD if isinstance(standing, Withheld) else words(standing)
    match standing:
        case Starting():
            remedy = "ask again in a moment"
        case Down(again_seconds=seconds) if seconds is not None:
            remedy = "ask again then"
        case _:
            remedy = "whoever runs the gateway has to look at it"
    return UpstreamError(_inert(f"{server}: {how}"), remedy=remedy)


def _inert(text: str) -> str:
    return terminal.inert(text.encode("utf-8", "replace"), limit_bytes=_LINE_BYTES)
